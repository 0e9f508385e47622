/* Tokenisers: ids and texts as by PyPI's `tokenizers` (tests/data/tokenizers/make.py), the vocabularies of texts,
 * errors. */
#include "files.h"

#include "support/suite.h"
#include <betty/text.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- golden values ---- */

static const char *golden_path(const char *name)
{
    static char paths[2][1024];
    static int next;
    const char *source = getenv("BT_SOURCE_DIR");
    ck_assert_msg(source != NULL, "BT_SOURCE_DIR is not set");
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/tests/data/tokenizers/%s", source, name);
    return path;
}

static json_t *golden;

static const json_t *golden_root(void)
{
    json_error_t error;
    if (!golden)
        golden = json_load_file(golden_path("golden.json"), JSON_ALLOW_NUL, &error);
    ck_assert_msg(golden != NULL, "golden.json: %s", error.text);
    return golden;
}

static void check_ids(const char *name, size_t sample, const int32_t *ids, int64_t count, const json_t *expected)
{
    ck_assert_msg((size_t)count == json_array_size(expected), "%s, sample %zu: %lld ids, expected %zu", name, sample,
                  (long long)count, json_array_size(expected));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(ids[i] == json_integer_value(json_array_get(expected, (size_t)i)),
                      "%s, sample %zu, token %lld: %d, expected %lld", name, sample, (long long)i, (int)ids[i],
                      (long long)json_integer_value(json_array_get(expected, (size_t)i)));
}

static void check_text(const char *name, size_t sample, const char *text, int64_t size, const json_t *expected)
{
    ck_assert_msg((size_t)size == json_string_length(expected) &&
                      memcmp(text, json_string_value(expected), (size_t)size) == 0,
                  "%s, sample %zu: decoded \"%s\", expected \"%s\"", name, sample, text, json_string_value(expected));
}

enum { ROOM = 8192 };

static void check_golden(const char *name, const char *path)
{
    static int32_t ids[ROOM];
    static char text[ROOM];
    const json_t *samples = json_object_get(golden_root(), "samples");
    const json_t *expected = json_object_get(json_object_get(golden_root(), "tokenizers"), name);
    bt_tokenizer *t = bt_tokenizer_open(golden_path(path));
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), json_integer_value(json_object_get(expected, "size")));
    ck_assert_uint_gt(json_array_size(samples), 20);
    for (size_t i = 0; i < json_array_size(samples); i++) {
        const json_t *sample = json_array_get(samples, i);
        const int64_t size = (int64_t)json_string_length(sample);
        int64_t count = bt_tokenizer_encode(t, json_string_value(sample), size, false, ids, ROOM);
        check_ids(name, i, ids, count, json_array_get(json_object_get(expected, "ids"), i));
        int64_t bytes = bt_tokenizer_decode(t, ids, count, false, text, ROOM);
        check_text(name, i, text, bytes, json_array_get(json_object_get(expected, "plain"), i));
        count = bt_tokenizer_encode(t, json_string_value(sample), size, true, ids, ROOM);
        check_ids(name, i, ids, count, json_array_get(json_object_get(expected, "special"), i));
        bytes = bt_tokenizer_decode(t, ids, count, true, text, ROOM);
        check_text(name, i, text, bytes, json_array_get(json_object_get(expected, "whole"), i));
    }
    expect_no_failure();
    bt_tokenizer_free(t);
}

START_TEST(as_tokenizers)
{
    static const char *const names[] = {"gpt2",   "roberta", "bert",      "cased", "suffix",
                                        "prefix", "llama",   "metaspace", "words"};
    for (int i = 0; i < BT_COUNT_OF(names); i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.json", names[i]);
        check_golden(names[i], path);
    }
}
END_TEST

/* The two files describe the same model as gpt2.json. */
START_TEST(two_files)
{
    check_golden("gpt2", "vocab.json");
    bt_tokenizer *t = bt_tokenizer_open(golden_path(""));
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), 600);
    bt_tokenizer_free(t);
}
END_TEST

