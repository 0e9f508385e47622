/* engine/config/updates.c: the number of updates of a level in a run, for defaults that depend on it. */
#include "engine/config/config_inside.h"

typedef struct counting {
    const bt_config *config;
    const bt_hierarchy *h;
    int64_t leaf_steps;
    int64_t *made; /* by place; -1: not known yet */
} counting;

/* How often a level with that many updates completes an inner loop after its warm-up. */
static int64_t calls_of(const bt_problem_settings *lower, int64_t updates)
{
    int64_t cold = lower->warmup_steps < updates ? lower->warmup_steps : updates;
    return updates / lower->unroll_steps - cold / lower->unroll_steps;
}

/* An upper level steps when all of its lower levels are ready: as often as the rarest of them. If these start or end at
 * different times, the true number is lower by the difference. */
static int64_t updates_of(const counting *c, int place)
{
    if (c->made[place] >= 0)
        return c->made[place];
    bt_places children = bt_hierarchy_next(c->h, BT_L2U, BT_AGAINST, place);
    int64_t calls = c->leaf_steps;
    for (int i = 0; i < children.count; i++) {
        int lower = children.list[i];
        int64_t own = calls_of(c->config->problems[lower], updates_of(c, lower));
        calls = i == 0 || own < calls ? own : calls;
    }
    return c->made[place] = calls / c->config->problems[place]->meta_batch;
}

/* With roll_back, each upper update leaves only one update of the loop before it. */
static int64_t lasting(const counting *c, int place)
{
    int64_t updates = updates_of(c, place), returns = 0;
    bt_places parents = bt_hierarchy_next(c->h, BT_L2U, BT_ALONG, place);
    if (!c->config->engine.roll_back || bt_hierarchy_next(c->h, BT_L2U, BT_AGAINST, place).count)
        return updates;
    for (int i = 0; i < parents.count; i++) {
        int64_t own = updates_of(c, parents.list[i]);
        returns = own > returns ? own : returns;
    }
    return updates - returns * (c->config->problems[place]->unroll_steps - 1);
}

static bt_status count(counting *c, int place, int64_t *t_max)
{
    c->made = bt_alloc_array((size_t)c->h->count, sizeof *c->made);
    if (!c->made)
        return BT_ERROR_MEMORY;
    for (int i = 0; i < c->h->count; i++)
        c->made[i] = -1;
    int64_t rest = lasting(c, place) - c->config->problems[place]->scheduler.warmup;
    *t_max = rest > 1 ? rest : 1;
    bt_free(c->made);
    return BT_OK;
}

bt_status bt_config_whole_cosine(const bt_config *config, int place, int64_t leaf_steps, int64_t *t_max)
{
    bt_hierarchy h;
    BT_TRY(bt_config_hierarchy(config, &h));
    counting c = {.config = config, .h = &h, .leaf_steps = leaf_steps};
    bt_status status = count(&c, place, t_max);
    bt_hierarchy_free(&h);
    return status;
}

bt_status bt_config_resolve_cosines(bt_config *config)
{
    for (int64_t i = 0; i < config->problem_count; i++) {
        bt_problem_settings *problem = config->problems[i];
        if (problem->scheduler.kind == BT_SCHEDULER_COSINE && !problem->scheduler.t_max)
            BT_TRY(bt_config_whole_cosine(config, (int)i, config->engine.train_iters, &problem->scheduler.t_max));
    }
    return BT_OK;
}
