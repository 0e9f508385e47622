/* data/texts.c: reads texts with the votes of labelling functions. A line has four fields separated by tabs: a
 * label, the majority vote (which is not used), the votes FUNCTION:LABEL,... with increasing functions, or -, and
 * the text. Functions and labels are numbered from 0. The vocabulary comes from the training texts, whichever split
 * is requested. */
#include "data/read.h"
#include "data/tokenizer.h"
#include "data/words.h"

#include <string.h>

enum { MOST_WORDS = 2000, MOST_NUMBER = (1 << 16) - 1 };

typedef struct vote {
    int32_t row, function, label;
} vote;

typedef struct texts { /* of one file */
    const char *path;
    int64_t line, rows;
    int32_t *labels;
    int64_t *ends; /* of the texts in pool */
    char *pool;
    vote *votes;
    int64_t label_room, end_room, pool_size, pool_room, vote_count, vote_room;
    int32_t functions, classes; /* the largest number + 1 */
} texts;

static void texts_free(texts *t)
{
    bt_free(t->labels);
    bt_free(t->ends);
    bt_free(t->pool);
    bt_free(t->votes);
}

/* ---- a line ---- */

static bt_status wrong(const texts *t, const char *found, int64_t length, const char *expected)
{
    return bt_fail(BT_ERROR_DATA, "%s, line %lld: found \"%s\"; expected %s", t->path, (long long)t->line,
                   bt_show(found, length).text, expected);
}

/* Reads all of the text as a number from 0 to MOST_NUMBER. */
static bool read_number(const char *text, int64_t length, int32_t *number)
{
    *number = 0;
    for (int64_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || *number > MOST_NUMBER)
            return false;
        *number = 10 * *number + (text[i] - '0');
    }
    return length > 0 && *number <= MOST_NUMBER;
}

static int64_t until(const char *text, int64_t length, char end)
{
    const char *at = length > 0 ? memchr(text, end, (size_t)length) : NULL;
    return at ? at - text : length;
}

static bt_status add_vote(texts *t, const char *text, int64_t length, int32_t *before)
{
    vote v = {.row = (int32_t)t->rows};
    int64_t colon = until(text, length, ':');
    if (!read_number(text, colon, &v.function) || colon == length ||
        !read_number(text + colon + 1, length - colon - 1, &v.label))
        return wrong(t, text, length, "a vote, FUNCTION:LABEL, such as 12:3, of numbers from 0 to 65535");
    if (v.function <= *before)
        return wrong(t, text, length, "a function with a larger number than the one before it");
    *before = v.function;
    vote *votes = bt_grow(t->votes, &t->vote_room, t->vote_count + 1, sizeof *votes);
    if (!votes)
        return BT_ERROR_MEMORY;
    t->votes = votes;
    t->votes[t->vote_count++] = v;
    t->functions = v.function >= t->functions ? v.function + 1 : t->functions;
    t->classes = v.label >= t->classes ? v.label + 1 : t->classes;
    return BT_OK;
}

static bt_status add_votes(texts *t, const char *text, int64_t length)
{
    int32_t before = -1;
    if (length == 1 && *text == '-')
        return BT_OK;
    for (int64_t at = 0; at <= length;) {
        int64_t size = until(text + at, length - at, ',');
        BT_TRY(add_vote(t, text + at, size, &before));
        at += size + 1;
    }
    return BT_OK;
}

static bt_status add_row(texts *t, int32_t label, const char *text, int64_t length)
{
    if (t->rows == BT_MAX_EXAMPLES)
        return bt_fail(BT_ERROR_DATA, "%s, line %lld: more than %lld rows", t->path, (long long)t->line,
                       (long long)BT_MAX_EXAMPLES);
    int32_t *labels = bt_grow(t->labels, &t->label_room, t->rows + 1, sizeof *labels);
    t->labels = labels ? labels : t->labels;
    int64_t *ends = labels ? bt_grow(t->ends, &t->end_room, t->rows + 1, sizeof *ends) : NULL;
    t->ends = ends ? ends : t->ends;
    char *pool = ends ? bt_grow(t->pool, &t->pool_room, t->pool_size + length + 1, 1) : NULL;
    t->pool = pool ? pool : t->pool;
    if (!pool)
        return BT_ERROR_MEMORY;
    memcpy(pool + t->pool_size, text, (size_t)length);
    t->pool_size += length;
    t->labels[t->rows] = label;
    t->ends[t->rows++] = t->pool_size;
    t->classes = label >= t->classes ? label + 1 : t->classes;
    return BT_OK;
}

