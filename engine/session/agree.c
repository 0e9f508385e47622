/* engine/session/agree.c: checks that the processes of a run are ranks of the same run. What each of them computes
 * itself must be the same in all: settings, initial parameters, batches of a problem. */
#include "engine/session/run.h"

#include "base/hash.h"
#include "runtime/copies.h"
#include "runtime/store.h"
#include <stdlib.h>

static bt_status hash_settings(const bt_engine *engine, uint64_t *hash)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bt_status status = file ? bt_config_print(engine->context.config, file) : BT_ERROR_MEMORY;
    if (file && (fclose(file) != 0 || !text))
        status = BT_ERROR_MEMORY;
    *hash = status == BT_OK ? bt_hash(0, text, size) : 0;
    free(text);
    return status;
}

/* Values that only updates change, and the state that updates use. */
static bool is_state(const bt_ledger_row *row)
{
    const bt_role role = row->role;
    return row->kind == BT_ROW_VAR &&
           (role == BT_ROLE_PARAM || role == BT_ROLE_BUFFER || role == BT_ROLE_SLOT || role == BT_ROLE_OPTIMIZER);
}

/* Skips a variable that is divided between the ranks. */
static bt_status hash_var(const bt_context *context, const bt_var *var, uint64_t *hash)
{
    enum { PART = 1 << 16 };
    if (bt_var_is_parted(var))
        return BT_OK;
    char *part = bt_alloc(PART);
    bt_status status = part ? BT_OK : BT_ERROR_MEMORY;
    for (size_t at = 0, some; status == BT_OK && at < var->bytes; at += some) {
        some = var->bytes - at < PART ? var->bytes - at : PART;
        status = bt_store_read(context->instance, var, at, part, some);
        *hash = bt_hash(*hash, part, some);
    }
    bt_free(part);
    return status;
}

static bt_status hash_state(const bt_context *context, const bt_problem *problem, uint64_t *hash)
{
    *hash = 0;
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        if (row->problem == problem && is_state(row))
            BT_TRY(hash_var(context, row->data, hash));
    }
    return BT_OK;
}

static bt_status say(const bt_engine *engine, int64_t which, int rank)
{
    const int ranks = engine->context.instance->world.ranks;
    if (which == 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "rank %d of %d has other settings than rank 0: all ranks need the same files and options", rank,
                       ranks);
    return bt_fail(
        BT_ERROR_CONFIG,
        "step %lld: %s has other parameters, or another learning rate, on rank %d of %d than on rank 0. Each rank is a "
        "process that calls the callbacks itself: what they return must depend only on their arguments and bt_seed, "
        "not on the time, the process or files that differ; as ranks of one process (executor = lockstep) they are "
        "called once",
        (long long)engine->context.step, engine->context.problems[which - 1]->name, rank, ranks);
}

bt_status bt_run_agree(const bt_engine *engine, const char *why)
{
    const bt_context *context = &engine->context;
    bt_joint *joint = context->instance->joint;
    int64_t which;
    int rank;
    if (!joint)
        return BT_OK;
    uint64_t *hashes = bt_alloc_array((size_t)context->problem_count + 1, sizeof *hashes);
    bt_status status = hashes ? hash_settings(engine, &hashes[0]) : BT_ERROR_MEMORY;
    for (int i = 0; status == BT_OK && i < context->problem_count; i++)
        status = hash_state(context, context->problems[i], &hashes[i + 1]);
    if (status == BT_OK)
        status = bt_joint_compare(joint, why, hashes, context->problem_count + 1, &which, &rank);
    bt_free(hashes);
    if (status != BT_OK || which < 0)
        return status;
    return say(engine, which, rank);
}
