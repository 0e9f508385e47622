/* backend/cuda/sort.cu: argsort, and put_along, which adds in the order of the sorted places. Each block sorts a run of
 * elements in shared memory. Then adjacent runs are merged, until a line is one run: each element searches for its
 * place in the other run. Elements are sorted together with their places in the line, so that no two are equal. */
#include "backend/cuda/walk.h"

const int RUN = 1024; /* elements per block */

/* ---- entries: a key and, for ties, the place ---- */

typedef uint64_t narrow; /* a key of 32 bits above the place */

struct wide {
    uint64_t key;
    int64_t place;
};

template <class E> static __device__ inline E made(uint64_t key, int64_t place);
template <> __device__ inline narrow made(uint64_t key, int64_t place) { return key << 32 | (uint64_t)place; }
template <> __device__ inline wide made(uint64_t key, int64_t place) { return {key, place}; }
static __device__ inline bool before(narrow a, narrow b) { return a < b; }
static __device__ inline bool before(const wide &a, const wide &b)
{
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}
static __device__ inline int64_t place_of(narrow x) { return (int64_t)(x & UINT32_MAX); }
static __device__ inline int64_t place_of(const wide &x) { return x.place; }
static __device__ inline uint64_t key_of(narrow x) { return x >> 32; }
static __device__ inline uint64_t key_of(const wide &x) { return x.key; }

/* Maps elements to unsigned keys with the same order: NaN above all, -0 as 0. */
static __device__ inline uint64_t ordered(narrow, bt_dtype dtype, const char *data, int64_t at)
{
    const uint32_t top = UINT32_C(1) << 31;
    if (dtype == BT_I32)
        return (uint32_t)bt_load<int32_t>(dtype, data, at) ^ top;
    const float x = bt_load<float>(dtype, data, at) + 0.0F;
    const uint32_t bits = bt_f32_bits(x);
    return x != x ? UINT32_MAX : bits & top ? ~bits : bits | top;
}

static __device__ inline uint64_t ordered(wide, bt_dtype dtype, const char *data, int64_t at)
{
    const uint64_t top = UINT64_C(1) << 63;
    if (dtype == BT_I64)
        return (uint64_t)bt_load<int64_t>(dtype, data, at) ^ top;
    const double x = bt_load<double>(dtype, data, at) + 0.0;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : bits & top ? ~bits : bits | top;
}

/* ---- runs: all but the last of a line are full; each keeps its first `keep` elements ---- */

struct runs {
    int64_t span, number, room, line; /* elements sorted into one; runs of a line; elements kept of a run; of a line */
};

static inline runs runs_of(int64_t n, int64_t keep, int64_t span)
{
    runs r = {};
    r.span = span;
    r.number = (n + span - 1) / span;
    r.room = span < keep ? span : keep;
    const int64_t last = n - (r.number - 1) * span;
    r.line = n ? (r.number - 1) * r.room + (last < keep ? last : keep) : 0;
    return r;
}

static inline __device__ int64_t length_of(const runs &r, int64_t run)
{
    const int64_t left = r.line - run * r.room;
    return left < 0 ? 0 : left < r.room ? left : r.room;
}

/* ---- sorting ---- */

template <class E> struct sorting {
    const char *data; /* the numbers or places to sort by */
    bt_dtype dtype;
    bool descending;
    bt_walk lines, along;
    int64_t step; /* in a dense array of this shape: from one element of a line to the next */
    int64_t size; /* for places: their limit; for numbers: -1 */
    int64_t keep; /* how many of a line are kept, the first */
    bt_cuda_record *record;
    int64_t site;
    int64_t padded, together; /* per block: the room of a run; the number of runs */
    bool across;              /* adjacent threads have adjacent lines */
    runs from, to;            /* a kernel turns `from` into `to` */
    const E *source;
    E *target;
    int32_t *given; /* once a line is one run, its places go here, not to the target */
};

/* Stores element `rank` of a run. */
template <class E>
static __device__ inline void leave(const sorting<E> &s, int64_t line, int64_t run, int64_t rank, const E &x)
{
    if (rank >= s.to.room)
        return;
    if (s.given)
        s.given[line / s.step * s.step * s.to.line + line % s.step + rank * s.step] = (int32_t)place_of(x);
    else
        s.target[line * s.to.line + run * s.to.room + rank] = x;
}

/* The key of element i. A place out of range is recorded as a failure and gets `size`, a key that no place has. */
template <class E> static __device__ inline uint64_t key_at(const sorting<E> &s, int64_t line, int64_t i)
{
    const int64_t at = bt_walk_at(s.lines, line) + bt_walk_at(s.along, i);
    if (s.size < 0)
        return ordered(E(), s.dtype, s.data, at) ^ (s.descending ? UINT64_MAX : 0);
    const int64_t place = bt_load<int64_t>(s.dtype, s.data, at);
    const int64_t element = line / s.step * s.step * s.along.n + line % s.step + i * s.step;
    return (uint64_t)(place == bt_cuda_index(s.record, s.site, element, place, s.size) ? place : s.size);
}

