/* engine/ablation/choices.c: which values of which keys can be tried on each level. */
#include "engine/ablation/ablation_inside.h"
#include "engine/session/session.h"

#include <stdlib.h>
#include <string.h>

typedef struct listing {
    bt_engine *engine;
    const char *level; /* NULL: all */
    bool within;
    json_t *list;
} listing;

int64_t bt_ablation_examples(const bt_problem *problem)
{
    const bt_stream *train = problem->train;
    return train && train->loader ? train->shapes[0]->count * problem->settings->gradient_accumulation : 0;
}

/* Whether levels share a batch, which then cannot change for only one of them. */
static bool shares_batches(const bt_problem *problem)
{
    const bt_context *context = problem->context;
    bool shares = problem->train && problem->train->of;
    for (int i = 0; i < context->problem_count; i++)
        shares = shares || (context->problems[i]->train && context->problems[i]->train->of == problem->train);
    return shares;
}

/* Another key that is set along with a value. */
typedef struct also {
    const char *key;
    char value[32];
} also;

/* Whether that many micro-batches can have as many examples in all as now, by also changing batch_size. */
static bool fits_accumulation(const bt_problem *problem, const char *value, also *with)
{
    const int64_t accumulation = strtoll(value, NULL, 10);
    if (bt_is_idle(problem->context, problem, "batch_size") || shares_batches(problem))
        return false;
    const int64_t examples = bt_ablation_examples(problem);
    if (examples < accumulation || examples % accumulation != 0)
        return false;
    with->key = "batch_size";
    snprintf(with->value, sizeof with->value, "%lld", (long long)(examples / accumulation));
    return true;
}

/* Differentiating through steps (type = itd) needs floating-point slots. */
static bool fits_optimizer(const bt_problem *problem, const char *value, also *with)
{
    const bt_optimizer_def *def = bt_optimizer_find(value);
    double hypers[BT_MAX_ITEMS];
    (void)with;
    if (!def || !def->slot || !problem->settings->method->unrolls)
        return true;
    for (int h = 0; h < BT_MAX_ITEMS; h++)
        hypers[h] = def->hypers[h].value;
    for (int64_t p = 0; p < problem->module->param_count; p++)
        for (int slot = 0; slot < bt_slot_name_count(def->slots); slot++) {
            bt_array like = problem->module->params[p]->shape;
            like.dtype = problem->dtype;
            like = def->slot(slot, like, hypers);
            if (bt_array_count(like) && !bt_dtype_floats(like.dtype))
                return false;
        }
    return true;
}

/* Whether the level has anything of this kind to offload. */
static bool fits_offload(const bt_problem *problem, const char *value, also *with)
{
    (void)with;
    return strcmp(value, "optimizer") == 0    ? bt_optimizer_slot_count(problem->optimizer) > 0
           : strcmp(value, "trajectory") == 0 ? problem->trajectory != NULL
                                              : true;
}

/* Whether these are fewer than all states. */
static bool fits_states(const bt_problem *problem, const char *value, also *with)
{
    (void)with;
    return strtoll(value, NULL, 10) < problem->settings->unroll_steps;
}

/* Without a large head, this saves little. */
static bool fits_chunks(const bt_problem *problem, const char *value, also *with)
{
    (void)value, (void)with;
    return problem->large_heads > 0;
}

/* fp64 cannot be combined with other precisions. */
static bool fits_precision(const bt_problem *problem, const char *value, also *with)
{
    (void)value, (void)with;
    return problem->dtype != BT_F64;
}

/* Not for 8-bit codes, which have a fixed format, nor for fp64. */
static bool fits_state(const bt_problem *problem, const char *value, also *with)
{
    (void)value, (void)with;
    return problem->dtype != BT_F64 && !problem->optimizer->kind.codes;
}

/* Whether a value of a problem's key can be tried on it; keys that are not listed always can. */
static const struct {
    const char *key;
    bool (*fits)(const bt_problem *problem, const char *value, also *with);
} conditions[] = {
    {"gradient_accumulation", fits_accumulation},
    {"optimizer", fits_optimizer},
    {"itd_states", fits_states},
    {"optimizer_state", fits_state},
    {"offload", fits_offload},
    {"chunks", fits_chunks},
    {"precision", fits_precision},
};

