/* engine/level/keep.c: copies part of the ledger, to be restored later. */
#include "engine/level/keep.h"

#include "engine/level/level.h"
#include "runtime/copies.h"
#include "runtime/store.h"
#include <string.h>

typedef struct item {
    bt_ledger_row row;
    char *called;            /* the row's name, which may be freed with it */
    char *copy;              /* of the row's bytes */
    bt_var *var;             /* BT_KEEP_LOOP: the variable that stores copy; NULL: copy is ours */
    char *name;              /* BT_KEEP_LOOP: of the copy of a number */
    int64_t position, count; /* of a stream: how many batches were drawn, how many of them are still available */
} item;

struct bt_kept {
    bt_context *context;
    item *items;
    int64_t count;
};

static bool wanted(const bt_ledger_row *row, bt_keep_scope scope, const bt_problem *problem)
{
    const bt_role_info *role = bt_role_of(row->role);
    switch (scope) {
    case BT_KEEP_ALL:
        return true;
    case BT_KEEP_QUESTION:
        return !role->update;
    case BT_KEEP_ADAPT:
        return row->problem == problem && (role->rolls || row->role == BT_ROLE_OPTIMIZER || row->role == BT_ROLE_CLOCK);
    case BT_KEEP_REPORTS:
        return row->role == BT_ROLE_METRIC || row->role == BT_ROLE_MEMORY;
    case BT_KEEP_LOOP:
        return row->problem == problem && role->rolls;
    }
    return false;
}

/* Copies between the row, which may have been replaced, and the item's copy. */
static bt_status transfer(const bt_context *context, const bt_ledger_row *row, const item *it, bool back)
{
    bt_var *var = row->data;
    if (row->kind != BT_ROW_VAR) {
        memcpy(back ? row->data : it->copy, back ? it->copy : row->data, row->size);
        return BT_OK;
    }
    if (it->var)
        return back ? bt_store_copy(context->instance, var, it->var) : bt_store_copy(context->instance, it->var, var);
    return back ? bt_store_write(context->instance, var, 0, it->copy, row->size)
                : bt_store_read(context->instance, var, 0, it->copy, row->size);
}

/* A copy that is itself part of the state of the run. */
static bt_status open_entered(bt_context *context, item *it)
{
    const bt_ledger_row *row = &it->row;
    it->name = bt_string("%s at the start of the inner loop", row->name);
    if (!it->name)
        return BT_ERROR_MEMORY;
    if (row->kind == BT_ROW_VAR) {
        const bt_var *var = row->data;
        it->var = bt_ledger_var(context, row->problem, BT_ROLE_SNAPSHOT, var->category, it->name, bt_var_array(var));
        if (!it->var)
            return bt_error_status();
        if (bt_var_is_parted(var)) /* divided like the original */
            BT_TRY(bt_instance_divide(context->instance, it->var));
        if (bt_var_space(var) == BT_SPACE_HOST)
            bt_var_offload(it->var);
        return BT_OK;
    }
    it->copy = bt_alloc(row->size);
    return bt_ledger_enter_number(context, row->problem, BT_ROLE_SNAPSHOT, it->name, row->kind, it->copy);
}

static bt_status open_item(bt_context *context, item *it, bt_keep_scope scope)
{
    it->called = bt_strdup(it->row.name);
    if (!it->called)
        return BT_ERROR_MEMORY;
    if (scope == BT_KEEP_LOOP)
        return open_entered(context, it);
    it->copy = it->row.kind == BT_ROW_STREAM ? NULL : bt_alloc(it->row.size);
    return it->copy || it->row.kind == BT_ROW_STREAM ? BT_OK : BT_ERROR_MEMORY;
}