/* Entries after the end are last. */
template <class E> static __device__ inline E entry_at(const sorting<E> &s, int64_t line, int64_t i)
{
    return made<E>(i < s.along.n && line < s.lines.n ? key_at(s, line, i) : UINT64_MAX, i);
}

/* Sorts each run in the room by Batcher's bitonic sorting network ("Sorting Networks and Their Applications", 1968). */
template <class E> static __device__ inline void sort_room(E *room, unsigned all, unsigned padded)
{
    for (unsigned size = 2; size <= padded; size *= 2)
        for (unsigned apart = size / 2; apart; apart /= 2) {
            for (unsigned pair = threadIdx.x; pair < all / 2; pair += blockDim.x) {
                const unsigned i = 2 * pair - (pair & (apart - 1)), k = i + apart;
                const bool down = (i & (padded - 1) & size) != 0;
                const E a = room[i], b = room[k];
                if (before(b, a) != down) {
                    room[i] = b;
                    room[k] = a;
                }
            }
            __syncthreads();
        }
}

template <class E> static __global__ void sort_runs(const sorting<E> s)
{
    BT_SHARED(E, room, RUN);
    const int64_t all = s.padded * s.together;
    for (int64_t e = threadIdx.x; e < all; e += blockDim.x) {
        const int64_t k = s.across ? e % s.together : e / s.padded, i = s.across ? e / s.together : e % s.padded;
        const int64_t unit = blockIdx.x * s.together + k, run = unit % s.to.number;
        room[k * s.padded + i] = entry_at(s, unit / s.to.number, run * s.to.span + i);
    }
    __syncthreads();
    sort_room(room, (unsigned)all, (unsigned)s.padded);
    for (int64_t e = threadIdx.x; e < all; e += blockDim.x) {
        const int64_t k = s.across ? e % s.together : e / s.padded, i = s.across ? e / s.together : e % s.padded;
        const int64_t unit = blockIdx.x * s.together + k, line = unit / s.to.number, run = unit % s.to.number;
        if (line < s.lines.n && i < length_of(s.to, run))
            leave(s, line, run, i, room[k * s.padded + i]);
    }
}

template <class E> static __global__ void merge_runs(const sorting<E> s)
{
    BT_CUDA_EACH(e, s.lines.n * s.from.line)
    {
        const int64_t line = e / s.from.line, at = e % s.from.line, run = at / s.from.room;
        const E *own = s.source + line * s.from.line, *other = own + (run ^ 1) * s.from.room, x = own[at];
        int64_t from = 0, to = length_of(s.from, run ^ 1);
        while (from < to) {
            const int64_t middle = (from + to) / 2;
            if (before(other[middle], x))
                from = middle + 1;
            else
                to = middle;
        }
        leave(s, line, run / 2, at - run * s.from.room + from, x);
    }
}

/* ---- on the host ---- */

struct attributes { /* of argsort or put_along; put_along keeps all elements, for its next kernel */
    int64_t axis, keep, size;
    bool descending;
};

static attributes attributes_of(const bt_call *call)
{
    if (call->op == &bt_op_argsort) {
        const bt_sort_attr *sort = (const bt_sort_attr *)call->attr;
        return {sort->axis, sort->count, -1, sort->descending != 0};
    }
    const bt_places_attr *places = (const bt_places_attr *)call->attr;
    return {places->axis, call->in[0].dims[places->axis], places->size, false};
}

template <class E> static sorting<E> sorting_of(const bt_call *call)
{
    const bt_view *x = &call->in[0];
    const attributes attr = attributes_of(call);
    const uint32_t along = UINT32_C(1) << attr.axis;
    sorting<E> s = {};
    s.data = x->data;
    s.dtype = x->dtype;
    s.descending = attr.descending;
    s.size = attr.size;
    s.keep = attr.keep;
    s.lines = bt_walk_of(x, ~along);
    s.along = bt_walk_of(x, along);
    s.step = 1;
    for (int64_t d = attr.axis + 1; d < x->rank; d++)
        s.step *= x->dims[d];
    s.padded = 1;
    while (s.padded < RUN && s.padded < s.along.n)
        s.padded *= 2;
    s.together = RUN / s.padded;
    s.across = bt_walk_step(s.along) > 1 && bt_walk_step(s.lines) < bt_walk_step(s.along);
    s.to = runs_of(s.along.n, attr.keep, RUN);
    return s;
}

/* The sizes, in entries, of the two buffers that merging alternates between. */
template <class E> static void buffers(const sorting<E> &s, int64_t *first, int64_t *second)
{
    const bool kept = s.size >= 0;
    const runs next = runs_of(s.along.n, s.keep, 2 * RUN);
    *first = kept || s.to.number > 1 ? s.lines.n * s.to.line : 0;
    *second = s.to.number > (kept ? 1 : 2) ? s.lines.n * next.line : 0;
}

template <class E> static size_t scratch_of(const bt_call *call)
{
    int64_t first, second;
    buffers(sorting_of<E>(call), &first, &second);
    return (size_t)(first + second) * sizeof(E);
}

