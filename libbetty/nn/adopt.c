/* nn/adopt.c: from a declared tree to storage: lists the parameters in order of declaration, makes blocks and initial
 * values. */
#include "nn/module.h"

#include "runtime/store.h"
#include <string.h>

char *bt_module_path(const bt_module *module)
{
    if (!module || !module->parent)
        return bt_strdup(module && module->name ? module->name : "");
    char *before = bt_module_path(module->parent);
    bt_text text = {0};
    bt_text_add(&text, before && *before ? "%s.%s" : "%s%s", before ? before : "", module->name);
    bool failed = text.failed || !before;
    bt_free(before);
    if (failed)
        bt_text_free(&text);
    return text.data;
}

static bt_status tell_mistake(const bt_module *module, bt_status status, const char *message)
{
    char *path = bt_module_path(module);
    const char *text = message ? message : "out of memory";
    if (path && *path)
        bt_fail(status, "module \"%s\": %s", path, text);
    else
        bt_fail(status, "module: %s", text);
    bt_free(path);
    return status;
}

/* Depth first: reports the module's mistake, then those of its children; counts parameters and buffers. */
static bt_status check_tree(const bt_module *module, int64_t *params, int64_t *buffers)
{
    if (module->status != BT_OK)
        return tell_mistake(module, module->status, module->message);
    for (int64_t i = 0; i < module->slate_count; i++) {
        const bt_slate *slate = module->slates[i];
        bt_status status = bt_init_check(&slate->init, slate->shape);
        if (status != BT_OK) {
            bt_error_context("%s \"%s\"", slate->buffer ? "buffer" : "parameter", slate->name);
            return status;
        }
        ++*(slate->buffer ? buffers : params);
    }
    for (int64_t i = 0; i < module->child_count; i++)
        BT_TRY(check_tree(module->children[i], params, buffers));
    return BT_OK;
}

static bt_status list_tree(bt_module *root, bt_module *module)
{
    char *before = bt_module_path(module);
    bt_status status = before ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < module->slate_count; i++) {
        bt_slate *slate = module->slates[i];
        bt_text text = {0};
        bt_text_add(&text, *before ? "%s.%s" : "%s%s", before, slate->name);
        bt_free(slate->path);
        slate->path = text.data;
        if (text.failed)
            status = BT_ERROR_MEMORY;
        else if (slate->buffer)
            root->buffers[root->buffer_count++] = slate;
        else
            root->params[root->param_count++] = slate;
    }
    bt_free(before);
    for (int64_t i = 0; status == BT_OK && i < module->child_count; i++)
        status = list_tree(root, module->children[i]);
    return status;
}

bt_status bt_module_list(bt_module *root)
{
    if (!root)
        return bt_fail(BT_ERROR_ARGUMENT, "the module is missing (NULL)");
    if (root->parent)
        return tell_mistake(root, BT_ERROR_ARGUMENT, "this module is a part of another one; give the whole module");
    if (root->listed)
        return root->status == BT_OK ? BT_OK : tell_mistake(root, root->status, root->message);
    int64_t params = 0, buffers = 0;
    BT_TRY(check_tree(root, &params, &buffers));
    bt_free(root->params);
    bt_free(root->buffers);
    root->param_count = root->buffer_count = 0;
    root->params = bt_alloc_array((size_t)params, sizeof *root->params);
    root->buffers = bt_alloc_array((size_t)buffers, sizeof *root->buffers);
    if (!root->params || !root->buffers)
        return BT_ERROR_MEMORY;
    BT_TRY(list_tree(root, root));
    root->listed = true;
    return BT_OK;
}

/* Makes a block for `slates`; its windows become their variables. */
static bt_status make_block(bt_block *block, bt_category category, const char *owner, const char *name, bt_dtype dtype,
                            bt_slate *const *slates, const int64_t *order, int64_t count)
{
    if (count == 0)
        return BT_OK;
    bt_array *shapes = bt_alloc_array((size_t)count, sizeof *shapes);
    const char **names = bt_alloc_array((size_t)count, sizeof *names);
    bt_status status = shapes && names ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < count; i++) {
        shapes[i] = slates[i]->shape;
        shapes[i].dtype = dtype;
        names[i] = slates[i]->path;
    }
    if (status == BT_OK)
        status = bt_block_new(block, BT_RUN, category, owner, name, dtype, shapes, names, order, count);
    for (int64_t i = 0; status == BT_OK && i < count; i++)
        slates[i]->var = block->windows[i];
    bt_free(shapes);
    bt_free(names);
    return status;
}

