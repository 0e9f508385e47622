/* data/vocabulary.h: different texts, each with a number: 0, 1, ... in the order in which they came. */
#ifndef BT_VOCABULARY_H
#define BT_VOCABULARY_H

#include "base/base.h"

typedef struct bt_vocabulary { /* starts as {0} */
    char *pool;
    int64_t pool_size, pool_room;
    int64_t *ends; /* [count]: of the texts in pool, each with a closing 0 */
    int64_t count, room;
    int64_t *slots; /* a hash table of numbers; -1: nothing */
    int64_t slot_count;
} bt_vocabulary;

/* The number of a text, which is copied if it is new. */
bt_status bt_vocabulary_add(bt_vocabulary *v, const char *text, int64_t size, int64_t *number);
int64_t bt_vocabulary_find(const bt_vocabulary *v, const char *text, int64_t size); /* -1: not there */
const char *bt_vocabulary_get(const bt_vocabulary *v, int64_t number, int64_t *size);

typedef struct bt_ranked {
    const char *text;
    int64_t size, number, times;
} bt_ranked;

/* All texts, the most frequent first, of those as frequent the first in order of their bytes; text k came times[k]
 * times. To be freed; NULL: out of memory. */
bt_ranked *bt_vocabulary_rank(const bt_vocabulary *v, const int64_t *times);

void bt_vocabulary_free(bt_vocabulary *v);

#endif
