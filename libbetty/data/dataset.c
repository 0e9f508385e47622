/* data/dataset.c: data sets in memory: building, joining, queries. */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

bt_dataset *bt_dataset_new(int64_t count)
{
    if (count < 1 || count > BT_MAX_EXAMPLES) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_new: count is %lld; expected 1 to %lld examples", (long long)count,
                (long long)BT_MAX_EXAMPLES);
        return NULL;
    }
    bt_dataset *data = bt_alloc(sizeof *data);
    if (data)
        data->count = count;
    return data;
}

static void rows_release(bt_rows *rows)
{
    if (rows && --rows->owners == 0)
        bt_free(rows);
}

void bt_dataset_free(bt_dataset *data)
{
    while (data) {
        bt_dataset *next = data->next;
        for (int64_t i = 0; i < data->column_count; i++) {
            bt_free(data->columns[i].name);
            bt_store_release(data->columns[i].store);
            rows_release(data->columns[i].rows);
        }
        bt_free(data->columns);
        bt_tasks_free(data->tasks);
        bt_augment_free(data->augment);
        bt_free(data->prefix);
        bt_free(data);
        data = next;
    }
}

const bt_column *bt_dataset_column(const bt_dataset *data, const char *name)
{
    for (int64_t i = 0; i < data->column_count; i++)
        if (strcmp(data->columns[i].name, name) == 0)
            return &data->columns[i];
    return NULL;
}

bt_status bt_dataset_take(bt_dataset *data, const char *name, bt_store *store)
{
    bt_column *columns =
        store ? bt_grow(data->columns, &data->column_capacity, data->column_count + 1, sizeof *columns) : NULL;
    char *copy = columns ? bt_strdup(name) : NULL;
    data->columns = columns ? columns : data->columns;
    if (!copy) {
        bt_store_release(store);
        return bt_error_status() == BT_OK ? BT_ERROR_MEMORY : bt_error_status();
    }
    data->columns[data->column_count++] = (bt_column){.name = copy, .store = store};
    return BT_OK;
}

bt_dataset *bt_dataset_of(bt_dataset *data, const char *const *names, bt_store **stores, int count)
{
    bool ok = data != NULL;
    for (int i = 0; i < count; i++) {
        if (ok)
            ok = bt_dataset_take(data, names[i], stores[i]) == BT_OK;
        else
            bt_store_release(stores[i]);
    }
    if (ok)
        return data;
    bt_dataset_free(data);
    return NULL;
}

bt_status bt_check_field(const char *function, const char *name, bt_array values)
{
    char shape[256];
    if (!name || !*name)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the field has no name", function);
    if (!bt_is_utf8(name))
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the field's name, \"%s\", is not UTF-8", function, name);
    if (!bt_dtype_size(values.dtype) || values.rank < 0 || values.rank > BT_MAX_RANK)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: field \"%s\" is not a valid array: dtype %d, rank %d", function, name,
                       (int)values.dtype, values.rank);
    bool fits = bt_array_bytes(values) <= SIZE_MAX / 4;
    for (int i = 0; i < values.rank; i++)
        fits = fits && values.dims[i] >= 1;
    if (!fits)
        return bt_fail(BT_ERROR_SHAPE,
                       "%s: field \"%s\" is of shape %s; expected sizes of at least 1 that fit into memory", function,
                       name, bt_shape_text(shape, values.rank, values.dims));
    if (!values.data)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: field \"%s\" of shape %s has no values: data is NULL", function, name,
                       bt_shape_text(shape, values.rank, values.dims));
    return BT_OK;
}

static bt_status add(bt_dataset *data, const char *field, bt_array values)
{
    char shape[256];
    BT_TRY(bt_check_field("bt_dataset_add", field, values));
    if (strcmp(field, "index") == 0)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_add: \"index\" is reserved: every batch has this field, with "
                                          "each example's place in the set; choose another name");
    if (bt_dataset_column(data, field))
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_add: field \"%s\" already exists", field);
    if (values.rank < 1 || values.dims[0] != data->count)
        return bt_fail(
            BT_ERROR_SHAPE,
            "bt_dataset_add: field \"%s\" is of shape %s; the size of its first axis must be %lld, the number of "
            "examples in the set",
            field, bt_shape_text(shape, values.rank, values.dims), (long long)data->count);
    if (data->next || data->tasks)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_add: field \"%s\" is added too late; add fields before %s", field,
                       data->next ? "joining" : "bt_dataset_tasks");
    bt_store *narrow;
    BT_TRY(bt_store_narrow(values, &narrow));
    if (narrow)
        return bt_dataset_take(data, field, narrow);
    size_t bytes = bt_array_bytes(values);
    bt_array copy = values;
    copy.data = bt_alloc(bytes);
    if (!copy.data)
        return BT_ERROR_MEMORY;
    memcpy(copy.data, values.data, bytes);
    return bt_dataset_take(data, field, bt_store_new(copy, false));
}

