/* engine/state/tensors.c: what a checkpoint stores as tensors, by name. */
#include "engine/state/checkpoint.h"

#include "runtime/copies.h"
#include "runtime/store.h"

#include <stdlib.h>
#include <string.h>

/* var: the variable with the values; NULL: they are in array.data. */
static void add(bt_tensor_list *list, const char *name, bt_array array, bt_var *var)
{
    bt_stored *items = name ? bt_grow(list->items, &list->capacity, list->count + 1, sizeof *items) : NULL;
    bt_var **vars = items ? bt_grow(list->vars, &list->var_capacity, list->count + 1, sizeof(bt_var *)) : NULL;
    list->items = items ? items : list->items;
    if (vars) {
        list->vars = vars;
        vars[list->count] = var;
        items[list->count++] = (bt_stored){.name = name, .array = array};
    } else {
        list->status = BT_ERROR_MEMORY;
    }
}

/* Parameters and buffers are named by their path; a value that belongs to one, by that path and its kind. */
static void add_block(bt_tensor_list *list, const bt_block *block)
{
    bool plain = block->flat->category == BT_PARAMETERS || block->flat->category == BT_BUFFERS;
    for (int64_t i = 0; i < block->count; i++) {
        bt_var *window = block->windows[i];
        const char *what = plain ? "" : block->flat->name;
        if (!window)
            continue;
        add(list, bt_region_format(list->region, "%s.%s%s%s", window->owner, window->name, plain ? "" : ":", what),
            bt_var_array(window), window);
    }
}

static bt_status open_list(bt_tensor_list *list)
{
    if (!list->region)
        list->region = bt_region_new();
    return list->region ? BT_OK : BT_ERROR_MEMORY;
}

static void add_row(bt_tensor_list *list, const bt_ledger_row *row)
{
    const char *owner = row->problem ? row->problem->name : "";
    if (row->block)
        add_block(list, row->block);
    else if (row->kind == BT_ROW_VAR)
        add(list, bt_region_format(list->region, "%s:%s", owner, row->name), bt_var_array(row->data), row->data);
    else
        add(list, bt_region_format(list->region, "%s:state.%s", owner, row->name),
            (bt_array){.dtype = BT_U8, .rank = 1, .dims = {(int64_t)row->size}, .data = row->data}, NULL);
}

static bool is_any(bt_role role) { return role < BT_ROLES; }
static bool is_model(bt_role role) { return role == BT_ROLE_PARAM || role == BT_ROLE_BUFFER; }

static bt_status list_rows(const bt_context *context, bt_row_kind kind, bool (*wanted)(bt_role role),
                           bt_tensor_list *list)
{
    const bt_ledger *ledger = &context->ledger;
    BT_TRY(open_list(list));
    for (int64_t i = 0; i < ledger->count; i++)
        if (ledger->rows[i].kind == kind && bt_role_of(ledger->rows[i].role)->saved && wanted(ledger->rows[i].role))
            add_row(list, &ledger->rows[i]);
    return list->status;
}

bt_status bt_tensors_of_variables(const bt_context *context, bt_tensor_list *list)
{
    return list_rows(context, BT_ROW_VAR, is_any, list);
}

bt_status bt_tensors_of_model(const bt_context *context, bt_tensor_list *list)
{
    return list_rows(context, BT_ROW_VAR, is_model, list);
}

bt_status bt_tensors_of_memory(const bt_context *context, bt_tensor_list *list)
{
    return list_rows(context, BT_ROW_BYTES, is_any, list);
}

static bool is_divided(const bt_var *var) { return var && bt_var_is_parted(var) && var->bytes; }

bt_status bt_tensors_fetch(const bt_context *context, bt_tensor_list *list, int64_t i)
{
    const bt_var *var = list->vars[i];
    bt_array *array = &list->items[i].array;
    const void *near = var ? bt_store_near(NULL, var) : NULL;
    if (near)
        memcpy(&array->data, &near, sizeof near); /* it is only read */
    if (!var || near || !var->bytes)
        return BT_OK;
    array->data = bt_region_alloc(list->region, var->bytes);
    return array->data ? bt_store_read(context->instance, var, 0, array->data, var->bytes) : BT_ERROR_MEMORY;
}

bt_status bt_tensors_attend(const bt_context *context, const bt_tensor_list *list)
{
    size_t most = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (is_divided(list->vars[i]) && list->vars[i]->bytes > most)
            most = list->vars[i]->bytes;
    char *bytes = bt_alloc(most);
    bt_status status = bytes ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < list->count; i++)
        if (is_divided(list->vars[i]))
            status = bt_store_read(context->instance, list->vars[i], 0, bytes, list->vars[i]->bytes);
    bt_free(bytes);
    return status;
}

void bt_tensors_free(bt_tensor_list *list)
{
    bt_region_free(list->region);
    bt_free(list->items);
    bt_free(list->vars);
    *list = (bt_tensor_list){0};
}

bt_status bt_tensors_restore(const bt_tensor_list *list, const bt_safetensors *file)
{
    for (int64_t i = 0; i < list->count; i++) {
        const bt_array *now = &list->items[i].array;
        const bt_stored *was = bt_safetensors_find(file, list->items[i].name);
        char found[256], due[256];
        if (!was)
            return bt_fail(BT_ERROR_CONFIG, "the checkpoint has no tensor %s, which this run needs",
                           list->items[i].name);
        if (was->opaque || !bt_array_same(was->array, *now))
            return bt_fail(BT_ERROR_CONFIG, "%s: was %s%s, is %s%s", list->items[i].name,
                           was->opaque ? was->kind : bt_dtype_name(was->array.dtype),
                           bt_shape_text(found, was->array.rank, was->array.dims), bt_dtype_name(now->dtype),
                           bt_shape_text(due, now->rank, now->dims));
    }
    for (int64_t i = 0; i < list->count; i++) {
        const bt_stored *was = bt_safetensors_find(file, list->items[i].name);
        size_t bytes = bt_array_bytes(was->array);
        if (list->vars[i] && bytes)
            BT_TRY(bt_store_write(NULL, list->vars[i], 0, was->array.data, bytes));
        else if (bytes)
            memcpy(list->items[i].array.data, was->array.data, bytes);
    }
    return BT_OK;
}

/* ---- names: a checkpoint identifies its tensors only by name ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const bt_stored *)a)->name, ((const bt_stored *)b)->name);
}

static bt_status tell_two(const bt_context *context, const char *name)
{
    bt_text words = {0};
    bt_name_holders(context, NULL, name, &words);
    bt_status status = bt_fail(BT_ERROR_ARGUMENT, "a checkpoint would keep two things as `%s`: %s; rename one of them",
                               name, bt_text_get(&words));
    bt_text_free(&words);
    return status;
}

bt_status bt_check_names(const bt_context *context)
{
    bt_tensor_list list = {0};
    bt_status status = bt_tensors_of_memory(context, &list);
    if (status == BT_OK)
        status = bt_tensors_of_variables(context, &list);
    if (status == BT_OK && list.count)
        qsort(list.items, (size_t)list.count, sizeof *list.items, by_name);
    for (int64_t i = 1; status == BT_OK && i < list.count; i++)
        if (strcmp(list.items[i - 1].name, list.items[i].name) == 0)
            status = tell_two(context, list.items[i].name);
    bt_tensors_free(&list);
    return status;
}
