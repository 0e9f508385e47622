/* optim/adafactor.c: Adafactor (Shazeer and Stern, ICML 2018) in its two common forms: with relative steps as in
 * transformers, and with a learning rate as in PyTorch. A matrix keeps the mean squares of its rows and columns; a
 * tensor with more axes is a stack of matrices, over its last two. */
#include "optim/kinds.h"

#include "ops/ops.h"

#include <float.h>
#include <string.h>

enum { LR, BETA2_DECAY, EPS1, EPS2, D, WEIGHT_DECAY, RELATIVE, SCALE, WARMUP };
enum { ROW, COLUMN, V };

static bt_array adafactor_slot(int slot, bt_array param, const double *hypers)
{
    static const bt_array none = {.rank = 1};
    bool matrix = param.rank >= 2;
    (void)hypers;
    if (matrix == (slot == V))
        return none;
    if (matrix) {
        if (slot == COLUMN)
            param.dims[param.rank - 2] = param.dims[param.rank - 1];
        param.rank--;
    }
    return param;
}

static bt_status adafactor_check(const char *what, const double *hypers)
{
    bool relative = hypers[RELATIVE] != 0;
    if (relative && hypers[LR] != 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "optimizer %s: lr is %g, but relative_step = true sets the rate itself; give only one of the "
                       "two (relative_step = false is PyTorch's form)",
                       what, hypers[LR]);
    if (!relative && hypers[WARMUP] != 0)
        return bt_fail(BT_ERROR_CONFIG, "optimizer %s: warmup_init works only with relative_step = true", what);
    return BT_OK;
}

static bt_tensor *root_mean_square(bt_tensor *x)
{
    return bt_root_or_zero(bt_div(bt_norm_square(x), (double)bt_tensor_count(x)));
}

/* slot <- beta2 slot + (1 - beta2) x, where beta2 = 1 - t^decay, initially 0 */
static bt_tensor *moved(bt_rule *rule, const char *slot, bt_tensor *x)
{
    bt_tensor *fresh = bt_pow(rule->count, bt_rule_number(rule, "beta2_decay"));
    bt_tensor *kept = bt_mul(bt_rule_round(rule, bt_sub(1, fresh)), bt_slot(rule, slot));
    bt_tensor *now = bt_add(kept, bt_mul(bt_rule_round(rule, fresh), x));
    bt_slot_set(rule, slot, now);
    return now;
}

/* The mean square along an axis of a matrix: the last one or the one before. */
static bt_tensor *mean_square(bt_tensor *x, int axis)
{
    return bt_div(bt_norm_square_along(x, axis), (double)x->dims[axis]);
}

/* Divides the gradient by the roots of its mean squares: of each element, or of its row and column. The relative form
 * adds `eps` to squares; in the other form, `floor` is the least root of a mean square. */
static bt_tensor *scaled(bt_rule *rule, bt_tensor *grad, bt_tensor *eps, bt_tensor *floor)
{
    const int rank = grad->rank;
    if (!bt_has_slot(rule, "row")) {
        bt_tensor *v = moved(rule, "v", eps ? bt_add(bt_square(grad), eps) : bt_square(grad));
        return bt_div(grad, bt_sqrt(floor ? bt_maximum(v, bt_square(floor)) : v));
    }
    bt_tensor *rows = mean_square(grad, rank - 1), *columns = mean_square(grad, rank - 2);
    bt_tensor *row = bt_unsqueeze(moved(rule, "row", eps ? bt_add(rows, eps) : rows), rank - 1);
    bt_tensor *column = bt_unsqueeze(moved(rule, "column", eps ? bt_add(columns, eps) : columns), rank - 2);
    bt_tensor *mean = bt_unsqueeze(bt_mean(row, rank - 2), rank - 2);
    if (!floor) /* one after the other, so that the gradient's memory is reused */
        return bt_div(bt_div(grad, bt_sqrt(bt_div(row, mean))), bt_sqrt(column));
    bt_tensor *v = bt_mul(bt_div(row, bt_maximum(mean, floor)), column);
    return bt_div(grad, bt_sqrt(bt_maximum(v, bt_square(floor))));
}

