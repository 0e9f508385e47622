/* data/tokenizer_make.c: builds tokenisers, also from the vocabulary of a text. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN "<unk>"

bt_tokenizer *bt_tokenizer_begin(void)
{
    bt_tokenizer *t = bt_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->model = (bt_model){.unknown = -1, .prefix = "", .suffix = ""};
    for (int i = 0; i < BT_SPECIALS; i++)
        t->special[i] = -1;
    if ((t->region = bt_region_new()))
        return t;
    bt_free(t);
    return NULL;
}

void bt_tokenizer_free(bt_tokenizer *t)
{
    if (!t)
        return;
    bt_vocabulary_free(&t->tokens);
    bt_free(t->ids);
    bt_free(t->numbers);
    bt_free(t->normalizers.items);
    bt_free(t->splitters.items);
    bt_free(t->decoders.items);
    bt_free(t->model.merges);
    bt_free(t->added);
    bt_free(t->before.at);
    bt_free(t->behind.at);
    bt_region_free(t->region);
    bt_free(t);
}

bt_status bt_tokenizer_put(bt_tokenizer *t, const char *path, const char *text, int64_t size, int64_t id)
{
    const int64_t before = t->tokens.count;
    int64_t number;
    if (size > BT_LONGEST_TOKEN)
        return bt_fail(BT_ERROR_DATA, "%s: the token with the id %lld has %lld bytes; expected at most %d", path,
                       (long long)id, (long long)size, BT_LONGEST_TOKEN);
    if (id < 0 || id >= INT32_MAX)
        return bt_fail(BT_ERROR_DATA, "%s: the token \"%.*s\" has the id %lld; expected 0 to %d", path, (int)size, text,
                       (long long)id, INT32_MAX - 1);
    BT_TRY(bt_vocabulary_add(&t->tokens, text, size, &number));
    if (number < before)
        return t->ids[number] == id ? BT_OK
                                    : bt_fail(BT_ERROR_DATA, "%s: the token \"%.*s\" has two ids, %d and %lld", path,
                                              (int)size, text, (int)t->ids[number], (long long)id);
    int32_t *ids = bt_grow(t->ids, &t->id_room, t->tokens.count, sizeof *ids);
    if (!ids)
        return BT_ERROR_MEMORY;
    t->ids = ids;
    ids[number] = (int32_t)id;
    t->size = id >= t->size ? id + 1 : t->size;
    t->longest = size > t->longest ? size : t->longest;
    return BT_OK;
}

bt_status bt_tokenizer_add_step(bt_steps *steps, bt_step step)
{
    bt_step *items = bt_grow(steps->items, &steps->room, steps->count + 1, sizeof *items);
    if (!items)
        return BT_ERROR_MEMORY;
    steps->items = items;
    items[steps->count++] = step;
    return BT_OK;
}

bt_status bt_tokenizer_add_special(bt_tokenizer *t, bt_added added)
{
    bt_added *all = bt_grow(t->added, &t->added_room, t->added_count + 1, sizeof *all);
    if (!all)
        return BT_ERROR_MEMORY;
    t->added = all;
    all[t->added_count++] = added;
    return BT_OK;
}

/* ---- finishing ---- */

static bt_status number_ids(bt_tokenizer *t, const char *path)
{
    if (!t->size)
        return bt_fail(BT_ERROR_DATA, "%s: the vocabulary is empty", path);
    if (t->size > 2 * t->tokens.count + 4096)
        return bt_fail(BT_ERROR_DATA, "%s: %lld tokens have ids up to %lld; expected ids with almost no gaps", path,
                       (long long)t->tokens.count, (long long)t->size - 1);
    t->numbers = bt_alloc_array((size_t)t->size, sizeof *t->numbers);
    if (!t->numbers)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < t->size; i++)
        t->numbers[i] = -1;
    for (int64_t i = 0; i < t->tokens.count; i++) {
        int64_t *number = &t->numbers[t->ids[i]], size;
        if (*number >= 0)
            return bt_fail(BT_ERROR_DATA, "%s: two tokens, \"%s\" and \"%s\", have the id %d", path,
                           bt_vocabulary_get(&t->tokens, *number, &size), bt_vocabulary_get(&t->tokens, i, &size),
                           (int)t->ids[i]);
        *number = i;
    }
    return BT_OK;
}

