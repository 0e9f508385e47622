/* tests/fake_cuda/cut.h: numbers in fewer bits, as tensor cores have them. */
#ifndef FAKE_CUT_H
#define FAKE_CUT_H

#include <math.h>

enum { FAKE_TF32 = 11 }; /* bits: a leading 1, and 10 behind it */

/* To the nearest of so many bits, of two as near to the even one. */
static inline double fake_cut(double x, int bits)
{
    int exponent;
    const double part = frexp(x, &exponent);
    return isfinite(x) ? ldexp(rint(ldexp(part, bits)), exponent - bits) : x;
}

#endif
