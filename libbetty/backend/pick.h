/* backend/pick.h: the larger (op is >) or the smaller (<) of two numbers, the first of equals; NaN before all else. */
#ifndef BT_PICK_H
#define BT_PICK_H

#define BT_PICK(a, b, op) ((a) == (a) && ((b) != (b) || (b)op(a)) ? (b) : (a))

#endif
