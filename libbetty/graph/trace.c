/* graph/trace.c: the current trace: one per thread; a trace of a body nests within another. */
#include "graph/graph.h"

#include "graph/variable.h"
#include <stdio.h>
#include <string.h>

static _Thread_local bt_trace *now;
static bt_tensor no_trace = {.id = -1, .batch_axis = -1};

bt_trace *bt_trace_now(void) { return now; }

bt_trace *bt_trace_suspend(void)
{
    bt_trace *trace = now;
    now = NULL;
    return trace;
}

void bt_trace_resume(bt_trace *trace) { now = trace; }

void bt_trace_begin(bt_trace *trace, bt_graph *graph, bt_mode mode, bt_dtype dtype)
{
    *trace = (bt_trace){.graph = graph, .mode = mode, .dtype = dtype, .tag = {.owner = "", .path = ""}, .outer = now};
    now = trace;
}

bt_tag bt_trace_tag(const bt_trace *trace)
{
    bt_tag tag = trace->tag;
    tag.mode = trace->mode;
    tag.dtype = trace->dtype;
    return tag;
}

void bt_trace_as(bt_trace *trace, const bt_tag *tag)
{
    trace->tag = *tag;
    trace->mode = tag->mode;
    trace->dtype = tag->dtype;
}

void bt_trace_end(bt_trace *trace)
{
    now = trace->outer;
    bt_free(trace->overlay);
    bt_free(trace->sites);
    trace->overlay = NULL;
    trace->sites = NULL;
}

bt_tensor *bt_trace_poison(bt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = bt_format(format, args);
    va_end(args);
    bt_tensor *poison = &no_trace;
    if (!now)
        bt_fail(status, "%s", text ? text : "out of memory");
    else if (*now->tag.path)
        poison = bt_graph_fail(now->graph, status, "%s: %s", now->tag.path, text ? text : "out of memory");
    else
        poison = bt_graph_fail(now->graph, status, "%s", text ? text : "out of memory");
    bt_free(text);
    return poison;
}

bt_tensor *bt_trace_read(bt_var *var)
{
    if (!now)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "a variable can only be read inside a traced callback");
    if (!var)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "the variable to read is NULL");
    for (int64_t i = 0; i < now->overlay_count; i++)
        if (now->overlay[i].var == var)
            return now->overlay[i].value;
    bt_tensor *leaf = bt_graph_read(now->graph, var);
    if (!bt_dtype_half(var->dtype) || bt_poisoned(leaf))
        return leaf;
    bt_tensor *wide = bt_wide(leaf); /* all readers share it, because derivatives are taken with respect to it */
    bt_trace_overlay(var, wide);
    return wide;
}

void bt_trace_overlay(bt_var *var, bt_tensor *value)
{
    if (!now)
        return;
    for (int64_t i = 0; i < now->overlay_count; i++)
        if (now->overlay[i].var == var) {
            now->overlay[i].value = value;
            return;
        }
    struct bt_overlay *overlay =
        bt_grow(now->overlay, &now->overlay_capacity, now->overlay_count + 1, sizeof *now->overlay);
    if (!overlay) {
        bt_graph_fail(now->graph, BT_ERROR_MEMORY, "out of memory while recording");
        return;
    }
    now->overlay = overlay;
    now->overlay[now->overlay_count++] = (struct bt_overlay){var, value};
}

const char *bt_trace_push(const char *name)
{
    if (!now)
        return "";
    const char *before = now->tag.path;
    if (name && *name) {
        const char *path = *before ? bt_region_format(now->graph->region, "%s.%s", before, name)
                                   : bt_region_format(now->graph->region, "%s", name);
        now->tag.path = path ? path : before;
    }
    return before;
}

void bt_trace_pop(const char *before)
{
    if (now)
        now->tag.path = before;
}

/* The number of the next random op of this owner and path: the same in every trace of the same code. */
static uint32_t next_site(void)
{
    for (int64_t i = 0; i < now->site_count; i++)
        if (strcmp(now->sites[i].owner, now->tag.owner) == 0 && strcmp(now->sites[i].path, now->tag.path) == 0)
            return now->sites[i].next++;
    struct bt_site *sites = bt_grow(now->sites, &now->site_capacity, now->site_count + 1, sizeof *sites);
    if (!sites) { /* fail rather than give a wrong number */
        bt_graph_fail(now->graph, BT_ERROR_MEMORY, "out of memory while recording");
        return 0;
    }
    now->sites = sites;
    now->sites[now->site_count++] = (struct bt_site){now->tag.owner, now->tag.path, 1};
    return 0;
}

uint32_t bt_trace_site(void)
{
    if (!now)
        return 0;
    uint64_t place = bt_hash_text(bt_hash_text(0, now->tag.owner), now->tag.path);
    uint32_t number = next_site();
    return (uint32_t)bt_hash(place, &number, sizeof number);
}

bt_tensor *bt_record(const bt_op *op, const void *attr, size_t attr_size, bt_tensor *const *in, int inputs)
{
    if (!now) {
        for (int i = 0; i < inputs; i++)
            if (!in[i])
                return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: operand %d is NULL", op->name, i + 1);
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s: tensors can only be computed inside a traced callback",
                               op->name);
    }
    bt_graph *graph = now->graph;
    for (int i = 0; i < inputs; i++)
        if (in[i] && !in[i]->node && graph->status != BT_OK)
            return graph->poison; /* reported already */
    if (bt_casts(op, in, inputs, now->tag.low)) {
        bt_dtype low = now->tag.low;
        now->tag.low = bt_low_kept(low);
        bt_tensor *cast = bt_record_cast(op, attr, attr_size, in, inputs, low);
        now->tag.low = low;
        return cast;
    }
    bool first = graph->status == BT_OK;
    bt_node *node = bt_graph_append(graph, op, attr, attr_size, in, inputs, bt_trace_tag(now));
    if (node)
        return node->out;
    if (first && *now->tag.path) {
        const char *text = bt_region_format(graph->region, "%s: %s", now->tag.path, graph->message);
        graph->message = text ? text : graph->message;
    }
    return graph->poison;
}

bt_tensor *(bt_checkpoint)(bt_checkpoint_fn *fn, void *user, bt_tensor *const *in)
{
    static bt_tensor *const nothing[] = {NULL};
    if (!fn)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_checkpoint: the function is NULL");
    if (!now)
        return bt_trace_poison(BT_ERROR_ARGUMENT,
                               "bt_checkpoint: tensors can only be computed inside a traced callback");
    uint32_t before = now->tag.region;
    if (!before)
        now->tag.region = ++now->graph->regions;
    bt_tensor *out = fn(user, in ? in : nothing);
    now->tag.region = before;
    return out ? out : bt_trace_poison(BT_ERROR_ARGUMENT, "bt_checkpoint: the function returned NULL");
}

bt_tensor *bt_number(double value, bt_dtype dtype)
{
    if (!now)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "tensors can only be computed inside a traced callback");
    unsigned char bytes[8] = {0};
    bt_put(dtype, bytes, 0, value);
    return bt_graph_constant(now->graph, (bt_array){.dtype = dtype, .data = bytes});
}
