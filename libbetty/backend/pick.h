/* backend/pick.h: the larger (op is >) or smaller (<) of two numbers; the first if they are equal. NaN wins over any
 * number. */
#ifndef BT_PICK_H
#define BT_PICK_H

#define BT_PICK(a, b, op) ((a) == (a) && ((b) != (b) || (b)op(a)) ? (b) : (a))

#endif
