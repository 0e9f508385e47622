/* data/endless.h: the examples of a set, epoch after epoch, as one endless sequence. */
#ifndef BT_ENDLESS_H
#define BT_ENDLESS_H

#include "base/base.h"

typedef struct bt_endless {
    int64_t count; /* of an epoch */
    uint64_t seed;
    uint32_t part;    /* tells the orders of joined sets apart */
    int64_t orders;   /* how many epochs' orders are kept; 0: the set's own order */
    int64_t epoch[2]; /* whose order it is; -1: nobody's */
    int32_t *order[2];
} bt_endless;

bt_endless bt_endless_of(int64_t count, uint64_t seed, uint32_t part); /* in the set's own order */
bt_status bt_endless_shuffle(bt_endless *row, int64_t orders);         /* each epoch in an order of its own */
void bt_endless_close(bt_endless *row);

/* The places in the set of the examples `from` .. `from + count - 1`. */
void bt_endless_places(bt_endless *row, int64_t from, int64_t count, int32_t *places);

#endif
