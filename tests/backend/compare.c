#include "tests/backend/compare.h"

#include "support/on_device.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const isas[] = {"generic", "v3", "v4", "v4b", "amx", NULL};

/* The first to compare. All are compiled from the same sources; the slow ones are only tested without sanitizers. */
#if defined __SANITIZE_ADDRESS__ && defined __x86_64__
enum { FIRST_ISA = 1 };
#else
enum { FIRST_ISA = 0 };
#endif

enum { GUARD = 128, PATTERN = 0xA5 };

typedef struct buffer { /* with a guard on either side */
    char *memory, *data;
    size_t bytes;
} buffer;

static buffer buffer_new(size_t bytes)
{
    buffer b = {.bytes = bytes};
    b.memory = bt_alloc_aligned(bytes + 2 * GUARD);
    if (!b.memory)
        ck_abort_msg("%s", bt_error());
    memset(b.memory, PATTERN, bytes + 2 * GUARD);
    b.data = b.memory + GUARD;
    return b;
}

static bool guards_hold(const buffer *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)b->memory[i] != PATTERN || (unsigned char)b->data[b->bytes + i] != PATTERN)
            return false;
    return true;
}

static void buffer_free(buffer *b)
{
    bt_free_aligned(b->memory);
    *b = (buffer){0};
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double draw(const operand *o, int64_t i, uint64_t *state)
{
    if (o->values)
        return o->values[i % o->value_count];
    double unit = (double)(next(state) >> 11) * 0x1p-53, x = o->low + unit * (o->high - o->low);
    return bt_dtype_floats(o->dtype) ? x : floor(x);
}

static bt_view view_of(const operand *o)
{
    bt_view view = {.dtype = o->dtype, .rank = o->rank};
    int64_t stride = o->layout == SLICED ? 2 : 1;
    for (int i = 0; i < o->rank; i++) {
        int d = o->layout == TURNED ? i : o->rank - 1 - i;
        view.dims[d] = o->dims[d];
        view.strides[d] = stride;
        if (o->layout == ONE || (o->layout == SPREAD && d == 0) || (o->layout == INNER && d == o->rank - 2))
            view.strides[d] = 0;
        stride *= o->dims[d];
        if (o->layout == SLICED || (o->layout == LOOSE && d == o->rank - 1))
            stride += 3;
    }
    return view;
}

/* The largest offset, plus one. */
static int64_t extent(const bt_view *view)
{
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++) {
        if (!view->dims[d])
            return 0;
        last += (view->dims[d] - 1) * view->strides[d];
    }
    return last + 1;
}

typedef struct arguments {
    bt_view in[16], out[5];
    buffer in_buffer[16], out_buffer[5];
    bt_call call;
} arguments;

static void make_inputs(const trial *t, arguments *a)
{
    uint64_t state = t->seed * 2654435761U + 88172645463325252U;
    for (int i = 0; i < t->inputs; i++) {
        a->in[i] = view_of(&t->in[i]);
        int64_t count = extent(&a->in[i]);
        a->in_buffer[i] = buffer_new((size_t)count * bt_dtype_size(t->in[i].dtype));
        for (int64_t e = 0; e < count; e++)
            bt_put(t->in[i].dtype, a->in_buffer[i].data, e, draw(&t->in[i], e, &state));
    }
}

static void make(const trial *t, arguments *a, int threads)
{
    *a = (arguments){.call = {.op = t->op, .attr = t->attr, .inputs = t->inputs, .outputs = t->outputs}};
    make_inputs(t, a);
    for (int o = 0; o < t->outputs; o++) {
        a->out[o] = view_of(&t->out[o]);
        a->out_buffer[o] = buffer_new((size_t)extent(&a->out[o]) * bt_dtype_size(t->out[o].dtype));
    }
    a->call.in = a->in;
    a->call.out = a->out;
    a->call.threads = threads;
}

static void destroy(const trial *t, arguments *a)
{
    for (int i = 0; i < t->inputs; i++)
        buffer_free(&a->in_buffer[i]);
    for (int o = 0; o < t->outputs; o++)
        buffer_free(&a->out_buffer[o]);
}

static bool is_on(const bt_backend *backend, const bt_kernel_impl *kernel)
{
    for (const bt_kernel_impl *const *k = backend ? backend->kernels.list() : NULL; k && *k; k++)
        if (*k == kernel)
            return true;
    return false;
}

