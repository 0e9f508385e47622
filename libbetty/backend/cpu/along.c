/* backend/cpu/along.c: ops along one axis, for every dtype and stride: argsort, take_along, put_along, cumsum. Lines
 * are independent, so threads share them; the result is the same for any number of threads. */
#include "backend/cpu/reference.h"
#include "base/team.h"

#include <string.h>

/* An operand's lines along an axis. */
typedef struct lines {
    bt_view kept;
    int64_t count, size, step; /* lines; elements per line; bytes between elements */
    bt_dtype dtype;
} lines;

static lines lines_of(const bt_view *x, int64_t axis)
{
    lines l = {.size = x->dims[axis], .dtype = x->dtype};
    bt_view along;
    bt_cpu_split(x, UINT32_C(1) << axis, &l.kept, &along);
    l.count = bt_cpu_count(&l.kept);
    l.step = x->strides[axis] * (int64_t)bt_dtype_size(x->dtype);
    return l;
}

static char *line_at(const lines *l, int64_t line) { return bt_cpu_at(&l->kept, line); }

/* ---- the lines of a call, shared between threads ---- */

typedef struct along {
    const lines *x, *index, *out;
    const bt_call *call;
    void (*one)(const struct along *a, int64_t line, int part);
} along;

static void share(const void *work, int t, int threads)
{
    const along *a = work;
    int64_t count = a->out->count;
    for (int64_t line = count * t / threads; line < count * (t + 1) / threads; line++)
        a->one(a, line, t);
}

/* elements: how many are read in all. */
static int threads_of(const bt_call *call, int64_t lines, int64_t elements)
{
    return call->threads > 1 && lines >= call->threads && elements >= 1 << 15 ? call->threads : 1;
}

static void run(const along *a, int64_t elements)
{
    bt_team_do(share, a, threads_of(a->call, a->out->count, elements));
}

/* ---- argsort ---- */

typedef struct entry {
    uint64_t key; /* unsigned, in the wanted order */
    int64_t place;
} entry;

enum { FEW = 32 };

/* Maps a number to an unsigned key with the same order: NaN above all, -0 as 0. */
static uint64_t key_of(const char *at, bt_dtype dtype)
{
    const uint64_t top = UINT64_C(1) << 63;
    if (!bt_dtype_floats(dtype)) {
        int32_t small;
        int64_t large;
        if (dtype == BT_I32)
            memcpy(&small, at, sizeof small);
        else
            memcpy(&large, at, sizeof large);
        return (uint64_t)(dtype == BT_I32 ? small : large) ^ top;
    }
    float single;
    double x;
    if (dtype == BT_F32)
        memcpy(&single, at, sizeof single);
    else
        memcpy(&x, at, sizeof x);
    x = (dtype == BT_F32 ? (double)single : x) + 0.0; /* -0 + 0 is 0 */
    if (x != x)
        return UINT64_MAX;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & top ? ~bits : bits | top;
}

/* Inserts an entry into the best `keep` entries so far, which are sorted; for a small `keep`. */
static int64_t insert(entry *best, int64_t filled, int64_t keep, entry next)
{
    if (filled == keep && next.key >= best[keep - 1].key)
        return filled;
    int64_t at = filled < keep ? filled++ : keep - 1;
    for (; at > 0 && best[at - 1].key > next.key; at--)
        best[at] = best[at - 1];
    best[at] = next;
    return filled;
}

/* Merges adjacent sorted runs of FEW entries until one is left. Returns where it is: a or b. */
static entry *merge_runs(entry *a, entry *b, int64_t n)
{
    for (int64_t run = FEW; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            int64_t i = from, middle = from + run < n ? from + run : n, j = middle;
            int64_t end = middle + run < n ? middle + run : n;
            for (int64_t to = from; to < end; to++)
                b[to] = i < middle && (j == end || a[i].key <= a[j].key) ? a[i++] : a[j++];
        }
        entry *other = a;
        a = b;
        b = other;
    }
    return a;
}

