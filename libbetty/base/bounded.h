/* base/bounded.h: conversion of floating numbers to integers. C leaves a conversion undefined if the value does not
 * fit; here it gives the nearest bound, and 0 for NaN. */
#ifndef BT_BOUNDED_H
#define BT_BOUNDED_H

#include "base/everywhere.h"
#include <stdint.h>

BT_EVERYWHERE static inline double bt_bounded(double x, double low, double high)
{
    return x != x ? 0 : x < low ? low : x > high ? high : x;
}

BT_EVERYWHERE static inline int32_t bt_i32_of(double x) { return (int32_t)bt_bounded(x, INT32_MIN, INT32_MAX); }
BT_EVERYWHERE static inline int64_t bt_i64_of(double x)
{
    return (int64_t)bt_bounded(x, -0x1p63, 0x1.fffffffffffffp62);
}
BT_EVERYWHERE static inline uint8_t bt_u8_of(double x) { return (uint8_t)bt_bounded(x, 0, 255); }

#endif
