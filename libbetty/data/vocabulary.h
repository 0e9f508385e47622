/* data/vocabulary.h: distinct texts, numbered 0, 1, ... in order of arrival. */
#ifndef BT_VOCABULARY_H
#define BT_VOCABULARY_H

#include "base/base.h"

typedef struct bt_vocabulary { /* starts as {0} */
    char *pool;
    int64_t pool_size, pool_room;
    int64_t *ends; /* [count]: ends of the texts in pool, each of which is null-terminated */
    int64_t count, room;
    int64_t *slots; /* a hash table of numbers; -1: empty */
    int64_t slot_count;
} bt_vocabulary;

/* The number of a text; a new text is copied. */
bt_status bt_vocabulary_add(bt_vocabulary *v, const char *text, int64_t size, int64_t *number);
int64_t bt_vocabulary_find(const bt_vocabulary *v, const char *text, int64_t size); /* -1: not found */
const char *bt_vocabulary_get(const bt_vocabulary *v, int64_t number, int64_t *size);

typedef struct bt_ranked {
    const char *text;
    int64_t size, number, times;
} bt_ranked;

/* All texts by decreasing frequency, equally frequent ones sorted by bytes; times[k] is the frequency of text k. To be
 * freed; NULL: out of memory. */
bt_ranked *bt_vocabulary_rank(const bt_vocabulary *v, const int64_t *times);

void bt_vocabulary_free(bt_vocabulary *v);

#endif