bt_status bt_dataset_add(bt_dataset *data, const char *field, bt_array values)
{
    if (!data)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_add: the data set is NULL");
    bt_status status = add(data, field, values);
    if (status != BT_OK && data->broken == BT_OK)
        data->broken = status;
    return status;
}

void bt_dataset_replace(bt_dataset *data, const bt_column *column, bt_store *store)
{
    bt_column *own = &data->columns[column - data->columns];
    bt_store_release(own->store);
    rows_release(own->rows);
    own->store = store;
    own->rows = NULL;
}

/* The row map of a view of a view. */
static bt_rows *compose(const bt_rows *rows, const int32_t *places, int64_t count)
{
    size_t bytes;
    bt_rows *made = bt_mul_size((size_t)count, sizeof made->at[0], &bytes) ? bt_alloc(sizeof *made + bytes) : NULL;
    for (int64_t i = 0; made && i < count; i++)
        made->at[i] = rows ? rows->at[places[i]] : places[i];
    return made;
}

bt_status bt_dataset_map(bt_dataset *data, const char *name, const int32_t *at)
{
    bt_column *column = &data->columns[bt_dataset_column(data, name) - data->columns];
    size_t count = (size_t)data->count;
    column->rows = bt_alloc(sizeof *column->rows + count * sizeof column->rows->at[0]);
    if (!column->rows)
        return BT_ERROR_MEMORY;
    column->rows->owners = 1;
    if (at)
        memcpy(column->rows->at, at, count * sizeof *at);
    return BT_OK;
}

bt_status bt_dataset_repeat(bt_dataset *data, const char *name)
{
    const bt_column *column = bt_dataset_column(data, name);
    BT_TRY(bt_dataset_map(data, name, NULL));
    bt_store_lacks(column->store, (size_t)(data->count - 1) * column->store->row_bytes);
    return BT_OK;
}

bt_status bt_dataset_select(bt_dataset *data, const int32_t *places, int64_t count)
{
    bt_rows **made = bt_alloc_array((size_t)data->column_count, sizeof(bt_rows *));
    bool ok = made != NULL;
    for (int64_t i = 0; ok && i < data->column_count; i++) {
        for (int64_t k = 0; k < i && !made[i]; k++) /* fields that shared a map share the new one */
            if (data->columns[k].rows == data->columns[i].rows)
                made[i] = made[k];
        if (!made[i])
            made[i] = compose(data->columns[i].rows, places, count);
        ok = made[i] != NULL;
        if (ok)
            made[i]->owners++;
    }
    for (int64_t i = 0; made && i < data->column_count; i++) {
        rows_release(ok ? data->columns[i].rows : made[i]);
        if (ok)
            data->columns[i].rows = made[i];
    }
    bt_free(made);
    if (!ok)
        return BT_ERROR_MEMORY;
    data->count = count;
    return BT_OK;
}

bool bt_dataset_usable(const char *function, const bt_dataset *data)
{
    if (!data)
        bt_fail(BT_ERROR_ARGUMENT, "%s: the data set is NULL", function);
    else if (data->broken != BT_OK)
        bt_fail(data->broken, "%s: the data set is incomplete: a field could not be added", function);
    else if (data->next)
        bt_fail(BT_ERROR_UNSUPPORTED, "%s: the data set is a joined one; do this to its parts, then join them",
                function);
    else if (data->tasks)
        bt_fail(BT_ERROR_UNSUPPORTED, "%s: the data set is a set of tasks; do this to the set that they are drawn from",
                function);
    return data && data->broken == BT_OK && !data->next && !data->tasks;
}

bt_dataset *bt_dataset_done(bt_dataset *data, bt_status status)
{
    if (status == BT_OK)
        return data;
    bt_dataset_free(data);
    return NULL;
}

/* Puts "PREFIX." before the names of `other` and all sets joined to it. */
static bool add_prefix(bt_dataset *other, const char *prefix)
{
    for (; other; other = other->next) {
        bt_text text = {0};
        bt_text_add(&text, "%s", prefix);
        if (other->prefix)
            bt_text_add(&text, ".%s", other->prefix);
        if (text.failed) {
            bt_text_free(&text);
            return false;
        }
        bt_free(other->prefix);
        other->prefix = text.data;
    }
    return true;
}