/* Runs it on the kernel's own device; all memory goes there and back, with its guards. */
static bt_status launch(const trial *t, const bt_kernel_impl *kernel, arguments *a, const buffer *scratch)
{
    const bt_backend *device = device_backend();
    host_span spans[MOST_SPANS];
    int count = 0;
    if (!is_on(device, kernel))
        return kernel->launch(&a->call);
    for (int i = 0; i < t->inputs; i++)
        spans[count++] = (host_span){a->in_buffer[i].memory, a->in_buffer[i].bytes + 2 * GUARD};
    for (int o = 0; o < t->outputs; o++)
        spans[count++] = (host_span){a->out_buffer[o].memory, a->out_buffer[o].bytes + 2 * GUARD};
    spans[count++] = (host_span){scratch->memory, scratch->bytes + 2 * GUARD};
    return run_on_device(device, kernel, &a->call, spans, count);
}

/* Plans without data, as the runtime does, then binds the data and runs. */
static bt_status run(const trial *t, const bt_kernel_impl *kernel, arguments *a, bool aliased)
{
    bt_call *call = &a->call;
    buffer scratch = buffer_new(kernel->scratch ? kernel->scratch(call) : 0);
    bt_status status = kernel->prepare ? kernel->prepare(call) : BT_OK;
    for (int i = 0; i < t->inputs; i++)
        a->in[i].data = a->in_buffer[i].data;
    for (int o = 0; o < t->outputs; o++)
        a->out[o].data = aliased && t->alias[o] ? a->in[t->alias[o] - 1].data : a->out_buffer[o].data;
    call->scratch = scratch.data;
    if (status == BT_OK)
        status = launch(t, kernel, a, &scratch);
    if (kernel->release)
        kernel->release(call);
    if (!guards_hold(&scratch))
        ck_abort_msg("%s: wrote outside of its scratch", kernel->name);
    if (scratch.bytes && (unsigned char)scratch.data[scratch.bytes - 1] == PATTERN)
        ck_abort_msg("%s: does not use the end of its %zu bytes of scratch", kernel->name, scratch.bytes);
    buffer_free(&scratch);
    return status;
}

static bool near(const trial *t, double expected, double found)
{
    if (isnan(expected) || isnan(found))
        return isnan(expected) && isnan(found);
    if (isinf(expected) || isinf(found))
        return expected <= found && expected >= found;
    return fabs(expected - found) <= t->absolute + t->relative * fabs(expected);
}

static void compare_outputs(const trial *t, const char *what, arguments *expected, arguments *found)
{
    for (int o = 0; o < t->outputs; o++) {
        int64_t count = extent(&expected->out[o]);
        if (!guards_hold(&found->out_buffer[o]))
            ck_abort_msg("%s: wrote outside of output %d", what, o);
        for (int64_t e = 0; e < count; e++) {
            double x = bt_get(t->out[o].dtype, expected->out[o].data, e);
            double y = bt_get(t->out[o].dtype, found->out[o].data, e);
            char shape[256];
            if (!near(t, x, y))
                ck_abort_msg("%s: element %lld of output %d %s %s is %.17g, not %.17g", what, (long long)e, o,
                             bt_dtype_name(t->out[o].dtype), bt_shape_text(shape, t->out[o].rank, t->out[o].dims), y,
                             x);
        }
    }
    for (int i = 0; i < t->inputs; i++)
        if (!guards_hold(&found->in_buffer[i]))
            ck_abort_msg("%s: wrote outside of input %d", what, i);
}

static void compare_inputs(const trial *t, const char *what, const arguments *expected, const arguments *found)
{
    for (int i = 0; i < t->inputs; i++)
        if (memcmp(expected->in_buffer[i].data, found->in_buffer[i].data, found->in_buffer[i].bytes))
            ck_abort_msg("%s: changed input %d", what, i);
}

static void compare_kernel(const trial *t, const char *isa, const bt_kernel_impl *kernel, arguments *expected)
{
    static const int counts[] = {1, 2, 5};
    for (int way = 0; way < 2 * BT_COUNT_OF(counts); way++) {
        if (way % BT_COUNT_OF(counts) && device_backend()) /* only the processor uses threads */
            continue;
        int threads = counts[way % BT_COUNT_OF(counts)];
        bool aliased = way >= BT_COUNT_OF(counts);
        arguments found;
        char what[128];
        if (aliased && !t->alias[0] && !t->alias[1] && !t->alias[2])
            break;
        make(t, &found, threads);
        snprintf(what, sizeof what, "%s.%s, %d threads%s", kernel->name, isa, threads, aliased ? ", in place" : "");
        if (run(t, kernel, &found, aliased) != BT_OK)
            ck_abort_msg("%s: %s", what, bt_error());
        compare_outputs(t, what, expected, &found);
        if (!aliased)
            compare_inputs(t, what, expected, &found);
        destroy(t, &found);
    }
}

const bt_kernel_impl *kernel_named(const bt_kernel_impl *const *kernels, const bt_op *op, const char *part)
{
    for (; *kernels; kernels++)
        if ((*kernels)->op == op && strstr((*kernels)->name, part))
            return *kernels;
    return NULL;
}