static void sort_line(const lines *x, int64_t line, const bt_sort_attr *attr, entry *room, const lines *out)
{
    const char *from = line_at(x, line);
    bool few = attr->count <= FEW;
    uint64_t flip = attr->descending ? UINT64_MAX : 0;
    int64_t filled = 0;
    entry *sorted = room;
    for (int64_t i = 0; i < x->size; i++, from += x->step) {
        entry next = {key_of(from, x->dtype) ^ flip, i};
        if (few)
            filled = insert(room, filled, attr->count, next);
        else
            insert(room + i / FEW * FEW, i % FEW, FEW, next);
    }
    if (!few)
        sorted = merge_runs(room, room + x->size, x->size);
    char *to = line_at(out, line);
    for (int64_t i = 0; i < attr->count; i++, to += out->step) {
        int32_t place = (int32_t)sorted[i].place;
        memcpy(to, &place, sizeof place);
    }
}

static size_t line_room(const bt_call *call)
{
    const bt_sort_attr *attr = call->attr;
    return (size_t)(attr->count <= FEW ? attr->count : 2 * call->in[0].dims[attr->axis]);
}

static size_t argsort_scratch(const bt_call *call)
{
    const bt_sort_attr *attr = call->attr;
    lines x = lines_of(&call->in[0], attr->axis);
    return x.count ? line_room(call) * (size_t)threads_of(call, x.count, x.count * x.size) * sizeof(entry) : 0;
}

static void sort_one(const along *a, int64_t line, int part)
{
    sort_line(a->x, line, a->call->attr, (entry *)a->call->scratch + (int64_t)line_room(a->call) * part, a->out);
}

static bt_status argsort(const bt_call *call)
{
    const bt_sort_attr *attr = call->attr;
    lines x = lines_of(&call->in[0], attr->axis), out = lines_of(&call->out[0], attr->axis);
    if (attr->count)
        run(&(along){&x, NULL, &out, call, sort_one}, x.count * x.size);
    return BT_OK;
}

/* ---- take_along and put_along ---- */

static int64_t place_at(const char *at, bt_dtype dtype)
{
    int32_t small;
    int64_t large;
    if (dtype == BT_I64)
        return memcpy(&large, at, sizeof large), large;
    return memcpy(&small, at, sizeof small), small;
}

/* Checks all places of the index, so that the loops that use them need not. */
static bt_status check_places(const bt_call *call, const bt_view *index, const lines *l, int64_t size)
{
    bool outside = false;
    for (int64_t line = 0; line < l->count; line++) {
        const char *at = line_at(l, line);
        for (int64_t i = 0; i < l->size; i++, at += l->step)
            outside |= place_at(at, l->dtype) < 0 || place_at(at, l->dtype) >= size;
    }
    int64_t count = outside ? bt_cpu_count(index) : 0, place;
    for (int64_t e = 0; e < count; e++)
        BT_TRY(bt_cpu_index(call, index, e, size, &place)); /* reports the bad one */
    return BT_OK;
}

static void take_line(const lines *x, const lines *index, const lines *out, int64_t line)
{
    const char *from = line_at(x, line), *place = line_at(index, line);
    char *to = line_at(out, line);
    size_t size = bt_dtype_size(x->dtype);
    for (int64_t i = 0; i < index->size; i++, place += index->step, to += out->step) {
        const char *element = from + place_at(place, index->dtype) * x->step;
        if (size == 4)
            memcpy(to, element, 4);
        else
            memcpy(to, element, size);
    }
}

static void take_one(const along *a, int64_t line, int part)
{
    (void)part;
    take_line(a->x, a->index, a->out, line);
}

static bt_status take_along(const bt_call *call)
{
    int64_t axis = ((const bt_axis_attr *)call->attr)->axis;
    lines x = lines_of(&call->in[0], axis), index = lines_of(&call->in[1], axis), out = lines_of(&call->out[0], axis);
    BT_TRY(check_places(call, &call->in[1], &index, x.size));
    run(&(along){&x, &index, &out, call, take_one}, index.count * index.size);
    return BT_OK;
}

