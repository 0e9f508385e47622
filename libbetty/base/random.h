/* base/random.h: random numbers and permutations as pure functions of a seed, a purpose and a place. */
#ifndef BT_RANDOM_H
#define BT_RANDOM_H

#include "base/philox.h"
#include <stdint.h>

typedef enum bt_purpose {                     /* each has its own streams; the values are part of what a seed means */
                          BT_FOR_SHUFFLE = 1, /* a loader's epochs */
                          BT_FOR_PART,
                          BT_FOR_PER_CLASS,
                          BT_FOR_LONG_TAIL,
                          BT_FOR_NOISE,
                          BT_FOR_TASKS,
                          BT_FOR_COLUMNS, /* random columns of a Hessian: engine/hypergradient */
                          BT_FOR_CHANGE   /* random changes of images */
} bt_purpose;

typedef struct bt_random {
    uint32_t key[2];
    bt_philox counter, words;
    int used; /* words already used */
} bt_random;

/* `part` (which of the joined sets; below 2^24) and `place` (epoch, class, task) select a stream within the purpose. */
bt_random bt_random_begin(uint64_t seed, bt_purpose purpose, uint32_t part, uint64_t place);
uint32_t bt_random_below(bt_random *random, uint32_t bound); /* 0 .. bound-1, unbiased; bound >= 1 */
double bt_random_unit(bt_random *random);                    /* in (0, 1] */
void bt_shuffle(int32_t *items, int64_t count, bt_random *random);

#endif