START_TEST(special_tokens)
{
    bt_tokenizer *bert = bt_tokenizer_open(golden_path("bert.json")),
                 *gpt2 = bt_tokenizer_open(golden_path("gpt2.json"));
    static const int64_t of_bert[BT_SPECIALS] = {
        [BT_PADDING] = 0, [BT_UNKNOWN] = 1, [BT_MASK] = 4, [BT_CLS] = 2, [BT_SEP] = 3, [BT_END_OF_TEXT] = -1};
    for (int i = 0; i < BT_SPECIALS; i++) {
        ck_assert_int_eq(bt_tokenizer_special(bert, (bt_special)i), of_bert[i]);
        ck_assert_int_eq(bt_tokenizer_special(gpt2, (bt_special)i), i == BT_END_OF_TEXT ? 0 : -1);
    }
    ck_assert_int_eq(bt_tokenizer_id(bert, "[MASK]"), 4);
    ck_assert_int_eq(bt_tokenizer_id(bert, "no such token"), -1);
    ck_assert_str_eq(bt_tokenizer_token(bert, 4), "[MASK]");
    ck_assert_ptr_null(bt_tokenizer_token(bert, bt_tokenizer_size(bert)));
    ck_assert_ptr_null(bt_tokenizer_token(bert, -1));
    bt_tokenizer_free(bert);
    bt_tokenizer_free(gpt2);
}
END_TEST

/* ---- vocabularies of a text ---- */

static void check_encoded(const bt_tokenizer *t, const char *text, const int32_t *expected, int64_t count)
{
    int32_t ids[64];
    ck_assert_int_eq(bt_tokenizer_encode(t, text, -1, true, ids, 64), count);
    ck_assert_mem_eq(ids, expected, (size_t)count * sizeof *ids);
}

START_TEST(vocabulary_of_characters)
{
    char text[16];
    bt_tokenizer *t = bt_tokenizer_characters("ba\xC3\xA9 \xF0\x9F\x98\x80\n<unk>"
                                              "b",
                                              -1);
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), 7); /* <unk>, line end, blank, a, b, e with acute, a face */
    check_encoded(t, "ab\xC3\xA9<x\xF0\x9F\x98\x80<unk>\n", (const int32_t[]){3, 4, 5, 0, 0, 6, 0, 1}, 8);
    ck_assert_int_eq(bt_tokenizer_decode(t, (const int32_t[]){3, 4, 5, 2, 6}, 5, false, text, 16), 9);
    ck_assert_str_eq(text, "ab\xC3\xA9 \xF0\x9F\x98\x80");
    ck_assert_int_eq(bt_tokenizer_special(t, BT_UNKNOWN), 0);
    bt_tokenizer_free(t);
}
END_TEST

/* Counts: the 3, cat 2, dog 2, "." 2, "," 1, sat 1, The 1, a 1. Equally frequent words are ordered by bytes. */
START_TEST(vocabulary_of_words)
{
    char text[64];
    const char *const from = "The cat, the dog. the cat sat a <unk> the dog.";
    bt_tokenizer *t = bt_tokenizer_words(from, -1, 6);
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), 6);
    static const char *const words[] = {"<unk>", "the", ".", "cat", "dog", ","};
    for (int i = 0; i < 6; i++)
        ck_assert_str_eq(bt_tokenizer_token(t, i), words[i]);
    check_encoded(t, "the The cat.dog <unk>,", (const int32_t[]){1, 0, 3, 2, 4, 0, 5}, 7);
    ck_assert_int_eq(bt_tokenizer_decode(t, (const int32_t[]){1, 0, 3, 2}, 4, true, text, 64), 15);
    ck_assert_str_eq(text, "the <unk> cat .");
    ck_assert_int_eq(bt_tokenizer_decode(t, (const int32_t[]){1, 0, 3, 2}, 4, false, text, 6), 9); /* truncated */
    ck_assert_str_eq(text, "the c");
    bt_tokenizer_free(t);
    t = bt_tokenizer_words(from, 7, 100);
    ck_assert_int_eq(bt_tokenizer_size(t), 3);
    bt_tokenizer_free(t);
}
END_TEST

