#include "op_models.h"

#include "export/onnx.h"
#include "nn/module.h"
#include "ops/ops.h"
#include "ops/samples.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_call { /* the user data of the module */
    const bt_op *op;
    int output;
    bt_array *out;
    _Alignas(16) unsigned char attr[1024];
} op_call;

static bt_tensor *call(bt_module *self, bt_tensor *const *in)
{
    const op_call *c = self->data;
    bt_tensor *y = (bt_apply)(c->op, c->op->attr_size ? c->attr : NULL, in);
    if (bt_poisoned(y))
        return y;
    y = &y->node->out[c->output];
    *c->out = bt_tensor_array(y);
    c->out->dtype = bt_dtype_floats(y->dtype) ? BT_F32 : y->dtype;
    return y;
}

typedef struct walk {
    void (*take)(void *user, op_model *model);
    void *user;
    const bt_op *op;
    int number;
} walk;

static bool fits(const bt_sample *sample)
{
    bool fit = sample->attr_size <= sizeof((op_call *)0)->attr;
    for (int i = 0; i < sample->inputs; i++) {
        fit = fit && !bt_dtype_half(sample->in[i].dtype);
        for (int a = 0; a < sample->in[i].rank; a++)
            fit = fit && sample->in[i].dims[a] > 0;
    }
    return fit;
}

static double number_of(const bt_sample_input *in, bool floats, uint64_t stream, int64_t e)
{
    if (in->values)
        return in->values[e % in->value_count];
    const double u = bt_host_uniform(11, stream, (uint64_t)e), x = in->low + (in->high - in->low) * u;
    return floats ? x : (double)(int64_t)(x < 0 ? x - 1 : x);
}

static void set_input(op_model *model, const bt_sample_input *in, uint64_t stream)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
    const bool floats = bt_dtype_floats(in->dtype);
    bt_array array = {.dtype = floats ? BT_F32 : in->dtype, .rank = in->rank};
    memcpy(array.dims, in->dims, sizeof array.dims);
    array.data = bt_alloc(bt_array_bytes(array));
    for (int64_t e = 0; e < bt_array_count(array); e++)
        bt_put(array.dtype, array.data, e, number_of(in, floats, stream, e));
    if (bt_batch_set(model->batch, names[model->count], array) != BT_OK)
        abort();
    bt_free(array.data);
    array.data = NULL;
    model->inputs[model->count] = (bt_model_input){names[model->count], array};
    model->count++;
}

static void add(bt_sampler *sampler, const bt_sample *sample)
{
    walk *w = sampler->user;
    const int outputs = w->op->outputs ? w->op->outputs : 1, number = w->number++;
    for (int o = 0; o < outputs && fits(sample); o++) {
        op_model model = {.batch = bt_batch_new()};
        op_call c = {.op = w->op, .output = o, .out = &model.out};
        if (sample->attr_size)
            memcpy(c.attr, sample->attr, sample->attr_size);
        snprintf(model.name, sizeof model.name, "%s.%d.%d", w->op->name, number, o);
        model.module = bt_module_make(call, &c, sizeof c);
        for (int i = 0; i < sample->inputs; i++)
            set_input(&model, &sample->in[i], (uint64_t)(number * OP_INPUTS + i));
        if (bt_module_init(model.module, BT_CPU, BT_F32, 1) != BT_OK)
            abort();
        w->take(w->user, &model);
        bt_module_free(model.module);
        bt_batch_free(model.batch);
    }
}

void each_op_model(void (*take)(void *user, op_model *model), void *user)
{
    walk w = {.take = take, .user = user};
    bt_sampler sampler = {add, &w};
    for (int i = 0; bt_op_table[i]; i++) {
        w.op = bt_op_table[i];
        w.number = 0;
        if (bt_onnx_rule_of(w.op) && w.op->info->samples)
            w.op->info->samples(&sampler);
    }
}

static bt_tensor *apply(void *user, const bt_batch *batch)
{
    const op_model *model = user;
    bt_tensor *in[OP_INPUTS + 1] = {NULL};
    for (int i = 0; i < model->count; i++)
        in[i] = bt_field(batch, "%s", model->inputs[i].name);
    return bt_forward_module_(model->module, in);
}

bt_status compute_op_model(op_model *model, double *result, int64_t room)
{
    bt_function *function = bt_function_new(apply, model, BT_VALID);
    bt_status status = bt_function_run(function, model->batch, (bt_array){0});
    bt_array out = model->out;
    out.dtype = BT_F64;
    out.data = result;
    if (status == BT_OK && bt_array_count(out) > room)
        status = BT_ERROR_SHAPE;
    if (status == BT_OK)
        status = bt_function_run(function, model->batch, out);
    bt_function_free(function);
    return status;
}
