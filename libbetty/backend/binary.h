/* backend/binary.h: the formulas of ops of two operands on elements x and y. All backends share them, so that results
 * have the same bits. X(op, expression) */
#ifndef BT_BACKEND_BINARY_H
#define BT_BACKEND_BINARY_H

/* clang-format off */
#define BT_BINARY_FLOATS(X)                                                                                            \
    X(add, x + y)                                                                                                      \
    X(sub, x - y)                                                                                                      \
    X(mul, x * y)                                                                                                      \
    X(div, x / y)                                                                                                      \
    X(minimum, x < y || x != x ? x : y)                                                                                \
    X(maximum, x > y || x != x ? x : y)                                                                                \
    X(gate, y > 0 ? x : 0)

#define BT_BINARY_EXTREMES(X) /* of integers */                                                                        \
    X(minimum, x < y ? x : y)                                                                                          \
    X(maximum, x > y ? x : y)

#define BT_BINARY_TRUTHS(X)                                                                                            \
    X(less, x < y)                                                                                                     \
    X(greater, x > y)                                                                                                  \
    X(equal, x == y)
/* clang-format on */

#endif
