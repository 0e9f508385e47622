/* data/batch.c: batches: named fields, and the variables with which a trace reads them. */
#include "data/dataset.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include "runtime/store.h"
#include <string.h>

bt_batch *bt_batch_new(void)
{
    bt_batch *batch = bt_alloc(sizeof *batch);
    if (batch)
        *batch = (bt_batch){.owns = true, .count = 1};
    return batch;
}

void bt_batch_free(bt_batch *batch)
{
    if (!batch)
        return;
    for (int i = 0; i < batch->field_count; i++) {
        bt_batch_field *field = &batch->fields[i];
        if (batch->owns)
            bt_free_aligned(field->array.data);
        bt_var_free(field->var);
        bt_free(field->name);
    }
    bt_free(batch->fields);
    bt_free(batch);
}

static bt_batch_field *find(const bt_batch *batch, const char *name)
{
    for (int i = 0; i < batch->field_count; i++)
        if (strcmp(batch->fields[i].name, name) == 0)
            return &batch->fields[i];
    return NULL;
}

/* The field of that name. If it is field i of a similar batch, it is usually field i here too. */
static bt_batch_field *match(const bt_batch *batch, int i, const char *name)
{
    bool here = i < batch->field_count && strcmp(batch->fields[i].name, name) == 0;
    return here ? &batch->fields[i] : find(batch, name);
}

bt_status bt_batch_declare(bt_batch *batch, const char *name, bt_array shape)
{
    if (find(batch, name))
        return bt_fail(BT_ERROR_ARGUMENT, "a batch would have two fields called \"%s\"; choose another name or prefix",
                       name);
    int64_t capacity = batch->field_count; /* batches have few fields and are rarely made: no spare room is kept */
    bt_batch_field *fields = bt_grow(batch->fields, &capacity, batch->field_count + 1, sizeof *fields);
    if (!fields)
        return BT_ERROR_MEMORY;
    batch->fields = fields;
    shape.data = NULL;
    bt_batch_field *field = &fields[batch->field_count];
    *field = (bt_batch_field){.array = shape, .name = bt_strdup(name)};
    field->var = field->name ? bt_var_new(BT_EXTERNAL, BT_BATCH, "", name, shape) : NULL;
    if (!field->var) {
        bt_free(field->name);
        return bt_error_status();
    }
    batch->field_count++;
    return BT_OK;
}

static void point_at(bt_batch_field *field, void *values)
{
    field->array.data = values;
    bt_store_point(field->var, values);
}

/* Takes the number of examples from the first field that has an axis; without such a field it is 1. */
static void recount(bt_batch *batch)
{
    batch->count = 1;
    for (int i = 0; i < batch->field_count; i++)
        if (batch->fields[i].array.rank > 0) {
            batch->count = batch->fields[i].array.dims[0];
            break;
        }
}

/* A new shape needs a new variable: graphs traced with the old one no longer fit. */
static bt_status reshape(bt_batch_field *field, bt_array values, void *copy)
{
    bt_var *var = bt_var_new(BT_EXTERNAL, BT_BATCH, "", field->name, values);
    if (!var)
        return bt_error_status();
    bt_var_free(field->var);
    bt_free_aligned(field->array.data);
    field->var = var;
    field->array = values;
    point_at(field, copy);
    return BT_OK;
}

bt_status bt_batch_set(bt_batch *batch, const char *name, bt_array values)
{
    if (!batch || !batch->owns)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_batch_set: the batch is %s",
                       batch ? "a loader's, which cannot be changed" : "NULL");
    BT_TRY(bt_check_field("bt_batch_set", name, values));
    size_t bytes = bt_array_bytes(values);
    bt_batch_field *field = find(batch, name);
    if (field && bt_array_same(field->array, values)) {
        memmove(field->array.data, values.data, bytes);
        return BT_OK;
    }
    void *copy = bt_alloc_aligned(bytes);
    if (!copy)
        return BT_ERROR_MEMORY;
    memcpy(copy, values.data, bytes);
    bt_status status = field ? reshape(field, values, copy) : bt_batch_declare(batch, name, values);
    if (status != BT_OK)
        bt_free_aligned(copy);
    else if (!field)
        point_at(&batch->fields[batch->field_count - 1], copy);
    recount(batch);
    return status;
}

int64_t bt_batch_count(const bt_batch *batch)
{
    if (!batch)
        bt_fail(BT_ERROR_ARGUMENT, "bt_batch_count: the batch is NULL");
    return batch ? batch->count : 0;
}

bt_batch *bt_batch_template(const bt_batch *shape)
{
    if (!shape) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_batch_template: the batch is NULL");
        return NULL;
    }
    bt_batch *batch = bt_alloc(sizeof *batch);
    for (int i = 0; batch && i < shape->field_count; i++)
        if (bt_batch_declare(batch, shape->fields[i].name, shape->fields[i].array) != BT_OK) {
            bt_batch_free(batch);
            return NULL;
        }
    if (batch)
        batch->count = shape->count;
    return batch;
}