static bool can_join(const bt_dataset *data, const char *prefix, const bt_dataset *other)
{
    const char *why = !data || !other       ? "a data set is NULL"
                      : data == other       ? "a data set cannot be joined with itself; open it twice"
                      : !prefix || !*prefix ? "the prefix is missing"
                      : !bt_is_utf8(prefix) ? "the prefix is not UTF-8"
                                            : NULL;
    if (why)
        bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_join: %s", why);
    for (const bt_dataset *part = data; !why && part; part = part->next)
        if (part->prefix && strcmp(part->prefix, prefix) == 0) {
            why = part->prefix;
            bt_fail(BT_ERROR_ARGUMENT, "bt_dataset_join: the prefix \"%s\" is already used by an earlier join", prefix);
        }
    return !why;
}

bt_dataset *bt_dataset_join(bt_dataset *data, const char *prefix, bt_dataset *other)
{
    if (!can_join(data, prefix, other) || !add_prefix(other, prefix)) {
        bt_dataset_free(data);
        if (other != data)
            bt_dataset_free(other);
        return NULL;
    }
    bt_dataset *last = data;
    while (last->next)
        last = last->next;
    last->next = other;
    if (data->broken == BT_OK)
        data->broken = other->broken;
    return data;
}

char *bt_dataset_next_note(bt_dataset *data)
{
    char *note = NULL;
    for (; data && !note; data = data->next)
        for (int64_t i = 0; i < data->column_count && !note; i++)
            note = bt_store_take_note(data->columns[i].store);
    return note;
}

int64_t bt_dataset_count(const bt_dataset *data) { return data ? data->count : 0; }

/* The part of a name after "PREFIX."; NULL if it starts differently. Without a prefix, the whole name. */
static const char *without_prefix(const char *name, const char *prefix)
{
    size_t length = prefix ? strlen(prefix) : 0;
    if (!prefix)
        return name;
    return strncmp(name, prefix, length) == 0 && name[length] == '.' ? name + length + 1 : NULL;
}

static bool is_made(const bt_dataset *data, const char *name)
{
    bool mixed = data->augment && data->augment->alpha != 0;
    return strcmp(name, "index") == 0 || (mixed && (strcmp(name, BT_OTHER_LABEL) == 0 || strcmp(name, BT_SHARE) == 0));
}

/* The size of a field stored as sparse rows (NAME.value and NAME.column), as if it were dense. */
static int64_t sparse_dim(const bt_dataset *data, const char *name, int axis, int64_t count)
{
    static const char end[] = ".column";
    const size_t length = strlen(name);
    for (int64_t i = 0; i < data->column_count; i++) {
        const bt_column *c = &data->columns[i];
        if (c->store->below && strncmp(c->name, name, length) == 0 && strcmp(c->name + length, end) == 0)
            return axis == 0 ? count : axis == 1 ? c->store->below : -1;
    }
    return -1;
}

/* The size of a field of one set whose batches, or the set itself, have `count` examples. */
static int64_t dim_of(const bt_dataset *data, const char *name, int axis, int64_t count)
{
    const bt_column *column = bt_dataset_column(data, name);
    if (axis == 0 && (column || is_made(data, name)))
        return count;
    if (column)
        return axis > 0 && axis < column->store->array.rank ? column->store->array.dims[axis] : -1;
    return sparse_dim(data, name, axis, count);
}

int64_t bt_dataset_field_dim(const bt_dataset *data, const char *field, int axis)
{
    int64_t dim = -1;
    for (; field && data && dim < 0; data = data->next) {
        const char *name = without_prefix(field, data->prefix);
        const bt_task_part *parts = data->tasks ? bt_tasks_parts(data->tasks) : NULL;
        if (name && !parts)
            dim = dim_of(data, name, axis, data->count);
        for (int k = 0; name && parts && k < BT_TASK_PARTS; k++) {
            const char *inner = without_prefix(name, parts[k].name);
            dim = inner ? dim_of(data, inner, axis, parts[k].count) : dim;
        }
    }
    return dim;
}

size_t bt_dataset_bytes(const bt_dataset *data)
{
    size_t bytes = 0;
    for (; data; data = data->next) {
        bytes += bt_tasks_bytes(data->tasks);
        for (int64_t i = 0; i < data->column_count; i++) {
            const bt_column *column = &data->columns[i];
            bool counted = !column->rows, held = false;
            for (int64_t k = 0; k < i; k++) {
                counted = counted || data->columns[k].rows == column->rows;
                held = held || data->columns[k].store == column->store;
            }
            bytes += held ? 0 : column->store->bytes;
            if (!counted)
                bytes += (size_t)data->count * sizeof column->rows->at[0];
        }
    }
    return bytes;
}
