/* compile/arrays.h: a program's steps as plan/order.h sees them: its values are the program's buffers. */
#ifndef BT_ARRAYS_H
#define BT_ARRAYS_H

#include "compile/compile_inside.h"
#include "plan/order.h"

typedef struct bt_arrays {
    bt_order order;
    bt_region *region;
    bt_order_wait *waits;
} bt_arrays;

/* The caller frees them, also after an error. */
bt_status bt_arrays_new(bt_arrays *arrays, const bt_compilation *c);
void bt_arrays_free(bt_arrays *arrays);

#endif