static void drop_blocks(bt_module *root)
{
    for (int64_t i = 0; i < root->param_count; i++)
        root->params[i]->var = NULL;
    for (int64_t i = 0; i < root->buffer_count; i++)
        root->buffers[i]->var = NULL;
    if (root->param_block.flat)
        bt_block_free(&root->param_block);
    if (root->buffer_block.flat)
        bt_block_free(&root->buffer_block);
    root->param_block = root->buffer_block = (bt_block){0};
}

/* The random stream is named by owner and path, so a value does not depend on other declarations or their order. */
static bt_status fill(bt_slate *const *slates, int64_t count, const char *owner, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t stream = bt_hash_text(bt_hash_text(0, owner), slates[i]->path);
        bt_array values = bt_var_array(slates[i]->var);
        if (!(values.data = bt_alloc(slates[i]->var->bytes)))
            return BT_ERROR_MEMORY;
        bt_status status = bt_init_fill(&slates[i]->init, seed, stream, values);
        if (slates[i]->empty) {
            size_t row = slates[i]->var->bytes / (size_t)values.dims[0];
            memset((char *)values.data + (size_t)(slates[i]->empty - 1) * row, 0, row);
        }
        if (status == BT_OK)
            status = bt_store_write(NULL, slates[i]->var, 0, values.data, slates[i]->var->bytes);
        bt_free(values.data);
        BT_TRY(status);
    }
    return BT_OK;
}

static bt_status check_order(const int64_t *order, int64_t count)
{
    if (!order || count == 0)
        return BT_OK;
    char *seen = bt_alloc((size_t)count);
    if (!seen)
        return BT_ERROR_MEMORY;
    bt_status status = BT_OK;
    for (int64_t i = 0; i < count && status == BT_OK; i++)
        if (order[i] < 0 || order[i] >= count || seen[order[i]]++)
            status = bt_fail(BT_ERROR_INTERNAL, "the order of storage is not a permutation: entry %lld is %lld",
                             (long long)i, (long long)order[i]);
    bt_free(seen);
    return status;
}

bt_status bt_module_house(bt_module *root, const char *owner, bt_dtype dtype, const int64_t *order)
{
    BT_TRY(bt_module_list(root));
    if (root->adopted)
        return tell_mistake(root, BT_ERROR_ARGUMENT, "the module already has its storage; make a second module");
    if (!bt_dtype_floats(dtype) || bt_dtype_half(dtype))
        return bt_fail(BT_ERROR_ARGUMENT, "parameters must be BT_F32 or BT_F64, not %s", bt_dtype_name(dtype));
    BT_TRY(check_order(order, root->param_count));
    const char *name = owner ? owner : "";
    bt_status status = make_block(&root->param_block, BT_PARAMETERS, name, "parameters", root->narrow ? BT_BF16 : dtype,
                                  root->params, order, root->param_count);
    if (status == BT_OK)
        status = make_block(&root->buffer_block, BT_BUFFERS, name, "buffers", dtype, root->buffers, NULL,
                            root->buffer_count);
    if (status != BT_OK) {
        drop_blocks(root);
        return status;
    }
    root->dtype = dtype;
    root->adopted = true;
    return BT_OK;
}

bt_status bt_module_adopt(bt_module *root, const char *owner, bt_dtype dtype, uint64_t seed, const int64_t *order)
{
    const char *name = owner ? owner : "";
    BT_TRY(bt_module_house(root, name, dtype, order));
    bt_status status = fill(root->params, root->param_count, name, seed);
    if (status == BT_OK)
        status = fill(root->buffers, root->buffer_count, name, seed);
    if (status != BT_OK) {
        drop_blocks(root);
        root->adopted = false;
    }
    return status;
}

bt_status bt_module_init(bt_module *module, bt_device device, bt_dtype dtype, uint64_t seed)
{
    if (!module)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_init: the module is NULL");
    if (device != BT_CPU)
        return bt_fail(BT_ERROR_UNSUPPORTED, "bt_module_init: this build supports the device BT_CPU only");
    return bt_module_adopt(module, "", dtype, seed, NULL);
}
