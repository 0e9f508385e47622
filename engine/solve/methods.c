/* engine/solve/methods.c: the list of methods. */
#include "engine/solve/methods.h"

#include "engine/level/level.h"

static const bt_method_def *const methods[] = {&bt_method_darts,   &bt_method_neumann, &bt_method_cg,  &bt_method_sama,
                                               &bt_method_nystrom, &bt_method_penalty, &bt_method_itd, &bt_method_none};

const bt_method_def *bt_method_builtin(int index)
{
    return index >= 0 && index < BT_COUNT_OF(methods) ? methods[index] : NULL;
}
