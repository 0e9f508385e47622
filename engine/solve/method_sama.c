/* engine/solve/method_sama.c: x = alpha D v, where D is the derivative of the lower problem's last update with
 * respect to its gradient: what one more step of that optimiser would make of v. Choe, Mehta, Ahn, Neiswanger, Xie,
 * Strubell and Xing, "Making scalable meta learning practical" (NeurIPS 2023), whose factor for Adam omits the bias
 * correction. */
#include "engine/solve/methods.h"

static bt_tensor *start(bt_rule *rule, bt_tensor *v)
{
    return bt_mul(bt_hyper(rule, "adam_alpha"), bt_mul(bt_slope(rule), v));
}

const bt_method_def bt_method_sama = {
    .name = "sama",
    .hypers = {{"adam_alpha", 1, 0, 1e9, "factor of x, with every optimizer", BT_HYPER_REAL}},
    .start = start,
    .product = "finite",
    .slope = true,
};