/* The form of the token in normalised text. */
static bt_status normalize(bt_tokenizer *t, bt_added *added)
{
    bt_pieces a = {0}, b = {0};
    bt_pieces_add(&a, added->text, (int64_t)strlen(added->text));
    bt_steps_run(t->normalizers.items, t->normalizers.count, &a, &b);
    bt_pieces_put(&a, "", 1);
    added->match = a.failed ? NULL : bt_region_copy(t->region, a.bytes, (size_t)a.size);
    added->match_size = a.size - 1;
    bt_pieces_free(&a);
    bt_pieces_free(&b);
    return added->match ? BT_OK : BT_ERROR_MEMORY;
}

static int longest_first(const void *a, const void *b)
{
    const bt_added *x = a, *y = b;
    return x->match_size != y->match_size ? (x->match_size < y->match_size) - (x->match_size > y->match_size)
                                          : (x->id > y->id) - (x->id < y->id);
}

static void name_specials(bt_tokenizer *t)
{
    static const char *const names[BT_SPECIALS][6] = {
        [BT_PADDING] = {"[PAD]", "<pad>", "<|pad|>"},
        [BT_UNKNOWN] = {"[UNK]", "<unk>"},
        [BT_MASK] = {"[MASK]", "<mask>"},
        [BT_CLS] = {"[CLS]", "<s>"},
        [BT_SEP] = {"[SEP]", "</s>"},
        [BT_END_OF_TEXT] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "[EOS]", "<eos>"},
    };
    if (t->special[BT_UNKNOWN] < 0)
        t->special[BT_UNKNOWN] = t->model.unknown;
    for (int which = 0; which < BT_SPECIALS; which++)
        for (int k = 0; k < BT_COUNT_OF(names[which]) && names[which][k]; k++)
            for (int64_t i = 0; i < t->added_count && t->special[which] < 0; i++)
                if (strcmp(t->added[i].text, names[which][k]) == 0)
                    t->special[which] = t->added[i].id;
}

bt_status bt_tokenizer_finish(bt_tokenizer *t, const char *path)
{
    BT_TRY(number_ids(t, path));
    int64_t count = 0;
    for (int64_t i = 0; i < t->added_count; i++) {
        bt_added *added = &t->added[i];
        added->match = added->text;
        added->match_size = (int64_t)strlen(added->text);
        if (added->normalized)
            BT_TRY(normalize(t, added));
        if (added->match_size > 0) /* an empty one matches nothing */
            t->added[count++] = *added;
    }
    t->added_count = count;
    if (count)
        qsort(t->added, (size_t)count, sizeof *t->added, longest_first);
    for (int64_t i = 0; i < count; i++)
        t->begins[(unsigned char)t->added[i].match[0]] = true;
    name_specials(t);
    return BT_OK;
}

/* ---- vocabularies of a text ---- */

/* Starts a tokeniser with <unk>, which is also recognised in texts. */
static bt_status begin(const char *function, const char *text, int64_t *length, bt_tokenizer **made)
{
    if (!text || *length < -1)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the %s", function, text ? "length is negative" : "text is NULL");
    *length = *length < 0 ? (int64_t)strlen(text) : *length;
    const int64_t bad = bt_not_utf8(text, *length);
    if (bad >= 0)
        return bt_fail(BT_ERROR_DATA, "%s: the text is not UTF-8: byte %lld is 0x%02X", function, (long long)bad,
                       (unsigned)(unsigned char)text[bad]);
    if (!(*made = bt_tokenizer_begin()))
        return BT_ERROR_MEMORY;
    bt_tokenizer *t = *made;
    t->model.unknown = 0;
    BT_TRY(bt_tokenizer_put(t, function, UNKNOWN, (int64_t)strlen(UNKNOWN), 0));
    return bt_tokenizer_add_special(t, (bt_added){.text = UNKNOWN, .id = 0, .special = true});
}

static bt_tokenizer *done(bt_tokenizer *t, bt_status status)
{
    if (status == BT_OK)
        return t;
    bt_tokenizer_free(t);
    return NULL;
}

/* Splits the text, without <unk>, into pieces. */
static bt_status take_pieces(const bt_steps *splitters, const char *text, int64_t length, bt_pieces *a)
{
    const bt_step cut = {.run = bt_step_split_text, .setting = BT_CUT_REMOVED, .text = UNKNOWN};
    bt_pieces b = {0};
    bt_pieces_add(a, text, length);
    bt_steps_run(&cut, 1, a, &b);
    bt_steps_run(splitters->items, splitters->count, a, &b);
    bt_pieces_free(&b);
    return a->failed ? BT_ERROR_MEMORY : BT_OK;
}

