/* backend/cpu/conv.c: conv, conv_dx and conv_dw, block by block. Threads share the blocks of conv and conv_dx, and the
 * rows of conv_dw's result. Each element is computed by one thread, in an order that does not depend on the number of
 * threads. */
#include "backend/cpu/conv.h"

#include "backend/cpu/vector.h"

#include <string.h>

/* Lines of g that are far apart crowd a cache. If at least so many rows of conv_dw's result read them, the channels of
 * a panel are first packed side by side. */
enum { OFTEN = 96, OFTEN_FAR = 32, FAR_BYTES = 512 };

static const bt_conv_type *type_of(bt_dtype dtype)
{
    return dtype == BT_F32 ? &BT_ISA(bt_conv_f32) : &BT_ISA(bt_conv_f64);
}

/* Leaves calls that would leave vectors half empty to narrower vectors. */
static bool accepts(const bt_call *call)
{
    return bt_conv_accepts(call) &&
           (BT_VECTOR == 16 || !bt_conv_leaves_half(call, type_of(call->out[0].dtype)->columns));
}

static size_t scratch(const bt_call *call)
{
    const bt_conv_type *type = type_of(call->out[0].dtype);
    bt_conv_plan plan;
    bt_conv_plan_of(call, type->tile, type->columns, &plan);
    return bt_cpu_count(&call->out[0]) ? plan.scratch : 0;
}

static bt_status prepare(bt_call *call)
{
    const bt_conv_type *type = type_of(call->out[0].dtype);
    bt_conv_plan *plan = bt_alloc(sizeof *plan);
    if (!plan)
        return BT_ERROR_MEMORY;
    bt_conv_plan_of(call, type->tile, type->columns, plan);
    call->state = plan;
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* The state of one thread. */
typedef struct worker {
    const bt_call *call;
    const bt_conv_plan *plan;
    const bt_conv_type *type;
    int64_t size; /* bytes of an element */
    char *images; /* scratch */
    int64_t *at_from, *at_to, *list, *rows, *straight;
    char *g;
    const char *read; /* the data that the block's loops read */
    int64_t built;    /* the number of whole images that the tables are made for; 0: none */
    bt_ahead ahead[2];
} worker;

static worker worker_of(const bt_call *call, int64_t thread)
{
    const bt_conv_plan *p = call->state;
    worker w = {.call = call, .plan = p, .type = type_of(p->dtype), .size = (int64_t)bt_dtype_size(p->dtype)};
    char *next = (char *)call->scratch + (size_t)thread * p->own;
    w.images = next;
    w.at_from = (int64_t *)(void *)(next += p->block);
    w.at_to = (int64_t *)(void *)(next += p->table);
    w.list = (int64_t *)(void *)(next += p->table);
    if (p->kind == BT_CONV_DW) {
        w.rows = (int64_t *)(void *)(next += p->list);
        w.g = next += p->list;
        w.straight = (int64_t *)(void *)(next + bt_align_up((size_t)(p->part * w.type->columns * w.size)));
        for (int64_t i = 0; i < p->part; i++)
            w.straight[i] = i * w.type->columns;
    }
    return w;
}

/* A walk over rows first .. end - 1 of the block's images. */
static bt_ahead rows_ahead(const char *data, const int64_t *strides, const bt_conv_block *b, int64_t first, int64_t end,
                           int64_t size, int64_t parts)
{
    int64_t from = b->image * strides[0] + first * strides[1];
    int64_t to = (b->image + b->images - 1) * strides[0] + end * strides[1];
    if (first >= end || strides[0] <= 0 || strides[1] <= 0)
        return (bt_ahead){0};
    return bt_ahead_of(data + from * size, 1, 0, (to - from) * size, parts);
}

/* Begins to ask for what the next block reads and writes, unless this block, which ends with `unit`, is the last.
 * parts: its pixels, times the tiles that each is in. */
static void look_at_next(worker *w, const bt_conv_block *block, int64_t unit, int64_t units, int64_t parts)
{
    const bt_conv_plan *p = w->plan;
    w->ahead[0] = w->ahead[1] = (bt_ahead){0};
    if (unit >= units)
        return;
    bt_conv_block next = bt_conv_block_of(p, unit, units);
    int64_t first = next.first > 0 ? next.first : 0, end = next.first + next.height;
    if (next.image == block->image && first < block->first + block->height)
        first = block->first + block->height; /* the rows before it have just been read */
    const char *to = p->kind == BT_CONV_DW ? w->call->in[1].data : w->call->out[0].data;
    w->ahead[0] =
        rows_ahead(w->call->in[0].data, p->strides, &next, first, end < p->from[0] ? end : p->from[0], w->size, parts);
    w->ahead[1] = rows_ahead(to, p->to_strides, &next, next.row, next.row + next.rows, w->size, parts);
}

/* Whether the tables must be made for the block. */
static bool enter_block(worker *w, const bt_conv_block *block)
{
    const bt_conv_plan *p = w->plan;
    const char *from = w->call->in[0].data;
    w->read = w->images;
    if (p->copied)
        w->type->copy(p, block, from, w->images);
    else
        w->read = from + block->image * p->strides[0] * w->size;
    bool fresh = w->built != block->images || p->rows < p->to[0];
    w->built = block->images;
    return fresh;
}

/* Calls `run` for each class of pixels in the block, with its pixels' places; data is passed on. */
typedef void class_fn(worker *w, const bt_conv_axis *axes, const int64_t *at_from, const int64_t *at_to, int64_t points,
                      void *data);

static int64_t each_class(worker *w, const bt_conv_block *block, const bt_conv_axis *all, int64_t done, bool fresh,
                          class_fn *run, void *data)
{
    const bt_conv_plan *p = w->plan;
    bt_conv_axis axes[2];
    for (int64_t y = 0; y < all[0].count; y += axes[0].count) {
        axes[0] = bt_conv_class(p, 0, &all[0], y);
        for (int64_t x = 0; x < all[1].count; x += axes[1].count) {
            axes[1] = bt_conv_class(p, 1, &all[1], x);
            int64_t points =
                bt_conv_table(p, block, axes, fresh ? w->at_from + done : NULL, fresh ? w->at_to + done : NULL);
            if (points)
                run(w, axes, w->at_from + done, w->at_to + done, points, data);
            done += points;
        }
    }
    return done;
}

/* ---- conv, conv_dx ---- */

typedef struct place_job {
    const char *weights; /* of the residue */
    char *to;
} place_job;

static void run_places(worker *w, const bt_conv_axis *axes, const int64_t *at_from, const int64_t *at_to,
                       int64_t points, void *data)
{
    const bt_conv_plan *p = w->plan;
    const place_job *job = data;
    const char *weights = job->weights, *bias = w->call->inputs > 2 ? w->call->in[2].data : NULL;
    int64_t columns = w->type->columns, packed = axes[0].packed * axes[1].packed * p->inner;
    bt_conv_panel panel = {
        .at_from = at_from, .at_to = at_to, .list = w->list, .points = points, .packed = packed, .ahead = w->ahead};
    bt_conv_list(p, axes, 0, packed, w->list, NULL);
    panel.runs = axes[0].taps;
    panel.run = axes[1].taps * p->inner;
    panel.step = axes[1].packed * p->inner;
    panel.row = (axes[0].skipped * axes[1].packed + axes[1].skipped) * p->inner;
    if (panel.run == panel.step) { /* no gaps */
        panel.run *= panel.runs;
        panel.runs = 1;
    }
    if (p->depthwise) {
        panel.from = w->read;
        panel.weights = weights;
        panel.to = job->to;
        panel.bias = bias;
        panel.columns = p->groups;
        w->type->depthwise(&panel);
        return;
    }
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t j = 0; j < p->outer; j += columns) {
            int64_t channel = group * p->outer + j, rest = p->outer - j;
            panel.from = w->read + group * p->inner * w->size;
            panel.weights = weights;
            panel.to = job->to + channel * w->size;
            panel.bias = bias ? bias + channel * w->size : NULL;
            panel.columns = rest < columns ? rest : columns;
            if (p->narrow)
                w->type->narrow(&panel);
            else
                w->type->panel(&panel);
            weights += packed * (p->narrow ? p->outer : bt_conv_columns(panel.columns, columns)) * w->size;
        }
}