bt_kept *bt_kept_new(bt_context *context, bt_keep_scope scope, const bt_problem *problem)
{
    bt_kept *kept = bt_alloc(sizeof *kept);
    int64_t rows = context->ledger.count; /* fixed now, because entered copies are added at the end */
    if (!kept)
        return NULL;
    kept->context = context;
    kept->items = bt_alloc_array((size_t)rows + 1, sizeof *kept->items);
    bt_status status = kept->items ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < rows; i++)
        if (wanted(&context->ledger.rows[i], scope, problem)) {
            item *it = &kept->items[kept->count++];
            it->row = context->ledger.rows[i];
            status = open_item(context, it, scope);
        }
    if (status == BT_OK)
        status = bt_kept_renew(kept);
    if (status == BT_OK)
        return kept;
    bt_kept_free(kept);
    return NULL;
}

bt_status bt_kept_renew(bt_kept *kept)
{
    for (int64_t i = 0; i < kept->count; i++) {
        item *it = &kept->items[i];
        if (it->row.kind == BT_ROW_STREAM) {
            const bt_stream *stream = it->row.data;
            it->position = bt_stream_position(stream);
            it->count = stream->kept_count;
        } else {
            BT_TRY(transfer(kept->context, &it->row, it, false));
        }
    }
    return BT_OK;
}

static bool stands_for(const bt_ledger_row *now, const item *it)
{
    const bt_ledger_row *then = &it->row;
    return now->problem == then->problem && now->role == then->role && now->kind == then->kind &&
           now->size == then->size && strcmp(now->name, it->called) == 0;
}

/* The current row: the same one, or the one that replaced it when programs were rebuilt; NULL: it is gone. Numbers
 * increase along the ledger, so the search continues from the last one. */
static const bt_ledger_row *alive(const bt_kept *kept, const item *it, int64_t *at)
{
    const bt_ledger *ledger = &kept->context->ledger;
    while (*at < ledger->count && ledger->rows[*at].number < it->row.number)
        ++*at;
    if (*at < ledger->count && ledger->rows[*at].number == it->row.number)
        return &ledger->rows[*at];
    for (int64_t i = ledger->count - 1; i >= *at; i--)
        if (stands_for(&ledger->rows[i], it))
            return &ledger->rows[i];
    return NULL;
}

static bt_status rewind_streams(const bt_kept *kept, bool *moved)
{
    int64_t at = 0;
    *moved = false;
    for (int64_t i = 0; i < kept->count; i++) {
        const item *it = &kept->items[i];
        const bt_ledger_row *row = it->row.kind == BT_ROW_STREAM ? alive(kept, it, &at) : NULL;
        if (!row || bt_stream_position(row->data) == it->position)
            continue;
        *moved = true;
        BT_TRY(bt_stream_rewind(row->data, it->position, it->count));
    }
    return BT_OK;
}

static bt_status restore_bytes(const bt_kept *kept)
{
    int64_t at = 0;
    for (int64_t i = 0; i < kept->count; i++) {
        const item *it = &kept->items[i];
        const bt_ledger_row *row = it->row.kind != BT_ROW_STREAM ? alive(kept, it, &at) : NULL;
        if (row)
            BT_TRY(transfer(kept->context, row, it, true));
    }
    return BT_OK;
}

/* Making batches again may need restored values, so bytes are restored first. As it may also change restored values,
 * they are restored once more. */
bt_status bt_kept_restore(const bt_kept *kept)
{
    bool moved;
    BT_TRY(restore_bytes(kept));
    bt_status status = rewind_streams(kept, &moved);
    bt_status again = moved ? restore_bytes(kept) : BT_OK;
    return status == BT_OK ? again : status;
}

void bt_kept_free(bt_kept *kept)
{
    if (!kept)
        return;
    for (int64_t i = 0; kept->items && i < kept->count; i++) {
        item *it = &kept->items[i];
        if (it->var) {
            bt_ledger_var_free(kept->context, it->var);
        } else {
            bt_ledger_leave(kept->context, it->copy);
            bt_free(it->copy);
        }
        bt_free(it->name);
        bt_free(it->called);
    }
    bt_free(kept->items);
    bt_free(kept);
}
