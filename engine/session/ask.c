/* engine/session/ask.c: what a program can ask an engine for: the check of its hypergradients, and its batches. */
#include "engine/session/session.h"

#include "engine/check/check.h"
#include <string.h>

/* ---- the check of each level ---- */

static bt_status check_levels(bt_engine *engine, const char *level, int64_t samples, bt_check_take_fn *take, void *user)
{
    bool found = false;
    BT_TRY(bt_engine_enter(engine, BT_REQUEST_RUN, "bt_engine_check_hypergradient"));
    BT_TRY(bt_update_scalars(&engine->context));
    for (int i = 0; i < engine->context.problem_count; i++) {
        bt_problem *problem = engine->context.problems[i];
        if (!problem->settings->active || !problem->child_count || (level && strcmp(level, problem->name) != 0))
            continue;
        found = true;
        BT_TRY(bt_check_level(problem, samples, take, user));
    }
    if (found)
        return BT_OK;
    return bt_fail(BT_ERROR_ARGUMENT, "there is no upper level %s%sin this run", level ? level : "", level ? " " : "");
}

/* ---- as a table, or JSON ---- */

typedef struct printing {
    const bt_checking *how;
    json_t *levels;          /* of each level, as in check.json */
    const bt_problem *wrong; /* the problem whose hypergradient disagrees; NULL: none */
} printing;

static bt_status print(void *user, const bt_trial *trial)
{
    printing *p = user;
    if (trial->verdict == BT_DISAGREES && !p->wrong)
        p->wrong = trial->upper;
    p->levels = bt_json_append(p->levels, json_incref(trial->result));
    if (p->how->json)
        return bt_json_print(trial->result, p->how->file);
    bt_check_print(trial, p->how->file);
    return BT_OK;
}

static bt_status write_check(const printing *p)
{
    json_t *all = json_pack("{s:O}", "levels", p->levels);
    bt_status status = bt_json_write(p->how->folder, "check.json", all, JSON_INDENT(2));
    json_decref(all);
    return status;
}

bt_status bt_engine_check_hypergradient(bt_engine *engine, const bt_checking *how)
{
    printing p = {.how = how, .levels = json_array()};
    bt_output *output = NULL; /* locked before the check, which may take long */
    bt_status status = how->folder ? bt_output_open(how->folder, true, &output) : BT_OK;
    if (status == BT_OK)
        status = check_levels(engine, how->level, how->samples, print, &p);
    if (status == BT_OK && how->folder)
        status = write_check(&p);
    json_decref(p.levels);
    bt_output_free(output);
    if (status == BT_OK && p.wrong)
        status = bt_fail(BT_ERROR_NUMERIC, "%s: the hypergradient disagrees with the differences", p.wrong->name);
    return status;
}

/* ---- as structs ---- */

typedef struct collected {
    bt_check_result public;
    bt_region *region; /* holds the whole result */
    bt_check_level_result *levels;
} collected;

static const char *text_of(collected *all, const json_t *object, const char *key)
{
    const char *text = bt_json_read_text(object, key);
    return bt_region_copy(all->region, text, strlen(text) + 1);
}

static bt_status take_parts(collected *all, const json_t *list, bt_check_level_result *level)
{
    size_t count = json_array_size(list);
    bt_check_part *parts = bt_region_alloc(all->region, (count + 1) * sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        const json_t *row = json_array_get(list, i);
        parts[i] =
            (bt_check_part){text_of(all, row, "part"), bt_json_read_number(row, "error"), text_of(all, row, "cause")};
        if (!parts[i].name || !parts[i].cause)
            return BT_ERROR_MEMORY;
    }
    level->parts = parts;
    level->part_count = (int64_t)count;
    return parts ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status take_lowers(collected *all, const json_t *list, bt_check_level_result *level)
{
    size_t count = json_array_size(list);
    bt_check_lower *lowers = bt_region_alloc(all->region, (count + 1) * sizeof *lowers);
    for (size_t i = 0; lowers && i < count; i++) {
        const json_t *row = json_array_get(list, i);
        lowers[i] = (bt_check_lower){.level = text_of(all, row, "level"),
                                     .method = text_of(all, row, "method"),
                                     .cosine = bt_json_read_number(row, "cosine"),
                                     .ratio = bt_json_read_number(row, "ratio")};
        if (!lowers[i].level || !lowers[i].method)
            return BT_ERROR_MEMORY;
    }
    level->lowers = lowers;
    level->lower_count = (int64_t)count;
    return lowers ? BT_OK : BT_ERROR_MEMORY;
}

/* Collects the values that are also printed. */
static bt_status collect(void *user, const bt_trial *trial)
{
    collected *all = user;
    bt_check_level_result *level = &all->levels[all->public.count];
    level->verdict = trial->verdict;
    level->level = text_of(all, trial->result, "level");
    level->text = text_of(all, trial->result, "verdict");
    level->cosine = bt_json_read_number(trial->result, "cosine");
    level->ratio = bt_json_read_number(trial->result, "ratio");
    if (!level->level || !level->text)
        return BT_ERROR_MEMORY;
    BT_TRY(take_parts(all, json_object_get(trial->result, "parts"), level));
    BT_TRY(take_lowers(all, json_object_get(trial->result, "lowers"), level));
    all->public.count++;
    return BT_OK;
}

bt_check_result *bt_engine_check(bt_engine *engine, const char *level, int64_t samples)
{
    if (bt_engine_enter(engine, BT_REQUEST_RUN, "bt_engine_check") != BT_OK)
        return NULL;
    collected *all = bt_alloc(sizeof *all);
    if (!all)
        return NULL;
    size_t room = (size_t)engine->context.problem_count + 1;
    all->region = bt_region_new();
    all->levels = all->region ? bt_region_alloc(all->region, room * sizeof *all->levels) : NULL;
    all->public.levels = all->levels;
    bt_status status = all->levels ? check_levels(engine, level, samples, collect, all) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        return &all->public;
    bt_fail(status, "out of memory");
    bt_check_result_free(&all->public);
    return NULL;
}

void bt_check_result_free(bt_check_result *result)
{
    collected *all = (collected *)result; /* it is the first field */
    if (!all)
        return;
    bt_region_free(all->region);
    bt_free(all);
}

/* ---- batches ---- */

bt_loader *bt_loader_for(bt_problem *self, bt_dataset *data, int64_t batch_size, uint64_t seed)
{
    bt_loader_options options = bt_loader_defaults();
    if (!bt_usable(self, "bt_loader_for")) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_loader_for: there is no such problem");
        bt_dataset_free(data);
        return NULL;
    }
    options.batch_size = batch_size;
    options.seed = seed;
    options.dtype = self->dtype;
    return bt_loader_open(data, &options);
}