static char *packed_weights(const bt_call *call)
{
    const bt_conv_plan *p = call->state;
    return (char *)call->scratch + (size_t)p->threads * p->own;
}

static void place_blocks(const bt_call *call, int64_t thread)
{
    worker w = worker_of(call, thread);
    const bt_conv_plan *p = w.plan;
    int64_t unit = p->units * thread / p->threads, end = p->units * (thread + 1) / p->threads;
    int64_t panels = p->depthwise ? 1 : p->groups * ((p->outer + w.type->columns - 1) / w.type->columns);
    while (unit < end) {
        bt_conv_block block = bt_conv_block_of(p, unit, end);
        bool fresh = enter_block(&w, &block);
        int64_t done = 0, points = block.images * block.rows * p->to[1];
        unit += bt_conv_block_units(p, &block);
        look_at_next(&w, &block, unit, end, points * panels);
        place_job job = {.weights = packed_weights(call), .to = call->out[0].data};
        job.to += block.image * p->to_strides[0] * w.size;
        for (int64_t y = 0; y < p->residues[0]; y++)
            for (int64_t x = 0; x < p->residues[1]; x++) {
                bt_conv_axis all[] = {bt_conv_residue(p, 0, y), bt_conv_residue(p, 1, x)};
                done = each_class(&w, &block, all, done, fresh, run_places, &job);
                job.weights += all[0].packed * all[1].packed * p->inner * p->groups * p->across * w.size;
            }
    }
}

/* ---- conv_dw ---- */

typedef struct window_job {
    const char *g;      /* of the block */
    int64_t begin, end; /* units: rows of panels */
} window_job;

