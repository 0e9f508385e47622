/* backend/cpu/conv_plan.c: cuts convolutions into blocks, in the same way for all instruction sets. */
#include "backend/cpu/conv.h"

enum { Y, X };

enum {
    BLOCK_BYTES = 96 << 10,  /* of a block's images and its part of the result: a small cache holds two */
    BLOCK_POINTS = 2048,     /* pixels of the result in a block of several images */
    LARGE_BYTES = 256 << 10, /* of conv_dw's result: traversed less often, with more pixels at a time */
    SUM_POINTS = 256,        /* pixels summed in registers: their part of g stays in the L1 cache */
    NARROW = 4               /* most channels of the result for which vectors run along `from` */
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

/* Turns images of one row into images of one column, because blocks are cut along the height. */
static void turn_lines(bt_conv_plan *p)
{
    if (p->from[Y] != 1 || p->to[Y] != 1 || p->window[Y] != 1 || p->attr.padding[Y])
        return;
    int64_t *pairs[] = {p->from,          p->to,          p->window,         p->attr.stride,  p->attr.padding,
                        p->attr.dilation, p->strides + 1, p->to_strides + 1, p->other_strides};
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
    for (int i = 0; i < 3; i++)
        p.to_strides[i] = to->strides[i];
    turn_lines(&p);
    for (int a = Y; a <= X; a++)
        p.residues[a] = kind == BT_CONV_DX ? smaller(p.attr.stride[a], p.to[a]) : 1;
    p.depthwise = p.inner == 1 && p.outer == 1 && p.groups > 1;
    return p;
}

static bool is_narrow(const bt_conv_plan *p, int64_t columns)
{
    return p->kind != BT_CONV_DW && !p->depthwise && p->outer <= NARROW && p->inner && p->inner % (columns / 2) == 0;
}

bool bt_conv_leaves_half(const bt_call *call, int64_t columns)
{
    bt_conv_plan p = problem_of(call);
    return p.groups > 1 && !p.depthwise && !is_narrow(&p, columns) && 2 * p.outer <= columns / 2;
}

bt_conv_axis bt_conv_residue(const bt_conv_plan *p, int a, int64_t residue)
{
    int64_t stride = p->attr.stride[a], padding = p->attr.padding[a], dilation = p->attr.dilation[a];
    if (p->kind != BT_CONV_DX)
        return (bt_conv_axis){.count = p->to[a],
                              .to_step = 1,
                              .taps = p->window[a],
                              .from_first = -padding,
                              .from_step = stride,
                              .from_tap = dilation,
                              .packed = p->window[a],
                              .window_step = 1};
    /* Pixel u of the padded image is under tap k of the window at (u - k dilation) / stride, if that is an integer. */
    int64_t u = residue + padding, step = stride / common_divisor(stride, dilation), first = 0;
    bt_conv_axis axis = {.count = divide_up(p->to[a] - residue, stride),
                         .to_first = residue,
                         .to_step = stride,
                         .from_step = 1,
                         .from_tap = step * dilation / stride};
    while (first < step && first < p->window[a] && (u - first * dilation) % stride)
        first++;
    if (first == step || first >= p->window[a])
        return axis;
    axis.taps = axis.packed = (p->window[a] - 1 - first) / step + 1;
    axis.window_first = first + (axis.taps - 1) * step; /* the last tap reads the first place */
    axis.window_step = -step;
    axis.from_first = (u - axis.window_first * dilation) / stride; /* an integer */
    return axis;
}

/* The taps of all residues together: those that cover some pixel. */
static int64_t packed_taps(const bt_conv_plan *p)
{
    int64_t taps[2] = {0, 0};
    for (int a = Y; a <= X; a++)
        for (int64_t residue = 0; residue < p->residues[a]; residue++)
            taps[a] += bt_conv_residue(p, a, residue).taps;
    return taps[Y] * taps[X];
}

/* Excessive padding and empty sums are left to the plain loops. */
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
    return p.kind == BT_CONV_DW || (p.inner && packed_taps(&p));
}

