/* tests/ops/cases.c: test cases from the op records. */
#include "cases.h"

#include "ops/ops.h"
#include "runtime/variable.h"
#include "support/vars.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

int op_count(void)
{
    int count = 0;
    while (bt_op_table[count])
        count++;
    return count;
}

double *random_values(int64_t count, uint64_t stream)
{
    double *values = room((size_t)count, sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = 2 * bt_host_uniform(17, stream, (uint64_t)i) - 1;
    return values;
}

static double *draw(const bt_sample_input *in, bt_array shape, uint64_t stream)
{
    int64_t count = bt_array_count(shape);
    double *values = room((size_t)count, sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        double x = in->low + (in->high - in->low) * bt_host_uniform(7, stream, (uint64_t)i);
        if (in->value_count)
            x = in->values[i % in->value_count];
        if (!bt_dtype_floats(shape.dtype))
            x = shape.dtype == BT_BOOL ? floor(x) != 0 : floor(x);
        values[i] = bt_dtype_round(shape.dtype, x);
    }
    return values;
}

typedef struct collector {
    bt_sampler sampler;
    const bt_op *op;
    bt_dtype dtype;
    case_list list;
} collector;

static bool has_f32(const bt_sample *sample)
{
    for (int i = 0; i < sample->inputs; i++)
        if (sample->in[i].dtype == BT_F32)
            return true;
    return false;
}

static void collect(bt_sampler *sampler, const bt_sample *sample)
{
    collector *all = sampler->user;
    bool random = bt_op_flags(all->op) & BT_OP_RANDOM; /* their attributes specify the dtype */
    if (all->dtype == BT_F32 && random && !has_f32(sample))
        return;
    if (sample->inputs > CASE_INPUTS || sample->attr_size > sizeof all->list.cases->attr)
        abort();
    op_case *cases = realloc(all->list.cases, (size_t)(all->list.count + 1) * sizeof *cases);
    if (!cases)
        abort();
    all->list.cases = cases;
    op_case *c = &cases[all->list.count];
    *c = (op_case){.op = all->op, .sample = *sample};
    snprintf(c->name, sizeof c->name, "%s, %s, %s", all->op->name, sample->name ? sample->name : "no name",
             bt_dtype_name(all->dtype));
    if (sample->attr_size)
        memcpy(c->attr, sample->attr, sample->attr_size);
    for (int i = 0; i < sample->inputs; i++) {
        const bt_sample_input *in = &sample->in[i];
        c->shape[i] = (bt_array){.dtype = in->dtype == BT_F64 && !random ? all->dtype : in->dtype, .rank = in->rank};
        memcpy(c->shape[i].dims, in->dims, (size_t)in->rank * sizeof *in->dims);
        c->values[i] = draw(in, c->shape[i], (uint64_t)(all->list.count * CASE_INPUTS + i));
    }
    all->list.count++;
}

case_list cases_of(const bt_op *op, bt_dtype dtype)
{
    collector all = {.sampler = {.add = collect}, .op = op, .dtype = dtype};
    all.sampler.user = &all;
    if (op->info && op->info->samples)
        op->info->samples(&all.sampler);
    return all.list;
}

void cases_free(case_list *list)
{
    for (int i = 0; i < list->count; i++)
        for (int k = 0; k < list->cases[i].sample.inputs; k++)
            free(list->cases[i].values[k]);
    free(list->cases);
}

/* A leaf that reads its own variable. */
static bt_tensor *leaf(setup *s, bt_array shape, const double *values)
{
    bt_var *var = bt_var_new(BT_RUN, BT_BUFFERS, "", "leaf", shape);
    if (!var || s->var_count == BT_COUNT_OF(s->vars))
        abort();
    s->vars[s->var_count++] = var;
    for (int64_t i = 0; i < bt_array_count(shape); i++)
        var_put(var, i, values[i]);
    return bt_graph_read(s->graph, var);
}

void setup_begin(setup *s, const op_case *c, const bt_op *op)
{
    *s = (setup){.graph = bt_graph_new()};
    if (!s->graph)
        abort();
    bt_trace_begin(&s->trace, s->graph, BT_TRAIN, c->sample.inputs ? c->shape[0].dtype : BT_F64);
    if (!bt_dtype_floats(s->trace.dtype))
        s->trace.dtype = BT_F64;
    for (int i = 0; i < c->sample.inputs; i++)
        s->in[i] = leaf(s, c->shape[i], c->values[i]);
    bt_tensor *first = bt_record(op, c->attr, c->sample.attr_size, s->in, c->sample.inputs);
    if (bt_poisoned(first))
        return;
    s->node = first->node;
    for (int o = 0; o < s->node->outputs; o++)
        s->out[o] = &s->node->out[o];
}

void setup_end(setup *s)
{
    bt_trace_end(&s->trace);
    bt_graph_free(s->graph);
    for (int i = 0; i < s->var_count; i++)
        bt_var_free(s->vars[i]);
}

void setup_values(const setup *s, const op_case *c, interpreter *in)
{
    for (int i = 0; i < c->sample.inputs; i++)
        interpreter_set(in, s->in[i], c->values[i]);
}

double case_rounding(const op_case *c)
{
    bool casts = c->op == &bt_op_cast || c->op == &bt_op_round;
    bool half = casts && bt_dtype_half((bt_dtype)((const bt_cast_attr *)(const void *)c->attr)->dtype);
    for (int i = 0; i < c->sample.inputs; i++)
        half |= bt_dtype_half(c->shape[i].dtype);
    return half ? 0x1p-7 : 0;
}

extra extra_like(setup *s, const bt_tensor *x, uint64_t stream)
{
    double *values = random_values(bt_tensor_count(x), stream);
    for (int64_t i = 0; bt_dtype_half(x->dtype) && i < bt_tensor_count(x); i++)
        values[i] = bt_dtype_round(x->dtype, values[i]);
    return (extra){leaf(s, bt_tensor_array(x), values), values};
}
