/* engine/level/stream.c: the batches of a problem: drawn from a loader or made by its get_batch. A problem without data
 * gets batches without fields. */
#include "engine/level/level.h"

#include <string.h>

bool bt_makes_batches(const bt_problem_def *def)
{
    return def->get_batch || (!def->configure_train_data && !def->batch_of);
}

static bt_batch *make_batch(bt_problem *problem, bt_mode mode, int64_t index)
{
    bt_batch *batch = bt_batch_new();
    if (!batch || !problem->def->get_batch) {
        if (batch)
            batch->number = index;
        return batch;
    }
    bt_guest before = bt_problem_enter(problem, "get_batch");
    bt_status status = problem->def->get_batch(problem, mode, index, batch);
    bt_problem_leave(problem, "get_batch", before);
    if (status == BT_OK && bt_error_status() != BT_OK)
        status = bt_error_status();
    if (status != BT_OK) {
        if (status == BT_DONE)
            status = bt_fail(BT_ERROR_ARGUMENT,
                             "%s, get_batch: it returned BT_DONE for batch %lld, but its batches must not end; set the "
                             "number of validation batches with valid_batches",
                             problem->name, (long long)index);
        bt_fail(status, "%s, get_batch: it failed for batch %lld without saying why (bt_fail)", problem->name,
                (long long)index);
        bt_batch_free(batch);
        return NULL;
    }
    batch->number = index;
    return batch;
}

/* Checks that all draws of a run can be counted. */
static bt_status check_length(const bt_stream *stream)
{
    const bt_problem_settings *s = stream->problem->settings;
    int64_t most = bt_loader_most(stream->loader), steps = stream->problem->context->settings->train_iters;
    if (stream->mode != BT_TRAIN || steps <= most / s->gradient_accumulation)
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG,
                   "%s: train_iters = %lld with gradient_accumulation = %lld draws more than %lld batches, the most "
                   "whose examples can be counted at this size: reduce one of these, or batch_size",
                   stream->problem->name, (long long)steps, (long long)s->gradient_accumulation, (long long)most);
}

/* Describes how the batch differs from the one made first; false: it does not. */
static bool differs(const bt_batch *first, const bt_batch *again, bt_text *text)
{
    if (!bt_batch_fits(first, again)) {
        bt_text_add(text, "it has other fields, dtypes or shapes");
        return true;
    }
    for (int f = 0; f < first->field_count; f++) {
        bt_array a = first->fields[f].array, b = again->fields[f].array;
        size_t size = bt_dtype_size(a.dtype), bytes = bt_array_bytes(a), at = 0;
        while (at < bytes && memcmp((char *)a.data + at, (char *)b.data + at, size) == 0)
            at += size;
        if (at == bytes)
            continue;
        int64_t element = (int64_t)(at / size);
        bt_text_add(text, "element %lld of the field %s was %.9g, and is now %.9g", (long long)element,
                    first->fields[f].name, bt_get(a.dtype, a.data, element), bt_get(b.dtype, b.data, element));
        return true;
    }
    return false;
}

/* Occasionally makes a batch twice, which must give the same. NULL after an error. */
static bt_batch *make_same(bt_problem *problem, bt_mode mode, int64_t index)
{
    bt_batch *batch = make_batch(problem, mode, index);
    if (!batch || !bt_look_again(index + 1))
        return batch;
    bt_batch *again = make_batch(problem, mode, index);
    bt_text text = {0};
    if (again && differs(batch, again, &text))
        bt_fail(BT_ERROR_ARGUMENT,
                "%s: get_batch is not pure: batch %lld, made again, is different: %s. It must depend on mode and index "
                "alone, because itd and a resumed run ask for earlier batches again; for random numbers use "
                "bt_host_uniform(bt_seed(self), index, ...)",
                problem->name, (long long)index, bt_text_get(&text));
    bt_text_free(&text);
    bt_batch_free(again);
    if (again && bt_error_status() == BT_OK)
        return batch;
    bt_batch_free(batch);
    return NULL;
}