static bool fits(const bt_problem *problem, const bt_key *key, const char *value, also *with)
{
    for (int c = 0; problem && c < BT_COUNT_OF(conditions); c++)
        if (strcmp(key->name, conditions[c].key) == 0)
            return conditions[c].fits(problem, value, with);
    return true;
}

/* rest: the key's values after this one. */
static void add(listing *l, const bt_problem *problem, const bt_key *key, const char *value, const char *rest)
{
    also with = {key->instead ? key->instead : "", ""};
    int stronger = 0;
    size_t length;
    while (bt_word_next(&rest, '|', &length))
        stronger++;
    if (!fits(problem, key, value, &with))
        return;
    l->list = bt_json_append(l->list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:I}", "level",
                                                problem ? problem->name : "engine", "key", key->name, "value", value,
                                                "with", with.key, "with_value", with.value, "exact", (int)key->exact,
                                                "stronger", stronger, "saves", (json_int_t)key->saves));
}

static const bt_problem *problem_of(const bt_context *context, const char *name)
{
    for (int i = 0; i < context->problem_count; i++)
        if (strcmp(context->problems[i]->name, name) == 0 && context->problems[i]->settings->active)
            return context->problems[i];
    return NULL;
}

static void visit(void *user, const char *section, const char *name, bt_key_kind kind, const char *value)
{
    listing *l = user;
    const bool whole = strcmp(section, "engine") == 0;
    const bt_problem *problem = problem_of(&l->engine->context, section);
    const bt_key *key = bt_key_technique(whole ? BT_SECTION_ENGINE : BT_SECTION_PROBLEM, name);
    (void)kind;
    if (!key || (!whole && !problem) || (l->level && strcmp(l->level, section) != 0) ||
        bt_is_idle(&l->engine->context, problem, name))
        return;
    size_t length;
    const char *words = key->ablate;
    if (l->within && key->planned) {
        if (strcmp(key->planned, value) != 0)
            add(l, problem, key, key->planned, NULL);
        return;
    }
    for (const char *word; (word = bt_word_next(&words, '|', &length)) != NULL;) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)length, word);
        if (strcmp(text, value) != 0)
            add(l, problem, key, text, words);
    }
}

/* Visits the keys that are not set. */
static void visit_unset(listing *l, const bt_problem *problem)
{
    for (const bt_key *key = bt_keys; key->name; key++) {
        bt_text text = {0};
        if (key->section == BT_SECTION_PROBLEM && key->ablate &&
            !bt_key_print(key, (const char *)problem->settings + key->offset, &text))
            visit(l, problem->name, key->name, key->kind, "");
        bt_text_free(&text);
    }
}

json_t *bt_choices_list(bt_engine *engine, const char *level, bool within)
{
    listing l = {.engine = engine, .level = level, .within = within, .list = json_array()};
    if (level && !problem_of(&engine->context, level)) {
        bt_text names = {0};
        bt_fail(BT_ERROR_CONFIG, "--level %s: this run has no such level; its levels are %s", level,
                bt_problem_list(&engine->context, &names));
        bt_text_free(&names);
    } else if (bt_config_visit(engine->context.config, visit, &l) == BT_OK) {
        for (int i = 0; i < engine->context.problem_count; i++)
            visit_unset(&l, engine->context.problems[i]);
        if (l.list)
            return l.list;
    }
    json_decref(l.list);
    bt_fail(BT_ERROR_MEMORY, "out of memory");
    return NULL;
}

bool bt_choice_same(const bt_choice *a, const bt_choice *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->value, b->value) == 0;
}

const bt_choice *bt_choices_read(bt_region *region, const json_t *list)
{
    const size_t count = json_array_size(list);
    bt_choice *choices = bt_region_alloc(region, (count + 1) * sizeof *choices);
    for (size_t i = 0; choices && i < count; i++) {
        const json_t *one = json_array_get(list, i);
        choices[i] = (bt_choice){.level = bt_json_read_text(one, "level"),
                                 .key = bt_json_read_text(one, "key"),
                                 .value = bt_json_read_text(one, "value"),
                                 .with = bt_json_read_text(one, "with"),
                                 .with_value = bt_json_read_text(one, "with_value"),
                                 .exact = json_is_true(json_object_get(one, "exact")),
                                 .stronger = (int)json_integer_value(json_object_get(one, "stronger")),
                                 .saves = (unsigned)json_integer_value(json_object_get(one, "saves"))};
    }
    return choices;
}
