/* transform/derive.c: derivatives of composites without a rule of their own. The derivative of a body is a body: it
 * becomes a composite op, NAME.vjp or NAME.jvp, so it can be given kernels, and higher orders work the same way. */
#include "transform/grad.h"

#include "ops/ops.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef enum { VJP, JVP } kind;

/* A derivative op, identified by its base and by what is given and wanted: bit i stands for output or input i. */
typedef struct bt_derived {
    bt_op op;
    bt_op_info info;
    const bt_op *base;
    struct bt_derived *below; /* the base, if it is a derivative itself; else NULL */
    kind kind;
    bool through;
    int inputs, outputs; /* of the base */
    uint64_t given, wanted;
    char name[96];
    int64_t users; /* nodes of graphs, and derivatives of this op */
    struct bt_derived *next;
} bt_derived;

/* One record per derivative, since an op's address is its identity. It is freed with the last graph that uses it: the
 * base may belong to a file that is then closed, and another op may later lie at its address. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bt_derived *all;

/* Call with the lock held. */
static void release(bt_derived *d)
{
    while (d && --d->users == 0) {
        bt_derived **at = &all, *below = d->below;
        while (*at != d)
            at = &(*at)->next;
        *at = d->next;
        bt_free(d);
        d = below;
    }
}

static void hold(const bt_op *op, bool on)
{
    pthread_mutex_lock(&lock);
    if (on)
        op->info->derived->users++;
    else
        release(op->info->derived);
    pthread_mutex_unlock(&lock);
}

/* Records the base's body on aliases of its inputs and differentiates it: result[] in full, NULL where zero. */
static void differentiate(const bt_derived *d, const void *attr, bt_tensor *const *in, bt_tensor **result)
{
    bt_trace *trace = bt_trace_now();
    size_t count = (size_t)(d->inputs + 1 + d->outputs + d->inputs + d->outputs);
    bt_tensor **x = bt_region_alloc(trace->graph->region, count * sizeof *x);
    if (!x) {
        bt_graph_fail(trace->graph, BT_ERROR_MEMORY, "out of memory while differentiating");
        return;
    }
    bt_tensor **y = x + d->inputs + 1, **given = y + d->outputs;
    for (int i = 0; i < d->inputs; i++)
        x[i] = bt_alias(in[i]);
    bool quiet = trace->tag.quiet;
    trace->tag.quiet = true;
    bt_composite_body(d->base, attr, x, y);
    trace->tag.quiet = quiet;
    int givens = d->kind == VJP ? d->outputs : d->inputs;
    for (int i = 0, next = d->inputs; i < givens; i++)
        given[i] = (d->given >> i) & 1u ? in[next++] : NULL;
    if (trace->graph->status != BT_OK)
        return;
    if (d->kind == VJP)
        bt_vjp(trace->graph, y, given, d->outputs, x, d->inputs, result, d->through);
    else
        bt_jvp(trace->graph, x, given, d->inputs, y, d->outputs, result, d->through);
}

static int wanted_count(const bt_derived *d) { return d->kind == VJP ? d->inputs : d->outputs; }

static void body(const bt_op *op, const void *attr, bt_tensor *const *in, bt_tensor **out)
{
    const bt_derived *d = op->info->derived;
    bt_tensor *result[64] = {NULL};
    differentiate(d, attr, in, result);
    for (int i = 0, next = 0; i < wanted_count(d); i++)
        if ((d->wanted >> i) & 1u)
            out[next++] = result[i];
}

