/* data/tokenizer.h: internals of tokenisers; only for the files of data/. */
#ifndef BT_TOKENIZER_H
#define BT_TOKENIZER_H

#include "data/pieces.h"
#include "data/vocabulary.h"
#include <betty/text.h>

typedef struct bt_ids { /* a growing list; starts as {0} */
    int32_t *at;
    int64_t count, room;
    bool failed;
} bt_ids;
void bt_ids_put(bt_ids *ids, int32_t id);

/* ---- models: turn a piece into tokens ---- */

typedef struct bt_merge { /* joins two tokens into one; rank: number of the merge; -1: an empty slot */
    int32_t left, right, rank, made;
} bt_merge;

typedef struct bt_merge_work bt_merge_work; /* memory of bt_bpe_tokenize, reused from piece to piece */

typedef struct bt_model {
    bt_status (*tokenize)(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size, bt_ids *ids);
    int32_t unknown;             /* its id; -1: none */
    const char *prefix, *suffix; /* of a continued word, and of the end of a word; or "" */
    bool fuse, fallback, whole;  /* byte-pair encoding: a run of unknown characters is one token; unknown characters
                                    become bytes; a piece that is a token is not split */
    int64_t longest;             /* WordPiece: maximum length of a piece in characters */
    bt_merge *merges;            /* a hash table */
    int64_t merge_slots, merge_count;
} bt_model;

bt_status bt_bpe_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size, bt_ids *ids);
bt_status bt_wordpiece_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size,
                                bt_ids *ids);
bt_status bt_words_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size, bt_ids *ids);
bt_status bt_characters_tokenize(const bt_tokenizer *t, bt_merge_work *work, const char *text, int64_t size,
                                 bt_ids *ids);
bt_merge_work *bt_merge_work_new(void);
void bt_merge_work_free(bt_merge_work *work);

bt_status bt_merges_begin(bt_model *model, int64_t count);                      /* makes room for `count` merges */
void bt_merges_add(bt_model *model, int32_t left, int32_t right, int32_t made); /* the next rank; the last counts */

/* ---- added tokens, found in a text before it is split ---- */

typedef struct bt_added {
    const char *text, *match; /* null-terminated; match: the text to look for, normalised if the input is */
    int64_t match_size;
    int32_t id;
    bool alone;       /* only if no word character is next to it */
    bool left, right; /* includes the blanks before, after it */
    bool normalized;  /* is looked for in the normalised text */
    bool special;
} bt_added;

/* ---- a tokeniser ---- */

typedef struct bt_steps {
    bt_step *items;
    int64_t count, room;
} bt_steps;

struct bt_tokenizer {
    bt_region *region;
    bt_vocabulary tokens;  /* text of token number k */
    int32_t *ids;          /* [tokens.count]: its id */
    int64_t *numbers;      /* [size]: number of the token with this id; -1: none */
    int64_t id_room, size; /* size: the largest id + 1 */
    bt_steps normalizers, splitters, decoders;
    bt_model model;
    bt_added *added; /* longest first */
    int64_t added_count, added_room;
    bool begins[256];      /* whether an added token may begin with this byte */
    int64_t longest;       /* longest token in bytes */
    uint64_t hash;         /* of its source files */
    bt_ids before, behind; /* added before and after a text: [CLS] and [SEP] */
    int32_t special[BT_SPECIALS];
};

enum { BT_LONGEST_TOKEN = 1 << 12 }; /* in bytes; longer tokens are refused */

bt_tokenizer *bt_tokenizer_begin(void);
bt_status bt_tokenizer_put(bt_tokenizer *t, const char *path, const char *text, int64_t size, int64_t id);
bt_status bt_tokenizer_add_step(bt_steps *steps, bt_step step);
bt_status bt_tokenizer_add_special(bt_tokenizer *t, bt_added added);
/* Sorts the entries; fails if too many ids are unused. */
bt_status bt_tokenizer_finish(bt_tokenizer *t, const char *path);

bt_status bt_tokenizer_ids(const bt_tokenizer *t, const char *text, int64_t size, bool special, bt_ids *ids);
int32_t bt_tokenizer_find(const bt_tokenizer *t, const char *text, int64_t size); /* its id; -1: not a token */

/* ---- readers ---- */

bt_tokenizer *bt_read_tokenizer(const char *path);                      /* a tokenizer.json */
bt_tokenizer *bt_read_gpt2(const char *vocabulary, const char *merges); /* vocab.json and merges.txt */

#endif