/* The number of taps that are inside the image for pixel i; the first is *first. */
static int64_t taps_inside(const bt_conv_plan *p, int a, const bt_conv_axis *all, int64_t i, int64_t *first)
{
    int64_t from = all->from_first + i * all->from_step;
    *first = divide_up(-from, all->from_tap);
    int64_t end = smaller(divide_up(p->from[a] - from, all->from_tap), all->taps);
    return larger(end - *first, 0);
}

bt_conv_axis bt_conv_class(const bt_conv_plan *p, int a, const bt_conv_axis *all, int64_t i)
{
    bt_conv_axis axis = *all;
    int64_t first, next, end = i + 1;
    if (!p->split)
        return axis;
    axis.taps = taps_inside(p, a, all, i, &axis.skipped);
    first = axis.skipped;
    if (axis.taps == all->taps && axis.taps) /* all pixels before the first whose last tap is outside */
        end = divide_up(p->from[a] - all->from_first - (all->taps - 1) * all->from_tap, all->from_step);
    end = smaller(end, all->count);
    while (end < all->count && taps_inside(p, a, all, end, &next) == axis.taps && (next == first || !axis.taps))
        end++;
    axis.count = end - i;
    axis.to_first += i * axis.to_step;
    axis.from_first += i * axis.from_step + first * axis.from_tap;
    if (!axis.taps)
        axis.from_first = axis.from_step = axis.skipped = 0;
    return axis;
}

/* ---- blocks ---- */

/* The index of the first pixel of the class from row (or column) `begin` on. */
static int64_t index_from(const bt_conv_axis *axis, int64_t begin)
{
    return smaller(divide_up(begin - axis->to_first, axis->to_step), axis->count);
}

