/* engine/traced/additive.c: explains why a loss is not the sum over micro-batches. */
#include "engine/traced/batch.h"

#include "transform/additive.h"
#include <string.h>

enum { SHOWN = 6 };

typedef struct places {
    bt_text text;
    int64_t count;
} places;

static void add_place(void *user, const bt_node *node)
{
    places *all = user;
    if (all->count++ < SHOWN)
        bt_text_add(&all->text, "%s%s (%s)", all->count > 1 ? ", " : "",
                    *node->tag.path ? node->tag.path : "training_step", node->op->name);
}

void bt_warn_batch(bt_problem *problem, const bt_traced *traced)
{
    if (problem->told_batch || problem->settings->gradient_accumulation == 1) /* other traces have the same layers */
        return;
    problem->told_batch = true;
    places all = {0};
    bt_split split;
    const int64_t examples = traced->micro.batch->count;
    bt_status status = bt_split_of(traced->graph, traced->value, traced->count, examples, add_place, &all, &split);
    long long micros = problem->settings->gradient_accumulation;
    const char *dots = all.count > SHOWN ? ", ..." : "";
    if (status == BT_OK && split == BT_SPLIT_SUM)
        bt_warn(problem->context,
                "%s: gradient_accumulation = %lld: the loss is a sum over the examples, but a step takes the mean over "
                "its micro-batches, so it differs from a step on the large batch: %s%s; use bt_mean instead of bt_sum",
                problem->name, micros, bt_text_get(&all.text), dots);
    if (status == BT_OK && split == BT_SPLIT_NOT)
        bt_warn(problem->context,
                "%s: gradient_accumulation = %lld: operations over a whole batch see only a micro-batch, so a step "
                "differs from one on the large batch, in %lld place%s: %s%s; a loss can be split if it is the bt_mean "
                "of one value per example that depends on no other example",
                problem->name, micros, (long long)all.count, all.count > 1 ? "s" : "", bt_text_get(&all.text), dots);
    bt_text_free(&all.text);
}
