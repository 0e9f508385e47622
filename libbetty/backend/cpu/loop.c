/* backend/cpu/loop.c: applies row functions to operands with any strides. */
#include "backend/cpu/loop.h"

#include "backend/cpu/transpose.h"

/* ---- planning ---- */

typedef struct joined { /* axes from the inside out */
    int rank;
    int64_t dims[BT_MAX_RANK], strides[BT_LOOP_INPUTS][BT_MAX_RANK];
} joined;

/* Whether axis d of the inputs continues the outermost of the axes so far. */
static bool continues(const joined *axes, const bt_view *in, int inputs, int d)
{
    int last = axes->rank - 1;
    for (int i = 0; i < inputs; i++)
        if (in[i].strides[d] != axes->strides[i][last] * axes->dims[last])
            return false;
    return axes->rank > 0;
}

/* The axes without those of size 1; adjacent axes are joined if all inputs allow it. The contiguous output always
 * does. */
static joined join(const bt_view *in, int inputs)
{
    joined axes = {0};
    for (int d = in[0].rank - 1; d >= 0; d--) {
        int64_t dim = in[0].dims[d];
        if (dim == 1)
            continue;
        if (axes.rank && continues(&axes, in, inputs, d)) {
            axes.dims[axes.rank - 1] *= dim;
            continue;
        }
        axes.dims[axes.rank] = dim;
        for (int i = 0; i < inputs; i++)
            axes.strides[i][axes.rank] = in[i].strides[d];
        axes.rank++;
    }
    return axes;
}

static void choose_row(bt_loop *loop, bt_row_fn *const *variants)
{
    int mask = 0;
    for (int i = 0; i < loop->inputs; i++)
        if (loop->along[i] == 0)
            mask |= 1 << i;
    if (!variants[mask])
        mask = 0;
    loop->row = variants[mask];
    for (int i = 0; i < loop->inputs; i++) {
        loop->staged[i] = loop->along[i] != loop->size[i] && !(mask >> i & 1);
        loop->any_staged |= loop->staged[i];
        loop->turned |=
            loop->staged[i] && loop->size[i] >= 4 && loop->rank && loop->step[i][loop->rank - 1] == loop->size[i];
    }
}

enum { WORTH_A_THREAD = 1 << 17 }; /* simple operations: about ten microseconds */

void BT_ISA(bt_loop_plan)(bt_loop *loop, const bt_view *in, int inputs, bt_dtype out, bt_row_fn *const *variants,
                          int threads, int cost)
{
    joined axes = join(in, inputs);
    *loop = (bt_loop){.inputs = inputs, .rows = 1, .n = axes.rank ? axes.dims[0] : 1};
    loop->rank = axes.rank > 0 ? axes.rank - 1 : 0;
    loop->out_size = (int64_t)bt_dtype_size(out);
    for (int d = 0; d < loop->rank; d++) {
        loop->outer[d] = axes.dims[axes.rank - 1 - d];
        loop->rows *= loop->outer[d];
    }
    for (int i = 0; i < inputs; i++) {
        loop->size[i] = (int64_t)bt_dtype_size(in[i].dtype);
        loop->along[i] = axes.rank ? axes.strides[i][0] * loop->size[i] : loop->size[i];
        for (int d = 0; d < loop->rank; d++)
            loop->step[i][d] = axes.strides[i][axes.rank - 1 - d] * loop->size[i];
    }
    choose_row(loop, variants);
    double work = (double)loop->rows * (double)loop->n * cost;
    loop->threads = threads > 1 && work >= WORTH_A_THREAD ? threads : 1;
}

bt_status BT_ISA(bt_loop_prepare)(bt_call *call, bt_row_fn *const *variants, int cost)
{
    call->state = bt_alloc(sizeof(bt_loop));
    if (!call->state)
        return BT_ERROR_MEMORY;
    bt_loop *loop = call->state;
    BT_ISA(bt_loop_plan)(loop, call->in, call->inputs, call->out[0].dtype, variants, call->threads, cost);
    if (loop->rows == 1 && loop->n && !loop->any_staged) {
        call->row = loop->row;
        call->divided = loop->threads > 1;
        call->n = loop->n;
    }
    return BT_OK;
}