/* The configured value, or the form's default. */
static bt_tensor *eps1(bt_rule *rule, bool relative)
{
    double own = relative ? 1e-30 : rule->dtype == BT_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    bt_tensor *given = bt_hyper(rule, "eps1");
    return bt_where(bt_greater(given, 0), given, own);
}

static bt_tensor *rate_of(bt_rule *rule, bool relative, bt_tensor *param)
{
    bt_tensor *least = bt_div(1, bt_sqrt(rule->count)), *most = bt_rule_number(rule, "lr");
    if (relative)
        most = bt_rule_is_on(rule, "warmup_init") ? bt_mul(1e-6, rule->count) : bt_number(1e-2, BT_F64);
    bt_tensor *rate = bt_rule_round(rule, bt_minimum(most, least));
    if (bt_rule_is_on(rule, "scale_parameter"))
        rate = bt_mul(rate, bt_maximum(bt_hyper(rule, "eps2"), root_mean_square(param)));
    return rate;
}

static bt_tensor *adafactor_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    bool relative = bt_rule_is_on(rule, "relative_step");
    bt_tensor *eps = eps1(rule, relative), *rate = rate_of(rule, relative, param);
    bt_tensor *step = scaled(rule, grad, relative ? eps : NULL, relative ? NULL : eps);
    bt_tensor *length = bt_maximum(1, bt_div(root_mean_square(step), bt_hyper(rule, "d")));
    bt_tensor *decay = relative ? bt_mul(rate, bt_hyper(rule, "weight_decay")) : NULL;
    bt_tensor *from = decay ? bt_mul(bt_sub(1, decay), param) : bt_rule_decayed(rule, param);
    return bt_sub(from, bt_mul(bt_div(rate, length), step));
}

static const bt_optimizer_def adafactor = {
    .name = "adafactor",
    .hypers =
        {[LR] = {"lr", 0, 0, 1e6, "relative_step = false: largest learning rate; PyTorch's default is 0.01",
                 BT_HYPER_REAL},
         [BETA2_DECAY] = {"beta2_decay", -0.8, -10, 0, "update t keeps the share 1 - t^beta2_decay of the mean squares",
                          BT_HYPER_REAL},
         [EPS1] = {"eps1", 0, 0, 1,
                   "relative_step = true: added to the squares (0: 1e-30); false: lower bound of their root (0: the "
                   "epsilon of the dtype)",
                   BT_HYPER_REAL},
         [EPS2] = {"eps2", 1e-3, 0, 1e6, "scale_parameter: lower bound of a parameter's root mean square",
                   BT_HYPER_REAL},
         [D] = {"d", 1, 1e-30, 1e30, "largest root mean square of a step; longer steps are scaled down", BT_HYPER_REAL},
         [WEIGHT_DECAY] = {"weight_decay", 0, 0, 1e6,
                           "each step subtracts this factor of the parameter times a rate: the relative one, or lr",
                           BT_HYPER_REAL},
         [RELATIVE] = {"relative_step", 1, 0, 1,
                       "true: the rate is min(0.01, 1 / sqrt(t)); false: min(lr, 1 / sqrt(t))", BT_HYPER_SWITCH},
         [SCALE] = {"scale_parameter", 1, 0, 1, "true: the rate is multiplied by the parameter's root mean square",
                    BT_HYPER_SWITCH},
         [WARMUP] = {"warmup_init", 0, 0, 1, "relative_step = true: use 1e-6 t instead of 0.01", BT_HYPER_SWITCH}},
    .slots = {[ROW] = "row", [COLUMN] = "column", [V] = "v"},
    .update = adafactor_update,
    .slot = adafactor_slot,
};

const bt_optimizer_kind bt_kind_adafactor = {
    .def = &adafactor, .fixed = 1U << RELATIVE | 1U << SCALE | 1U << WARMUP, .check = adafactor_check};