static bt_status open_loader(bt_stream *stream)
{
    bt_problem *problem = stream->problem;
    const bt_problem_settings *s = problem->settings;
    bt_dataset **data = stream->mode == BT_TRAIN ? &problem->train_data : &problem->valid_data;
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = stream->mode == BT_TRAIN ? s->batch_size : s->valid_batch_size;
    options.seed = bt_hash_text((uint64_t)problem->context->settings->seed, problem->name);
    options.shuffle = stream->mode == BT_TRAIN && s->shuffle;
    options.drop_last = stream->mode == BT_TRAIN && s->drop_last;
    options.chance = stream->mode == BT_TRAIN;
    options.dtype = problem->dtype;
    options.keep = stream->keep;
    options.threads = problem->context->instance->threads;
    options.dry = problem->context->instance->dry;
    options.lent = stream->mode == BT_VALID && bt_instance_lends(problem->context->instance);
    if (problem->context->instance->joint) {
        options.rank = problem->context->instance->world.rank;
        options.ranks = problem->context->instance->world.ranks;
    }
    options.prefetch =
        problem->settings->prefetch && bt_instance_cores(problem->context->instance) >
                                           problem->context->instance->threads; /* else it delays the kernels */
    stream->loader = bt_loader_open(*data, &options);
    *data = NULL;
    if (!stream->loader) {
        bt_error_context("%s, %s data", problem->name, stream->mode == BT_TRAIN ? "training" : "validation");
        return bt_error_status();
    }
    BT_TRY(check_length(stream));
    const bt_batch *shapes[BT_MAX_SHAPES];
    stream->shape_count = bt_loader_shapes(stream->loader, shapes);
    for (int i = 0; i < stream->shape_count; i++)
        if (!(stream->shapes[i] = bt_batch_template(shapes[i])))
            return BT_ERROR_MEMORY;
    return BT_OK;
}

static bt_status open_callback(bt_stream *stream)
{
    bt_batch *first = make_batch(stream->problem, stream->mode, 0);
    if (!first)
        return bt_error_status();
    stream->shapes[0] = bt_batch_template(first);
    stream->shape_count = 1;
    bt_batch_free(first);
    stream->made = bt_alloc_array((size_t)stream->keep, sizeof(bt_batch *));
    return stream->shapes[0] && stream->made ? BT_OK : BT_ERROR_MEMORY;
}

/* ---- the batches of a problem above: batch_of ---- */

static bt_status find_peer(const bt_problem *problem, bt_problem **peer)
{
    const char *name = problem->def->batch_of;
    *peer = bt_problem_find(problem->context, name);
    bool above = false;
    if (!*peer || *peer == problem)
        return bt_fail(BT_ERROR_ARGUMENT, "%s has batch_of = \"%s\", which is %s", problem->name, name,
                       *peer ? "itself" : "not a problem of this run");
    for (int i = 0; *peer && i < problem->parent_count; i++)
        above |= problem->parents[i] == *peer;
    if (!above)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s works on the batches of %s (batch_of), which must be a problem that uses its solution: add "
                       "`l2u = %s > %s` under [dependencies]",
                       problem->name, name, problem->name, name);
    if (problem->def->configure_train_data || problem->def->get_batch || (*peer)->def->batch_of)
        return bt_fail(BT_ERROR_ARGUMENT, "%s has batch_of = \"%s\": %s", problem->name, name,
                       (*peer)->def->batch_of ? "that problem has no data of its own"
                                              : "it cannot also have configure_train_data or get_batch");
    if (problem->settings->gradient_accumulation > 1 || (*peer)->settings->gradient_accumulation > 1)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s works on the batch of %s: neither can have gradient_accumulation; to use several batches "
                       "per step of %s, set its meta_batch",
                       problem->name, name, name);
    return BT_OK;
}

