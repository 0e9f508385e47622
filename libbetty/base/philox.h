/* base/philox.h: Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1,
 * 2, 3" (SC 2011). It maps a counter and a key to four 32-bit numbers. The host and the kernels of every backend share
 * it. */
#ifndef BT_PHILOX_H
#define BT_PHILOX_H

#include "base/everywhere.h"
#include <stdint.h>

typedef struct bt_philox {
    uint32_t word[4];
} bt_philox;

BT_EVERYWHERE static inline bt_philox bt_philox4x32(bt_philox counter, uint32_t key0, uint32_t key1)
{
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = UINT64_C(0xD2511F53) * c0, product1 = UINT64_C(0xCD9E8D57) * c2;
        uint32_t next0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0, next2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
        c0 = next0;
        c2 = next2;
        key0 += UINT32_C(0x9E3779B9);
        key1 += UINT32_C(0xBB67AE85);
    }
    return (bt_philox){{c0, c1, c2, c3}};
}

/* 24 random bits: uniform in [0, 1), exact in f32. */
BT_EVERYWHERE static inline float bt_philox_f32(uint32_t word) { return (float)(word >> 8) * 0x1p-24F; }

/* 53 random bits from two words: uniform in [0, 1). */
BT_EVERYWHERE static inline double bt_philox_f64(uint32_t high, uint32_t low)
{
    return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

#endif