static bt_status read_line(texts *t, const char *line, int64_t length)
{
    static const char *const expected[] = {
        "a label from 0 to 65535, the majority's label, the votes and the text, with tabs between",
        "the majority's label, or -1, after the first tab"};
    int64_t at[3], begin = 0;
    int32_t label, majority;
    for (int i = 0; i < 3; i++) {
        at[i] = begin + until(line + begin, length - begin, '\t');
        if (at[i] == length)
            return wrong(t, line, length, expected[0]);
        begin = at[i] + 1;
    }
    const char *second = line + at[0] + 1;
    int64_t size = at[1] - at[0] - 1;
    if (!read_number(line, at[0], &label))
        return wrong(t, line, at[0], expected[0]);
    if (!(size == 2 && memcmp(second, "-1", 2) == 0) && !read_number(second, size, &majority))
        return wrong(t, second, size, expected[1]);
    BT_TRY(add_votes(t, line + at[1] + 1, at[2] - at[1] - 1));
    return add_row(t, label, line + begin, length - begin);
}

static bt_status read_file(texts *t)
{
    const char *line = "";
    int64_t length;
    bt_source *source = bt_source_open(t->path);
    bt_status status = source ? BT_OK : bt_error_status();
    while (status == BT_OK && line) {
        status = bt_source_line(source, &line, &length);
        t->line++;
        if (status == BT_OK && line)
            status = read_line(t, line, length);
    }
    bt_source_close(source);
    if (status == BT_OK && !t->rows)
        status = bt_fail(BT_ERROR_DATA, "%s: the file is empty; expected a text in each line", t->path);
    return status;
}

/* ---- the set ---- */

static const char *text_of(const texts *t, int64_t row, int64_t *length)
{
    int64_t begin = row ? t->ends[row - 1] : 0;
    *length = t->ends[row] - begin;
    return t->pool + begin;
}

static bt_status learn_words(bt_words *words, const texts *train, int64_t *size)
{
    int64_t length;
    for (int64_t i = 0; i < train->rows; i++) {
        const char *text = text_of(train, i, &length);
        BT_TRY(bt_words_add(words, text, length));
    }
    *size = bt_words_choose(words, MOST_WORDS);
    return *size ? BT_OK : bt_fail(BT_ERROR_DATA, "%s: its texts have no words", train->path);
}

static bt_store *table(bt_dtype dtype, int64_t rows, int64_t columns)
{
    bt_array array = {.dtype = dtype, .rank = 2, .dims = {rows, columns}};
    array.data = bt_alloc(bt_array_bytes(array));
    return bt_store_new(array, false);
}

static bt_store *features(const texts *t, const bt_words *words, int64_t size)
{
    bt_store *store = table(BT_F32, t->rows, size);
    for (int64_t i = 0; store && i < t->rows; i++) {
        int64_t length;
        const char *text = text_of(t, i, &length);
        bt_words_row(words, text, length, (float *)store->array.data + i * size);
    }
    return store;
}

static bt_store *votes(const texts *t, int64_t functions)
{
    bt_store *store = table(BT_I32, t->rows, functions);
    int32_t *to = store ? store->array.data : NULL;
    for (int64_t i = 0; to && i < t->rows * functions; i++)
        to[i] = -1;
    for (int64_t i = 0; to && i < t->vote_count; i++)
        to[t->votes[i].row * functions + t->votes[i].function] = t->votes[i].label;
    return store;
}

static bt_store *counts(const texts *t, int64_t classes)
{
    bt_store *store = table(BT_F32, t->rows, classes);
    for (int64_t i = 0; store && i < t->vote_count; i++)
        ((float *)store->array.data)[t->votes[i].row * classes + t->votes[i].label]++;
    return store;
}

static bt_store *take_labels(texts *t)
{
    int32_t *labels = t->labels;
    t->labels = NULL;
    return bt_store_new((bt_array){.dtype = BT_I32, .rank = 1, .dims = {t->rows}, .data = labels}, false);
}

const char *const bt_text_fields[BT_TEXT_FIELDS] = {"x", "votes", "counts", "label"};

static bt_dataset *make_words(texts *t, texts *train, int32_t functions, int32_t classes)
{
    bt_words *words = bt_words_new();
    int64_t size = 0;
    bt_words_normalise(train->pool, train->pool_size);
    if (t != train)
        bt_words_normalise(t->pool, t->pool_size);
    bt_status status = words ? learn_words(words, train, &size) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_check_dense(t->path, t->rows, size + functions + classes, sizeof(float));
    bt_dataset *data = NULL;
    if (status == BT_OK) {
        bt_store *stores[BT_TEXT_FIELDS] = {features(t, words, size), votes(t, functions), counts(t, classes),
                                            take_labels(t)};
        data = bt_dataset_of(bt_dataset_new(t->rows), bt_text_fields, stores, BT_TEXT_FIELDS);
    }
    bt_words_free(words);
    return data;
}

/* ---- as tokens ---- */

typedef struct tokens {
    const bt_text_form *form;
    bt_store *token, *length;
    int64_t cut, longest; /* number of texts that were too long, and the most tokens in a text */
} tokens;

