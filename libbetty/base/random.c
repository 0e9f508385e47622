/* base/random.c: random numbers and permutations on the host. */
#include "base/random.h"

#include "base/base.h"

double bt_host_uniform(uint64_t seed, uint64_t stream, uint64_t element)
{
    bt_philox counter = {{(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    bt_philox word = bt_philox4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return bt_philox_f64(word.word[0], word.word[1]);
}

/* The key differs from the plain seed of bt_host_uniform, so that these streams never coincide with a user's. */
bt_random bt_random_begin(uint64_t seed, bt_purpose purpose, uint32_t part, uint64_t place)
{
    uint32_t stream = ((uint32_t)purpose << 24) | (part & 0xFFFFFF);
    return (bt_random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ UINT32_C(0x64617461)},
                       .counter = {{0, (uint32_t)place, (uint32_t)(place >> 32), stream}},
                       .used = 4};
}

static uint32_t next_word(bt_random *random)
{
    if (random->used == 4) {
        random->words = bt_philox4x32(random->counter, random->key[0], random->key[1]);
        random->counter.word[0]++;
        random->used = 0;
    }
    return random->words.word[random->used++];
}

/* Multiply and reject: Lemire, "Fast random integer generation in an interval" (2019). */
uint32_t bt_random_below(bt_random *random, uint32_t bound)
{
    uint64_t product = (uint64_t)next_word(random) * bound;
    if ((uint32_t)product < bound)
        for (uint32_t least = -bound % bound; (uint32_t)product < least;)
            product = (uint64_t)next_word(random) * bound;
    return (uint32_t)(product >> 32);
}

double bt_random_unit(bt_random *random)
{
    uint32_t high = next_word(random);
    return 1 - bt_philox_f64(high, next_word(random));
}

/* Fisher and Yates. */
void bt_shuffle(int32_t *items, int64_t count, bt_random *random)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t k = bt_random_below(random, (uint32_t)i + 1);
        int32_t item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}
