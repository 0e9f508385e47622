/* Windows of text and texts as tokens: values compared with separate loops over the tokens, memory, errors. */
#include "files.h"

#include "data/dataset.h"
#include "support/suite.h"
#include <betty/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters: a is 2, b is 3, ...; a line's end 1. */
static bt_tokenizer *letters(void)
{
    bt_tokenizer *t = bt_tokenizer_characters("\nabcdefghijklmnopqrstuvwxyz", -1);
    ck_assert_msg(t != NULL, "%s", bt_error());
    return t;
}

static int32_t id_of(char c) { return c == '\n' ? 1 : c - 'a' + 2; }

static bt_dataset *windows(const char *text, int64_t length, int64_t stride, double from, double to)
{
    bt_tokenizer *t = letters();
    bt_dataset *data = bt_dataset_windows(path_of(text), t, length, stride, from, to);
    bt_tokenizer_free(t);
    return data;
}

/* Checks the windows of each text in turn, by a loop over its characters. */
static void check_windows(bt_dataset *data, const char *const *texts, int64_t length, int64_t stride, double from,
                          double to)
{
    ck_assert_msg(data != NULL, "%s", bt_error());
    const bt_batch *batch = whole(data);
    const int32_t *token = i32_of(batch, "token"), *next = i32_of(batch, "next"), *source = i32_of(batch, "source");
    int64_t n = 0;
    for (int s = 0; texts[s]; s++) {
        const int64_t size = (int64_t)strlen(texts[s]);
        const int64_t begin = (int64_t)(from * (double)size + 0.5), end = (int64_t)(to * (double)size + 0.5);
        for (int64_t at = begin; at + length + 1 <= end; at += stride, n++) {
            ck_assert_int_lt(n, bt_batch_count(batch));
            ck_assert_int_eq(source[n], s);
            for (int64_t i = 0; i < length; i++) {
                ck_assert_int_eq(token[n * length + i], id_of(texts[s][at + i]));
                ck_assert_int_eq(next[n * length + i], id_of(texts[s][at + i + 1]));
            }
        }
    }
    ck_assert_int_eq(bt_batch_count(batch), n);
    ck_assert_int_eq(field_of(batch, "token")->array.dims[1], length);
    ck_assert_int_eq(field_of(batch, "next")->array.dims[1], length);
    expect_no_failure();
}

static const char *const texts[] = {"abcdefghij", "kl\n", "zyxwvutsrqpon", NULL};

static void write_sources(void)
{
    make_folder("many");
    write_text("many/1.txt", texts[0]);
    write_text("many/2.txt.gz", texts[1]);
    write_text("many/3.txt", texts[2]);
    write_text("many/SOURCE.txt", "no part of it");
    write_text("many/README.txt", "neither");
    write_text("many/note.md", "nor this");
}

START_TEST(windows_of_sources)
{
    static const int64_t lengths[] = {1, 2, 3, 5}, strides[] = {1, 2, 3, 7};
    write_sources();
    for (int l = 0; l < BT_COUNT_OF(lengths); l++)
        for (int s = 0; s < BT_COUNT_OF(strides); s++) {
            check_windows(windows("many", lengths[l], strides[s], 0, 1), texts, lengths[l], strides[s], 0, 1);
            check_windows(windows("many", lengths[l], strides[s], 0.25, 1), texts, lengths[l], strides[s], 0.25, 1);
            check_windows(windows("many", 1, strides[s], 0.5, 0.9), texts, 1, strides[s], 0.5, 0.9);
        }
    ck_assert_int_eq(bt_text_sources(path_of("many")), 3);
}
END_TEST

START_TEST(one_file)
{
    write_text("one.txt", "\xEF\xBB\xBF"
                          "abcabc"); /* a byte order mark is not part of the text */
    const char *const one[] = {"abcabc", NULL};
    check_windows(windows("one.txt", 2, 1, 0, 1), one, 2, 1, 0, 1);
    check_windows(windows("one", 2, 2, 0, 1), one, 2, 2, 0, 1); /* as NAME for NAME.txt */
    ck_assert_int_eq(bt_text_sources(path_of("one")), 1);
    write_text("packed.txt.gz", "abcabc");
    check_windows(windows("packed", 5, 1, 0, 1), one, 5, 1, 0, 1);
}
END_TEST

