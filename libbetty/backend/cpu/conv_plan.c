/* backend/cpu/conv_plan.c: convolutions cut into blocks: the same for all instruction sets. */
#include "backend/cpu/conv.h"

enum { Y, X };

enum {
    BLOCK_BYTES = 96 << 10, /* of the images in a block: half of a small second cache at most */
    BLOCK_POINTS = 2048     /* pixels of the result in a block of several images */
};

static int64_t divide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- what is computed ---- */

static bt_conv_kind kind_of(const bt_call *call)
{
    return call->op == &bt_op_conv_dx ? BT_CONV_DX : call->op == &bt_op_conv_dw ? BT_CONV_DW : BT_CONV;
}

static void swap(int64_t *pair)
{
    int64_t first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
}

/* Images of one row become images of one column: they are cut into blocks along their height. */
static void turn_lines(bt_conv_plan *p)
{
    if (p->from[Y] != 1 || p->to[Y] != 1 || p->window[Y] != 1 || p->attr.padding[Y])
        return;
    int64_t *others = p->other_strides + (p->kind == BT_CONV_DW ? 1 : 0); /* g has its axes where x has */
    int64_t *pairs[] = {p->from,          p->to,          p->window, p->attr.stride, p->attr.padding,
                        p->attr.dilation, p->strides + 1, others};
    for (int i = 0; i < BT_COUNT_OF(pairs); i++)
        swap(pairs[i]);
}

static bt_conv_plan problem_of(const bt_call *call)
{
    bt_conv_kind kind = kind_of(call);
    const bt_view *to = kind == BT_CONV_DW ? &call->in[1] : &call->out[0];
    const bt_view *weight = kind == BT_CONV_DW ? &call->out[0] : &call->in[1];
    const bt_view *from = &call->in[0];
    bt_conv_plan p = {
        .kind = kind, .dtype = call->out[0].dtype, .attr = *(const bt_conv_attr *)call->attr, .n = from->dims[0]};
    p.groups = p.attr.groups;
    for (int a = Y; a <= X; a++) {
        p.from[a] = from->dims[1 + a];
        p.to[a] = to->dims[1 + a];
        p.window[a] = weight->dims[a];
    }
    p.inner = from->dims[3] / p.groups;
    p.outer = to->dims[3] / p.groups;
    for (int i = 0; i < 4; i++) {
        p.strides[i] = from->strides[i];
        p.other_strides[i] = call->in[1].strides[i];
    }
    turn_lines(&p);
    for (int a = Y; a <= X; a++)
        p.classes[a] = kind == BT_CONV_DX ? smaller(p.attr.stride[a], p.to[a]) : 1;
    p.depthwise = p.inner == 1 && p.outer == 1 && p.groups > 1;
    return p;
}

/* What is left to the plain loops: padding out of all proportion. */
bool bt_conv_accepts(const bt_call *call)
{
    if (!bt_dtype_floats(call->out[0].dtype) || !bt_cpu_same_dtypes(call, 0, call->inputs - 1))
        return false;
    if (call->inputs > 2 && call->in[2].strides[0] != 1 && call->in[2].dims[0] != 1)
        return false;
    bt_conv_plan p = problem_of(call);
    for (int a = Y; a <= X; a++) {
        int64_t image = p.kind == BT_CONV_DX ? p.to[a] : p.from[a];
        if ((image + 2 * p.attr.padding[a]) / 8 > image + p.window[a])
            return false;
    }
    return true;
}

bt_conv_axis bt_conv_axis_of(const bt_conv_plan *p, int a, int64_t class)
{
    int64_t stride = p->attr.stride[a], padding = p->attr.padding[a], dilation = p->attr.dilation[a];
    if (p->kind != BT_CONV_DX)
        return (bt_conv_axis){.count = p->to[a],
                              .to_step = 1,
                              .taps = p->window[a],
                              .tap_step = 1,
                              .from_first = -padding,
                              .from_step = stride,
                              .from_tap = dilation};
    /* Pixel u of the padded image is under tap k of the window at (u - k dilation) / stride, where that is whole. */
    int64_t u = class + padding, step = stride / common_divisor(stride, dilation), first = 0;
    bt_conv_axis axis = {.count = divide_up(p->to[a] - class, stride),
                         .to_first = class,
                         .to_step = stride,
                         .from_step = 1,
                         .from_tap = step * dilation / stride};
    while (first < step && first < p->window[a] && (u - first * dilation) % stride)
        first++;
    if (first == step || first >= p->window[a])
        return axis;
    axis.taps = (p->window[a] - 1 - first) / step + 1;
    axis.tap_first = first + (axis.taps - 1) * step; /* the last one reads first */
    axis.tap_step = -step;
    axis.from_first = (u - axis.tap_first * dilation) / stride; /* whole */
    return axis;
}