/* Special tokens before and after a text are kept if the text is cut. */
static void put_tokens(tokens *k, int64_t row, const bt_ids *ids)
{
    const bt_tokenizer *t = k->form->tokenizer;
    const int64_t before = t->before.count, behind = t->behind.count, most = k->form->length - before - behind;
    const int64_t taken = ids->count < most ? ids->count : most, length = before + taken + behind;
    const int32_t padding = t->special[BT_PADDING] < 0 ? 0 : t->special[BT_PADDING];
    int32_t *to = (int32_t *)k->token->array.data + row * k->form->length;
    if (before)
        memcpy(to, t->before.at, (size_t)before * sizeof *to);
    if (taken)
        memcpy(to + before, ids->at, (size_t)taken * sizeof *to);
    if (behind)
        memcpy(to + before + taken, t->behind.at, (size_t)behind * sizeof *to);
    for (int64_t i = length; i < k->form->length; i++)
        to[i] = padding;
    ((int32_t *)k->length->array.data)[row] = (int32_t)length;
    const int64_t whole = ids->count + before + behind;
    k->cut += whole > k->form->length;
    k->longest = whole > k->longest ? whole : k->longest;
}

static bt_status encode_texts(texts *t, tokens *k)
{
    bt_ids ids = {0};
    bt_status status = BT_OK;
    for (int64_t i = 0; i < t->rows && status == BT_OK; i++) {
        int64_t length;
        const char *text = text_of(t, i, &length);
        ids.count = 0;
        status = bt_tokenizer_ids(k->form->tokenizer, text, length, false, &ids);
        if (status == BT_OK)
            put_tokens(k, i, &ids);
        else
            bt_error_context("%s, text %lld", t->path, (long long)i + 1);
    }
    bt_free(ids.at);
    if (status == BT_OK && k->cut)
        k->token->note =
            bt_string("%s: %lld of %lld texts are cut to %lld tokens; the longest has %lld", t->path, (long long)k->cut,
                      (long long)t->rows, (long long)k->form->length, (long long)k->longest);
    return status == BT_OK && k->cut && !k->token->note ? BT_ERROR_MEMORY : status;
}

static bt_dataset *make_tokens(texts *t, const bt_text_form *form, int32_t functions, int32_t classes)
{
    static const char *const names[] = {"token", "length", "votes", "counts", "label"};
    tokens k = {.form = form};
    const int64_t around = form->tokenizer->before.count + form->tokenizer->behind.count;
    if (form->length <= around || form->length > INT32_MAX) {
        bt_fail(BT_ERROR_ARGUMENT,
                "bt_dataset_texts: length is %lld; expected more than the %lld tokens that are added to each text, and "
                "less than 2^31",
                (long long)form->length, (long long)around);
        return NULL;
    }
    if (bt_check_dense(t->path, t->rows, form->length + functions + classes, sizeof(float)) != BT_OK)
        return NULL;
    bt_array lengths = {.dtype = BT_I32, .rank = 1, .dims = {t->rows}};
    lengths.data = bt_alloc(bt_array_bytes(lengths));
    k.token = table(BT_I32, t->rows, form->length);
    k.length = bt_store_new(lengths, false);
    bt_status status = k.token && k.length ? encode_texts(t, &k) : BT_ERROR_MEMORY;
    if (status != BT_OK) {
        bt_store_release(k.token);
        bt_store_release(k.length);
        return NULL;
    }
    bt_store *stores[] = {k.token, k.length, votes(t, functions), counts(t, classes), take_labels(t)};
    return bt_dataset_of(bt_dataset_new(t->rows), names, stores, BT_COUNT_OF(names));
}

bt_dataset *bt_read_texts(const char *const paths[BT_TEXT_SPLITS], int wanted, const bt_text_form *form)
{
    texts all[BT_TEXT_SPLITS] = {{0}};
    int32_t functions = 1, classes = 1; /* if there are no votes: one function that never votes */
    bt_status status = BT_OK;
    for (int i = 0; i < BT_TEXT_SPLITS && status == BT_OK; i++) {
        all[i].path = paths[i];
        if (paths[i] && *paths[i])
            status = read_file(&all[i]);
        functions = all[i].functions > functions ? all[i].functions : functions;
        classes = all[i].classes > classes ? all[i].classes : classes;
    }
    bt_dataset *data = NULL;
    if (status == BT_OK)
        data = form ? make_tokens(&all[wanted], form, functions, classes)
                    : make_words(&all[wanted], &all[0], functions, classes);
    for (int i = 0; i < BT_TEXT_SPLITS; i++)
        texts_free(&all[i]);
    return data;
}

bt_status bt_read_text_lines(const char *path, bt_pieces *lines)
{
    texts t = {.path = path};
    bt_status status = read_file(&t);
    for (int64_t i = 0; i < t.rows && status == BT_OK; i++) {
        int64_t length;
        const char *text = text_of(&t, i, &length);
        bt_pieces_put(lines, text, length);
        bt_pieces_put(lines, "\n", 1);
    }
    bt_pieces_end(lines);
    texts_free(&t);
    return status == BT_OK && lines->failed ? BT_ERROR_MEMORY : status;
}