static bt_status put_characters(bt_tokenizer *t, const bt_pieces *pieces)
{
    enum { MOST = 0x110000 };
    uint8_t *seen = bt_alloc(MOST);
    bt_status status = seen ? BT_OK : BT_ERROR_MEMORY;
    int32_t c;
    for (int64_t at = 0; seen && at < pieces->size;) {
        at += bt_char_read(pieces->bytes + at, pieces->size - at, &c);
        seen[c] = 1;
    }
    for (c = 0; c < MOST && status == BT_OK; c++)
        if (seen[c]) {
            char text[4];
            const int64_t bytes = bt_char_write(c, text);
            status = bt_tokenizer_put(t, "bt_tokenizer_characters", text, bytes, t->size);
        }
    bt_free(seen);
    return status;
}

static bt_status characters(bt_tokenizer **t, const char *text, int64_t length)
{
    BT_TRY(begin("bt_tokenizer_characters", text, &length, t));
    (*t)->model.tokenize = bt_characters_tokenize;
    bt_pieces pieces = {0};
    bt_status status = take_pieces(&(*t)->splitters, text, length, &pieces);
    if (status == BT_OK)
        status = put_characters(*t, &pieces);
    bt_pieces_free(&pieces);
    BT_TRY(status);
    (*t)->hash = bt_hash(1, (*t)->tokens.pool, (size_t)(*t)->tokens.pool_size);
    return bt_tokenizer_finish(*t, "bt_tokenizer_characters");
}

bt_tokenizer *bt_tokenizer_characters(const char *text, int64_t length)
{
    bt_tokenizer *t = NULL;
    bt_status status = characters(&t, text, length);
    return done(t, status);
}

/* Counts the words among the pieces. */
static bt_status count_words(const bt_pieces *pieces, bt_vocabulary *words, int64_t **times)
{
    int64_t room = 0, number;
    for (int64_t i = 0; i < pieces->count; i++) {
        int64_t size;
        const char *text = bt_pieces_get(pieces, i, &size);
        const int64_t before = words->count;
        BT_TRY(bt_vocabulary_add(words, text, size, &number));
        int64_t *grown = bt_grow(*times, &room, words->count, sizeof *grown);
        if (!grown)
            return BT_ERROR_MEMORY;
        *times = grown;
        grown[number] = number == before ? 1 : grown[number] + 1;
    }
    return BT_OK;
}

static bt_status put_words(bt_tokenizer *t, const bt_pieces *pieces, int64_t size)
{
    bt_vocabulary words = {0};
    int64_t *times = NULL;
    bt_status status = count_words(pieces, &words, &times);
    bt_ranked *ranked = status == BT_OK ? bt_vocabulary_rank(&words, times) : NULL;
    if (status == BT_OK && !ranked)
        status = BT_ERROR_MEMORY;
    for (int64_t i = 0; i < words.count && t->size < size && status == BT_OK; i++)
        if (ranked[i].size <= BT_LONGEST_TOKEN)
            status = bt_tokenizer_put(t, "bt_tokenizer_words", ranked[i].text, ranked[i].size, t->size);
    bt_vocabulary_free(&words);
    bt_free(times);
    bt_free(ranked);
    return status;
}

static bt_status words(bt_tokenizer **t, const char *text, int64_t length, int64_t size)
{
    if (size < 1 || size >= INT32_MAX)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_words: found a size of %lld; expected 1 to %d", (long long)size,
                       INT32_MAX - 1);
    BT_TRY(begin("bt_tokenizer_words", text, &length, t));
    (*t)->model.tokenize = bt_words_tokenize;
    BT_TRY(bt_tokenizer_add_step(&(*t)->splitters, (bt_step){.run = bt_step_words}));
    BT_TRY(bt_tokenizer_add_step(&(*t)->decoders, (bt_step){.run = bt_step_join, .text = " "}));
    bt_pieces pieces = {0};
    bt_status status = take_pieces(&(*t)->splitters, text, length, &pieces);
    if (status == BT_OK)
        status = put_words(*t, &pieces, size);
    bt_pieces_free(&pieces);
    BT_TRY(status);
    (*t)->hash = bt_hash(2, (*t)->tokens.pool, (size_t)(*t)->tokens.pool_size);
    return bt_tokenizer_finish(*t, "bt_tokenizer_words");
}

bt_tokenizer *bt_tokenizer_words(const char *text, int64_t length, int64_t size)
{
    bt_tokenizer *t = NULL;
    bt_status status = words(&t, text, length, size);
    return done(t, status);
}