void BT_ISA(bt_loop_release)(bt_call *call)
{
    bt_free(call->state);
    call->state = NULL;
}

/* ---- running ---- */

enum { STAGE = 256, TILE_ROWS = 16, TILE_COLUMNS = 64 }; /* elements of a buffer; sides of a block that is transposed */

static void gather(void *to, const char *from, int64_t along, int64_t size, int64_t n)
{
    if (size == 4) {
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)to + 4 * i, from + i * along, 4);
    } else if (size == 8) {
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)to + 8 * i, from + i * along, 8);
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)to + 2 * i, from + i * along, 2);
    } else {
        for (int64_t i = 0; i < n; i++)
            ((char *)to)[i] = from[i * along];
    }
}

/* A row that is processed in pieces. */
static void staged_row(const bt_loop *loop, char *out, const char *const *in, int64_t n)
{
    _Alignas(64) char buffer[BT_LOOP_INPUTS][STAGE * 8];
    for (int64_t at = 0; at < n; at += STAGE) {
        int64_t count = n - at < STAGE ? n - at : STAGE;
        const void *now[BT_LOOP_INPUTS];
        for (int i = 0; i < loop->inputs; i++) {
            now[i] = in[i] + at * loop->along[i];
            if (loop->staged[i]) {
                gather(buffer[i], now[i], loop->along[i], loop->size[i], count);
                now[i] = buffer[i];
            }
        }
        loop->row(count, out + at * loop->out_size, now);
    }
}

static void one_row(const bt_loop *loop, char *out, const char *const *in, int64_t n)
{
    const void *now[BT_LOOP_INPUTS];
    if (loop->any_staged) {
        staged_row(loop, out, in, n);
        return;
    }
    for (int i = 0; i < loop->inputs; i++)
        now[i] = in[i];
    loop->row(n, out, now);
}

static void turn(void *to, const char *from, int64_t along, int64_t size, int64_t rows, int64_t columns)
{
    if (size == 4)
        bt_turn_all4((const void *)from, along / 4, to, TILE_COLUMNS, columns, rows);
    else
        bt_turn_all8((const void *)from, along / 8, to, TILE_COLUMNS, columns, rows);
}

/* Up to TILE_ROWS successive rows along the last outer axis, with operands that are contiguous across rows. */
static void turned_rows(const bt_loop *loop, char *out, const char *const *in, int64_t rows)
{
    _Alignas(64) char buffer[BT_LOOP_INPUTS][TILE_ROWS * TILE_COLUMNS * 8];
    int last = loop->rank - 1;
    for (int64_t at = 0; at < loop->n; at += TILE_COLUMNS) {
        int64_t count = loop->n - at < TILE_COLUMNS ? loop->n - at : TILE_COLUMNS;
        for (int i = 0; i < loop->inputs; i++) {
            const char *from = in[i] + at * loop->along[i];
            if (!loop->staged[i])
                continue;
            if (loop->step[i][last] == loop->size[i] && loop->size[i] >= 4)
                turn(buffer[i], from, loop->along[i], loop->size[i], rows, count);
            else
                for (int64_t r = 0; r < rows; r++)
                    gather(buffer[i] + r * TILE_COLUMNS * loop->size[i], from + r * loop->step[i][last], loop->along[i],
                           loop->size[i], count);
        }
        for (int64_t r = 0; r < rows; r++) {
            const void *now[BT_LOOP_INPUTS];
            for (int i = 0; i < loop->inputs; i++)
                now[i] = loop->staged[i] ? buffer[i] + r * TILE_COLUMNS * loop->size[i]
                                         : in[i] + at * loop->along[i] + r * loop->step[i][last];
            loop->row(count, out + (r * loop->n + at) * loop->out_size, now);
        }
    }
}

