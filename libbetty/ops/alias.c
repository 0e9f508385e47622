/* ops/alias.c: the same value under a new name. Derivatives with respect to an alias ignore how its value was computed.
 * A composite's derivative uses aliases to treat its inputs as independent. */
#include "ops/define.h"

#include <string.h>

static bool look(const void *attr, const bt_view *in, bt_view *out, int64_t *offset)
{
    (void)attr;
    *out = *in;
    *offset = 0;
    return true;
}

static void pass(const void *attr, bt_tensor *const *in, bt_tensor *const *out, bt_tensor *const *given,
                 bt_tensor **wanted)
{
    (void)attr, (void)in, (void)out;
    wanted[0] = given[0];
}

static void samples(bt_sampler *sampler)
{
    static const bt_sample sample = {
        .name = "matrix", .inputs = 1, .in = {{.dtype = BT_F64, .rank = 2, .dims = {2, 3}, .low = -1, .high = 1}}};
    sampler->add(sampler, &sample);
}

static bool alias_shares(bt_shares *shares) { return bt_shares_along(shares, shares->in_axis[0], 1); }

const bt_op bt_op_alias = {
    .name = "alias",
    .inputs = 1,
    .infer = bt_infer_same,
    .vjp = pass,
    .jvp = pass,
    .info = &(const bt_op_info){.cast = BT_CAST_ANY,
                                .flags = BT_OP_LINEAR | BT_OP_IDENTITY | BT_OP_CHEAP,
                                .differentiable = 1,
                                .shares = alias_shares,
                                .overwrites = {1},
                                .view = look,
                                .samples = samples},
};

bt_tensor *bt_alias(bt_tensor *x) { return BT_RECORD0(&bt_op_alias, x); }
