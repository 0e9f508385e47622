/* data/columns.c: columns of tables: dropping, standardising, using one as the label. */
#include "data/dataset.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bt_status field_of(const char *function, const bt_dataset *data, const char *name, bt_column **column)
{
    if (!bt_dataset_usable(function, data))
        return bt_error_status();
    *column = name ? (bt_column *)(uintptr_t)bt_dataset_column(data, name) : NULL;
    if (*column)
        return BT_OK;
    bt_text names = {0};
    for (int64_t i = 0; i < data->column_count; i++)
        bt_text_add(&names, "%s%s", i ? ", " : "", data->columns[i].name);
    bt_status status = bt_fail(BT_ERROR_DATA, "%s: the data set has no field \"%s\"; it has %s", function,
                               name ? name : "(NULL)", names.size ? bt_text_get(&names) : "none");
    bt_text_free(&names);
    return status;
}

static int64_t row_of(const bt_column *column, int64_t i) { return column->rows ? column->rows->at[i] : i; }

static double value_at(const bt_column *column, int64_t i, int64_t k)
{
    return bt_store_number(column->store, row_of(column, i) * column->store->row_items + k);
}

/* Copies names and note to a store derived from this one. `without`: a column left out; -1: none. */
static bt_status copy_names(const bt_store *from, int64_t without, bt_store *to)
{
    const int64_t count = from->name_count;
    to->names = count ? bt_alloc_array((size_t)count, sizeof *to->names) : NULL;
    to->name_count = to->names ? count - (without >= 0) : 0;
    to->note = from->note && without != 0 ? bt_strdup(from->note) : NULL; /* a note is about the first column */
    to->told = from->told;
    for (int64_t i = 0, k = 0; to->names && i < count; i++)
        if (i != without && !(to->names[k++] = bt_strdup(from->names[i])))
            return BT_ERROR_MEMORY;
    return (!count || to->names) && (!from->note || without == 0 || to->note) ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- dropping ---- */

/* By its name or its number from 1. */
static bt_status find_column(const bt_store *store, const char *wanted, int64_t *column)
{
    const int64_t columns = store->array.dims[1];
    for (*column = 0; store->names && *column < columns; ++*column)
        if (strcmp(store->names[*column], wanted) == 0)
            return BT_OK;
    char *end;
    long long number = strtoll(wanted, &end, 10);
    *column = number - 1;
    if (*wanted >= '0' && *wanted <= '9' && !*end && number >= 1 && number <= columns)
        return BT_OK;
    bt_text names = {0};
    for (int64_t i = 0; store->names && i < columns && i < 40; i++)
        bt_text_add(&names, "%s\"%s\"", i ? ", " : "; its columns: ", store->names[i]);
    bt_status status =
        bt_fail(BT_ERROR_DATA, "bt_dataset_drop: there is no column \"%s\"; expected a number from 1 to %lld%s%s",
                wanted, (long long)columns, store->names ? " or a name" : "", bt_text_get(&names));
    bt_text_free(&names);
    return status;
}

static bt_store *without_column(const bt_dataset *data, const bt_column *x, int64_t column)
{
    const bt_store *from = x->store;
    const size_t item = bt_dtype_size(from->array.dtype), before = (size_t)column * item;
    bt_array array = from->array;
    array.dims[0] = data->count;
    array.dims[1]--;
    array.data = bt_alloc(bt_array_bytes(array));
    char *to = array.data;
    for (int64_t i = 0; to && i < data->count; i++, to += from->row_bytes - item) {
        const char *row = (const char *)from->array.data + (size_t)row_of(x, i) * from->row_bytes;
        memcpy(to, row, before);
        memcpy(to + before, row + before + item, from->row_bytes - before - item);
    }
    bt_store *made = bt_store_like(from, array);
    if (made && copy_names(from, column, made) != BT_OK) {
        bt_store_release(made);
        made = NULL;
    }
    return made;
}

static bt_status drop(bt_dataset *data, const char *wanted)
{
    char shape[256];
    bt_column *x;
    int64_t column;
    BT_TRY(field_of("bt_dataset_drop", data, "x", &x));
    bt_array array = x->store->array;
    if (!wanted || !*wanted)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_drop: the column is missing; expected its name, or its number "
                                          "from 1");
    if (array.rank != 2)
        return bt_fail(BT_ERROR_SHAPE, "bt_dataset_drop: field \"x\" is of shape %s; expected [n, columns]",
                       bt_shape_text(shape, array.rank, array.dims));
    BT_TRY(find_column(x->store, wanted, &column));
    if (array.dims[1] == 1)
        return bt_fail(BT_ERROR_DATA, "bt_dataset_drop: \"%s\" is the last column: x would be empty", wanted);
    bt_store *store = without_column(data, x, column);
    if (!store)
        return BT_ERROR_MEMORY;
    bt_dataset_replace(data, x, store);
    return BT_OK;
}

bt_dataset *bt_dataset_drop(bt_dataset *data, const char *column) { return bt_dataset_done(data, drop(data, column)); }

/* ---- standardising ---- */

static bool never_changes(const bt_dataset *data, const bt_column *column, int64_t k)
{
    int64_t i = 1;
    while (i < data->count && value_at(column, i, k) == value_at(column, 0, k))
        i++;
    return i >= data->count;
}