/* Their inner loops must begin together; otherwise one of them would get another batch halfway through. */
static bt_status check_lengths(const bt_problem *problem)
{
    const bt_context *context = problem->context;
    for (int i = 0; i < context->problem_count; i++) {
        const bt_problem *other = context->problems[i];
        bool same = other->def->batch_of && strcmp(other->def->batch_of, problem->def->batch_of) == 0;
        if (same && other->settings->active && other->settings->unroll_steps != problem->settings->unroll_steps)
            return bt_fail(BT_ERROR_CONFIG,
                           "%s and %s work on the same batch (batch_of = \"%s\"), so their inner loops must have the "
                           "same length: found unroll_steps = %lld and %lld",
                           problem->name, other->name, problem->def->batch_of,
                           (long long)problem->settings->unroll_steps, (long long)other->settings->unroll_steps);
    }
    return BT_OK;
}

static bt_status open_peer(bt_stream *stream)
{
    bt_problem *peer;
    BT_TRY(find_peer(stream->problem, &peer));
    BT_TRY(check_lengths(stream->problem));
    BT_TRY(bt_problem_open_data(peer));
    stream->of = peer->train;
    stream->shape_count = peer->train->shape_count;
    for (int i = 0; i < stream->shape_count; i++) {
        stream->shapes[i] = bt_batch_template(peer->train->shapes[i]);
        stream->alias[i] = bt_batch_template(peer->train->shapes[i]);
        if (!stream->shapes[i] || !stream->alias[i])
            return BT_ERROR_MEMORY;
    }
    return BT_OK;
}

/* The peer's batch with this stream's number; NULL after an error. */
static const bt_batch *alias(bt_stream *stream, int64_t number)
{
    if (!stream->of->kept_count) { /* nothing has been drawn there yet */
        if (bt_stream_draw(stream->of, 1) != BT_OK)
            return NULL;
        stream->of->ahead = true;
    }
    const bt_batch *batch = stream->of->kept[0];
    int shape = bt_stream_shape(stream, batch);
    if (shape < 0)
        return NULL;
    bt_batch_bind(stream->alias[shape], batch);
    stream->alias[shape]->number = number;
    return stream->alias[shape];
}

bt_status bt_stream_next_task(bt_stream *stream)
{
    bt_stream *of = stream->of;
    if (!of)
        return BT_OK;
    if (!of->ahead || stream->task == bt_stream_position(of)) {
        BT_TRY(bt_stream_draw(of, 1));
        of->ahead = true;
    }
    stream->task = bt_stream_position(of);
    return BT_OK;
}

bt_status bt_stream_take(bt_stream *stream, int64_t count)
{
    bool ahead = stream->ahead;
    stream->ahead = false;
    return ahead ? BT_OK : bt_stream_draw(stream, count);
}

const bt_batch *bt_stream_newest(bt_stream *stream, int64_t count, int64_t m)
{
    int64_t first = stream->kept_count - count;
    if (stream->of)
        return alias(stream, stream->drawn - 1);
    if (first >= 0)
        return stream->kept[first + m];
    bt_fail(BT_ERROR_ARGUMENT, "%s has not made a step yet, whose batch its product needs", stream->problem->name);
    return NULL;
}

void bt_stream_complete(bt_stream *stream)
{
    const bt_stream *own = stream->of ? stream->of : stream;
    for (int64_t k = 0; own->loader && k < own->kept_count; k++)
        bt_loader_complete(own->loader, own->kept[k]);
}

/* ---- streams ---- */

/* Training draws are part of the run; a validation uses the same batches each time. */
static bt_status enter(bt_stream *stream)
{
    bt_problem *problem = stream->problem;
    bt_context *context = problem->context;
    BT_TRY(bt_ledger_enter_stream(context, problem, stream));
    BT_TRY(bt_ledger_enter_number(context, problem, BT_ROLE_CLOCK, "task", BT_ROW_INT, &stream->task));
    return bt_ledger_enter_number(context, problem, BT_ROLE_CLOCK, "ahead", BT_ROW_BOOL, &stream->ahead);
}

