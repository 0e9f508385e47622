/* engine/session/values.c: reads and writes the variables of a run by name. */
#include "engine/session/session.h"

#include "engine/state/checkpoint.h"
#include "runtime/store.h"
#include <string.h>

/* ---- names ---- */

/* Allowed between two steps; also after a bt_adapt, to see what that changed. */
static bt_status may_look(bt_engine *engine, const char *function)
{
    return bt_engine_enter(engine, BT_REQUEST_VALUES, function);
}

static const bt_stored *find(const bt_tensor_list *list, const char *name)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

/* Suggests the nearest names in a message. */
static bt_status no_such(const bt_tensor_list *list, const char *function, const char *name)
{
    if (strstr(name, ":slope of the update"))
        return bt_fail(
            BT_ERROR_ARGUMENT,
            "%s: `%s` does not exist: D is kept only for parameters of a problem whose method uses it (type = sama)",
            function, name);
    const char **names = bt_alloc_array((size_t)list->count + 1, sizeof *names);
    for (int64_t i = 0; names && i < list->count; i++)
        names[i] = list->items[i].name;
    const char *nearest = names ? bt_nearest(name, names) : NULL;
    bt_free(names);
    if (nearest)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: there is no variable `%s`; did you mean `%s`?", function, name, nearest);
    return bt_fail(BT_ERROR_ARGUMENT, "%s: there is no variable `%s`; bt_engine_name lists all", function, name);
}

/* Values that are not variables but are computed on request: "LEVEL:gradient", "UPPER:x.LOWER",
 * "UPPER:adjoint.LOWER". */
typedef struct question {
    bt_problem *level, *lower; /* level NULL: it is another name; lower NULL: the gradient */
    bool adjoint;
} question;

static bt_problem *level_of(bt_engine *engine, const char *name, size_t length)
{
    for (int i = 0; i < engine->context.problem_count; i++)
        if (bt_word_is(name, length, engine->context.problems[i]->name))
            return engine->context.problems[i];
    return NULL;
}

static question parse(bt_engine *engine, const char *name)
{
    question q = {0};
    const char *colon = name ? strchr(name, ':') : NULL, *what = colon ? colon + 1 : "";
    bt_problem *level = colon ? level_of(engine, name, (size_t)(colon - name)) : NULL;
    q.adjoint = strncmp(what, "adjoint.", 8) == 0;
    if (q.adjoint || strncmp(what, "x.", 2) == 0) {
        what += q.adjoint ? 8 : 2;
        q.lower = level_of(engine, what, strlen(what));
        q.level = q.lower ? level : NULL;
    } else if (strcmp(what, "gradient") == 0) {
        q.level = level;
    }
    return q;
}

static bt_status check_array(const char *function, const char *name, bt_array values, bt_array due)
{
    char found[256], expected[256];
    if (!values.data)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: %s: the array is NULL", function, name);
    if (!bt_dtype_size(values.dtype))
        return bt_fail(BT_ERROR_ARGUMENT, "%s: %s: there is no dtype %d", function, name, (int)values.dtype);
    if (bt_array_count(values) == bt_array_count(due))
        return BT_OK;
    return bt_fail(BT_ERROR_SHAPE, "%s: %s is %s%s, but the array is %s%s", function, name, bt_dtype_name(due.dtype),
                   bt_shape_text(expected, due.rank, due.dims), bt_dtype_name(values.dtype),
                   bt_shape_text(found, values.rank, values.dims));
}

/* Finds the variable, or reports what is wrong with the name or the array. */
static bt_status look_up(bt_engine *engine, const char *function, const char *name, bt_array values,
                         bt_tensor_list *list, int64_t *place)
{
    if (!name)
        return bt_fail(BT_ERROR_ARGUMENT, "%s: the name is NULL", function);
    BT_TRY(bt_tensors_of_variables(&engine->context, list));
    const bt_stored *item = find(list, name);
    if (!item)
        return no_such(list, function, name);
    *place = item - list->items;
    return check_array(function, name, values, item->array);
}

/* ---- the calls ---- */

static bt_status read_one(bt_engine *engine, const char *name, bt_array values)
{
    question q = parse(engine, name);
    if (q.level)
        return q.lower ? bt_solution(q.level, q.lower, q.adjoint, values) : bt_hypergradient(q.level, values);
    bt_tensor_list list = {0};
    int64_t place;
    bt_status status = look_up(engine, "bt_engine_read", name, values, &list, &place);
    if (status == BT_OK)
        status = bt_tensors_fetch(&engine->context, &list, place);
    if (status == BT_OK)
        status = bt_array_convert(values, list.items[place].array);
    bt_tensors_free(&list);
    return status;
}

static bt_status put(const bt_tensor_list *list, int64_t place, bt_array values)
{
    bt_var *var = list->vars[place];
    bt_array converted = list->items[place].array;
    converted.data = bt_alloc(var->bytes);
    bt_status status = converted.data ? bt_array_convert(converted, values) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = bt_store_write(NULL, var, 0, converted.data, var->bytes);
    bt_free(converted.data);
    return status;
}

static bt_status write_one(bt_engine *engine, const char *name, bt_array values)
{
    bt_tensor_list list = {0};
    int64_t place;
    if (parse(engine, name).level)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_engine_write: %s cannot be written, because each step recomputes it",
                       name);
    bt_status status = look_up(engine, "bt_engine_write", name, values, &list, &place);
    if (status == BT_OK)
        status = put(&list, place, values);
    bt_tensors_free(&list);
    return status;
}

bt_status bt_engine_read(bt_engine *engine, const char *name, bt_array values)
{
    BT_TRY(may_look(engine, "bt_engine_read"));
    return bt_fail(read_one(engine, name, values), "failed");
}

bt_status bt_engine_write(bt_engine *engine, const char *name, bt_array values)
{
    BT_TRY(may_look(engine, "bt_engine_write"));
    return bt_fail(write_one(engine, name, values), "failed");
}

const char *bt_engine_name(bt_engine *engine, int64_t index, bt_array *shape)
{
    bt_tensor_list list = {0};
    if (may_look(engine, "bt_engine_name") != BT_OK)
        return NULL;
    bt_text_free(&engine->name);
    bt_status status = bt_tensors_of_variables(&engine->context, &list);
    if (status == BT_OK && index >= 0 && index < list.count) {
        bt_text_add(&engine->name, "%s", list.items[index].name);
        if (shape) {
            *shape = list.items[index].array;
            shape->data = NULL;
        }
    }
    bt_fail(status, "out of memory");
    bt_tensors_free(&list);
    return engine->name.data;
}