/* Finds which results are not zero, by a trial trace with placeholders. */
static uint64_t find_wanted(const bt_derived *d, const bt_node *node, bt_tensor *const *in, int inputs)
{
    bt_trace trace, *outer = bt_trace_now();
    bt_graph *graph = bt_graph_new();
    bt_tensor *result[64] = {NULL};
    uint64_t wanted = 0;
    if (!graph) {
        bt_graph_fail(outer->graph, BT_ERROR_MEMORY, "out of memory while differentiating");
        return 0;
    }
    bt_trace_begin(&trace, graph, outer->mode, outer->dtype);
    bt_tensor **aside = bt_region_alloc(graph->region, (size_t)(inputs + 1) * sizeof *aside);
    for (int i = 0; aside && i < inputs; i++)
        aside[i] = bt_graph_placeholder(graph, in[i]);
    if (aside)
        differentiate(d, node->attr, aside, result);
    else
        bt_graph_fail(graph, BT_ERROR_MEMORY, "out of memory while differentiating");
    for (int i = 0; i < wanted_count(d); i++)
        if (result[i])
            wanted |= UINT64_C(1) << i;
    bt_trace_end(&trace);
    if (graph->status != BT_OK)
        bt_graph_fail(outer->graph, graph->status, "%s", graph->message);
    bt_graph_free(graph);
    return wanted;
}

static int bits(uint64_t mask) { return __builtin_popcountll(mask); }

/* Returns the record with one more user, to be released by the caller; NULL: out of memory. */
static bt_derived *find_or_make(const bt_derived *like)
{
    pthread_mutex_lock(&lock);
    bt_derived *d = all;
    while (d && (d->base != like->base || d->kind != like->kind || d->through != like->through ||
                 d->inputs != like->inputs || d->given != like->given || d->wanted != like->wanted))
        d = d->next;
    if (!d && (d = bt_alloc(sizeof *d)) != NULL) {
        *d = *like;
        snprintf(d->name, sizeof d->name, "%s.%s", d->base->name, d->kind == VJP ? "vjp" : "jvp");
        d->info = (bt_op_info){.derived = d, .derived_body = body, .hold = hold, .differentiable = ~0u};
        d->op = (bt_op){.name = d->name,
                        .inputs = d->inputs + bits(d->given),
                        .outputs = bits(d->wanted),
                        .attr_size = d->base->attr_size,
                        .info = &d->info};
        d->below = d->base->info ? d->base->info->derived : NULL;
        if (d->below)
            d->below->users++;
        d->next = all;
        all = d;
    }
    if (d)
        d->users++;
    pthread_mutex_unlock(&lock);
    return d;
}

static void derive(const bt_node *node, kind k, bt_tensor *const *given, bt_tensor **wanted, bool through)
{
    bt_derived like = {
        .base = node->op, .kind = k, .through = through, .inputs = node->inputs, .outputs = node->outputs};
    int givens = k == VJP ? node->outputs : node->inputs;
    bt_tensor *in[64 * 2 + 1] = {NULL};
    if (node->inputs > 63 || node->outputs > 63) {
        bt_graph_fail(node->graph, BT_ERROR_UNSUPPORTED, "%s: more than 63 inputs or outputs need a rule of their own",
                      node->op->name);
        return;
    }
    int inputs = node->inputs;
    for (int i = 0; i < inputs; i++)
        in[i] = node->in[i];
    for (int i = 0; i < givens; i++)
        if (given[i]) {
            like.given |= UINT64_C(1) << i;
            in[inputs++] = given[i];
        }
    like.wanted = find_wanted(&like, node, in, inputs);
    if (!like.wanted || node->graph->status != BT_OK)
        return;
    bt_derived *d = find_or_make(&like);
    if (!d) {
        bt_graph_fail(node->graph, BT_ERROR_MEMORY, "out of memory while differentiating");
        return;
    }
    bt_tensor *first = bt_record(&d->op, node->attr, node->attr_size, in, inputs);
    for (int i = 0, next = 0; !bt_poisoned(first) && i < wanted_count(d); i++)
        if ((d->wanted >> i) & 1u)
            wanted[i] = &first->node->out[next++];
    hold(&d->op, false);
}

void bt_derive_vjp(const bt_node *node, bt_tensor *const *given, bt_tensor **wanted, bool through)
{
    derive(node, VJP, given, wanted, through);
}

void bt_derive_jvp(const bt_node *node, bt_tensor *const *given, bt_tensor **wanted, bool through)
{
    derive(node, JVP, given, wanted, through);
}
