/* bench/roof.h: peak f32 speed of a core: independent chains of fused multiply-adds, all in registers. */
#ifndef BENCH_ROOF_H
#define BENCH_ROOF_H

#include "base/base.h"
#include <string.h>

enum { ROOF_ROUNDS = 20000, ROOF_CHAINS = 12 };

#if defined __x86_64__
#include <immintrin.h>

static __attribute__((target("avx2,fma"))) float roof_v3(void)
{
    __m256 sum[ROOF_CHAINS], x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(0.001F);
#pragma GCC unroll 12
    for (int i = 0; i < ROOF_CHAINS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int round = 0; round < ROOF_ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < ROOF_CHAINS; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], x, y);
#pragma GCC unroll 12
    for (int i = 1; i < ROOF_CHAINS; i++)
        sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return _mm256_cvtss_f32(sum[0]);
}

static __attribute__((target("avx512f"))) float roof_v4(void)
{
    __m512 sum[ROOF_CHAINS], x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(0.001F);
#pragma GCC unroll 12
    for (int i = 0; i < ROOF_CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int round = 0; round < ROOF_ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < ROOF_CHAINS; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], x, y);
#pragma GCC unroll 12
    for (int i = 1; i < ROOF_CHAINS; i++)
        sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_cvtss_f32(sum[0]);
}
#endif

/* Floating-point operations per second with this instruction set (named as the backend names it), measured now: the
 * best of several rounds; 0 if there is no measurement for it. */
static double roof_speed(const char *isa)
{
    static volatile float kept;
    double best = 0;
#if defined __x86_64__
    bool wide = strncmp(isa, "x86-64-v4", strlen("x86-64-v4")) == 0 && __builtin_cpu_supports("avx512f");
    for (int i = 0; i < 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); i++) {
        double start = bt_seconds();
        kept = wide ? roof_v4() : roof_v3();
        double speed = 2.0 * ROOF_ROUNDS * ROOF_CHAINS * (wide ? 16 : 8) / (bt_seconds() - start);
        best = speed > best ? speed : best;
    }
#endif
    (void)kept, (void)isa;
    return best;
}

#endif