bt_stream *bt_stream_open(bt_problem *problem, bt_mode mode, int64_t keep)
{
    bt_stream *stream = bt_alloc(sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (bt_stream){.problem = problem, .mode = mode, .keep = keep < 1 ? 1 : keep};
    stream->kept = bt_alloc_array((size_t)stream->keep, sizeof(bt_batch *));
    bt_status status = stream->kept ? BT_OK : BT_ERROR_MEMORY;
    bool data = mode == BT_TRAIN ? problem->train_data != NULL : problem->valid_data != NULL;
    if (status == BT_OK)
        status = problem->def->batch_of && (mode == BT_TRAIN || !data) ? open_peer(stream)
                 : data                                                ? open_loader(stream)
                                                                       : open_callback(stream);
    if (status == BT_OK && mode == BT_TRAIN)
        status = enter(stream);
    if (status == BT_OK)
        return stream;
    bt_stream_free(stream);
    return NULL;
}

void bt_stream_free(bt_stream *stream)
{
    if (!stream)
        return;
    bt_ledger_leave(stream->problem->context, stream);
    bt_ledger_leave(stream->problem->context, &stream->task);
    bt_ledger_leave(stream->problem->context, &stream->ahead);
    for (int i = 0; i < BT_MAX_SHAPES; i++) {
        bt_batch_free(stream->shapes[i]);
        bt_batch_free(stream->alias[i]);
    }
    for (int64_t i = 0; stream->made && i < stream->keep; i++)
        bt_batch_free(stream->made[i]);
    bt_loader_free(stream->loader);
    bt_free(stream->made);
    bt_free(stream->kept);
    bt_free(stream);
}

bt_status bt_stream_draw(bt_stream *stream, int64_t count)
{
    stream->kept_count = 0;
    for (int64_t i = 0; i < count && i < stream->keep; i++) {
        if (stream->loader) {
            BT_TRY(bt_loader_draw(stream->loader, &stream->kept[i]));
        } else if (stream->of) {
            if (!(stream->kept[i] = alias(stream, stream->drawn++)))
                return bt_error_status();
        } else {
            bt_batch *batch = make_same(stream->problem, stream->mode, stream->drawn++);
            if (!batch)
                return bt_error_status();
            bt_batch_free(stream->made[i]);
            stream->made[i] = batch;
            stream->kept[i] = batch;
        }
        stream->kept_count++;
    }
    return BT_OK;
}

int64_t bt_stream_position(const bt_stream *stream)
{
    return stream->loader ? bt_loader_position(stream->loader) : stream->drawn;
}

bt_status bt_stream_rewind(bt_stream *stream, int64_t position, int64_t kept)
{
    if (stream->loader)
        BT_TRY(bt_loader_seek(stream->loader, position - kept));
    stream->drawn = position - kept;
    return bt_stream_draw(stream, kept);
}

int64_t bt_stream_validation(const bt_stream *stream)
{
    int64_t batches = stream->problem->settings->valid_batches, all = bt_loader_per_epoch(stream->loader);
    if (!all) /* endless: made by a callback, or tasks */
        return batches > 0 ? batches : 1;
    return batches > 0 && batches < all ? batches : all;
}

static void add_fields(bt_text *text, const bt_batch *batch)
{
    char shape[256];
    for (int i = 0; i < batch->field_count; i++) {
        bt_array array = batch->fields[i].array;
        bt_text_add(text, "%s%s %s %s", i ? ", " : "", batch->fields[i].name, bt_dtype_name(array.dtype),
                    bt_shape_text(shape, array.rank, array.dims));
    }
}

int bt_stream_shape(const bt_stream *stream, const bt_batch *batch)
{
    for (int i = 0; i < stream->shape_count; i++)
        if (bt_batch_fits(stream->shapes[i], batch))
            return i;
    bt_text found = {0}, due = {0};
    add_fields(&found, batch);
    add_fields(&due, stream->shapes[0]);
    bt_fail(BT_ERROR_SHAPE, "%s: batch %lld has %s; expected the same as in the first batch: %s", stream->problem->name,
            (long long)batch->number, bt_text_get(&found), bt_text_get(&due));
    bt_text_free(&found);
    bt_text_free(&due);
    return -1;
}
