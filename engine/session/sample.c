/* engine/session/sample.c: continues a text with a language model. */
#include "engine/session/run.h"

#include "engine/state/checkpoint.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM = 0x73616d70 }; /* a random stream separate from those of data */

typedef struct scored {
    double logit;
    int32_t token;
} scored;

typedef struct sampler {
    bt_problem *problem;
    const bt_tokenizer *tokenizer;
    bt_step_fn *next;
    const bt_sampling *how;
    int64_t window, size; /* window of the model; size of the vocabulary */
    int32_t *ids;         /* all tokens so far */
    int64_t count;
    int32_t *seen;   /* [window] */
    double *logits;  /* [size] */
    scored *ordered; /* [size]: the most likely first */
} sampler;

/* ---- a token ---- */

/* Runs the model on the last tokens, to score the next one. */
static bt_status look(sampler *s)
{
    const int64_t shown = s->count < s->window ? s->count : s->window;
    int32_t last = (int32_t)(shown - 1);
    memset(s->seen, 0, (size_t)s->window * sizeof *s->seen);
    memcpy(s->seen, s->ids + s->count - shown, (size_t)shown * sizeof *s->seen);
    bt_batch *batch = bt_batch_new();
    bt_status status = batch ? bt_batch_set(batch, "token", BT_ARRAY(s->seen, 1, s->window)) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_batch_set(batch, "last", BT_ARRAY(&last, 1));
    if (status == BT_OK)
        status = bt_eval(s->problem, s->next, batch, BT_ARRAY(s->logits, s->size));
    bt_batch_free(batch);
    return status;
}

static int by_logit(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->logit != y->logit ? (x->logit > y->logit ? -1 : 1) : x->token < y->token ? -1 : x->token > y->token;
}

/* Draws a token: the first of the likely ones whose cumulative share exceeds u. */
static int32_t draw(sampler *s, double u)
{
    const int64_t top = s->how->temperature == 0 ? 1 : s->how->top;
    const int64_t among = top && top < s->size ? top : s->size;
    double sum = 0, part = 0;
    for (int64_t i = 0; i < s->size; i++)
        s->ordered[i] = (scored){s->logits[i], (int32_t)i};
    qsort(s->ordered, (size_t)s->size, sizeof *s->ordered, by_logit);
    const double most = s->ordered[0].logit;
    for (int64_t i = 0; i < among && among > 1; i++)
        sum += s->ordered[i].logit = exp((s->ordered[i].logit - most) / s->how->temperature);
    for (int64_t i = 0; i + 1 < among; i++)
        if ((part += s->ordered[i].logit) > u * sum)
            return s->ordered[i].token;
    return s->ordered[among - 1].token;
}

static bt_status draw_all(sampler *s)
{
    for (int64_t k = 0; k < s->how->tokens; k++) {
        BT_TRY(look(s));
        for (int64_t i = 0; i < s->size; i++)
            if (!isfinite(s->logits[i]))
                return bt_fail(BT_ERROR_NUMERIC, "%s: the logit of token %lld is %g", s->problem->name, (long long)i,
                               s->logits[i]);
        s->ids[s->count++] = draw(s, bt_host_uniform(bt_seed(s->problem), STREAM, (uint64_t)k));
    }
    return BT_OK;
}

/* ---- the text ---- */

static bt_status write_text(const sampler *s)
{
    const int64_t length = bt_tokenizer_decode(s->tokenizer, s->ids, s->count, false, NULL, 0);
    char *text = length < 0 ? NULL : bt_alloc((size_t)length + 1);
    if (!text)
        return length < 0 ? bt_error_status() : BT_ERROR_MEMORY;
    bt_tokenizer_decode(s->tokenizer, s->ids, s->count, false, text, length + 1);
    fprintf(s->how->file, "%s\n", text);
    bt_free(text);
    return BT_OK;
}

static bt_status begin(sampler *s)
{
    s->size = bt_tokenizer_size(s->tokenizer);
    s->count = bt_tokenizer_encode(s->tokenizer, s->how->text, -1, false, NULL, 0);
    if (s->count < 0)
        return bt_error_status();
    if (!s->count)
        return bt_fail(BT_ERROR_CONFIG, "the text to continue has no tokens: give at least one word");
    s->ids = bt_alloc_array((size_t)(s->count + s->how->tokens), sizeof *s->ids);
    s->seen = bt_alloc_array((size_t)s->window, sizeof *s->seen);
    s->logits = bt_alloc_array((size_t)s->size, sizeof *s->logits);
    s->ordered = bt_alloc_array((size_t)s->size, sizeof *s->ordered);
    if (!s->ids || !s->seen || !s->logits || !s->ordered)
        return BT_ERROR_MEMORY;
    bt_tokenizer_encode(s->tokenizer, s->how->text, -1, false, s->ids, s->count);
    return BT_OK;
}

bt_status bt_sample_text(bt_problem *self, const bt_tokenizer *tokenizer, bt_step_fn *next, int64_t window,
                         const bt_sampling *how)
{
    if (!self || self->missing || !tokenizer || !next || !how || !how->text || !how->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_sample_text: an argument is NULL");
    if (window < 1 || window > INT32_MAX || how->tokens < 0 || !(how->temperature >= 0) || how->top < 0)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_sample_text: the window must be at least 1, and tokens, temperature and "
                                          "top at least 0");
    sampler s = {.problem = self, .tokenizer = tokenizer, .next = next, .how = how, .window = window};
    bt_status status = begin(&s);
    if (status == BT_OK)
        status = draw_all(&s);
    if (status == BT_OK)
        status = write_text(&s);
    bt_free(s.ids);
    bt_free(s.seen);
    bt_free(s.logits);
    bt_free(s.ordered);
    return status;
}

/* ---- sampling from a run ---- */

/* The problem of that name; without a name, the only one that samples text. */
static bt_status find(bt_engine *engine, const char *level, bt_problem **found)
{
    bt_context *context = &engine->context;
    *found = NULL;
    if (level && !bt_problem_find(context, level))
        return bt_fail(BT_ERROR_CONFIG, "--level %s: this run has no such level", level);
    for (int i = 0; i < context->problem_count; i++) {
        bt_problem *problem = context->problems[i];
        if (!problem->settings->active || !problem->def->sample || (level && strcmp(level, problem->name) != 0))
            continue;
        if (*found)
            return bt_fail(BT_ERROR_CONFIG, "several levels generate text, %s and %s: choose one with --level NAME",
                           (*found)->name, problem->name);
        *found = problem;
    }
    if (*found)
        return BT_OK;
    return level ? bt_fail(BT_ERROR_CONFIG, "--sample: %s generates no text: its definition has no `sample`", level)
                 : bt_fail(BT_ERROR_CONFIG, "--sample: no level of the run generates text: none has a `sample` in its "
                                            "definition");
}

static bt_status sample(bt_engine *engine, const char *run, const char *level, const bt_sampling *how)
{
    bt_problem *problem;
    BT_TRY(find(engine, level, &problem));
    BT_TRY(bt_checkpoint_load_model(&engine->context, run));
    return bt_keep_error(&engine->context, problem->def->sample(problem, how));
}

bt_status bt_engine_sample(bt_engine *engine, const char *run, const char *level, const bt_sampling *how)
{
    if (!engine || !run || !how || !how->text || !how->file)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_sample: an argument is NULL");
    BT_TRY(bt_engine_enter_model(engine, "bt_engine_sample"));
    return sample(engine, run, level, how);
}