/* The rows (or columns) low .. high - 1 of `from` that rows begin .. end - 1 of the result read. */
static void reads(const bt_conv_plan *p, int a, int64_t begin, int64_t end, int64_t *low, int64_t *high)
{
    bool any = false;
    *low = *high = 0;
    for (int64_t residue = 0; residue < p->residues[a]; residue++) {
        bt_conv_axis all = bt_conv_residue(p, a, residue), axis;
        for (int64_t n = 0; n < all.count; n += axis.count) {
            axis = bt_conv_class(p, a, &all, n);
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

/* The offset of pixel (image, y, x) of `from` in the data that a block's loops read. */
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
    const int64_t *s = p->to_strides;
    int64_t count = 0;
    int64_t begin = index_from(y, block->row), end = index_from(y, block->row + block->rows);
    for (int64_t image = 0; image < block->images && from; image++)
        for (int64_t i = begin; i < end; i++) {
            int64_t start = place(p, block, image, y->from_first + i * y->from_step, x->from_first);
            int64_t target = image * s[0] + (y->to_first + i * y->to_step) * s[1] + x->to_first * s[2];
            for (int64_t j = 0; j < x->count; j++, count++) {
                from[count] = start + j * x->from_step * p->pitch[2];
                to[count] = target + j * x->to_step * s[2];
            }
        }
    return block->images * larger(end - begin, 0) * x->count;
}

int64_t bt_conv_list(const bt_conv_plan *p, const bt_conv_axis *axes, int64_t begin, int64_t end, int64_t *list,
                     int64_t *rows)
{
    int64_t count = 0;
    for (int64_t y = 0; y < axes[Y].taps; y++)
        for (int64_t x = 0; x < axes[X].taps; x++) {
            int64_t at = y * axes[Y].from_tap * p->pitch[1] + x * axes[X].from_tap * p->pitch[2];
            int64_t row = ((axes[Y].skipped + y) * axes[X].packed + axes[X].skipped + x) * p->inner;
            int64_t first = larger(begin - row, 0), last = smaller(end - row, p->inner);
            for (int64_t c = first; c < last; c++, count++) {
                list[count] = at + c;
                if (rows)
                    rows[count] = row + c;
            }
        }
    return count;
}

/* ---- the plan ---- */

int64_t bt_conv_columns(int64_t outer, int64_t columns)
{
    int64_t whole = outer / columns * columns, rest = outer - whole;
    return whole + (rest == 0 ? 0 : rest <= columns / 2 ? columns / 2 : columns);
}

/* Whether the loops may read `from` in place. */
static bool reads_in_place(const bt_conv_plan *p, const int64_t *low, const int64_t *high)
{
    int64_t channels = p->groups * p->inner;
    for (int a = Y; a <= X; a++)
        if (low[a] < 0 || high[a] > p->from[a])
            return false;
    return (p->strides[3] == 1 || channels == 1) && (p->strides[2] == channels || p->window[X] == 1);
}

static bool large_result(const bt_conv_plan *p)
{
    int64_t rows = p->window[Y] * p->window[X] * p->inner;
    return p->kind == BT_CONV_DW && rows * p->groups * p->outer * (int64_t)bt_dtype_size(p->dtype) > LARGE_BYTES;
}

/* The approximate time of a block in cycles: pixels are done in tiles, and each tile has a fixed cost. */
static double cost(const bt_conv_plan *p, int64_t tile, int64_t columns)
{
    double panels = (double)(p->groups * (p->depthwise ? 1 : divide_up(p->outer, columns))), sum = 0;
    for (int64_t i = 0; i < p->residues[Y]; i++)
        for (int64_t j = 0; j < p->residues[X]; j++) {
            bt_conv_axis all[] = {bt_conv_residue(p, Y, i), bt_conv_residue(p, X, j)}, y, x;
            for (int64_t n = 0; n < all[Y].count; n += y.count) {
                y = bt_conv_class(p, Y, &all[Y], n);
                for (int64_t m = 0; m < all[X].count; m += x.count) {
                    x = bt_conv_class(p, X, &all[X], m);
                    int64_t points = p->images * y.count * x.count, rows = y.taps * x.taps * p->inner;
                    bool sums = p->kind == BT_CONV_DW;
                    double fixed = !sums ? 40 : large_result(p) ? 200 : 50;
                    sum += (double)points * (double)rows + (double)divide_up(sums ? rows : points, tile) * fixed;
                }
            }
        }
    double held = (double)p->images * (double)p->height * (double)p->width * (double)(p->groups * p->inner);
    return sum * panels + (p->copied ? 0.3 * held : 0);
}

/* conv_dw walks over pixels. If they are a multiple of many cache lines apart, all would fall into a few sets of the L1
 * cache; one more line between them spreads them. */
static int64_t crowded(const bt_conv_plan *p)
{
    int64_t size = (int64_t)bt_dtype_size(p->dtype), pixel = p->groups * p->inner * size;
    return p->kind == BT_CONV_DW && !p->depthwise && pixel >= 512 && pixel % 128 == 0 ? 64 / size : 0;
}

/* Decides which part of `from` a block holds and how large blocks are: whole images, several at a time, or rows of one
 * image that is too large. */
static void cut_blocks(bt_conv_plan *p, int64_t tile)
{
    int64_t apart = crowded(p), channels = p->groups * p->inner + apart;
    int64_t pixel = larger(channels * (int64_t)bt_dtype_size(p->dtype), 1);
    int64_t unit = p->kind == BT_CONV_DX ? p->attr.stride[Y] : 1, low[2], high[2];
    for (int a = Y; a <= X; a++)
        reads(p, a, 0, p->to[a], &low[a], &high[a]);
    p->copied = apart || !reads_in_place(p, low, high);
    p->low = low[X];
    p->width = high[X] - low[X];
    p->height = high[Y] - low[Y];
    p->images = 1;
    p->rows = larger(p->to[Y], 1);
    int64_t row = larger(p->width * pixel, 1), points = larger(p->to[Y] * p->to[X], 1);
    int64_t most = BLOCK_BYTES * (large_result(p) ? 4 : p->kind == BT_CONV_DW ? 2 : 1);
    int64_t image = larger(p->height * row, 1) + points * p->groups * p->outer * (int64_t)bt_dtype_size(p->dtype);
    if (image <= 4 * most) {
        p->images = larger(smaller(2 * most / image, BLOCK_POINTS / points), 1);
        if (p->images > tile) /* so that the tiles for one corner of all images are full */
            p->images -= p->images % tile;
        p->images = larger(smaller(p->images, p->kind == BT_CONV_DW ? p->n : divide_up(p->n, p->threads)), 1);
    } else {
        p->rows = 0;
        do { /* as many as fit: a multiple of the unit, so that all pieces are alike */
            p->rows = smaller(p->rows + unit, p->to[Y]);
            reads(p, Y, 0, p->rows, &low[Y], &high[Y]);
        } while (p->rows < p->to[Y] && (high[Y] - low[Y]) * row < most);
        p->height = high[Y] - low[Y] + (p->split ? p->window[Y] * p->attr.dilation[Y] : 0);
    }
    p->pitch[2] = p->copied ? channels : p->strides[2];
    p->pitch[1] = p->copied ? p->width * p->pitch[2] : p->strides[1];
    p->pitch[0] = p->copied ? p->height * p->pitch[1] : p->strides[0];
    p->points = p->images * p->rows * p->to[X];
    p->part = apart ? SUM_POINTS / 2 : SUM_POINTS;
}

/* Lays out the scratch of each thread and, after all threads, the packed weights of conv and conv_dx. The last area is
 * always written to its end: the weights, or the places of a part of g. */
static void lay_out(bt_conv_plan *p, int64_t columns)
{
    size_t size = bt_dtype_size(p->dtype), rows = (size_t)(p->window[Y] * p->window[X] * p->inner);
    p->across = p->depthwise || p->narrow ? p->outer : bt_conv_columns(p->outer, columns);
    p->block = p->copied ? bt_align_up((size_t)p->images * (size_t)p->pitch[0] * size) : 0;
    p->list = bt_align_up(rows * sizeof(int64_t));
    p->table = bt_align_up((size_t)p->points * sizeof(int64_t));
    p->own = p->block + 2 * p->table + p->list;
    if (p->kind == BT_CONV_DW) /* rows; a part of g in whole lines, and its places */
        p->own += p->list + bt_align_up((size_t)(p->part * columns) * size) + (size_t)p->part * sizeof(int64_t);
    else
        p->packed = (size_t)(packed_taps(p) * p->inner * p->groups * p->across) * size;
    p->scratch = (size_t)p->threads * p->own + p->packed;
}

void bt_conv_plan_of(const bt_call *call, int64_t tile, int64_t columns, bt_conv_plan *plan)
{
    bt_conv_plan p = problem_of(call);
    int64_t rows = p.window[Y] * p.window[X] * p.inner;
    double products =
        (double)p.n * (double)rows * (double)p.groups * (double)p.outer * (double)larger(p.to[Y] * p.to[X], 1);
    p.threads = call->threads > 1 && products > 1.5e6 ? call->threads : 1;
    p.narrow = is_narrow(&p, columns);
    cut_blocks(&p, tile);
    bt_conv_plan split = p;
    split.split = true;
    cut_blocks(&split, tile);
    if (cost(&split, tile, columns) / (double)split.points < cost(&p, tile, columns) / (double)p.points)
        p = split;
    if (p.kind == BT_CONV_DW)
        p.units = p.groups * (p.depthwise ? 1 : divide_up(p.outer, columns)) * rows;
    else
        p.units = p.n * larger(divide_up(p.to[Y], p.rows), 1);
    if (p.kind == BT_CONV_DW && p.depthwise)
        p.units = divide_up(p.groups, columns);
    p.threads = larger(smaller(p.threads, p.units), 1);
    lay_out(&p, columns);
    *plan = p;
}