bool bt_batch_fits(const bt_batch *a, const bt_batch *b)
{
    if (!a || !b || a->field_count != b->field_count)
        return false;
    for (int i = 0; i < a->field_count; i++) {
        const bt_batch_field *other = match(b, i, a->fields[i].name);
        if (!other || !bt_array_same(a->fields[i].array, other->array))
            return false;
    }
    return true;
}

bool bt_batch_counts(const bt_batch *batch, const bt_array *field)
{
    return field->rank > 0 && field->dims[0] == batch->count;
}

void bt_batch_bind(bt_batch *to, const bt_batch *from)
{
    if (!to || !from)
        return;
    for (int i = 0; i < to->field_count; i++) {
        bt_batch_field *field = &to->fields[i];
        const bt_batch_field *source = match(from, i, field->name);
        if (source)
            point_at(field, source->array.data);
    }
    to->number = from->number;
}

bt_var *bt_batch_other(const bt_batch *from, const bt_batch *to, const bt_var *var)
{
    for (int i = 0; i < from->field_count; i++)
        if (from->fields[i].var == var) {
            const bt_batch_field *field = find(to, from->fields[i].name);
            return field ? field->var : NULL;
        }
    return NULL;
}

/* ---- traced ---- */

static bt_tensor *no_field(const bt_batch *batch, const char *name)
{
    bt_text text = {0};
    for (int i = 0; i < batch->field_count; i++) {
        char shape[256];
        const bt_batch_field *field = &batch->fields[i];
        bt_text_add(&text, "%s%s %s", i ? ", " : "", field->name,
                    bt_shape_text(shape, field->array.rank, field->array.dims));
    }
    bt_tensor *poison = bt_trace_poison(
        BT_ERROR_ARGUMENT, "bt_field: the batch has no field \"%s\"; its fields are: %s", name,
        batch->field_count ? bt_text_get(&text)
                           : "none, because the problem has no data: add data in configure_train_data, or with "
                             "bt_batch_set in get_batch");
    bt_text_free(&text);
    return poison;
}

bt_tensor *bt_field(const bt_batch *batch, const char *name, ...)
{
    if (!batch || !name)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_field: the %s is NULL", batch ? "name" : "batch");
    va_list args;
    va_start(args, name);
    char *text = bt_format(name, args);
    va_end(args);
    if (!text)
        return bt_trace_poison(BT_ERROR_MEMORY, "bt_field: out of memory");
    const bt_batch_field *field = find(batch, text);
    bt_tensor *x = field ? bt_trace_read(field->var) : no_field(batch, text);
    bt_free(text);
    if (!field || bt_poisoned(x))
        return x;
    if (x->batch_axis < 0 && bt_batch_counts(batch, &field->array))
        x->batch_axis = 0;
    return bt_dtype_floats(x->dtype) ? bt_as(x, bt_trace_now()->dtype) : x;
}

/* ---- products with rows that may be sparse ---- */

/* Sums the rows of the matrix named by the columns, times the numbers. It is a gather, a product and a sum, and so has
 * their kernels and derivatives of any order. With a vector as weight it needs no more memory than the numbers
 * themselves. */
static bt_tensor *sparse_matmul(bt_tensor *value, bt_tensor *column, bt_tensor *weight)
{
    if (bt_poisoned(value) || bt_poisoned(column) || bt_poisoned(weight))
        return bt_poisoned(value) ? value : bt_poisoned(column) ? column : weight;
    if (value->rank != 2 || column->rank != 2 || value->dims[1] != column->dims[1] || weight->rank < 1 ||
        weight->rank > 2) {
        char a[256], b[256], c[256];
        return bt_trace_poison(BT_ERROR_SHAPE,
                               "bt_field_matmul: found values of shape %s, columns of %s, a matrix of %s; expected "
                               "[n, k], [n, k] and [columns, m] or [columns]",
                               bt_shape_text(a, value->rank, value->dims), bt_shape_text(b, column->rank, column->dims),
                               bt_shape_text(c, weight->rank, weight->dims));
    }
    bt_tensor *rows = bt_gather(weight, column); /* [n, k] or [n, k, m] */
    return bt_sum(bt_mul(rows, weight->rank == 2 ? bt_unsqueeze(value, 2) : value), 1);
}

bt_tensor *bt_field_matmul(const bt_batch *batch, const char *name, bt_tensor *weight)
{
    if (!batch || !name || !weight)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_field_matmul: the %s is NULL",
                               !batch  ? "batch"
                               : !name ? "name"
                                       : "weight");
    char *value = find(batch, name) ? NULL : bt_string("%s.value", name);
    const bool sparse = value && find(batch, value);
    bt_free(value);
    if (!sparse)
        return bt_matmul(bt_field(batch, "%s", name), weight);
    return sparse_matmul(bt_field(batch, "%s.value", name), bt_field(batch, "%s.column", name), weight);
}