/* Tokens are stored once: for overlapping sets of one text, with windows of any length. */
START_TEST(held_once)
{
    enum { SIZE = 10000, LENGTH = 100 };
    static char text[SIZE + 1];
    for (int i = 0; i < SIZE; i++)
        text[i] = (char)('a' + i % 26);
    write_text("long.txt", text);
    const size_t before = bt_store_bytes();
    bt_dataset *train = windows("long", LENGTH, 1, 0, 0.9);
    ck_assert_msg(train != NULL, "%s", bt_error());
    const int64_t n = bt_dataset_count(train);
    ck_assert_int_eq(n, 9000 - LENGTH);
    ck_assert_uint_eq(bt_store_bytes() - before, 4 * SIZE + 4 * (size_t)n);
    ck_assert_uint_eq(bt_dataset_bytes(train), 4 * SIZE + 12 * (size_t)n);
    bt_dataset *valid = windows("long", LENGTH, LENGTH, 0.9, 1);
    ck_assert_int_eq(bt_dataset_count(valid), 9);
    ck_assert_uint_eq(bt_store_bytes() - before, 4 * SIZE + 4 * (size_t)(n + 9));
    bt_dataset_free(train);
    bt_dataset_free(valid);
    ck_assert_uint_eq(bt_store_bytes(), before);
}
END_TEST

/* Shuffled batches have each window once per epoch, with its own `next`, `source` and `index`. */
START_TEST(batches)
{
    write_sources();
    bt_loader *loader = bt_loader_new(bt_dataset_rows(windows("many", 3, 1, 0, 1), 2, BT_REST), 4, 7);
    const bt_batch *batch;
    int seen[32] = {0}, count = 0;
    while (bt_loader_next(loader, &batch) == BT_OK) {
        const int32_t *token = i32_of(batch, "token"), *next = i32_of(batch, "next"), *index = i32_of(batch, "index");
        for (int64_t i = 0; i < bt_batch_count(batch); i++, count++) {
            const int32_t from =
                index[i] + 2; /* number of windows: 7 of the first source, none of the second, 10 of the third */
            const char *text = from < 7 ? texts[0] + from : texts[2] + from - 7;
            ck_assert_int_eq(i32_of(batch, "source")[i], from < 7 ? 0 : 2);
            for (int k = 0; k < 3; k++) {
                ck_assert_int_eq(token[3 * i + k], id_of(text[k]));
                ck_assert_int_eq(next[3 * i + k], id_of(text[k + 1]));
            }
            ck_assert_int_eq(seen[index[i]]++, 0);
        }
    }
    ck_assert_int_eq(count, 15);
    bt_loader_free(loader);
}
END_TEST

static void visit(void *user, const char *prefix, const char *name, uint64_t hash)
{
    (void)prefix;
    if (strcmp(name, "next") == 0)
        *(uint64_t *)user = hash;
}

/* The hash of a field equals that of the same values in another kind of set. */
START_TEST(hashes)
{
    write_sources();
    uint64_t hash[2];
    bt_dataset *data = windows("many", 3, 2, 0, 1), *copy = bt_dataset_new(bt_dataset_count(data));
    bt_dataset_hash(data, visit, &hash[0]);
    const bt_batch *batch = whole(data);
    ck_assert_int_eq(bt_dataset_add(copy, "next", field_of(batch, "next")->array), BT_OK);
    bt_dataset_hash(copy, visit, &hash[1]);
    ck_assert_uint_eq(hash[0], hash[1]);
    bt_dataset_free(copy);
}
END_TEST

/* ---- texts ---- */

static void write_texts(void)
{
    write_text("pets.train.tsv", "0\t0\t0:0,2:1\tA cat, a cat!\n2\t1\t1:1\tdog\n1\t-1\t-\t\n");
    write_text("pets.valid.tsv", "1\t-1\t-\ta bird: a cat and the dog\n");
}