/* ---- errors ---- */

static void refuse(const char *json, const char *why, const char *more)
{
    write_text("t.json", json);
    ck_assert_ptr_null(bt_tokenizer_open(path_of("t.json")));
    expect_failure(BT_ERROR_DATA, "t.json", why, more);
}

#define MODEL "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 1}, \"unk_token\": \"a\"}"

START_TEST(refused_parts)
{
    refuse("{", "not JSON", "line 1");
    refuse("[]", "expected an object", "");
    refuse("{\"version\": \"2.0\", " MODEL "}", "version", "2.0");
    refuse("{\"version\": \"1.0\", \"extra\": 1, " MODEL "}", "`extra` is not supported", "");
    refuse("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "model", "\"Unigram\" is not supported");
    refuse("{\"normalizer\": {\"type\": \"Nmt\"}, " MODEL "}", "normalizer",
           "\"Nmt\" is not supported; expected one of Bert");
    refuse("{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\"}]}, " MODEL "}",
           "normalizer", "\"Precompiled\"");
    refuse("{\"normalizer\": {\"type\": \"NFC\", \"more\": 1}, " MODEL "}", "NFC", "`more` is not supported");
    refuse("{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " MODEL "}", "pre_tokenizer", "UnicodeScripts");
    refuse("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"x+\"}, \"behavior\": "
           "\"Isolated\"}, " MODEL "}",
           "Split", "\"x+\" is not supported");
    refuse("{\"decoder\": {\"type\": \"CTC\"}, " MODEL "}", "decoder", "CTC");
    refuse("{\"post_processor\": {\"type\": \"Other\"}, " MODEL "}", "post_processor", "Other");
    refuse("{\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"s\", 7], \"cls\": [\"c\", 0]}, " MODEL "}",
           "post_processor", "no token has it");
    refuse("{\"padding\": {\"pad_id\": 9}, " MODEL "}", "padding", "9");
}
END_TEST

START_TEST(refused_vocabularies)
{
    refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 0}}}", "two tokens", "have the id 0");
    refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": -1}}}", "\"a\" has the id -1", "");
    refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 1.5}}}", "not a whole number", "");
    refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 2000000000}}}", "gap", "");
    refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {}}}", "the vocabulary is empty", "");
    refuse("{\"added_tokens\": [{\"id\": 5, \"content\": \"a\"}], " MODEL "}", "\"a\" has two ids", "0 and 5");
    refuse("{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {\"a\": 0}, \"merges\": []}}", "dropout",
           "random");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", "merge 1",
           "\"b\" is not in");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", "makes \"aa\"", "");
    refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a a\"]}}", "two tokens",
           "LEFT RIGHT");
    refuse("{\"model\": {\"type\": \"BPE\", \"unk_token\": \"u\", \"vocab\": {\"a\": 0}, \"merges\": []}}", "unk_token",
           "u");
}
END_TEST