static void add_at(char *to, const char *from, bt_dtype dtype)
{
    float single, more;
    double sum, x;
    if (dtype == BT_F32) {
        memcpy(&single, to, sizeof single);
        memcpy(&more, from, sizeof more);
        single += more;
        memcpy(to, &single, sizeof single);
        return;
    }
    memcpy(&sum, to, sizeof sum);
    memcpy(&x, from, sizeof x);
    sum += x;
    memcpy(to, &sum, sizeof sum);
}

static void put_line(const lines *index, const lines *values, const lines *out, int64_t line)
{
    const char *place = line_at(index, line), *from = line_at(values, line);
    char *to = line_at(out, line);
    for (int64_t i = 0; i < index->size; i++, place += index->step, from += values->step)
        add_at(to + place_at(place, index->dtype) * out->step, from, values->dtype);
}

static void put_one(const along *a, int64_t line, int part)
{
    (void)part;
    put_line(a->index, a->x, a->out, line);
}

static bt_status put_along(const bt_call *call)
{
    const bt_places_attr *attr = call->attr;
    lines index = lines_of(&call->in[0], attr->axis), values = lines_of(&call->in[1], attr->axis);
    lines out = lines_of(&call->out[0], attr->axis);
    size_t bytes = (size_t)bt_cpu_count(&call->out[0]) * bt_dtype_size(out.dtype);
    BT_TRY(check_places(call, &call->in[0], &index, attr->size));
    if (bytes)
        memset(call->out[0].data, 0, bytes);
    run(&(along){&values, &index, &out, call, put_one}, index.count * index.size);
    return BT_OK;
}

/* ---- cumsum: floats in double precision, integers wrap around ---- */

#define SUM_LINE(name, T, A)                                                                                           \
    static void name(const char *from, int64_t in, char *to, int64_t out, int64_t n)                                   \
    {                                                                                                                  \
        A sum = 0;                                                                                                     \
        for (int64_t i = 0; i < n; i++, from += in, to += out) {                                                       \
            T x;                                                                                                       \
            memcpy(&x, from, sizeof x);                                                                                \
            sum += (A)x;                                                                                               \
            x = (T)sum;                                                                                                \
            memcpy(to, &x, sizeof x);                                                                                  \
        }                                                                                                              \
    }
SUM_LINE(sum_f32, float, double)
SUM_LINE(sum_f64, double, double)
SUM_LINE(sum_i32, uint32_t, uint32_t)
SUM_LINE(sum_i64, uint64_t, uint64_t)

static void sum_line(const lines *x, const lines *out, int64_t line, bool reverse)
{
    static void (*const sums[])(const char *, int64_t, char *, int64_t, int64_t) = {
        [BT_F32] = sum_f32, [BT_F64] = sum_f64, [BT_I32] = sum_i32, [BT_I64] = sum_i64};
    int64_t last = reverse && x->size ? x->size - 1 : 0, sign = reverse ? -1 : 1;
    sums[x->dtype](line_at(x, line) + last * x->step, sign * x->step, line_at(out, line) + last * out->step,
                   sign * out->step, x->size);
}

static void sum_one(const along *a, int64_t line, int part)
{
    (void)part;
    sum_line(a->x, a->out, line, ((const bt_cumsum_attr *)a->call->attr)->reverse);
}

static bt_status cumsum(const bt_call *call)
{
    const bt_cumsum_attr *attr = call->attr;
    lines x = lines_of(&call->in[0], attr->axis), out = lines_of(&call->out[0], attr->axis);
    run(&(along){&x, NULL, &out, call, sum_one}, x.count * x.size);
    return BT_OK;
}

const bt_kernel_impl bt_cpu_along[] = {
    {.op = &bt_op_argsort, .name = "argsort.lines", .scratch = argsort_scratch, .launch = argsort},
    {.op = &bt_op_take_along, .name = "take_along.lines", .launch = take_along},
    {.op = &bt_op_put_along, .name = "put_along.lines", .launch = put_along},
    {.op = &bt_op_cumsum, .name = "cumsum.lines", .launch = cumsum},
    {.op = NULL},
};