/* Sorts into `given` if it is not NULL, else into *sorted, in scratch. */
template <class E> static bt_status sort(const bt_call *call, sorting<E> s, int32_t *given, const E **sorted)
{
    int64_t first, second;
    buffers(s, &first, &second);
    E *const targets[] = {(E *)call->scratch, (E *)call->scratch + first};
    if (!s.lines.n || !s.to.line)
        return BT_OK;
    s.target = targets[0];
    s.given = s.to.number == 1 ? given : nullptr;
    const int64_t blocks = (s.lines.n * s.to.number + s.together - 1) / s.together;
    BT_TRY(bt_cuda_launch<sorting<E>>(call, sort_runs<E>, blocks, BT_CUDA_THREADS, s));
    for (int to = 1; s.to.number > 1; to ^= 1) {
        s.from = s.to;
        s.source = s.target;
        s.to = runs_of(s.along.n, s.keep, 2 * s.from.span);
        s.target = targets[to];
        s.given = s.to.number == 1 ? given : nullptr;
        BT_TRY(bt_cuda_each<sorting<E>>(call, merge_runs<E>, s.lines.n * s.from.line, s));
    }
    *sorted = s.target;
    return BT_OK;
}

/* ---- argsort ---- */

static bool has_narrow_keys(const bt_call *call) { return call->in[0].dtype != BT_F64 && call->in[0].dtype != BT_I64; }

static size_t argsort_scratch(const bt_call *call)
{
    return has_narrow_keys(call) ? scratch_of<narrow>(call) : scratch_of<wide>(call);
}

template <class E> static bt_status argsort_as(const bt_call *call)
{
    const E *unused;
    return sort<E>(call, sorting_of<E>(call), (int32_t *)call->out[0].data, &unused);
}

static bt_status argsort(const bt_call *call)
{
    return has_narrow_keys(call) ? argsort_as<narrow>(call) : argsort_as<wide>(call);
}

/* ---- put_along: one thread sums each element of the result from the values with its place, in their order; if all
 * have one place, one thread adds all of them ---- */

template <class E> struct collecting {
    const E *sorted; /* [line, n] */
    int64_t n, size, step;
    const char *values;
    bt_dtype dtype, given;
    bt_walk lines, along;
    char *out;
};

template <class E, class T> static __global__ void collect(const collecting<E> c)
{
    BT_CUDA_EACH(e, c.lines.n * c.size)
    {
        const int64_t line = e / (c.step * c.size) * c.step + e % c.step, start = bt_walk_at(c.lines, line);
        const uint64_t place = (uint64_t)(e / c.step % c.size);
        const E *own = c.sorted + line * c.n;
        int64_t from = 0, to = c.n;
        T sum = 0;
        while (from < to) {
            const int64_t middle = (from + to) / 2;
            if (key_of(own[middle]) < place)
                from = middle + 1;
            else
                to = middle;
        }
        for (; from < c.n && key_of(own[from]) == place; from++)
            sum += bt_load<T>(c.dtype, c.values, start + bt_walk_at(c.along, place_of(own[from])));
        bt_store(c.given, c.out, e, sum);
    }
}

static bool has_narrow_places(const bt_call *call)
{
    const bt_places_attr *attr = (const bt_places_attr *)call->attr;
    return attr->size <= INT32_MAX && call->in[0].dims[attr->axis] <= INT32_MAX;
}

static size_t put_along_scratch(const bt_call *call)
{
    return has_narrow_places(call) ? scratch_of<narrow>(call) : scratch_of<wide>(call);
}

template <class E> static bt_status put_along_as(const bt_call *call)
{
    const bt_view *values = &call->in[1], *out = &call->out[0];
    const uint32_t along = UINT32_C(1) << ((const bt_places_attr *)call->attr)->axis;
    bt_cuda_queue *queue = (bt_cuda_queue *)call->queue;
    sorting<E> s = sorting_of<E>(call);
    collecting<E> c = {};
    s.record = queue->record;
    s.site = bt_cuda_watch(queue, call, &call->in[0], s.size);
    if (s.site < 0)
        return BT_ERROR_MEMORY;
    BT_TRY(sort<E>(call, s, nullptr, &c.sorted));
    c.n = s.along.n;
    c.size = s.size;
    c.step = s.step;
    c.values = values->data;
    c.dtype = values->dtype;
    c.given = out->dtype;
    c.lines = bt_walk_of(values, ~along);
    c.along = bt_walk_of(values, along);
    c.out = out->data;
    return bt_cuda_each<collecting<E>>(call, values->dtype == BT_F64 ? collect<E, double> : collect<E, float>,
                                       c.lines.n * c.size, c);
}

static bt_status put_along(const bt_call *call)
{
    return has_narrow_places(call) ? put_along_as<narrow>(call) : put_along_as<wide>(call);
}

extern "C" const bt_kernel_impl bt_cuda_sort[] = {
    {.op = &bt_op_argsort, .name = "argsort.cuda", .scratch = argsort_scratch, .launch = argsort, .half = true},
    {.op = &bt_op_put_along, .name = "put_along.cuda", .scratch = put_along_scratch, .launch = put_along, .half = true},
    {},
};