/* All rows, if they need no buffers and lie along one axis. */
static void plain_rows(const bt_loop *loop, char *out, const char *const *in)
{
    const void *now[BT_LOOP_INPUTS];
    int64_t n = loop->n, step0 = loop->step[0][0], step1 = loop->step[1][0], step2 = loop->step[2][0];
    const char *at0 = in[0], *at1 = loop->inputs > 1 ? in[1] : in[0], *at2 = loop->inputs > 2 ? in[2] : in[0];
    bt_row_fn *function = loop->row;
    for (int64_t row = 0; row < loop->rows; row++) {
        now[0] = at0;
        now[1] = at1;
        now[2] = at2;
        function(n, out, now);
        at0 += step0;
        at1 += step1;
        at2 += step2;
        out += n * loop->out_size;
    }
}

/* Rows begin .. end - 1. */
static void some_rows(const bt_loop *loop, char *out, const char *const *in, int64_t begin, int64_t end)
{
    int64_t index[BT_MAX_RANK] = {0}, rest = begin;
    const char *at[BT_LOOP_INPUTS] = {0};
    int last = loop->rank - 1;
    for (int i = 0; i < loop->inputs; i++)
        at[i] = in[i];
    for (int d = last; d >= 0; rest /= loop->outer[d], d--) {
        index[d] = rest % loop->outer[d];
        for (int i = 0; i < loop->inputs; i++)
            at[i] += index[d] * loop->step[i][d];
    }
    for (int64_t row = begin, count; row < end; row += count) {
        count = 1;
        if (loop->turned) {
            count = end - row < TILE_ROWS ? end - row : TILE_ROWS;
            count = loop->outer[last] - index[last] < count ? loop->outer[last] - index[last] : count;
            turned_rows(loop, out + row * loop->n * loop->out_size, at, count);
        } else {
            one_row(loop, out + row * loop->n * loop->out_size, at, loop->n);
        }
        int64_t by = count;
        for (int d = last; d >= 0; d--, by = 1) {
            index[d] += by;
            for (int i = 0; i < loop->inputs; i++)
                at[i] += by * loop->step[i][d];
            if (index[d] < loop->outer[d])
                break;
            for (int i = 0; i < loop->inputs; i++)
                at[i] -= index[d] * loop->step[i][d];
            index[d] = 0;
        }
    }
}

typedef struct shared {
    const bt_loop *loop;
    char *out;
    const char *const *in;
} shared;

/* One thread's share: some rows, or a piece of the only row. */
static void part(const void *work, int thread, int threads)
{
    const shared *s = work;
    const bt_loop *loop = s->loop;
    char *out = s->out;
    const char *const *in = s->in;
    if (loop->rows > 1) {
        some_rows(loop, out, in, loop->rows * thread / threads, loop->rows * (thread + 1) / threads);
        return;
    }
    const char *at[BT_LOOP_INPUTS];
    int64_t unit = 64, pieces = (loop->n + unit - 1) / unit; /* threads write to different cache lines */
    int64_t begin = pieces * thread / threads * unit, end = pieces * (thread + 1) / threads * unit;
    end = end < loop->n ? end : loop->n;
    for (int i = 0; i < loop->inputs; i++)
        at[i] = in[i] + begin * loop->along[i];
    if (begin < end)
        one_row(loop, out + begin * loop->out_size, at, end - begin);
}

void BT_ISA(bt_loop_run)(const bt_loop *loop, char *out, const char *const *in)
{
    if (!loop->rows || !loop->n)
        return;
    if (loop->threads > 1) {
        bt_team_do(part, &(shared){loop, out, in}, loop->threads);
    } else if (loop->rows == 1) {
        one_row(loop, out, in, loop->n);
    } else if (loop->rank == 1 && !loop->any_staged) {
        plain_rows(loop, out, in);
    } else {
        some_rows(loop, out, in, 0, loop->rows);
    }
}

bt_status BT_ISA(bt_loop_launch)(const bt_call *call)
{
    const bt_loop *loop = call->state;
    const char *in[BT_LOOP_INPUTS];
    for (int i = 0; i < loop->inputs; i++)
        in[i] = call->in[i].data;
    BT_ISA(bt_loop_run)(loop, call->out[0].data, in);
    return BT_OK;
}