/* Mean and deviation of each number of an example. The deviation of a constant number is 1. */
static bt_status statistics(const bt_dataset *data, const bt_column *column, double *mean, double *deviation)
{
    const int64_t items = column->store->row_items;
    for (int64_t i = 0; i < data->count; i++)
        for (int64_t k = 0; k < items; k++)
            mean[k] += value_at(column, i, k) / (double)data->count;
    for (int64_t i = 0; i < data->count; i++)
        for (int64_t k = 0; k < items; k++) {
            double off = value_at(column, i, k) - mean[k];
            deviation[k] += off * off / (double)data->count;
        }
    for (int64_t k = 0; k < items; k++) {
        if (!isfinite(mean[k]) || !isfinite(deviation[k]))
            return bt_fail(BT_ERROR_DATA,
                           "bt_dataset_standardize: field \"%s\", column %lld: its values have no finite mean and "
                           "deviation",
                           column->name, (long long)k + 1);
        deviation[k] = sqrt(deviation[k]);
        if (deviation[k] <= 1e-6 * fabs(mean[k]) && never_changes(data, column, k)) {
            mean[k] = value_at(column, 0, k);
            deviation[k] = 1;
        }
    }
    return BT_OK;
}

/* Checks that it is a field of numbers and that the training set has the same. */
static bt_status check_fields(const bt_dataset *data, const bt_column *own, const bt_dataset *train,
                              const bt_column *other)
{
    char a[256], b[256];
    const bt_array x = own->store->array, y = other->store->array;
    const bt_dtype own_dtype = bt_store_given(own->store), other_dtype = bt_store_given(other->store);
    const bool images = bt_store_images(own->store) || bt_store_images(other->store) || data->augment || train->augment;
    if (images || !bt_dtype_floats(own_dtype) || !bt_dtype_floats(other_dtype))
        return bt_fail(BT_ERROR_DATA, "bt_dataset_standardize: field \"%s\" holds %s; expected floating numbers%s",
                       own->name,
                       images ? "images" : bt_dtype_name(bt_dtype_floats(own_dtype) ? other_dtype : own_dtype),
                       images ? ": bt_dataset_normalize is for images" : "");
    if (own->store->row_items != other->store->row_items)
        return bt_fail(BT_ERROR_SHAPE,
                       "bt_dataset_standardize: field \"%s\" is of shape %s, in the training set of shape %s; expected "
                       "examples of one shape",
                       own->name, bt_shape_text(a, x.rank, x.dims), bt_shape_text(b, y.rank, y.dims));
    return BT_OK;
}

static bt_store *standardized(const bt_dataset *data, const bt_column *column, const double *mean,
                              const double *deviation)
{
    const bt_store *from = column->store;
    bt_array array = from->array;
    array.dtype = BT_F64;
    array.dims[0] = data->count;
    array.data = bt_alloc(bt_array_bytes(array));
    double *to = array.data;
    for (int64_t i = 0; to && i < data->count; i++)
        for (int64_t k = 0; k < from->row_items; k++)
            *to++ = (value_at(column, i, k) - mean[k]) / deviation[k];
    bt_store *made = bt_store_new(array, false);
    if (made && copy_names(from, -1, made) != BT_OK) {
        bt_store_release(made);
        made = NULL;
    }
    return made;
}

static bt_status standardize(bt_dataset *data, const char *field, const bt_dataset *train)
{
    bt_column *own, *other;
    BT_TRY(field_of("bt_dataset_standardize", data, field, &own));
    BT_TRY(field_of("bt_dataset_standardize", train, field, &other));
    BT_TRY(check_fields(data, own, train, other));
    double *mean = bt_alloc_array(2 * (size_t)own->store->row_items, sizeof *mean);
    if (!mean)
        return BT_ERROR_MEMORY;
    double *deviation = mean + own->store->row_items;
    bt_status status = statistics(train, other, mean, deviation);
    bt_store *store = status == BT_OK ? standardized(data, own, mean, deviation) : NULL;
    bt_free(mean);
    if (!store)
        return status == BT_OK ? BT_ERROR_MEMORY : status;
    bt_dataset_replace(data, own, store);
    return BT_OK;
}

bt_dataset *bt_dataset_standardize(bt_dataset *data, const char *field, bt_dataset *train)
{
    bt_status status = standardize(data, field, train ? train : data);
    if (train != data)
        bt_dataset_free(train);
    return bt_dataset_done(data, status);
}

/* ---- labels ---- */

static bt_status label(bt_dataset *data, const char *field)
{
    bt_column *column;
    BT_TRY(field_of("bt_dataset_label", data, field, &column));
    if (bt_dataset_column(data, "label"))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_label: the data set already has a field \"label\"");
    if (column->store->row_items != 1 || bt_store_images(column->store))
        return bt_fail(BT_ERROR_SHAPE, "bt_dataset_label: field \"%s\" has %lld numbers per example; expected one",
                       field, (long long)column->store->row_items);
    int32_t *labels = bt_alloc_array((size_t)data->count, sizeof *labels);
    if (!labels)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < data->count; i++) {
        double value = value_at(column, i, 0);
        if (!(fabs(value) <= INT32_MAX) || value != floor(value)) {
            bt_free(labels);
            return bt_fail(BT_ERROR_DATA, "bt_dataset_label: field \"%s\" of example %lld is %g; expected an integer",
                           field, (long long)i, value);
        }
        labels[i] = (int32_t)value;
    }
    bt_array array = {.dtype = BT_I32, .rank = 1, .dims = {data->count}, .data = labels};
    return bt_dataset_take(data, "label", bt_store_new(array, false));
}

bt_dataset *bt_dataset_label(bt_dataset *data, const char *field) { return bt_dataset_done(data, label(data, field)); }
