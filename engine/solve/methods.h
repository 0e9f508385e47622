/* engine/solve/methods.h: the methods that come with the library. To add one: its file, a line here and one in
 * methods.c. */
#ifndef BT_METHODS_H
#define BT_METHODS_H

#include <betty/optim.h>
#include <betty/tensor.h>

/* In addition to bt_method_none, which needs no file (engine/level/family.c). */
extern const bt_method_def bt_method_darts, bt_method_neumann, bt_method_cg, bt_method_sama, bt_method_nystrom,
    bt_method_penalty, bt_method_itd;

const bt_method_def *bt_method_builtin(int index); /* NULL after the last */

#endif
