/* data/endless.h: the examples of a set as one endless sequence, epoch after epoch. */
#ifndef BT_ENDLESS_H
#define BT_ENDLESS_H

#include "base/base.h"

typedef struct bt_endless {
    int64_t count; /* examples per epoch */
    uint64_t seed;
    uint32_t part;    /* gives joined sets different orders */
    int64_t orders;   /* number of epochs whose orders are kept; 0: the set's own order */
    int64_t epoch[2]; /* the epoch of each kept order; -1: none */
    int32_t *order[2];
} bt_endless;

bt_endless bt_endless_of(int64_t count, uint64_t seed, uint32_t part); /* the set's own order */
bt_status bt_endless_shuffle(bt_endless *row, int64_t orders);         /* a new order for each epoch */
void bt_endless_close(bt_endless *row);

/* Places in the set of the sequence's examples `from` .. `from + count - 1`. */
void bt_endless_places(bt_endless *row, int64_t from, int64_t count, int32_t *places);

#endif
