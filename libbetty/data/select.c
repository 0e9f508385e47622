/* data/select.c: subsets and changed labels. Pure functions of the set and the seed. */
#include "base/random.h"
#include "data/dataset.h"

#include <math.h>
#include <string.h>

/* ---- subsets ---- */

/* Keeps the marked examples in their order. */
static bt_status keep_marked(const char *function, bt_dataset *data, const uint8_t *marks)
{
    int32_t *places = bt_alloc_array((size_t)data->count, sizeof *places);
    if (!places)
        return BT_ERROR_MEMORY;
    int64_t count = 0;
    for (int64_t i = 0; i < data->count; i++)
        if (marks[i])
            places[count++] = (int32_t)i;
    bt_status status =
        count ? bt_dataset_select(data, places, count)
              : bt_fail(BT_ERROR_DATA, "%s: none of the %lld examples is left", function, (long long)data->count);
    bt_free(places);
    return status;
}

static int32_t *shuffled(int64_t count, uint64_t seed, bt_purpose purpose)
{
    int32_t *order = bt_alloc_array((size_t)count, sizeof *order);
    if (!order)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        order[i] = (int32_t)i;
    bt_random random = bt_random_begin(seed, purpose, 0, 0);
    bt_shuffle(order, count, &random);
    return order;
}

static bt_status part(bt_dataset *data, double from, double to, uint64_t seed)
{
    if (!(from >= 0 && from < to && to <= 1))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_part: found from %g to %g; expected 0 <= from < to <= 1", from,
                       to);
    int64_t begin = llround(from * (double)data->count), end = llround(to * (double)data->count);
    int32_t *order = shuffled(data->count, seed, BT_FOR_PART);
    uint8_t *marks = bt_alloc((size_t)data->count);
    bt_status status = order && marks ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = begin; status == BT_OK && i < end; i++)
        marks[order[i]] = 1;
    if (status == BT_OK)
        status = keep_marked("bt_dataset_part", data, marks);
    bt_free(order);
    bt_free(marks);
    return status;
}

