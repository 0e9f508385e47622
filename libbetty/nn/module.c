/* nn/module.c: builds the tree of modules. Mistakes are kept in the tree and reported when it is listed. */
#include "nn/module.h"

#include <string.h>

bt_module *bt_module_new(bt_forward_fn *forward)
{
    bt_module *module = bt_alloc(sizeof *module);
    if (module)
        module->forward = forward;
    return module;
}

bt_module *bt_module_make(bt_forward_fn *forward, const void *options, size_t size)
{
    bt_module *module = bt_module_new(forward);
    if (module && size) {
        module->data = bt_alloc(size);
        if (!module->data) {
            bt_module_free(module);
            return NULL;
        }
        memcpy(module->data, options, size);
    }
    return module;
}

static void slate_free(bt_slate *slate)
{
    if (!slate)
        return;
    bt_free(slate->name);
    bt_free(slate->path);
    bt_free(slate->init.values.data);
    bt_free(slate);
}

static void unlink_from_parent(bt_module *module)
{
    bt_module *parent = module->parent;
    if (!parent)
        return;
    int64_t i = parent->child_count - 1; /* the last one usually goes first */
    while (parent->children[i] != module)
        i--;
    for (parent->child_count--; i < parent->child_count; i++)
        parent->children[i] = parent->children[i + 1];
    module->parent = NULL;
}

void bt_module_free(bt_module *module)
{
    if (!module)
        return;
    unlink_from_parent(module);
    while (module->child_count)
        bt_module_free(module->children[module->child_count - 1]); /* it removes itself from the list */
    if (module->param_block.flat)
        bt_block_free(&module->param_block);
    if (module->buffer_block.flat)
        bt_block_free(&module->buffer_block);
    for (int64_t i = 0; i < module->slate_count; i++)
        slate_free(module->slates[i]);
    bt_free(module->params);
    bt_free(module->buffers);
    bt_free(module->slates);
    bt_free(module->children);
    bt_map_free(&module->names);
    bt_free(module->data);
    bt_free(module->message);
    bt_free(module->name);
    bt_free(module);
}

void bt_module_mistake(bt_module *module, bt_status status, const char *format, ...)
{
    if (!module || module->status != BT_OK)
        return;
    va_list args;
    va_start(args, format);
    module->status = status;
    module->message = bt_format(format, args);
    va_end(args);
}

bt_module *bt_module_root(bt_module *module)
{
    while (module && module->parent)
        module = module->parent;
    return module;
}

/* Notes what is wrong with a new name. The tree keeps the entry all the same, to free it later. */
static void check_name(bt_module *module, const char *name, const char *what)
{
    if (!*name || strchr(name, '.'))
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "the name \"%s\" of a %s is empty or contains a dot", name, what);
    else if (!bt_is_utf8(name))
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "the name \"%s\" of a %s is not UTF-8", name, what);
    else if (bt_module_child_named(module, name, strlen(name)) || bt_module_slate_named(module, name, strlen(name)))
        bt_module_mistake(module, BT_ERROR_ARGUMENT, "the name \"%s\" is used twice", name);
    if (bt_module_root(module)->listed)
        bt_module_mistake(bt_module_root(module), BT_ERROR_ARGUMENT,
                          "the %s \"%s\" is added too late: the module already has its storage", what, name);
}

static bool is_above(const bt_module *module, const bt_module *below)
{
    for (; below; below = below->parent)
        if (below == module)
            return true;
    return false;
}

void bt_module_add(bt_module *self, bt_module *child, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *name = bt_format(format, args);
    va_end(args);
    const char *text = name ? name : "?";
    if (!self) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_module_add: there is no module to add \"%s\" to (NULL)", text);
        if (child && !child->parent)
            bt_module_free(child);
    } else if (!child) {
        bt_module_mistake(self, BT_ERROR_ARGUMENT, "the child \"%s\" is NULL", text);
    } else if (is_above(child, self)) {
        bt_module_mistake(self, BT_ERROR_ARGUMENT, "the child \"%s\" is a module that contains this one", text);
    } else if (child->parent) {
        bt_module_mistake(self, BT_ERROR_ARGUMENT,
                          "the child \"%s\" is already a part of a module, as \"%s\"; make a second one, or call the "
                          "first one twice in forward",
                          text, child->name);
    } else {
        if (child->adopted)
            bt_module_mistake(self, BT_ERROR_ARGUMENT, "the child \"%s\" already has storage of its own", text);
        bt_module **children = bt_grow(self->children, &self->child_capacity, self->child_count + 1, sizeof *children);
        if (children)
            self->children = children;
        if (!name || !children) {
            bt_module_mistake(self, BT_ERROR_MEMORY, "out of memory");
            bt_module_free(child);
        } else {
            check_name(self, name, "child");
            if (bt_module_note_child(self, name) != BT_OK)
                bt_module_mistake(self, BT_ERROR_MEMORY, "out of memory");
            child->name = name;
            child->parent = self;
            children[self->child_count++] = child;
            return; /* the child owns the name now */
        }
    }
    bt_free(name);
}

