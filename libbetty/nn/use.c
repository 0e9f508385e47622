/* nn/use.c: modules in a trace: finds parts by path, reads parameters, runs forward. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include <string.h>

/* ---- finding ---- */

/* Follows a path up to its last name, to which `*path` then points; NULL if a name is missing. */
static bt_module *walk(bt_module *module, const char **path)
{
    for (const char *dot; module && (dot = strchr(*path, '.')); *path = dot + 1)
        module = bt_module_child_named(module, *path, (size_t)(dot - *path));
    return module;
}

bt_module *bt_module_find_child(bt_module *module, const char *path)
{
    if (!module || !path || !*path)
        return module;
    bt_module *above = walk(module, &path);
    return above ? bt_module_child_named(above, path, strlen(path)) : NULL;
}

bt_slate *bt_module_find(bt_module *module, const char *path)
{
    bt_module *owner = path ? walk(module, &path) : NULL;
    return owner ? bt_module_slate_named(owner, path, strlen(path)) : NULL;
}

/* ---- names for messages ---- */

typedef struct name_list {
    char **items; /* with room for a NULL at the end */
    int64_t count, capacity;
} name_list;

static void add_path(name_list *list, const char *before, const char *name)
{
    char **items = bt_grow(list->items, &list->capacity, list->count + 2, sizeof *items);
    bt_text text = {0};
    if (!items)
        return;
    list->items = items;
    bt_text_add(&text, *before ? "%s.%s" : "%s%s", before, name);
    if (text.failed)
        bt_text_free(&text);
    else
        items[list->count++] = text.data;
    items[list->count] = NULL;
}

static void add_paths(name_list *list, const bt_module *module, const char *before, bool children)
{
    for (int64_t i = 0; !children && i < module->slate_count; i++)
        add_path(list, before, module->slates[i]->name);
    for (int64_t i = 0; i < module->child_count; i++) {
        const bt_module *child = module->children[i];
        bt_text text = {0};
        bt_text_add(&text, *before ? "%s.%s" : "%s%s", before, child->name);
        if (children)
            add_path(list, before, child->name);
        add_paths(list, child, bt_text_get(&text), children);
        bt_text_free(&text);
    }
}

/* Poisons, as `what` is missing in `module`; names the nearest one first, then what exists. */
static bt_tensor *missing(bt_module *module, const char *what, const char *path, bool children)
{
    enum { SHOWN = 12 };
    name_list list = {0};
    bt_text text = {0};
    add_paths(&list, module, "", children);
    const char *nearest = bt_nearest(path, (const char *const *)list.items);
    char *place = bt_module_path(module);
    bt_text_add(&text, "there is no %s \"%s\"", what, path);
    if (place && *place)
        bt_text_add(&text, " in the module \"%s\"", place);
    if (nearest)
        bt_text_add(&text, "; did you mean \"%s\"?", nearest);
    bt_text_add(&text, list.count ? "%s are: " : "%s is none", nearest ? " There" : "; there");
    for (int64_t i = 0; i < list.count && i < SHOWN; i++)
        bt_text_add(&text, i ? ", %s" : "%s", list.items[i]);
    if (list.count > SHOWN)
        bt_text_add(&text, ", and %lld more", (long long)(list.count - SHOWN));
    bt_tensor *poison = bt_trace_poison(BT_ERROR_ARGUMENT, "%s", bt_text_get(&text));
    for (int64_t i = 0; i < list.count; i++)
        bt_free(list.items[i]);
    bt_free(list.items);
    bt_free(place);
    bt_text_free(&text);
    return poison;
}

bt_module *(bt_child)(bt_module *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *path = bt_format(format, args);
    va_end(args);
    bt_module *child = path ? bt_module_find_child(m, path) : NULL;
    if (!m)
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_child: the module is NULL (path \"%s\")", path ? path : "?");
    else if (!path)
        bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    else if (!child)
        missing(m, "child", path, true);
    bt_free(path);
    return child;
}

/* ---- values ---- */

static bt_tensor *read_slate(const bt_slate *slate)
{
    if (!slate->var)
        return bt_trace_poison(BT_ERROR_ARGUMENT,
                               "the %s \"%s\" has no storage yet: call bt_module_init, or return the module from "
                               "configure_module",
                               slate->buffer ? "buffer" : "parameter", slate->name);
    return bt_trace_read(slate->var);
}

bt_tensor *(bt_param)(bt_module *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *path = bt_format(format, args);
    va_end(args);
    bt_slate *slate = m && path ? bt_module_find(m, path) : NULL;
    bt_tensor *value;
    if (!m)
        value = bt_trace_poison(BT_ERROR_ARGUMENT, "bt_param: the module is NULL (path \"%s\")", path ? path : "?");
    else if (!path)
        value = bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    else if (!slate)
        value = missing(m, "parameter or buffer", path, false);
    else
        value = read_slate(slate);
    bt_free(path);
    return value;
}

static void add_vectors(const bt_module *module, bt_tensor **parts, int64_t *count)
{
    for (int64_t i = 0; i < module->slate_count; i++)
        if (!module->slates[i]->buffer)
            parts[(*count)++] = bt_reshape(read_slate(module->slates[i]), -1);
    for (int64_t i = 0; i < module->child_count; i++)
        add_vectors(module->children[i], parts, count);
}

