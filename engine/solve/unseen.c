/* engine/solve/unseen.c: what a level's steps do beyond following its loss. An implicit method assumes that the
 * gradient of the loss is 0 at the solution, so it does not see this. If the level has a condition of its own, that
 * condition says what holds. */
#include "engine/solve/solve.h"

static bool has_param_callback(const bt_problem *lower) { return lower->def->param_callback != NULL; }

static bool has_grad_callback(const bt_problem *lower) { return lower->def->grad_callback != NULL; }

/* sama is exempt: its slope includes the effect of clipping. */
static bool clips_norm(const bt_problem *lower)
{
    return lower->settings->gradient_clipping > 0 && !lower->settings->method->slope;
}

static bool clips_values(const bt_problem *lower)
{
    return lower->settings->gradient_clipping_value > 0 && !lower->settings->method->slope;
}

/* Decay is not part of H, nor of the gradients that the penalty method uses. Methods that use neither are not
 * affected. */
static bool decays(const bt_problem *lower)
{
    const bt_optimizer *optimizer = lower->optimizer;
    int decay = bt_hyper_index(optimizer->kind.def->hypers, "weight_decay");
    if (decay < 0 || !lower->settings->method->step)
        return false;
    for (int64_t i = 0; i < lower->module->param_count; i++)
        if (lower->trainable[i] && optimizer->groups[lower->group[i]].values[decay] != 0)
            return true;
    return false;
}

static const struct {
    const char *name;
    bool (*has)(const bt_problem *lower);
    const char *note;
} rows[BT_UNSEEN_COUNT] = {
    [BT_UNSEEN_PARAM] = {"param_callback", has_param_callback, ""},
    [BT_UNSEEN_GRAD] = {"grad_callback", has_grad_callback, ""},
    [BT_UNSEEN_NORM] = {"gradient_clipping", clips_norm, " (where it still acts when the inner loop ends)"},
    [BT_UNSEEN_VALUE] = {"gradient_clipping_value", clips_values, " (where it still acts when the inner loop ends)"},
    [BT_UNSEEN_DECAY] = {"weight_decay", decays, " (as a term of the loss it is included)"},
};

unsigned bt_unseen(const bt_problem *lower)
{
    unsigned found = 0;
    if (bt_solver_of(lower)->leave_out || lower->def->condition)
        return 0;
    for (int i = 0; i < BT_UNSEEN_COUNT; i++)
        found |= rows[i].has(lower) ? 1u << i : 0;
    return found;
}

void bt_unseen_list(unsigned which, bool notes, bt_text *text)
{
    const char *comma = "";
    for (int i = 0; i < BT_UNSEEN_COUNT; i++)
        if (which >> i & 1) {
            bt_text_add(text, "%s%s%s", comma, rows[i].name, notes ? rows[i].note : "");
            comma = ", ";
        }
}

void bt_unseen_warn(bt_problem *lower)
{
    unsigned which = bt_unseen(lower);
    bt_text list = {0};
    if (!which || lower->told_unseen)
        return;
    lower->told_unseen = true;
    bt_unseen_list(which, true, &list);
    bt_warn(lower->context,
            "%s: type = %s assumes that the gradient of its loss is 0 at its solution, and leaves out these parts of "
            "its steps: %s; %s, or use type = itd, which includes them",
            lower->name, lower->settings->method->name, bt_text_get(&list), bt_unseen_cure);
    bt_text_free(&list);
}

const char bt_unseen_cure[] = "state what holds at its solution with a condition (bt_projected_condition)";
