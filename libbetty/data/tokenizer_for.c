/* data/tokenizer_for.c: the tokeniser that a setting asks for: from a file, or with the vocabulary of a text. */
#include "data/corpus.h"
#include "data/find.h"
#include "data/places.h"
#include "data/read.h"

#include <string.h>

/* Joins all sources. */
static bt_status read_sources(const bt_corpus *corpus, bt_pieces *all)
{
    for (int64_t i = 0; i < corpus->count; i++) {
        char *text;
        int64_t size;
        BT_TRY(bt_corpus_read(corpus->paths[i], &text, &size));
        bt_pieces_put(all, text, size);
        bt_pieces_put(all, "\n", 1);
        bt_free(text);
    }
    return all->failed ? BT_ERROR_MEMORY : BT_OK;
}

/* Reads a text corpus, or the training texts of a set of texts with votes. */
static bt_status read_all(const char *name, bt_pieces *all)
{
    bt_corpus corpus = {0};
    bt_status status = bt_corpus_find(name, &corpus);
    bt_found *found = status == BT_OK && !corpus.count ? bt_alloc(sizeof *found) : NULL;
    if (status == BT_OK && corpus.count)
        status = read_sources(&corpus, all);
    else if (status == BT_OK)
        status = found ? bt_find_data(name, "train", found) : BT_ERROR_MEMORY;
    if (status == BT_OK && found && found->kind == BT_FOUND_TEXTS)
        status = bt_read_text_lines(found->file, all);
    else if (status == BT_OK && found)
        status = bt_places_lack("text", name,
                                "; expected a file, NAME.txt or NAME.txt.gz, a folder of such files, or "
                                "texts with votes");
    bt_free(found);
    bt_corpus_free(&corpus);
    return status;
}

/* The number after "words:"; 0: none. */
static int64_t size_of(const char *text)
{
    int64_t size = 0;
    for (; *text >= '0' && *text <= '9' && size < INT32_MAX; text++)
        size = 10 * size + (*text - '0');
    return *text ? 0 : size;
}

bt_tokenizer *bt_tokenizer_for(const char *how, const char *text)
{
    static const char words[] = "words:";
    const bool of_words = how && strncmp(how, words, strlen(words)) == 0;
    bt_tokenizer *t = NULL;
    if (!how || !*how || !text || !*text) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_for: the %s is missing", how && *how ? "text" : "tokenizer");
        return NULL;
    }
    if (!of_words && strcmp(how, "characters") != 0)
        return bt_tokenizer_open(how);
    const int64_t size = of_words ? size_of(how + strlen(words)) : 0;
    if (of_words && (size < 1 || size >= INT32_MAX)) {
        bt_fail(BT_ERROR_ARGUMENT,
                "the tokenizer is \"%s\"; expected \"characters\", \"words:SIZE\", such as words:10000, "
                "or the path of a tokenizer.json",
                how);
        return NULL;
    }
    bt_pieces all = {0};
    if (read_all(text, &all) == BT_OK)
        t = of_words ? bt_tokenizer_words(all.bytes, all.size, size) : bt_tokenizer_characters(all.bytes, all.size);
    bt_pieces_free(&all);
    return t;
}