/* ---- blocks ---- */

/* Which of a class's pixels lie from row (or column) `begin` on, before `end`. */
static int64_t index_from(const bt_conv_axis *axis, int64_t begin)
{
    return smaller(divide_up(begin - axis->to_first, axis->to_step), axis->count);
}

/* Rows (or columns) of `from` that the result's begin..end read. */
static void reads(const bt_conv_plan *p, int a, int64_t begin, int64_t end, int64_t *low, int64_t *high)
{
    bool any = false;
    *low = *high = 0;
    for (int64_t class = 0; class < p->classes[a]; class ++) {
        bt_conv_axis axis = bt_conv_axis_of(p, a, class);
        int64_t i = index_from(&axis, begin), i_end = index_from(&axis, end);
        if (i >= i_end || !axis.taps)
            continue;
        int64_t first = axis.from_first + i * axis.from_step;
        int64_t last = axis.from_first + (i_end - 1) * axis.from_step + (axis.taps - 1) * axis.from_tap;
        *low = any ? smaller(*low, first) : first;
        *high = any ? larger(*high, last + 1) : last + 1;
        any = true;
    }
}

bt_conv_block bt_conv_block_of(const bt_conv_plan *p, int64_t unit, int64_t unit_end)
{
    int64_t pieces = larger(divide_up(p->to[Y], p->rows), 1), high;
    bt_conv_block block = {.image = unit / pieces, .images = 1, .row = unit % pieces * p->rows};
    if (pieces == 1)
        block.images = smaller(p->images, unit_end - unit);
    block.rows = smaller(p->rows, p->to[Y] - block.row);
    reads(p, Y, block.row, block.row + block.rows, &block.first, &high);
    block.height = high - block.first;
    return block;
}

int64_t bt_conv_block_units(const bt_conv_plan *p, const bt_conv_block *block)
{
    return p->rows < p->to[Y] ? 1 : block->images;
}

/* The offset of pixel (image, y, x) of `from` in what a block's loops read. */
static int64_t place(const bt_conv_plan *p, const bt_conv_block *block, int64_t image, int64_t y, int64_t x)
{
    if (p->copied) {
        y -= block->first;
        x -= p->low;
    }
    return image * p->pitch[0] + y * p->pitch[1] + x * p->pitch[2];
}

int64_t bt_conv_table(const bt_conv_plan *p, const bt_conv_block *block, const bt_conv_axis *axes, int64_t *from,
                      int64_t *to)
{
    const bt_conv_axis *y = &axes[Y], *x = &axes[X];
    int64_t count = 0, channels = p->groups * p->outer;
    int64_t begin = index_from(y, block->row), end = index_from(y, block->row + block->rows);
    for (int64_t image = 0; image < block->images && from; image++)
        for (int64_t i = begin; i < end; i++) {
            int64_t start = place(p, block, image, y->from_first + i * y->from_step, x->from_first);
            int64_t target = (image * p->to[Y] + y->to_first + i * y->to_step) * p->to[X] + x->to_first;
            for (int64_t j = 0; j < x->count; j++, count++) {
                from[count] = start + j * x->from_step * p->pitch[2];
                if (to)
                    to[count] = (target + j * x->to_step) * channels;
            }
        }
    return block->images * (end - begin) * x->count;
}

int64_t bt_conv_list(const bt_conv_plan *p, const bt_conv_axis *axes, int64_t *list)
{
    int64_t count = 0;
    for (int64_t y = 0; y < axes[Y].taps; y++)
        for (int64_t x = 0; x < axes[X].taps; x++)
            for (int64_t c = 0; c < p->inner; c++)
                list[count++] = y * axes[Y].from_tap * p->pitch[1] + x * axes[X].from_tap * p->pitch[2] + c;
    return count;
}

/* ---- the plan ---- */

size_t bt_conv_columns(int64_t outer, int64_t columns)
{
    int64_t whole = outer / columns * columns, rest = outer - whole;
    return (size_t)(whole + (rest == 0 ? 0 : rest <= columns / 2 ? columns / 2 : columns));
}