bt_dataset *bt_dataset_part(bt_dataset *data, double from, double to, uint64_t seed)
{
    if (!bt_dataset_usable("bt_dataset_part", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    return bt_dataset_done(data, part(data, from, to, seed));
}

static bt_status rows(bt_dataset *data, int64_t from, int64_t to)
{
    const int64_t count = data->count, begin = from < 0 ? from + count : from,
                  end = to == BT_REST ? count
                        : to < 0      ? to + count
                                      : to;
    if (begin < 0 || end > count || begin >= end)
        return bt_fail(
            BT_ERROR_ARGUMENT,
            "bt_dataset_rows: found from %lld to %lld of %lld examples; expected 0 <= from < to, or BT_REST; negative "
            "numbers count from the end",
            (long long)from, (long long)to, (long long)count);
    int32_t *places = bt_alloc_array((size_t)(end - begin), sizeof *places);
    if (!places)
        return BT_ERROR_MEMORY;
    for (int64_t i = begin; i < end; i++)
        places[i - begin] = (int32_t)i;
    bt_status status = bt_dataset_select(data, places, end - begin);
    bt_free(places);
    return status;
}

bt_dataset *bt_dataset_rows(bt_dataset *data, int64_t from, int64_t to)
{
    if (!bt_dataset_usable("bt_dataset_rows", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    return bt_dataset_done(data, rows(data, from, to));
}

/* Shuffles each class and keeps the examples from[class] to to[class] of it. */
static bt_status keep_of_classes(const char *function, bt_dataset *data, const bt_classes *c, const int64_t *from,
                                 const int64_t *to, uint64_t seed, bt_purpose purpose)
{
    uint8_t *marks = bt_alloc((size_t)data->count);
    if (!marks)
        return BT_ERROR_MEMORY;
    for (int64_t k = 0; k < c->count; k++) {
        int32_t *members = c->members + c->starts[k];
        bt_random random = bt_random_begin(seed, purpose, 0, (uint64_t)k);
        bt_shuffle(members, c->starts[k + 1] - c->starts[k], &random);
        for (int64_t i = from[k]; i < to[k]; i++)
            marks[members[i]] = 1;
    }
    bt_status status = keep_marked(function, data, marks);
    bt_free(marks);
    return status;
}

/* An array of counts, one per class, for keep_of_classes. */
static int64_t *counts(const bt_classes *c) { return bt_alloc_array((size_t)c->count, sizeof(int64_t)); }

static bt_status per_class(bt_dataset *data, const bt_classes *c, int64_t from, int64_t to, uint64_t seed)
{
    int64_t *begin = counts(c), *end = counts(c);
    bt_status status = begin && end ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t k = 0; status == BT_OK && k < c->count; k++) {
        int64_t size = c->starts[k + 1] - c->starts[k];
        begin[k] = from;
        end[k] = to == BT_REST ? size : to;
        if (from > size || end[k] > size)
            status =
                bt_fail(BT_ERROR_DATA, "bt_dataset_per_class: class %lld has %lld examples; expected at least %lld",
                        (long long)c->values[k], (long long)size, (long long)(to == BT_REST ? from : to));
    }
    if (status == BT_OK)
        status = keep_of_classes("bt_dataset_per_class", data, c, begin, end, seed, BT_FOR_PER_CLASS);
    bt_free(begin);
    bt_free(end);
    return status;
}

bt_dataset *bt_dataset_per_class(bt_dataset *data, int64_t from, int64_t to, uint64_t seed)
{
    if (!bt_dataset_usable("bt_dataset_per_class", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    if (from < 0 || to <= from)
        return bt_dataset_done(data,
                               bt_fail(BT_ERROR_ARGUMENT,
                                       "bt_dataset_per_class: found from %lld to %lld; expected 0 <= from < to, or "
                                       "BT_REST",
                                       (long long)from, (long long)to));
    bt_classes c;
    bt_status status = bt_classes_find("bt_dataset_per_class", data, &c);
    if (status == BT_OK) {
        status = per_class(data, &c, from, to, seed);
        bt_classes_free(&c);
    }
    return bt_dataset_done(data, status);
}

/* Class k of C keeps n factor^(-k/(C-1)) examples, where n is the size of the largest class. Cui et al.,
 * "Class-balanced loss based on effective number of samples" (CVPR 2019), truncate this number. A tiny amount is added
 * so that 60 does not become 59.999. */
static bt_status long_tail(bt_dataset *data, const bt_classes *c, double factor, uint64_t seed)
{
    int64_t *begin = counts(c), *end = counts(c), largest = 0;
    bt_status status = begin && end ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t k = 0; k < c->count; k++)
        largest = c->starts[k + 1] - c->starts[k] > largest ? c->starts[k + 1] - c->starts[k] : largest;
    for (int64_t k = 0; status == BT_OK && k < c->count; k++) {
        double exponent = c->count > 1 ? -(double)k / (double)(c->count - 1) : 0;
        int64_t wanted = (int64_t)floor((double)largest * pow(factor, exponent) + 1e-6);
        int64_t size = c->starts[k + 1] - c->starts[k];
        end[k] = wanted < 1 ? 1 : wanted < size ? wanted : size;
    }
    if (status == BT_OK)
        status = keep_of_classes("bt_dataset_long_tail", data, c, begin, end, seed, BT_FOR_LONG_TAIL);
    bt_free(begin);
    bt_free(end);
    return status;
}

bt_dataset *bt_dataset_long_tail(bt_dataset *data, double factor, uint64_t seed)
{
    if (!bt_dataset_usable("bt_dataset_long_tail", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    if (!(factor >= 1 && factor <= 1e12))
        return bt_dataset_done(data, bt_fail(BT_ERROR_ARGUMENT,
                                             "bt_dataset_long_tail: found factor %g; expected at least 1: how many "
                                             "times larger the first class is than the last",
                                             factor));
    if (factor == 1)
        return data;
    bt_classes c;
    bt_status status = bt_classes_find("bt_dataset_long_tail", data, &c);
    if (status == BT_OK) {
        status = long_tail(data, &c, factor, seed);
        bt_classes_free(&c);
    }
    return bt_dataset_done(data, status);
}

/* ---- labels ---- */

/* The labels in the order of the set; the first `wrong` examples of a random order get other classes. */
static bt_store *noisy(const bt_classes *c, const int32_t *order, int64_t examples, int64_t wrong, uint64_t seed)
{
    const bt_store *store = c->column->store;
    bt_array values = store->array;
    values.dims[0] = examples;
    values.dtype = bt_store_given(store);
    size_t size = bt_dtype_size(values.dtype);
    char *labels = bt_alloc_array((size_t)examples, size);
    if (!labels)
        return NULL;
    for (int64_t i = 0; i < examples; i++)
        bt_gather_convert(store, bt_gather_row(c->column, (int32_t)i), 1, values.dtype, labels + (size_t)i * size);
    bt_random random = bt_random_begin(seed, BT_FOR_NOISE, 0, 1);
    for (int64_t i = 0; i < wrong; i++) {
        int32_t own = c->of[order[i]], other = (int32_t)bt_random_below(&random, (uint32_t)c->count - 1);
        bt_put(values.dtype, labels, order[i], (double)c->values[other + (other >= own)]);
    }
    values.data = labels;
    bt_store *made = bt_store_new(values, false);
    if (made && store->name_count && bt_store_name(made, store->names, store->name_count) != BT_OK) {
        bt_store_release(made);
        return NULL;
    }
    return made;
}

static bt_status label_noise(bt_dataset *data, const bt_classes *c, double share, uint64_t seed)
{
    int64_t wrong = llround(share * (double)data->count);
    if (wrong > 0 && c->count < 2)
        return bt_fail(BT_ERROR_DATA, "bt_dataset_label_noise: all examples are of class %lld: there is no other label",
                       (long long)c->values[0]);
    int32_t *order = shuffled(data->count, seed, BT_FOR_NOISE);
    bt_store *store = order ? noisy(c, order, data->count, wrong, seed) : NULL;
    bt_free(order);
    if (!store)
        return BT_ERROR_MEMORY;
    bt_dataset_replace(data, c->column, store);
    return BT_OK;
}

bt_dataset *bt_dataset_label_noise(bt_dataset *data, double share, uint64_t seed)
{
    if (!bt_dataset_usable("bt_dataset_label_noise", data))
        return bt_dataset_done(data, BT_ERROR_ARGUMENT);
    if (!(share >= 0 && share <= 1))
        return bt_dataset_done(
            data, bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_label_noise: found share %g; expected 0 to 1", share));
    if (share == 0)
        return data;
    bt_classes c;
    bt_status status = bt_classes_find("bt_dataset_label_noise", data, &c);
    if (status == BT_OK) {
        status = label_noise(data, &c, share, seed);
        bt_classes_free(&c);
    }
    return bt_dataset_done(data, status);
}