START_TEST(texts_as_tokens)
{
    write_texts();
    bt_tokenizer *t = bt_tokenizer_for("words:5", path_of("pets")); /* <unk> cat ! , A of "A cat , a cat ! dog" */
    ck_assert_msg(t != NULL, "%s", bt_error());
    static const char *const words[] = {"<unk>", "cat", "!", ",", "A"};
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(bt_tokenizer_token(t, i), words[i]);
    bt_dataset *data = bt_dataset_texts(path_of("pets"), "train", t, 5);
    ck_assert_msg(data != NULL, "%s", bt_error());
    char *note = bt_dataset_next_note(data);
    ck_assert_msg(note && strstr(note, "1 of 3 texts are cut to 5 tokens; the longest has 6"), "%s", note);
    bt_free(note);
    const bt_batch *batch = whole(data);
    static const int32_t token[] = {4, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, length[] = {5, 1, 0},
                         label[] = {0, 2, 1};
    ck_assert_mem_eq(i32_of(batch, "token"), token, sizeof token);
    ck_assert_mem_eq(i32_of(batch, "length"), length, sizeof length);
    ck_assert_mem_eq(i32_of(batch, "label"), label, sizeof label);
    ck_assert_int_eq(field_of(batch, "votes")->array.dims[1], 3);
    ck_assert_int_eq(field_of(batch, "counts")->array.dims[1], 3);
    data = bt_dataset_texts(path_of("pets"), "valid", t, 8);
    ck_assert_ptr_null(bt_dataset_next_note(data));
    ck_assert_int_eq(i32_of(whole(data), "length")[0], 8);
    bt_tokenizer_free(t);
}
END_TEST

/* The tokens that the tokeniser adds around a text are kept when it is cut; padding is a token of its own. */
START_TEST(around_texts)
{
    write_texts();
    write_text("t.json",
               "{\"added_tokens\": [{\"id\": 0, \"content\": \"[CLS]\", \"special\": true}, {\"id\": 1, \"content\": "
               "\"[SEP]\", \"special\": true}, {\"id\": 2, \"content\": \"[PAD]\", \"special\": true}], "
               "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": {\"type\": \"BertProcessing\", "
               "\"sep\": [\"[SEP]\", 1], \"cls\": [\"[CLS]\", 0]}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": "
               "\"u\", \"vocab\": {\"[CLS]\": 0, \"[SEP]\": 1, \"[PAD]\": 2, \"u\": 3, \"cat\": 4, \"dog\": 5}}}");
    bt_tokenizer *t = bt_tokenizer_open(path_of("t.json"));
    ck_assert_msg(t != NULL, "%s", bt_error());
    const bt_batch *batch = whole(bt_dataset_texts(path_of("pets"), "train", t, 4));
    static const int32_t token[] = {0, 3, 4, 1, 0, 5, 1, 2, 0, 1, 2, 2}, length[] = {4, 3, 2};
    ck_assert_mem_eq(i32_of(batch, "token"), token, sizeof token);
    ck_assert_mem_eq(i32_of(batch, "length"), length, sizeof length);
    ck_assert_ptr_null(bt_dataset_texts(path_of("pets"), "train", t, 2));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_texts", "length is 2", "more than the 2 tokens");
    bt_tokenizer_free(t);
}
END_TEST

/* ---- by a key, and by name ---- */

START_TEST(tokenizers_by_key)
{
    write_sources();
    bt_tokenizer *t = bt_tokenizer_for("characters", path_of("many"));
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), 2 + 25); /* <unk>, the line's end, letters without m */
    bt_tokenizer_free(t);
    ck_assert_ptr_null(bt_tokenizer_for("words:", path_of("many")));
    expect_failure(BT_ERROR_ARGUMENT, "\"words:\"", "words:10000");
    ck_assert_ptr_null(bt_tokenizer_for("words:10x", path_of("many")));
    expect_failure(BT_ERROR_ARGUMENT, "\"words:10x\"");
    ck_assert_ptr_null(bt_tokenizer_for("words:10", path_of("nothing")));
    expect_failure(BT_ERROR_FILE, "nothing", "not found");
    ck_assert_ptr_null(bt_tokenizer_for("no.json", path_of("many")));
    expect_failure(BT_ERROR_FILE, "tokenizer \"no.json\"");
}
END_TEST