static void count_params(const bt_module *module, int64_t *params, int64_t *elements)
{
    for (int64_t i = 0; i < module->slate_count; i++)
        if (!module->slates[i]->buffer) {
            ++*params;
            *elements += bt_array_count(module->slates[i]->shape);
        }
    for (int64_t i = 0; i < module->child_count; i++)
        count_params(module->children[i], params, elements);
}

bt_tensor *(bt_params)(bt_module *m)
{
    int64_t params = 0, elements = 0, count = 0;
    if (!m)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_params: the module is NULL");
    count_params(m, &params, &elements);
    if (params == 0)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_params: the module has no parameters");
    if (params > INT32_MAX)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_params: too many parameters");
    bt_tensor **parts = bt_alloc_array((size_t)params, sizeof *parts);
    if (!parts)
        return bt_trace_poison(BT_ERROR_MEMORY, "out of memory");
    add_vectors(m, parts, &count);
    bt_tensor *vector = count == 1 ? parts[0] : bt_concat_list(0, parts, (int)count);
    bt_free(parts);
    if (!bt_poisoned(vector))
        vector->params = true;
    return vector;
}

int64_t(bt_param_count)(bt_module *m)
{
    int64_t params = 0, elements = 0;
    if (m)
        count_params(m, &params, &elements);
    return elements;
}

void(bt_param_set)(bt_module *m, const char *path, bt_tensor *value)
{
    bt_slate *slate = bt_module_find(m, path);
    bt_trace *trace = bt_trace_now();
    char found[256], expected[256];
    if (!m || !path) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_param_set: the %s is NULL", m ? "path" : "module");
    } else if (!slate) {
        missing(m, "buffer", path, false);
    } else if (!slate->buffer) {
        bt_trace_poison(BT_ERROR_ARGUMENT,
                        "bt_param_set: \"%s\" is a parameter, which only its optimiser changes; to set values "
                        "yourself, declare a buffer with bt_module_add_buffer",
                        path);
    } else if (!slate->var || !trace) {
        read_slate(slate); /* reports the mistake */
    } else if (!value) {
        bt_trace_poison(BT_ERROR_ARGUMENT, "bt_param_set: the value for \"%s\" is NULL", path);
    } else if (!bt_poisoned(value) && !bt_shape_same(slate->shape, bt_tensor_array(value))) {
        bt_trace_poison(BT_ERROR_SHAPE, "bt_param_set: the buffer \"%s\" is %s, its new value %s", path,
                        bt_shape_text(expected, slate->shape.rank, slate->shape.dims),
                        bt_shape_text(found, value->rank, value->dims));
    } else if (!bt_poisoned(value)) {
        bt_graph_assign(trace->graph, slate->var, bt_as(value, slate->var->dtype));
    }
}

bt_tensor *bt_param_next(bt_module *m, const char *path)
{
    bt_slate *slate = bt_module_find(m, path);
    bt_trace *trace = bt_trace_now();
    bt_tensor *next = slate && slate->var && trace ? bt_graph_assigned(trace->graph, slate->var) : NULL;
    return next ? next : bt_param(m, "%s", path);
}

/* ---- forward ---- */

bt_tensor *bt_module_input(const char *what, bt_tensor *const *in)
{
    if (in[0] && in[1])
        return bt_trace_poison(BT_ERROR_ARGUMENT, "%s takes one input, but was given more", what);
    return in[0] ? in[0] : bt_trace_poison(BT_ERROR_ARGUMENT, "%s: the input is missing (NULL)", what);
}

bt_tensor *bt_module_wrong_features(const char *what, int64_t features, const bt_tensor *x)
{
    char found[256];
    return bt_trace_poison(BT_ERROR_SHAPE, "%s expects %lld features, found %s", what, (long long)features,
                           bt_shape_text(found, x->rank, x->dims));
}

/* Uses the declared path, whoever the caller is, so a module's nodes and random streams always have the same names. */
bt_tag bt_module_enter(const bt_module *module)
{
    bt_trace *trace = bt_trace_now();
    if (!trace)
        return (bt_tag){0};
    bt_tag before = trace->tag;
    char *path = bt_module_path(module);
    if (path)
        trace->tag.path = bt_graph_intern(trace->graph, path);
    bt_free(path);
    while (module->parent)
        module = module->parent;
    if (module->name) {
        trace->tag.level = module->name;
        trace->tag.low = module->low;
    }
    return before;
}

void bt_module_leave(bt_tag before)
{
    if (bt_trace_now())
        bt_trace_now()->tag = before;
}

bt_tensor *bt_forward_module_(bt_module *m, bt_tensor *const *in)
{
    static bt_tensor *const nothing[] = {NULL};
    if (!m)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "bt_forward: the module is NULL");
    bt_tag before = bt_module_enter(m);
    bt_tensor *out = m->forward ? m->forward(m, in ? in : nothing)
                                : bt_trace_poison(BT_ERROR_ARGUMENT,
                                                  "bt_forward: this module has no forward function; it only holds "
                                                  "other modules");
    if (!out)
        out = bt_trace_poison(BT_ERROR_ARGUMENT, "bt_forward: the module's forward function returned NULL");
    bool other = bt_trace_now() && bt_trace_now()->tag.low != before.low;
    bt_module_leave(before);
    return other ? bt_wide(out) : out; /* values cross to a level of another precision in f32 */
}

bt_module *bt_operand_module_(bt_module *m) { return m; }
