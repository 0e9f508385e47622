/* backend/cpu/conv.c: conv, conv_dx and conv_dw, block by block. Threads share the blocks of conv and conv_dx, and the
 * rows of conv_dw's result: each element is computed by one thread, in an order that does not depend on how many there
 * are. */
#include "backend/cpu/conv.h"

#include <string.h>

enum { OFTEN = 96 }; /* rows of conv_dw's result: for so many, g is packed */

static const bt_conv_type *type_of(bt_dtype dtype)
{
    return dtype == BT_F32 ? &BT_ISA(bt_conv_f32) : &BT_ISA(bt_conv_f64);
}

static size_t scratch(const bt_call *call)
{
    const bt_conv_type *type = type_of(call->out[0].dtype);
    bt_conv_plan plan;
    bt_conv_plan_of(call, type->columns, type->rows, &plan);
    return plan.scratch;
}

static bt_status prepare(bt_call *call)
{
    const bt_conv_type *type = type_of(call->out[0].dtype);
    bt_conv_plan *plan = bt_alloc(sizeof *plan);
    if (!plan)
        return BT_ERROR_MEMORY;
    bt_conv_plan_of(call, type->columns, type->rows, plan);
    call->state = plan;
    return BT_OK;
}

static void release(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* What one thread works with. */
typedef struct worker {
    const bt_conv_plan *plan;
    const bt_conv_type *type;
    int64_t size;     /* bytes of an element */
    const char *from; /* of the images */
    char *images;     /* scratch */
    int64_t *at_from, *at_to, *list;
    char *g;
    const char *read; /* what the block's loops read */
    int64_t built;    /* for how many whole images the tables are made; 0: for none */
} worker;

static worker worker_of(const bt_call *call, int64_t thread)
{
    const bt_conv_plan *p = call->state;
    worker w = {.plan = p,
                .type = type_of(p->dtype),
                .size = (int64_t)bt_dtype_size(p->dtype),
                .from = call->in[0].data,
                .images = (char *)call->scratch + p->packed + (size_t)thread * p->own};
    char *next = w.images + p->block;
    w.at_from = (int64_t *)(void *)next;
    next += p->table;
    if (p->kind != BT_CONV_DW) {
        w.at_to = (int64_t *)(void *)next;
        next += p->table;
    }
    w.list = (int64_t *)(void *)next;
    w.g = next + p->list;
    return w;
}

/* Whether the tables must be made for the block. */
static bool enter_block(worker *w, const bt_conv_block *block)
{
    const bt_conv_plan *p = w->plan;
    w->read = w->images;
    if (p->copied)
        w->type->copy(p, block, w->from, w->images);
    else
        w->read = w->from + block->image * p->strides[0] * w->size;
    bool fresh = w->built != block->images || p->rows < p->to[0];
    w->built = block->images;
    return fresh;
}

/* ---- conv, conv_dx ---- */

static void run_class(const worker *w, bt_conv_panel *panel, const char *bias, char *to)
{
    const bt_conv_plan *p = w->plan;
    int64_t columns = w->type->columns;
    const char *weights = panel->weights;
    if (p->depthwise) {
        panel->from = w->read;
        panel->to = to;
        panel->bias = bias;
        panel->columns = p->groups;
        w->type->depthwise(panel);
        panel->weights = weights + panel->rows * p->groups * w->size;
        return;
    }
    for (int64_t group = 0; group < p->groups; group++)
        for (int64_t j = 0; j < p->outer; j += columns) {
            int64_t channel = group * p->outer + j, rest = p->outer - j;
            panel->from = w->read + group * p->inner * w->size;
            panel->weights = weights;
            panel->to = to + channel * w->size;
            panel->bias = bias ? bias + channel * w->size : NULL;
            panel->columns = rest < columns ? rest : columns;
            w->type->panel(panel);
            weights += panel->rows * (int64_t)bt_conv_columns(panel->columns, columns) * w->size;
        }
    panel->weights = weights;
}

static void run_block(worker *w, const bt_call *call, const bt_conv_block *block)
{
    const bt_conv_plan *p = w->plan;
    bool fresh = enter_block(w, block);
    const char *bias = call->inputs > 2 ? call->in[2].data : NULL;
    char *to = call->out[0].data + block->image * p->to[0] * p->to[1] * p->groups * p->outer * w->size;
    bt_conv_panel panel = {.weights = call->scratch, .at_from = w->at_from, .at_to = w->at_to, .list = w->list};
    for (int64_t y = 0; y < p->classes[0]; y++)
        for (int64_t x = 0; x < p->classes[1]; x++) {
            bt_conv_axis axes[] = {bt_conv_axis_of(p, 0, y), bt_conv_axis_of(p, 1, x)};
            int64_t done = panel.at_from - w->at_from;
            panel.points = bt_conv_table(p, block, axes, fresh ? w->at_from + done : NULL, w->at_to + done);
            panel.rows = bt_conv_list(p, axes, w->list);
            run_class(w, &panel, bias, to);
            panel.at_from += panel.points;
            panel.at_to += panel.points;
        }
}

static void run_places(const bt_call *call, int64_t thread)
{
    worker w = worker_of(call, thread);
    const bt_conv_plan *p = w.plan;
    int64_t unit = p->units * thread / p->threads, end = p->units * (thread + 1) / p->threads;
    while (unit < end) {
        bt_conv_block block = bt_conv_block_of(p, unit, end);
        run_block(&w, call, &block);
        unit += bt_conv_block_units(p, &block);
    }
}

/* ---- conv_dw ---- */

/* Rows row..row_end of the columns from `channel` on, over the block's pixels. */
static void run_rows(const worker *w, const bt_call *call, const bt_conv_block *block, bt_conv_sum *sum,
                     int64_t channel)
{
    const bt_conv_plan *p = w->plan;
    const bt_view *g = &call->in[1];
    int64_t points = block->images * block->rows * p->to[1], columns = w->type->columns, all = p->groups * p->outer;
    int64_t parts = (points + BT_CONV_POINTS - 1) / BT_CONV_POINTS, step = (points + parts - 1) / parts;
    bool whole = p->depthwise || sum->columns == columns || 2 * sum->columns == columns;
    bool often = !p->depthwise && sum->row_end - sum->row >= OFTEN && all > columns; /* lines far apart crowd a cache */
    bool packed = !whole || often || !bt_cpu_contiguous(g);
    const char *at = g->data + channel * g->strides[3] * w->size;
    if (!packed)
        at += (block->image * p->to[0] + block->row) * p->to[1] * all * w->size;
    sum->pitch = packed ? columns : all;
    sum->at_from = w->at_from;
    for (int64_t q = 0; q < points; q += step) {
        sum->points = points - q < step ? points - q : step;
        sum->g = packed ? w->g : at + q * all * w->size;
        if (packed)
            w->type->pack_g(p, block, at, q, sum->points, sum->columns, w->g);
        if (p->depthwise)
            w->type->depthwise_sum(sum);
        else
            w->type->sum(sum);
        sum->at_from += sum->points;
        sum->add = true;
    }
}

static void run_windows(const bt_call *call, int64_t thread)
{
    worker w = worker_of(call, thread);
    const bt_conv_plan *p = w.plan;
    bt_conv_axis axes[] = {bt_conv_axis_of(p, 0, 0), bt_conv_axis_of(p, 1, 0)};
    int64_t rows = bt_conv_list(p, axes, w.list), columns = w.type->columns;
    int64_t tiles = p->depthwise ? 1 : (rows + w.type->rows - 1) / w.type->rows;
    int64_t channels = p->depthwise ? p->groups : p->outer, panels = (channels + columns - 1) / columns;
    int64_t unit = p->units * thread / p->threads, end = p->units * (thread + 1) / p->threads;
    int64_t units = p->n * ((p->to[0] + p->rows - 1) / p->rows);
    for (int64_t at = 0; at < units;) {
        bt_conv_block block = bt_conv_block_of(p, at, units);
        if (enter_block(&w, &block))
            bt_conv_table(p, &block, axes, w.at_from, NULL);
        for (int64_t u = unit, next; u < end; u = next) {
            int64_t panel = u / tiles, group = panel / panels, j = panel % panels * columns;
            next = (panel + 1) * tiles < end ? (panel + 1) * tiles : end;
            int64_t last = (next - panel * tiles) * w.type->rows, channel = group * channels + j;
            bt_conv_sum sum = {.from = w.read + (p->depthwise ? j : group * p->inner) * w.size,
                               .to = call->out[0].data + channel * w.size,
                               .to_pitch = p->groups * p->outer,
                               .list = w.list,
                               .row = (u - panel * tiles) * w.type->rows,
                               .row_end = last < rows && !p->depthwise ? last : rows,
                               .columns = channels - j < columns ? channels - j : columns,
                               .add = at > 0};
            run_rows(&w, call, &block, &sum, channel);
        }
        at += bt_conv_block_units(p, &block);
    }
}

static bt_status launch(const bt_call *call)
{
    const bt_conv_plan *p = call->state;
    bool sums = p->kind == BT_CONV_DW;
    if (sums && p->n * p->to[0] * p->to[1] == 0)
        memset(call->out[0].data, 0, (size_t)bt_cpu_count(&call->out[0]) * bt_dtype_size(p->dtype));
    if (bt_cpu_count(&call->out[0]) == 0 || (sums && p->n * p->to[0] * p->to[1] == 0))
        return BT_OK;
    if (!sums)
        type_of(p->dtype)->pack(p, call->in[1].data, call->scratch);
#if defined _OPENMP
#pragma omp parallel for num_threads(p->threads) schedule(static, 1) if (p->threads > 1)
#endif
    for (int64_t thread = 0; thread < p->threads; thread++) {
        if (sums)
            run_windows(call, thread);
        else
            run_places(call, thread);
    }
    return BT_OK;
}

const bt_kernel_impl BT_ISA(bt_cpu_conv)[] = {
    {&bt_op_conv, "conv.blocked", bt_conv_accepts, scratch, prepare, launch, release},
    {&bt_op_conv_bias, "conv_bias.blocked", bt_conv_accepts, scratch, prepare, launch, release},
    {&bt_op_conv_dx, "conv_dx.blocked", bt_conv_accepts, scratch, prepare, launch, release},
    {&bt_op_conv_dw, "conv_dw.blocked", bt_conv_accepts, scratch, prepare, launch, release},
    {.op = NULL},
};
