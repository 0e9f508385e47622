/* data/classes.c: sorts the examples of a set by class. */
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

static const bt_column *label_of(const bt_dataset *data)
{
    const bt_column *label = data ? bt_dataset_column(data, "label") : NULL;
    return label || !data ? label : bt_dataset_column(data, "y");
}

static bt_status find_column(const char *function, const bt_dataset *data, const bt_column **column)
{
    *column = label_of(data);
    if (!*column)
        return bt_fail(BT_ERROR_DATA, "%s: the data set has neither a field \"label\" nor \"y\", so it has no classes",
                       function);
    if ((*column)->store->array.rank != 1 || bt_store_images((*column)->store))
        return bt_fail(BT_ERROR_SHAPE, "%s: field \"%s\" has %lld numbers per example; expected one, the class",
                       function, (*column)->name, (long long)(*column)->store->row_items);
    return BT_OK;
}

/* Fills values, of, members and starts from the labels; sorts a copy of them. */
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

/* ---- number and names of classes ---- */

int64_t bt_dataset_classes(const bt_dataset *data)
{
    const int64_t named = bt_dataset_names(data);
    bt_classes c;
    if (!data)
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_classes: the data set is NULL");
    if (!data || named)
        return named;
    if (bt_classes_find("bt_dataset_classes", data, &c) != BT_OK)
        return 0;
    const int64_t least = c.values[0], most = c.values[c.count - 1];
    bt_classes_free(&c);
    if (least >= 0 && most < INT32_MAX)
        return most + 1;
    bt_fail(BT_ERROR_DATA,
            "bt_dataset_classes: the labels of field \"%s\" go from %lld to %lld; expected 0, 1, ...: "
            "bt_dataset_number_label renumbers them",
            c.column->name, (long long)least, (long long)most);
    return 0;
}

int64_t bt_dataset_names(const bt_dataset *data)
{
    const bt_column *label = label_of(data);
    return label ? label->store->name_count : 0;
}

const char *bt_dataset_class_name(const bt_dataset *data, int64_t k)
{
    const bt_column *label = label_of(data);
    if (!data)
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_class_name: the data set is NULL");
    return label && k >= 0 && k < label->store->name_count ? label->store->names[k] : NULL;
}

/* ---- numbering classes ---- */

static bt_status name_values(bt_store *store, const bt_classes *c)
{
    store->names = bt_alloc_array((size_t)c->count, sizeof *store->names);
    for (int64_t k = 0; store->names && k < c->count; k++, store->name_count++)
        if (!(store->names[k] = bt_string("%lld", (long long)c->values[k])))
            return BT_ERROR_MEMORY;
    return store->names ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status number_label(bt_dataset *data, const bt_column *column, const bt_classes *c)
{
    static const char function[] = "bt_dataset_number_label";
    bt_array array = {.dtype = BT_I32, .rank = 1, .dims = {data->count}};
    int32_t *labels = array.data = bt_alloc_array((size_t)data->count, sizeof *labels);
    bt_status status = labels ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < data->count; i++) {
        int64_t value = 0;
        status = read_label(function, column, i, &value);
        const int64_t *found = bsearch(&value, c->values, (size_t)c->count, sizeof *c->values, compare);
        if (status == BT_OK && !found)
            status = bt_fail(BT_ERROR_DATA, "%s: example %lld is of class %lld, which no training example has",
                             function, (long long)i, (long long)value);
        labels[i] = found ? (int32_t)(found - c->values) : 0;
    }
    if (status != BT_OK) {
        bt_free(labels);
        return status;
    }
    bt_store *store = bt_store_new(array, false);
    status = store ? name_values(store, c) : BT_ERROR_MEMORY;
    if (status != BT_OK) {
        bt_store_release(store);
        return status;
    }
    return bt_dataset_take(data, "label", store);
}

bt_dataset *bt_dataset_number_label(bt_dataset *data, bt_dataset *train)
{
    static const char function[] = "bt_dataset_number_label";
    const bt_dataset *by = train ? train : data;
    const bt_column *column = NULL;
    bt_classes c;
    bt_status status = bt_dataset_usable(function, data) && bt_dataset_usable(function, by) ? BT_OK : bt_error_status();
    const bool numbered = status == BT_OK && bt_dataset_column(data, "label");
    if (status == BT_OK && !numbered)
        status = find_column(function, data, &column);
    if (status == BT_OK && !numbered && (status = bt_classes_find(function, by, &c)) == BT_OK) {
        status = number_label(data, column, &c);
        bt_classes_free(&c);
    }
    if (train != data)
        bt_dataset_free(train);
    return bt_dataset_done(data, status);
}
