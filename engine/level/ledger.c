/* engine/level/ledger.c: the list of everything that makes up a run. */
#include "engine/level/ledger.h"

#include "engine/level/level.h"
#include "runtime/copies.h"
#include <string.h>

const bt_role_info *bt_role_of(bt_role role)
{
    static const bt_role_info infos[] = {
#define BT_ROLE_ITEM(name, text, saved, rolls, update) {text, saved, rolls, update},
        BT_ROLE_LIST(BT_ROLE_ITEM)
#undef BT_ROLE_ITEM
    };
    return &infos[role];
}

bool bt_row_is_number(const bt_ledger_row *row)
{
    return row->kind == BT_ROW_INT || row->kind == BT_ROW_REAL || row->kind == BT_ROW_BOOL;
}

/* Whether a checkpoint could not tell two rows apart. Numbers are in its record, separate from tensors. */
static bool clash(const bt_ledger_row *a, const bt_ledger_row *b)
{
    return a->problem == b->problem && bt_role_of(a->role)->saved && bt_role_of(b->role)->saved &&
           !a->block == !b->block && bt_row_is_number(a) == bt_row_is_number(b) && strcmp(a->name, b->name) == 0;
}

static bt_status enter(bt_context *context, const bt_ledger_row *row)
{
    bt_ledger *ledger = &context->ledger;
    if (!row->data)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; bt_role_of(row->role)->saved && i < ledger->count; i++)
        if (clash(&ledger->rows[i], row))
            return bt_fail(BT_ERROR_ARGUMENT,
                           "%s: a checkpoint would keep two things as `%s`: %s and %s; give one of them another name",
                           row->problem ? row->problem->name : "the run", row->name,
                           bt_role_of(ledger->rows[i].role)->name, bt_role_of(row->role)->name);
    bt_ledger_row *rows = bt_grow(ledger->rows, &ledger->capacity, ledger->count + 1, sizeof *rows);
    if (!rows)
        return BT_ERROR_MEMORY;
    ledger->rows = rows;
    rows[ledger->count] = *row;
    rows[ledger->count++].number = ledger->entered++;
    return BT_OK;
}

bt_status bt_ledger_enter_var(bt_context *context, const bt_problem *problem, bt_role role, bt_var *var)
{
    return enter(context, &(bt_ledger_row){.problem = problem,
                                           .role = role,
                                           .kind = BT_ROW_VAR,
                                           .name = var ? var->name : "",
                                           .data = var,
                                           .size = var ? var->bytes : 0});
}

bt_status bt_ledger_enter_block(bt_context *context, const bt_problem *problem, bt_role role, const bt_block *block)
{
    if (!block->flat) /* a module without parameters or without buffers */
        return BT_OK;
    return enter(context, &(bt_ledger_row){.problem = problem,
                                           .role = role,
                                           .kind = BT_ROW_VAR,
                                           .name = block->flat->name,
                                           .data = block->flat,
                                           .size = block->flat->bytes,
                                           .block = block});
}

bt_status bt_ledger_enter_number(bt_context *context, const bt_problem *problem, bt_role role, const char *name,
                                 bt_row_kind kind, void *number)
{
    static const size_t sizes[] = {
        [BT_ROW_INT] = sizeof(int64_t), [BT_ROW_REAL] = sizeof(double), [BT_ROW_BOOL] = sizeof(bool)};
    return enter(
        context,
        &(bt_ledger_row){
            .problem = problem, .role = role, .kind = kind, .name = name, .data = number, .size = sizes[kind]});
}

bt_status bt_ledger_enter_bytes(bt_context *context, const bt_problem *problem, const char *name, void *data,
                                size_t size)
{
    return enter(context, &(bt_ledger_row){.problem = problem,
                                           .role = BT_ROLE_MEMORY,
                                           .kind = BT_ROW_BYTES,
                                           .name = name,
                                           .data = data,
                                           .size = size});
}

bt_status bt_ledger_enter_stream(bt_context *context, const bt_problem *problem, bt_stream *stream)
{
    return enter(
        context,
        &(bt_ledger_row){
            .problem = problem, .role = BT_ROLE_STREAM, .kind = BT_ROW_STREAM, .name = "batches", .data = stream});
}

/* Searches from the end, because the last one entered is usually the first to leave. */
static int64_t find(const bt_context *context, const void *data)
{
    int64_t i = context->ledger.count - 1;
    while (i >= 0 && context->ledger.rows[i].data != data)
        i--;
    return i;
}

void bt_ledger_leave(bt_context *context, const void *data)
{
    bt_ledger *ledger = &context->ledger;
    int64_t i = data ? find(context, data) : -1;
    if (i < 0)
        return;
    memmove(&ledger->rows[i], &ledger->rows[i + 1], (size_t)(ledger->count - i - 1) * sizeof *ledger->rows);
    ledger->count--;
}

bt_var *bt_ledger_var(bt_context *context, const bt_problem *problem, bt_role role, bt_category category,
                      const char *name, bt_array shape)
{
    bt_var *var = bt_var_new(BT_RUN, category, problem ? problem->name : "", name, shape);
    if (var)
        var->mailed = role == BT_ROLE_INPUT && var->bytes == BT_MAIL_NUMBER;
    if (bt_ledger_enter_var(context, problem, role, var) == BT_OK)
        return var;
    bt_var_free(var);
    return NULL;
}

void bt_ledger_var_free(bt_context *context, bt_var *var)
{
    bt_ledger_leave(context, var);
    bt_var_free(var);
}

void bt_visit_vars(const bt_context *context, const bt_problem *problem, bt_visit_var_fn *visit, void *user)
{
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        if (row->kind == BT_ROW_VAR && (!problem || row->problem == problem))
            visit(user, row->data, row->block);
    }
}

static void add(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    size_t *by_category = user;
    by_category[var->category] += var->space == BT_SPACE_DEVICE ? bt_var_home_bytes(var) : 0;
}

static void add_host(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    size_t *by_category = user;
    by_category[var->category] += var->space == BT_SPACE_HOST ? bt_var_home_bytes(var) : 0;
}

/* Bytes of a loader's buffers, or of the kept batches of get_batch. */
static size_t batch_bytes(const bt_stream *stream)
{
    if (!stream || !stream->made)
        return stream && stream->loader ? bt_loader_bytes(stream->loader) : 0;
    const bt_batch *shape = stream->shapes[0];
    size_t sum = 0;
    for (int f = 0; f < shape->field_count; f++)
        sum += bt_array_bytes(shape->fields[f].array);
    return (size_t)stream->keep * sum;
}

size_t bt_host_bytes(const bt_context *context, size_t by_category[BT_CATEGORIES], const bt_problem *problem)
{
    size_t sum = 0;
    for (int c = 0; c < BT_CATEGORIES; c++)
        by_category[c] = 0;
    bt_visit_vars(context, problem, add_host, by_category);
    for (int c = 0; c < BT_CATEGORIES; c++)
        sum += by_category[c];
    return sum;
}

size_t bt_persistent_bytes(const bt_context *context, size_t by_category[BT_CATEGORIES], const bt_problem *problem)
{
    size_t sum = 0;
    for (int c = 0; c < BT_CATEGORIES; c++)
        by_category[c] = 0;
    bt_visit_vars(context, problem, add, by_category);
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *one = context->problems[i];
        if (!problem || one == problem)
            by_category[BT_BATCH] += batch_bytes(one->train) + batch_bytes(one->valid);
    }
    for (int c = 0; c < BT_CATEGORIES; c++)
        sum += by_category[c];
    return sum;
}