/* Sums the listed rows, in one panel of columns, over a class's pixels, part by part. */
static void run_panel(const worker *w, bt_conv_sum *sum, const int64_t *at_from, const int64_t *at_to, int64_t points,
                      const char *g)
{
    const bt_conv_plan *p = w->plan;
    int64_t columns = w->type->columns, channel_stride = p->other_strides[3];
    int64_t parts = (points + p->part - 1) / p->part, step = (points + parts - 1) / parts;
    bool whole = p->depthwise || sum->columns == columns || 2 * sum->columns == columns;
    bool far = p->to_strides[2] * w->size >= FAR_BYTES;
    bool often = !p->depthwise && sum->count >= (far ? OFTEN_FAR : OFTEN) && p->outer > columns;
    bool packed = !whole || often || (channel_stride != 1 && sum->columns > 1);
    for (int64_t q = 0; q < points; q += step) {
        sum->points = points - q < step ? points - q : step;
        sum->at_from = at_from + q;
        sum->at_g = packed ? w->straight : at_to + q;
        sum->g = packed ? w->g : g;
        if (packed)
            w->type->pack_g(g, channel_stride, at_to + q, sum->points, sum->columns, w->g);
        if (p->depthwise)
            w->type->depthwise_sum(sum);
        else
            w->type->sum(sum);
    }
}

static void run_windows(worker *w, const bt_conv_axis *axes, const int64_t *at_from, const int64_t *at_to,
                        int64_t points, void *data)
{
    const bt_conv_plan *p = w->plan;
    const window_job *job = data;
    int64_t all = p->window[0] * p->window[1] * p->inner, columns = w->type->columns, next;
    int64_t rows = p->depthwise ? 1 : all; /* units per panel */
    int64_t channels = p->depthwise ? p->groups : p->outer, panels = (channels + columns - 1) / columns;
    int64_t listed = 0, listed_first = 0, listed_end = 0; /* rows in the list */
    for (int64_t unit = job->begin; unit < job->end; unit = next) {
        int64_t panel = unit / rows, j = panel % panels * columns, group = panel / panels;
        next = (panel + 1) * rows < job->end ? (panel + 1) * rows : job->end;
        int64_t first = p->depthwise ? 0 : unit - panel * rows, end = p->depthwise ? all : next - panel * rows;
        int64_t channel = group * channels + j, from = p->depthwise ? j : group * p->inner;
        bt_conv_sum sum = {.from = w->read + from * w->size,
                           .to = w->call->out[0].data + channel * w->size,
                           .list = w->list,
                           .rows = w->rows,
                           .ahead = w->ahead,
                           .pitch = p->groups * p->outer,
                           .columns = channels - j < columns ? channels - j : columns};
        if (first != listed_first || end != listed_end)
            listed = bt_conv_list(p, axes, first, end, w->list, w->rows);
        sum.count = listed;
        listed_first = first;
        listed_end = end;
        run_panel(w, &sum, at_from, at_to, points, job->g + channel * p->other_strides[3] * w->size);
    }
}

static void window_blocks(const bt_call *call, int64_t thread)
{
    worker w = worker_of(call, thread);
    const bt_conv_plan *p = w.plan;
    window_job job = {.begin = p->units * thread / p->threads, .end = p->units * (thread + 1) / p->threads};
    bt_conv_axis all[] = {bt_conv_residue(p, 0, 0), bt_conv_residue(p, 1, 0)};
    int64_t units = p->n * ((p->to[0] + p->rows - 1) / p->rows);
    for (int64_t unit = 0; unit < units;) {
        bt_conv_block block = bt_conv_block_of(p, unit, units);
        bool fresh = enter_block(&w, &block);
        int64_t points = block.images * block.rows * p->to[1];
        unit += bt_conv_block_units(p, &block);
        look_at_next(&w, &block, unit, units, points * (job.end - job.begin) / (p->depthwise ? 1 : w.type->tile));
        job.g = call->in[1].data + block.image * p->to_strides[0] * w.size;
        each_class(&w, &block, all, 0, fresh, run_windows, &job);
    }
}

static void window_share(const void *call, int thread, int threads)
{
    (void)threads;
    window_blocks(call, thread);
}

static void place_share(const void *call, int thread, int threads)
{
    (void)threads;
    place_blocks(call, thread);
}

static bt_status launch(const bt_call *call)
{
    const bt_conv_plan *p = call->state;
    int64_t count = bt_cpu_count(&call->out[0]);
    bool sums = p->kind == BT_CONV_DW;
    if (count && sums)
        memset(call->out[0].data, 0, (size_t)count * bt_dtype_size(p->dtype));
    else if (count)
        type_of(p->dtype)->pack(p, call->in[1].data, packed_weights(call));
    if (count)
        bt_team_do(sums ? window_share : place_share, call, (int)p->threads);
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_conv)[] = {
    {&bt_op_conv, "conv.blocked", accepts, scratch, prepare, launch, release, false, false},
    {&bt_op_conv_bias, "conv_bias.blocked", accepts, scratch, prepare, launch, release, false, false},
    {&bt_op_conv_dx, "conv_dx.blocked", accepts, scratch, prepare, launch, release, false, false},
    {&bt_op_conv_dw, "conv_dw.blocked", accepts, scratch, prepare, launch, release, false, false},
    {.op = NULL},
};