/* Whether the loops may read `from` where it is. */
static bool reads_in_place(const bt_conv_plan *p, const int64_t *low, const int64_t *high)
{
    int64_t channels = p->groups * p->inner;
    for (int a = Y; a <= X; a++)
        if (low[a] < 0 || high[a] > p->from[a])
            return false;
    return (p->strides[3] == 1 || channels == 1) && (p->strides[2] == channels || p->window[X] == 1);
}

/* Images are copied whole, several at a time, or by pieces of rows where one is too large. */
static void cut_blocks(bt_conv_plan *p, int64_t full_height)
{
    int64_t size = (int64_t)bt_dtype_size(p->dtype), row = larger(p->width * p->groups * p->inner * size, 1);
    int64_t unit = p->kind == BT_CONV_DX ? p->attr.stride[Y] : 1, low, high;
    p->images = 1;
    p->rows = larger(p->to[Y], 1);
    p->height = full_height;
    if (full_height * row <= 2 * BLOCK_BYTES) {
        int64_t points = larger(p->to[Y] * p->to[X], 1);
        p->images = smaller(BLOCK_BYTES / larger(full_height * row, 1), BLOCK_POINTS / points);
        p->images = larger(smaller(p->images, divide_up(p->n, p->threads)), 1);
        return;
    }
    p->rows = 0;
    do { /* as many as fit: a multiple of the unit, so that all pieces are alike */
        p->rows = smaller(p->rows + unit, p->to[Y]);
        reads(p, Y, 0, p->rows, &low, &high);
    } while (p->rows < p->to[Y] && (high - low) * row < BLOCK_BYTES);
    p->height = high - low;
}

static void lay_out(bt_conv_plan *p, int64_t columns)
{
    size_t size = bt_dtype_size(p->dtype), places = (size_t)p->points * sizeof(int64_t);
    size_t rows = (size_t)(p->window[Y] * p->window[X] * p->inner);
    size_t across = p->depthwise ? (size_t)p->groups : (size_t)p->groups * bt_conv_columns(p->outer, columns);
    p->block = p->copied ? bt_align_up((size_t)p->images * (size_t)p->pitch[0] * size) : 0;
    p->packed = p->kind == BT_CONV_DW ? 0 : bt_align_up(rows * across * size);
    p->list = bt_align_up(rows * sizeof(int64_t));
    p->table = bt_align_up(places);
    p->own = p->block + p->table * (p->kind == BT_CONV_DW ? 1 : 2) + p->list;
    if (p->kind == BT_CONV_DW)
        p->own += bt_align_up((size_t)(smaller(p->points, BT_CONV_POINTS) * columns) * size); /* a part of g */
    p->scratch = p->packed + (size_t)p->threads * p->own;
}

void bt_conv_plan_of(const bt_call *call, int64_t columns, int64_t rows, bt_conv_plan *plan)
{
    bt_conv_plan p = problem_of(call);
    int64_t low[2], high[2];
    for (int a = Y; a <= X; a++)
        reads(&p, a, 0, p.to[a], &low[a], &high[a]);
    double products = (double)p.n * (double)p.window[Y] * (double)p.window[X] * (double)p.groups * (double)p.inner *
                      (double)p.outer * (double)larger(p.to[Y] * p.to[X], 1);
    p.threads = call->threads > 1 && products > 1.5e6 ? call->threads : 1;
    p.copied = !reads_in_place(&p, low, high);
    p.low = low[X];
    p.width = high[X] - low[X];
    cut_blocks(&p, high[Y] - low[Y]);
    p.pitch[2] = p.copied ? p.groups * p.inner : p.strides[2];
    p.pitch[1] = p.copied ? p.width * p.pitch[2] : p.strides[1];
    p.pitch[0] = p.copied ? p.height * p.pitch[1] : p.strides[0];
    p.points = p.images * p.rows * p.to[X];
    if (p.kind == BT_CONV_DW && p.depthwise)
        p.units = divide_up(p.groups, columns);
    else if (p.kind == BT_CONV_DW)
        p.units = p.groups * divide_up(p.outer, columns) * divide_up(p.window[Y] * p.window[X] * p.inner, rows);
    else
        p.units = p.n * larger(divide_up(p.to[Y], p.rows), 1);
    p.threads = larger(smaller(p.threads, p.units), 1);
    lay_out(&p, columns);
    *plan = p;
}