/* The novels that come with the library; the most frequent words as counted by Python. */
START_TEST(novels)
{
    const char *source = getenv("BT_SOURCE_DIR");
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/data", source ? source : ".");
    setenv("BETTY_DATA", folder, 1);
    ck_assert_int_eq(bt_text_sources("austen"), 6);
    ck_assert_int_eq(bt_text_sources("austen/emma"), 1);
    bt_tokenizer *t = bt_tokenizer_for("words:10000", "austen");
    ck_assert_msg(t != NULL, "%s", bt_error());
    ck_assert_int_eq(bt_tokenizer_size(t), 10000);
    static const char *const first[] = {"<unk>", ",", ".", "the", "to", "and", "of"};
    for (int i = 0; i < BT_COUNT_OF(first); i++)
        ck_assert_str_eq(bt_tokenizer_token(t, i), first[i]);
    bt_dataset *data = bt_dataset_windows("austen", t, 20, 20, 0, 0.9);
    ck_assert_msg(data != NULL, "%s", bt_error());
    ck_assert_int_gt(bt_dataset_count(data), 36000);
    bt_dataset_free(data);
    bt_tokenizer_free(t);
}
END_TEST

/* ---- errors ---- */

START_TEST(refused)
{
    bt_tokenizer *t = letters();
    write_text("short.txt", "abc");
    write_text("empty.txt", "");
    write_text("latin.txt", "caf\xE9 au lait");
    write_bytes("wide.txt", "a\0b\0c\0d\0", 8);
    ck_assert_ptr_null(windows("short", 3, 1, 0, 1));
    expect_failure(BT_ERROR_DATA, "short", "3 tokens", "windows of 3 tokens need one more");
    ck_assert_ptr_null(windows("short", 1, 1, 0, 0.3));
    expect_failure(BT_ERROR_DATA, "short", "from 0 to 0.3", "no room for a window of 1 token");
    ck_assert_ptr_null(windows("empty", 1, 1, 0, 1));
    expect_failure(BT_ERROR_DATA, "empty.txt", "is empty");
    ck_assert_ptr_null(windows("latin", 1, 1, 0, 1));
    expect_failure(BT_ERROR_DATA, "latin.txt", "byte 3, 0xE9", "not UTF-8", "iconv");
    ck_assert_ptr_null(windows("wide", 1, 1, 0, 1));
    expect_failure(BT_ERROR_DATA, "wide.txt", "UTF-16");
    ck_assert_ptr_null(windows("nothing", 1, 1, 0, 1));
    expect_failure(BT_ERROR_FILE, "text", "nothing", "not found");
    ck_assert_ptr_null(windows("short", 0, 1, 0, 1));
    expect_failure(BT_ERROR_ARGUMENT, "length is 0");
    ck_assert_ptr_null(windows("short", 1, 0, 0, 1));
    expect_failure(BT_ERROR_ARGUMENT, "stride is 0");
    ck_assert_ptr_null(windows("short", 1, 1, 0.5, 0.5));
    expect_failure(BT_ERROR_ARGUMENT, "from 0.5 to 0.5");
    ck_assert_ptr_null(bt_dataset_texts(path_of("short.txt"), "train", t, 5));
    expect_failure(BT_ERROR_DATA, "expected texts with votes");
    ck_assert_ptr_null(bt_dataset_texts(path_of("short.txt"), "training", t, 5));
    expect_failure(BT_ERROR_ARGUMENT, "\"training\"", "train, valid or test");
    ck_assert_ptr_null(bt_dataset_texts(path_of("short.txt"), "train", NULL, 5));
    expect_failure(BT_ERROR_ARGUMENT, "bt_dataset_texts", "tokenizer is missing");
    bt_tokenizer_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("windows");
    ADD_CASE(suite, windows_of_sources);
    ADD_CASE(suite, one_file);
    ADD_CASE(suite, held_once);
    ADD_CASE(suite, batches);
    ADD_CASE(suite, hashes);
    ADD_CASE(suite, texts_as_tokens);
    ADD_CASE(suite, around_texts);
    ADD_CASE(suite, tokenizers_by_key);
    ADD_CASE(suite, novels);
    ADD_CASE(suite, refused);
    return run_suite(suite);
}