static void read_sizes(bt_module *self, bt_slate *slate, const int64_t *sizes)
{
    const char *what = slate->buffer ? "buffer" : "parameter";
    for (int i = 0; sizes && sizes[i] != BT_END; i++) {
        if (i == BT_MAX_RANK) {
            bt_module_mistake(self, BT_ERROR_ARGUMENT, "the %s \"%s\" has more than %d sizes", what, slate->name,
                              BT_MAX_RANK);
            return;
        }
        if (sizes[i] < 1)
            bt_module_mistake(self, BT_ERROR_ARGUMENT, "size %d of the %s \"%s\" is %lld; sizes must be at least 1",
                              i + 1, what, slate->name, (long long)sizes[i]);
        slate->shape.dims[slate->shape.rank++] = sizes[i];
    }
}

static bool copy_values(bt_slate *slate)
{
    bt_array *values = &slate->init.values;
    const void *from = values->data;
    values->data = NULL;
    if (slate->init.kind != BT_INIT_ARRAY || !from)
        return true;
    size_t bytes = bt_array_bytes(*values);
    if (bytes == SIZE_MAX)
        return true; /* bt_init_check will find that the shapes differ */
    values->data = bt_alloc(bytes);
    if (values->data)
        memcpy(values->data, from, bytes);
    return values->data != NULL;
}

static void add_slate(bt_module *self, const char *name, bt_init init, const int64_t *sizes, bool buffer)
{
    const char *what = buffer ? "buffer" : "parameter";
    if (!self || !name) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_module_add_%s: the %s is NULL", buffer ? "buffer" : "param",
                self ? "name" : "module");
        bt_module_mistake(self, BT_ERROR_ARGUMENT, "the name of a %s is NULL", what);
        return;
    }
    bt_slate **slates = bt_grow(self->slates, &self->slate_capacity, self->slate_count + 1, sizeof *slates);
    bt_slate *slate = bt_alloc(sizeof *slate);
    if (slates)
        self->slates = slates;
    if (slate) {
        *slate = (bt_slate){.name = bt_strdup(name), .module = self, .init = init, .buffer = buffer};
        slate->shape.dtype = BT_F64;
    }
    bool copied = slate && copy_values(slate);
    if (!slates || !copied || !slate->name) {
        slate_free(slate);
        bt_module_mistake(self, BT_ERROR_MEMORY, "out of memory");
        return;
    }
    check_name(self, name, what);
    if (bt_module_note_slate(self, name) != BT_OK)
        bt_module_mistake(self, BT_ERROR_MEMORY, "out of memory");
    read_sizes(self, slate, sizes);
    self->slates[self->slate_count++] = slate;
}

void(bt_module_add_param)(bt_module *self, const char *name, bt_init init, const int64_t *sizes)
{
    add_slate(self, name, init, sizes, false);
}

void(bt_module_add_buffer)(bt_module *self, const char *name, bt_init init, const int64_t *sizes)
{
    add_slate(self, name, init, sizes, true);
}

void bt_module_set_init(bt_module *self, const char *path, bt_init init)
{
    bt_slate *slate = self && path ? bt_module_find(self, path) : NULL;
    if (!slate) {
        if (!self)
            bt_fail(BT_ERROR_ARGUMENT, "bt_module_set_init: the module is NULL");
        bt_module_mistake(self, BT_ERROR_ARGUMENT, "bt_module_set_init: there is no parameter or buffer \"%s\"",
                          path ? path : "(NULL)");
        return;
    }
    if (bt_module_root(self)->adopted) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_module_set_init: \"%s\" already has its values", path);
        return;
    }
    bt_free(slate->init.values.data);
    slate->init = init;
    if (init.kind == BT_INIT_ARRAY)
        slate->empty = 0;
    if (!copy_values(slate))
        bt_module_mistake(self, BT_ERROR_MEMORY, "out of memory");
}
