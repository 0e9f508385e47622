/* data/classes.c: which examples of a set are of which class. */
#include "data/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bt_classes_free(bt_classes *c)
{
    bt_free(c->values);
    bt_free(c->of);
    bt_free(c->members);
    bt_free(c->starts);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bt_status read_label(const char *function, const bt_column *column, int64_t i, int64_t *label)
{
    double value = bt_store_number(column->store, column->rows ? column->rows->at[i] : i);
    if (!(fabs(value) <= 0x1p53) || value != floor(value))
        return bt_fail(BT_ERROR_DATA,
                       "%s: field \"%s\" of example %lld is %g; expected an integer: the number of a class", function,
                       column->name, (long long)i, value);
    *label = (int64_t)value;
    return BT_OK;
}

static bt_status find_column(const char *function, const bt_dataset *data, const bt_column **column)
{
    *column = bt_dataset_column(data, "label");
    if (!*column)
        *column = bt_dataset_column(data, "y");
    if (!*column)
        return bt_fail(BT_ERROR_DATA, "%s: the data set has neither a field \"label\" nor \"y\", so it has no classes",
                       function);
    if ((*column)->store->array.rank != 1 || bt_store_images((*column)->store))
        return bt_fail(BT_ERROR_SHAPE, "%s: field \"%s\" has %lld numbers per example; expected one: the class",
                       function, (*column)->name, (long long)(*column)->store->row_items);
    return BT_OK;
}

/* Fills values, of, members and starts from the labels, of which a sorted copy is made. */
static bt_status sort_classes(bt_classes *c, const int64_t *labels, int64_t examples)
{
    memcpy(c->values, labels, (size_t)examples * sizeof *labels);
    qsort(c->values, (size_t)examples, sizeof *c->values, compare);
    for (int64_t i = 0; i < examples; i++)
        if (i == 0 || c->values[i] != c->values[c->count - 1])
            c->values[c->count++] = c->values[i];
    c->starts = bt_alloc_array((size_t)c->count + 1, sizeof *c->starts);
    int64_t *next = bt_alloc_array((size_t)c->count, sizeof *next);
    if (!c->starts || !next) {
        bt_free(next);
        return BT_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < examples; i++) {
        int64_t *found = bsearch(&labels[i], c->values, (size_t)c->count, sizeof *c->values, compare);
        c->of[i] = (int32_t)(found - c->values);
        c->starts[c->of[i] + 1]++;
    }
    for (int64_t k = 0; k < c->count; k++) {
        c->starts[k + 1] += c->starts[k];
        next[k] = c->starts[k];
    }
    for (int64_t i = 0; i < examples; i++)
        c->members[next[c->of[i]]++] = (int32_t)i;
    bt_free(next);
    return BT_OK;
}

bt_status bt_classes_find(const char *function, const bt_dataset *data, bt_classes *c)
{
    *c = (bt_classes){0};
    BT_TRY(find_column(function, data, &c->column));
    size_t n = (size_t)data->count;
    c->values = bt_alloc_array(n, sizeof *c->values);
    c->of = bt_alloc_array(n, sizeof *c->of);
    c->members = bt_alloc_array(n, sizeof *c->members);
    int64_t *labels = bt_alloc_array(n, sizeof *labels);
    bt_status status = c->values && c->of && c->members && labels ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < data->count; i++)
        status = read_label(function, c->column, i, &labels[i]);
    if (status == BT_OK)
        status = sort_classes(c, labels, data->count);
    bt_free(labels);
    if (status != BT_OK)
        bt_classes_free(c);
    return status;
}