bool takes(const trial *t, const char *isa, const char *part)
{
    const bt_kernel_impl *const *kernel = bt_cpu_kernels(isa);
    bool found = !kernel;
    for (; kernel && *kernel && !found; kernel++) {
        arguments planning;
        if ((*kernel)->op != t->op || !strstr((*kernel)->name, part))
            continue;
        make(t, &planning, 1);
        found = bt_kernel_accepts(*kernel, &planning.call);
        destroy(t, &planning);
    }
    return found;
}

/* Whether the kernel belongs to a narrower instruction set, to which the wider ones leave some calls. */
static bool of_narrower(const char *const *isa, const bt_kernel_impl *kernel)
{
    for (const char *const *other = isas + FIRST_ISA; other < isa; other++)
        for (const bt_kernel_impl *const *k = bt_cpu_kernels(*other); k && *k; k++)
            if (*k == kernel)
                return true;
    return false;
}

/* The bits of the processor's kernel. False: it only has the plain loops, which compute in double. */
static bool exact(const trial *t, arguments *expected)
{
    make(t, expected, 1);
    const bt_kernel_impl *kernel = bt_kernel_choose(&bt_backend_cpu()->kernels, &expected->call);
    if (!kernel->plain && run(t, kernel, expected, false) != BT_OK)
        ck_abort_msg("%s: %s", kernel->name, bt_error());
    return !kernel->plain;
}

/* Compares the kernels of the device that BETTY_TEST_BACKEND names; returns how many accept. */
static int compare_device(const trial *given, arguments *plain)
{
    const bt_backend *device = device_backend();
    trial t = *given;
    arguments bits, *expected = plain;
    int count = 0;
    if (device && t.bits && exact(&t, &bits)) {
        t.relative = t.absolute = 0;
        expected = &bits;
    }
    for (const bt_kernel_impl *const *kernel = device ? device->kernels.list() : NULL; kernel && *kernel; kernel++) {
        arguments planning;
        if ((*kernel)->op != t.op)
            continue;
        make(&t, &planning, 1);
        const bool accepted = bt_kernel_accepts(*kernel, &planning.call);
        destroy(&t, &planning);
        if (accepted)
            compare_kernel(&t, device->name, *kernel, expected);
        count += accepted;
    }
    if (device && t.bits)
        destroy(&t, &bits);
    return count;
}

/* Returns the number of fast kernels that ran; *without: the number of instruction sets without one. */
static int compare_all(const trial *t, int *without)
{
    arguments expected;
    int count = 0;
    make(t, &expected, 1);
    const bt_kernel_impl *plain = kernel_named(bt_cpu_kernels(""), t->op, ".reference");
    if (!plain) /* if there are only line kernels: those, on one thread */
        plain = kernel_named(bt_cpu_kernels(""), t->op, ".lines");
    ck_assert_ptr_nonnull(plain);
    ck_assert_msg(run(t, plain, &expected, false) == BT_OK, "%s: %s", plain->name, bt_error());
    ck_assert(guards_hold(&expected.out_buffer[0]));
    *without = 0;
    if (device_backend()) /* only those: other runs test the processor */
        *without = (count = compare_device(t, &expected)) == 0;
    for (const char *const *isa = isas + FIRST_ISA; *isa && !device_backend(); isa++) {
        const bt_kernel_impl *const *kernel = bt_cpu_kernels(*isa);
        int before = count;
        if (!kernel)
            continue;
        for (; *kernel; kernel++) {
            arguments planning;
            if ((*kernel)->op != t->op || strstr((*kernel)->name, ".reference"))
                continue;
            make(t, &planning, 1);
            bool accepted = bt_kernel_accepts(*kernel, &planning.call);
            destroy(t, &planning);
            if (accepted && !of_narrower(isa, *kernel))
                compare_kernel(t, *isa, *kernel, &expected);
            count += accepted;
        }
        *without += count == before;
    }
    if (t->alias[0] || t->alias[1] || t->alias[2]) { /* the plain loops too */
        arguments found;
        make(t, &found, 1);
        ck_assert(run(t, plain, &found, true) == BT_OK);
        compare_outputs(t, plain->name, &expected, &found);
        destroy(t, &found);
    }
    destroy(t, &expected);
    return count;
}

int compare(const trial *t)
{
    int without;
    return compare_all(t, &without);
}

void compare_fast(const trial *t)
{
    int without;
    compare_all(t, &without);
    if (device_backend() && t->op->info->view) /* on a device it is a view, which is never computed */
        return;
    ck_assert_msg(!without, "%s: no fast kernel accepts a case that one should", t->op->name);
}
