/* optim/eight.c: Adam, AdamW and Lion with 8-bit state (Dettmers et al., ICLR 2022): a code for each element and a
 * scale for each block of 256 elements. Small parameters keep full state, and so do tables: in a step, only a few of
 * their rows have a gradient, of a size unlike that of others. */
#include "optim/kinds.h"

#include "ops/ops.h"

enum { M, M_SCALE, V, V_SCALE, SMALL = 4096 };

static bool is_scale(int slot) { return slot == M_SCALE || slot == V_SCALE; }

static bt_array whole_slot(int slot, bt_array param)
{
    return is_scale(slot) ? (bt_array){.dtype = BT_F32, .rank = 1, .dims = {0}} : param;
}

static bt_array eight_slot(int slot, bt_array param, const double *hypers)
{
    (void)hypers;
    if (bt_array_count(param) < SMALL)
        return whole_slot(slot, param);
    if (is_scale(slot))
        return (bt_array){.dtype = BT_F32, .rank = 1, .dims = {bt_codes_blocks(bt_array_count(param))}};
    param.dtype = BT_U8;
    return param;
}

/* Returns the new parameter and sets the slots to outputs 1, 2, ... of its node. */
static bt_tensor *take(bt_rule *rule, bt_tensor *next, const char *const *slots)
{
    for (int i = 0; slots[i] && !bt_poisoned(next); i++)
        bt_slot_set(rule, slots[i], &next->node->out[i + 1]);
    return next;
}

static bt_tensor *adam_step(bt_rule *rule, bt_tensor *param, bt_tensor *grad, bool decoupled)
{
    static const char *const slots[] = {"m", "m_scale", "v", "v_scale", NULL};
    const bt_adam_attr attr = {decoupled};
    if (!bt_has_slot(rule, "m_scale"))
        return bt_adam_step(rule, param, grad, decoupled);
    bt_tensor *in[] = {param,
                       grad,
                       bt_slot(rule, "m"),
                       bt_slot(rule, "m_scale"),
                       bt_slot(rule, "v"),
                       bt_slot(rule, "v_scale"),
                       rule->ok,
                       bt_hyper(rule, "lr"),
                       bt_hyper(rule, "beta1"),
                       bt_hyper(rule, "beta2"),
                       bt_hyper(rule, "eps"),
                       bt_hyper(rule, "weight_decay"),
                       bt_rule_round(rule, rule->count)};
    return take(rule, bt_record(&bt_op_adam8bit_update, &attr, sizeof attr, in, BT_COUNT_OF(in)), slots);
}

static bt_tensor *adam_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, false);
}

static bt_tensor *adamw_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    return adam_step(rule, param, grad, true);
}

static bt_tensor *lion_update(bt_rule *rule, bt_tensor *param, bt_tensor *grad)
{
    static const char *const slots[] = {"m", "m_scale", NULL};
    if (!bt_has_slot(rule, "m_scale")) {
        bt_tensor *m = bt_slot(rule, "m"), *next = bt_lion_step(rule, param, bt_where(rule->ok, grad, 0));
        bt_slot_set(rule, "m", bt_where(rule->ok, bt_rule_next(bt_rule_slot(rule, "m")), m));
        return bt_where(rule->ok, next, param);
    }
    bt_tensor *in[] = {param,
                       grad,
                       bt_slot(rule, "m"),
                       bt_slot(rule, "m_scale"),
                       rule->ok,
                       bt_hyper(rule, "lr"),
                       bt_hyper(rule, "beta1"),
                       bt_hyper(rule, "beta2"),
                       bt_hyper(rule, "weight_decay")};
    return take(rule, bt_record(&bt_op_lion8bit_update, NULL, 0, in, BT_COUNT_OF(in)), slots);
}

static const bt_optimizer_def adam8bit = {
    .name = "adam8bit",
    .hypers = {BT_HYPER_LR(1e-3), BT_HYPER_BETAS(0.9, 0.999), BT_HYPER_EPS(1e-8), BT_HYPER_COUPLED},
    .slots = {[M] = "m", [M_SCALE] = "m_scale", [V] = "v", [V_SCALE] = "v_scale"},
    .update = adam_update,
    .slot = eight_slot,
};

static const bt_optimizer_def adamw8bit = {
    .name = "adamw8bit",
    .hypers = {BT_HYPER_LR(1e-3), BT_HYPER_BETAS(0.9, 0.999), BT_HYPER_EPS(1e-8), BT_HYPER_DECOUPLED(0.01)},
    .slots = {[M] = "m", [M_SCALE] = "m_scale", [V] = "v", [V_SCALE] = "v_scale"},
    .update = adamw_update,
    .slot = eight_slot,
};

static const bt_optimizer_def lion8bit = {
    .name = "lion8bit",
    .hypers = {BT_HYPER_LION},
    .slots = {[M] = "m", [M_SCALE] = "m_scale"},
    .update = lion_update,
    .slot = eight_slot,
};

#define KIND(name)                                                                                                     \
    const bt_optimizer_kind bt_kind_##name = {                                                                         \
        .def = &name, .elementwise = true, .guarded = true, .codes = true, .table_slot = whole_slot}
KIND(adam8bit);
KIND(adamw8bit);
KIND(lion8bit);
