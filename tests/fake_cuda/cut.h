/* tests/fake_cuda/cut.h: rounding to fewer bits, as tensor cores do. */
#ifndef FAKE_CUT_H
#define FAKE_CUT_H

#include <math.h>

enum { FAKE_TF32 = 11 }; /* bits: a leading 1 and 10 more */

/* Rounds to `bits` bits, ties to even. */
static inline double fake_cut(double x, int bits)
{
    int exponent;
    const double part = frexp(x, &exponent);
    return isfinite(x) ? ldexp(rint(ldexp(part, bits)), exponent - bits) : x;
}

#endif