START_TEST(refused_calls)
{
    bt_tokenizer *t = bt_tokenizer_words("a b", -1, 10);
    int32_t ids[4];
    char text[4];
    ck_assert_int_eq(bt_tokenizer_encode(t, "a\xFF", -1, false, ids, 4), -1);
    expect_failure(BT_ERROR_DATA, "not UTF-8", "byte 1", "0xFF");
    ck_assert_int_eq(bt_tokenizer_encode(NULL, "a", -1, false, ids, 4), -1);
    expect_failure(BT_ERROR_ARGUMENT, "bt_tokenizer_encode", "tokenizer is NULL");
    ck_assert_int_eq(bt_tokenizer_encode(t, NULL, -1, false, ids, 4), -1);
    expect_failure(BT_ERROR_ARGUMENT, "text is NULL");
    ck_assert_int_eq(bt_tokenizer_decode(t, (const int32_t[]){3}, 1, false, text, 4), -1);
    expect_failure(BT_ERROR_ARGUMENT, "3 is not a token", "0 to 2");
    ck_assert_int_eq(bt_tokenizer_decode(t, (const int32_t[]){-1}, 1, false, text, 4), -1);
    expect_failure(BT_ERROR_ARGUMENT, "-1 is not a token");
    bt_tokenizer_free(t);
    ck_assert_ptr_null(bt_tokenizer_words("a", -1, 0));
    expect_failure(BT_ERROR_ARGUMENT, "size of 0");
    ck_assert_ptr_null(bt_tokenizer_characters("\x80", -1));
    expect_failure(BT_ERROR_DATA, "not UTF-8");
    ck_assert_ptr_null(bt_tokenizer_characters(NULL, -1));
    expect_failure(BT_ERROR_ARGUMENT, "text is NULL");
    ck_assert_ptr_null(bt_tokenizer_open(path_of("nothing")));
    expect_failure(BT_ERROR_FILE, "tokenizer", "nothing", "not found");
    make_folder("empty");
    ck_assert_ptr_null(bt_tokenizer_open(path_of("empty")));
    expect_failure(BT_ERROR_FILE, "empty", "vocab.json and merges.txt");
    write_text("vocab.json", "{\"a\": 0}");
    ck_assert_ptr_null(bt_tokenizer_open(path_of("vocab.json")));
    expect_failure(BT_ERROR_FILE, "merges.txt beside it");
    write_text("merges.txt", "#version: 0.2\na b c\n");
    ck_assert_ptr_null(bt_tokenizer_open(path_of("vocab.json")));
    expect_failure(BT_ERROR_DATA, "merges.txt, line 2", "a b c");
    ck_assert_int_eq(bt_tokenizer_size(NULL), 0);
    bt_tokenizer_free(NULL);
}
END_TEST

/* A word without an unknown token, in a model that needs one. */
START_TEST(no_unknown)
{
    int32_t ids[4];
    write_text("t.json", "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}");
    bt_tokenizer *t = bt_tokenizer_open(path_of("t.json"));
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_encode(t, "a", -1, false, ids, 4), 1);
    ck_assert_int_eq(bt_tokenizer_encode(t, "b", -1, false, ids, 4), -1);
    expect_failure(BT_ERROR_DATA, "\"b\" is not a token");
    bt_tokenizer_free(t);
}
END_TEST

/* A compressed file; a word of a million characters takes no more time than a sort. */
START_TEST(long_word)
{
    enum { LONG = 1 << 20 };
    static char text[LONG + 1];
    write_text("t.json.gz", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaaa\": 2}, "
                            "\"merges\": [\"a a\", [\"aa\", \"aa\"]]}}");
    bt_tokenizer *t = bt_tokenizer_open(path_of("t.json.gz"));
    ck_assert_msg(t != NULL, "%s", bt_error());
    memset(text, 'a', LONG);
    ck_assert_int_eq(bt_tokenizer_encode(t, text, LONG, false, NULL, 0), LONG / 4);
    bt_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    ADD_CASE(suite, as_tokenizers);
    ADD_CASE(suite, two_files);
    ADD_CASE(suite, special_tokens);
    ADD_CASE(suite, vocabulary_of_characters);
    ADD_CASE(suite, vocabulary_of_words);
    ADD_CASE(suite, refused_parts);
    ADD_CASE(suite, refused_vocabularies);
    ADD_CASE(suite, refused_calls);
    ADD_CASE(suite, no_unknown);
    ADD_CASE(suite, long_word);
    return run_suite(suite);
}
