/* bench/kernels.c: speed of the CPU kernels: bench-kernels [ISA] [seconds per line], or bench-kernels --compare-isa
 * [WIDE NARROW [seconds per line]]
 *
 * Matrix products and convolutions are in GF/s and as a share of what the core can do at most, next to oneDNN's if it
 * is installed; other calls in ns; drawing batches in us. Each figure is the fastest of many short rounds, which
 * alternate. Set OMP_NUM_THREADS=1: oneDNN takes all threads it finds.
 *
 * --compare-isa lists the kernels of a wider instruction set that are more than 5 % slower than those of a narrower
 * one, and exits with 1 if there are any. The default is the one that the library uses here (BETTY_ISA selects it)
 * and the next narrower one. */
#include "backend/cpu/cpu.h"
#include "data/dataset.h"
#include "runtime/phase.h"

#include "onednn.h"
#include "roof.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double seconds = 0.1;

static bt_view matrix(bt_dtype dtype, int64_t rows, int64_t columns, bool turned)
{
    bt_view view = {.dtype = dtype, .rank = 2, .dims = {rows, columns}, .strides = {columns, 1}};
    if (turned) {
        view.strides[0] = 1;
        view.strides[1] = rows;
    }
    size_t count = (size_t)(rows * columns);
    view.data = bt_alloc_aligned(count * bt_dtype_size(dtype));
    for (size_t i = 0; view.data && i < count; i++)
        bt_put(dtype, view.data, (int64_t)i, (double)(i * 37 % 101) / 101 - 0.5);
    return view;
}

/* ---- measuring ---- */

/* Seconds of one launch of the kernel and of the peer: the minimum over many rounds. -1: does not work. */
static void measure(const bt_kernel_impl *kernel, bt_call *call, double best[2])
{
    size_t scratch = kernel->scratch ? kernel->scratch(call) : 0;
    peer p = peer_of(call);
    int64_t repeats = 1;
    best[0] = best[1] = -1;
    call->scratch = scratch ? bt_alloc_aligned(scratch) : NULL;
    if ((scratch && !call->scratch) || (kernel->prepare && kernel->prepare(call) != BT_OK))
        goto done;
    for (double begin = bt_seconds(); bt_seconds() - begin < seconds;)
        for (int who = 0; who < 1 + p.works; who++) {
            double start = bt_seconds();
            for (int64_t i = 0; i < repeats; i++) {
                if (who)
                    peer_run(&p);
                else if (kernel->launch(call) != BT_OK)
                    goto done;
            }
            double each = (bt_seconds() - start) / (double)repeats;
            if (best[who] < 0 || each < best[who])
                best[who] = each;
            if (each * (double)repeats < 2e-4)
                repeats *= 2;
        }
done:
    if (kernel->release)
        kernel->release(call);
    bt_free_aligned(call->scratch);
    call->scratch = NULL;
}

static void print_speed(const char *name, double flops, double time, const bt_call *call)
{
    double most = roof_speed(bt_backend_cpu()->isa()) * call->threads * (call->out[0].dtype == BT_F64 ? 0.5 : 1);
    printf("  %s %.1f GF/s (%.2f us", name, flops / time * 1e-9, time * 1e6);
    if (most > 0)
        printf(", %.0f %%", 100 * flops / time / most);
    printf(")");
}

/* ---- two instruction sets ---- */

static const bt_kernel_impl *const *narrow; /* kernels to compare with; NULL: no comparison */
static int compared, slower;

/* The kernel that a program would use; NULL: a plain loop. */
static const bt_kernel_impl *taken(const bt_kernel_impl *const *kernels, const bt_call *call)
{
    while (*kernels && ((*kernels)->op != call->op || ((*kernels)->accepts && !(*kernels)->accepts(call))))
        kernels++;
    return *kernels && !(*kernels)->plain ? *kernels : NULL;
}

enum { ROUNDS = 3, AGAIN = 4 };

/* Measures both ROUNDS times, in turn; `least` keeps the minimum, including earlier measurements. */
static void in_turn(const bt_kernel_impl *const *both, bt_call *call, double *least)
{
    for (int round = 0; round < 2 * ROUNDS; round++) {
        double best[2], *own = &least[round % 2];
        measure(both[round % 2], call, best);
        *own = *own < 0 || best[0] < *own ? best[0] : *own;
    }
}

/* What looks slower is measured again before it is reported. If both use the same kernel, it is not slower. */
static void compare(const bt_kernel_impl *const *wide, bt_call *call, const char *title)
{
    const bt_kernel_impl *const both[] = {taken(wide, call), taken(narrow, call)};
    double least[2] = {-1, -1};
    bool falls = true;
    if (!both[0] || !both[1])
        return;
    if (both[0] == both[1]) {
        printf("%-48s  the same kernel\n", title);
        compared++;
        return;
    }
    for (int times = 0; times < AGAIN && falls; times++) {
        in_turn(both, call, least);
        if (least[0] <= 0 || least[1] <= 0)
            return;
        falls = least[0] > 1.05 * least[1];
    }
    compared++;
    slower += falls;
    printf("%-48s  %.3f us  %.3f us  %.2f%s\n", title, least[0] * 1e6, least[1] * 1e6, least[0] / least[1],
           falls ? "  SLOWER" : "");
    fflush(stdout);
}

static void line(const bt_kernel_impl *const *kernels, bt_call *call, const char *title, double flops)
{
    if (narrow) {
        compare(kernels, call, title);
        return;
    }
    printf("%-48s", title);
    const bt_kernel_impl *kernel = taken(kernels, call);
    if (kernel) {
        double best[2];
        measure(kernel, call, best);
        if (flops > 0)
            print_speed(kernel->name, flops, best[0], call);
        else
            printf("  %s %.1f ns", kernel->name, best[0] * 1e9);
        if (best[1] > 0)
            print_speed("oneDNN", flops, best[1], call);
    }
    printf("\n");
    fflush(stdout);
}

static void dot(const bt_kernel_impl *const *kernels, bt_dtype dtype, int64_t m, int64_t k, int64_t n,
                const char *turns, int threads)
{
    bt_view in[] = {matrix(dtype, m, k, turns[0] == 't'), matrix(dtype, k, n, turns[1] == 't')};
    bt_view out = matrix(dtype, m, n, false);
    bt_call call = {.op = &bt_op_dot, .inputs = 2, .outputs = 1, .in = in, .out = &out, .threads = threads};
    char title[128];
    snprintf(title, sizeof title, "dot %s [%lld, %lld]%s x [%lld, %lld]%s, %d thread%s", bt_dtype_name(dtype),
             (long long)m, (long long)k, turns[0] == 't' ? "'" : "", (long long)k, (long long)n,
             turns[1] == 't' ? "'" : "", threads, threads > 1 ? "s" : "");
    if (in[0].data && in[1].data && out.data)
        line(kernels, &call, title, 2.0 * (double)m * (double)n * (double)k);
    bt_free_aligned(in[0].data);
    bt_free_aligned(in[1].data);
    bt_free_aligned(out.data);
}

static const struct {
    int64_t m, k, n;
    const char *turns; /* t: stored transposed */
} products_of[] = {
    {100, 784, 100, "nn"},
    {100, 784, 100, "nt"},
    {100, 784, 32, "nt"},
    {784, 100, 100, "tn"},
    {784, 100, 500, "tn"},
    {784, 100, 500, "nn"},
    {100, 784, 500, "nt"},
    {100, 500, 784, "nn"},
    {100, 256, 256, "nn"},
    {100, 256, 256, "nt"},
    {256, 100, 256, "tn"},
    {100, 100, 10, "nt"},
    {100, 10, 100, "nn"},
    {100, 100, 10, "tn"},
    {10, 100, 100, "tn"},
    {100, 1, 100, "nn"},
    {100, 100, 1, "nn"},
    {1, 100, 100, "nn"},
    {100, 100, 1, "tn"},
    {1, 100, 100, "nt"},
    {16, 16, 16, "nn"},
    {4, 4, 4, "nn"},
    {64, 64, 64, "nt"},
    {512, 512, 512, "nn"},
    {512, 512, 512, "tt"},
    {1000, 1000, 1000, "nn"},
    {1024, 1024, 1024, "nt"},
    {5000, 784, 10, "nn"},
    {784, 5000, 10, "tn"},
    {10, 5000, 784, "tn"},
    {20, 784, 64, "nt"},
    {64, 20, 784, "tn"},
    {300, 784, 64, "nt"},
    {64, 300, 784, "tn"},
    {5, 784, 64, "nt"},
    {64, 5, 784, "tn"},
    /* small dense problems */
    {500, 5, 1, "nn"},
    {500, 16, 1, "nn"},
    {500, 20, 1, "nn"},
    {500, 31, 1, "nn"},
    {500, 63, 1, "nn"},
    {500, 123, 1, "nn"},
    {123, 500, 1, "tn"},
    {100, 10, 1, "nn"},
    {7, 500, 1, "tn"},
    {14, 500, 1, "tn"},
    {20, 500, 1, "tn"},
    {24, 500, 1, "tn"},
    {8, 64, 64, "nt"},
    {16, 64, 64, "nt"},
    {32, 64, 64, "nt"},
    {32, 128, 64, "nt"},
    {8, 256, 64, "nt"},
    {16, 256, 64, "nt"},
    {32, 256, 64, "nt"},
    {4, 784, 64, "nt"},
    {16, 784, 64, "nt"},
    {32, 784, 64, "nt"},
    {32, 64, 10, "nt"},
    {64, 256, 10, "nt"},
    {100, 500, 10, "nt"},
};

static void products(const bt_kernel_impl *const *kernels)
{
    for (int i = 0; i < BT_COUNT_OF(products_of); i++)
        dot(kernels, BT_F32, products_of[i].m, products_of[i].k, products_of[i].n, products_of[i].turns, 1);
    dot(kernels, BT_F64, 100, 784, 100, "nt", 1);
    dot(kernels, BT_F64, 512, 512, 512, "nn", 1);
    dot(kernels, BT_F32, 100, 784, 100, "nt", 2);
    dot(kernels, BT_F32, 512, 512, 512, "nn", 2);
}

/* ---- convolutions ---- */

typedef struct conv_size {
    int64_t n, image, in, out, window, stride, padding, groups;
} conv_size;

static bt_view pixels(int64_t n, int64_t height, int64_t width, int64_t channels)
{
    bt_view view = matrix(BT_F32, n * height * width, channels, false);
    view.rank = 4;
    for (int k = 3, stride = 1; k >= 0; k--) {
        view.dims[k] = ((int64_t[]){n, height, width, channels})[k];
        view.strides[k] = stride;
        stride *= (int)view.dims[k];
    }
    return view;
}

static void conv(const bt_kernel_impl *const *kernels, const conv_size *s, int threads)
{
    int64_t grid = (s->image + 2 * s->padding - s->window) / s->stride + 1;
    bt_view x = pixels(s->n, s->image, s->image, s->in), g = pixels(s->n, grid, grid, s->out);
    bt_view w = pixels(s->window, s->window, s->in / s->groups, s->out);
    const bt_view in[3][2] = {{x, w}, {g, w}, {x, g}}, out[] = {g, x, w};
    const bt_op *ops[] = {&bt_op_conv, &bt_op_conv_dx, &bt_op_conv_dw};
    const int64_t sizes[] = {0, s->image, s->window};
    double flops = 2.0 * (double)(s->n * grid * grid * s->out) * (double)(s->window * s->window * s->in / s->groups);
    for (int i = 0; i < 3 && x.data && g.data && w.data; i++) {
        bt_conv_attr attr = {.stride = {s->stride, s->stride},
                             .padding = {s->padding, s->padding},
                             .dilation = {1, 1},
                             .groups = s->groups,
                             .size = {sizes[i], sizes[i]}};
        bt_view operands[] = {in[i][0], in[i][1]}, result = out[i];
        bt_call call = {
            .op = ops[i], .attr = &attr, .inputs = 2, .outputs = 1, .in = operands, .out = &result, .threads = threads};
        char title[128];
        snprintf(title, sizeof title, "%s %lldx%lldx%lldx%lld to %lld, %lldx%lld s%lld g%lld%s", ops[i]->name,
                 (long long)s->n, (long long)s->image, (long long)s->image, (long long)s->in, (long long)s->out,
                 (long long)s->window, (long long)s->window, (long long)s->stride, (long long)s->groups,
                 threads > 1 ? ", 2 threads" : "");
        line(kernels, &call, title, flops);
    }
    bt_free_aligned(x.data);
    bt_free_aligned(g.data);
    bt_free_aligned(w.data);
}

/* Those of ResNet-32, of four-block few-shot networks (query and support; strided), and others. */
static void convolutions(const bt_kernel_impl *const *kernels)
{
    static const conv_size sizes[] = {
        {100, 32, 3, 16, 3, 1, 1, 1},  {100, 32, 16, 16, 3, 1, 1, 1}, {100, 32, 16, 32, 3, 2, 1, 1},
        {100, 16, 32, 32, 3, 1, 1, 1}, {100, 16, 32, 64, 3, 2, 1, 1}, {100, 8, 64, 64, 3, 1, 1, 1},
        {75, 28, 1, 64, 3, 1, 1, 1},   {75, 14, 64, 64, 3, 1, 1, 1},  {75, 7, 64, 64, 3, 1, 1, 1},
        {75, 3, 64, 64, 3, 1, 1, 1},   {5, 28, 1, 64, 3, 1, 1, 1},    {5, 14, 64, 64, 3, 1, 1, 1},
        {5, 7, 64, 64, 3, 1, 1, 1},    {5, 3, 64, 64, 3, 1, 1, 1},    {20, 28, 1, 64, 3, 2, 1, 1},
        {20, 14, 64, 64, 3, 2, 1, 1},  {20, 7, 64, 64, 3, 2, 1, 1},   {20, 4, 64, 64, 3, 2, 1, 1},
        {5, 14, 64, 64, 3, 2, 1, 1},   {5, 7, 64, 64, 3, 2, 1, 1},    {100, 16, 64, 128, 1, 1, 0, 1},
        {100, 32, 16, 32, 1, 2, 0, 1}, {4, 56, 64, 64, 3, 1, 1, 1},   {32, 16, 64, 64, 3, 1, 1, 64},
        {32, 16, 16, 16, 5, 1, 2, 16}, {32, 16, 64, 64, 3, 1, 1, 16}, {32, 16, 64, 64, 3, 1, 1, 8},
        {32, 16, 48, 48, 3, 1, 1, 3},
    };
    for (int i = 0; i < BT_COUNT_OF(sizes); i++)
        conv(kernels, &sizes[i], 1);
    conv(kernels, &sizes[1], 2);
    conv(kernels, &sizes[5], 2);
}

static void elementwise(const bt_kernel_impl *const *kernels, const bt_op *op, int inputs, int64_t rows,
                        int64_t columns, const char *title, bool row, bool turned)
{
    bt_view in[] = {matrix(BT_F32, rows, columns, turned), matrix(BT_F32, rows, columns, false)};
    bt_view out = matrix(op == &bt_op_less ? BT_BOOL : BT_F32, rows, columns, false);
    if (row)
        in[1].strides[0] = 0;
    bt_call call = {.op = op, .inputs = inputs, .outputs = 1, .in = in, .out = &out, .threads = 1};
    char text[128];
    snprintf(text, sizeof text, "%s [%lld, %lld]", title, (long long)rows, (long long)columns);
    if (in[0].data && in[1].data && out.data)
        line(kernels, &call, text, 0);
    bt_free_aligned(in[0].data);
    bt_free_aligned(in[1].data);
    bt_free_aligned(out.data);
}

static void losses(const bt_kernel_impl *const *kernels, const bt_op *op, int64_t rows, int64_t columns,
                   const char *title)
{
    bt_view in[] = {matrix(BT_F32, rows, columns, false), matrix(BT_I64, rows, 1, false),
                    matrix(BT_F32, rows, 1, false)};
    bt_view out = matrix(BT_F32, rows, op == &bt_op_cross_entropy ? 1 : columns, false);
    const bt_axis_attr axis = {.axis = 1};
    bool labels = op != &bt_op_softmax;
    bt_call call = {.op = op,
                    .attr = labels ? NULL : &axis,
                    .inputs = labels ? 3 : 1,
                    .outputs = 1,
                    .in = in,
                    .out = &out,
                    .threads = 1};
    char text[128];
    snprintf(text, sizeof text, "%s [%lld, %lld]", title, (long long)rows, (long long)columns);
    in[1].rank = in[2].rank = 1;
    out.rank = op == &bt_op_cross_entropy ? 1 : 2;
    if (in[0].data && in[1].data && in[2].data && out.data)
        line(kernels, &call, text, 0);
    for (int i = 0; i < BT_COUNT_OF(in); i++)
        bt_free_aligned(in[i].data);
    bt_free_aligned(out.data);
}

/* The overhead of a node that computes next to nothing: a program of many scalar additions. */
static void dispatch(void)
{
    enum { NODES = 1000 };
    bt_trace trace;
    bt_instance *instance = bt_instance_new(bt_backend_cpu(), 1);
    bt_phase *phase = instance ? bt_phase_new(instance, "bench", "dispatch") : NULL;
    bt_var *var =
        phase ? bt_phase_own(phase, bt_var_new(BT_PHASE, BT_BUFFERS, "bench", "x", (bt_array){.dtype = BT_F32})) : NULL;
    bt_graph *graph = var ? bt_graph_new() : NULL;
    if (graph) {
        bt_trace_begin(&trace, graph, BT_TRAIN, BT_F32);
        bt_tensor *x = bt_graph_read(graph, var), *y = x;
        for (int i = 0; i < NODES; i++)
            y = (bt_add)(bt_neg(y), x); /* so that simplify has nothing to merge */
        bt_graph_assign(graph, var, y);
        bt_trace_end(&trace);
    }
    bool good = graph && bt_phase_add(phase, graph, 0, "dispatch") == 0 && bt_phase_plan(phase) == BT_OK;
    double best = -1;
    for (double begin = bt_seconds(); good && bt_seconds() - begin < seconds;) {
        bt_phase_begin(phase);
        double start = bt_seconds();
        good = bt_phase_run(phase, 0) == BT_OK;
        double each = (bt_seconds() - start) / (double)phase->entries[0].program->step_count;
        best = best < 0 || each < best ? each : best;
        bt_phase_end(phase);
    }
    if (good)
        printf("%-48s  %.1f ns\n", "a node of a program, on a scalar", best * 1e9);
    bt_graph_free(graph);
    bt_phase_free(phase);
    bt_instance_free(instance);
}

/* ---- batches ---- */

enum { IMAGES = 60000, PIXELS = 28 * 28, DRAWN = 200 };

static uint64_t lines_read;

/* Memory access only: one byte of each cache line of the rows. */
static void read_lines(const bt_column *column, const int32_t *places, float *out)
{
    const unsigned char *bytes = column->store->array.data;
    (void)out;
    for (int i = 0; i < DRAWN; i++)
        for (size_t at = 0; at < PIXELS; at += BT_ALIGN)
            lines_read += bytes[(size_t)places[i] * PIXELS + at];
}

static void gather(const bt_column *column, const int32_t *places, float *out)
{
    bt_gather_rows(column, places, DRAWN, BT_F32, out, 1);
}

/* Median microseconds to draw rows once. */
static void draw(const char *title, void (*fn)(const bt_column *column, const int32_t *places, float *out),
                 const bt_column *column, float *out, int32_t below)
{
    enum { MOST = 4096 };
    static double times[MOST];
    int32_t places[DRAWN];
    int done = 0;
    for (double begin = bt_seconds(); done < MOST && bt_seconds() - begin < seconds; done++) {
        for (int i = 0; i < DRAWN; i++)
            places[i] = (int32_t)(bt_host_uniform(1, (uint64_t)done, (uint64_t)i) * below);
        double start = bt_seconds();
        fn(column, places, out);
        times[done] = bt_seconds() - start;
    }
    for (int i = 1; i < done; i++) /* few, so insertion sort */
        for (int k = i; k > 0 && times[k] < times[k - 1]; k--) {
            double swap = times[k];
            times[k] = times[k - 1];
            times[k - 1] = swap;
        }
    if (done)
        printf("%-48s  %.1f us\n", title, times[done / 2] * 1e6);
}

/* Two batches of 100 images stored as bytes and delivered as floats, and lower bounds on their time. */
static void batches(void)
{
    bt_array array = {.dtype = BT_U8, .rank = 2, .dims = {IMAGES, PIXELS}, .data = bt_alloc((size_t)IMAGES * PIXELS)};
    if (array.data)
        memset(array.data, 1, (size_t)IMAGES * PIXELS);
    bt_store *store = bt_store_new(array, true);
    float *out = bt_alloc_aligned((size_t)DRAWN * PIXELS * sizeof *out);
    const bt_column column = {.store = store};
    if (store && out) {
        draw("200 of 60000 images of bytes, as floats", gather, &column, out, IMAGES);
        draw("the same image 200 times: converting, writing", gather, &column, out, 1);
        draw("a byte of each line of 200 of 60000: the way there", read_lines, &column, out, IMAGES);
    }
    bt_store_release(store);
    bt_free_aligned(out);
}

static void calls(const bt_kernel_impl *const *kernels)
{
    products(kernels);
    convolutions(kernels);
    elementwise(kernels, &bt_op_add, 2, 1, 8, "add", false, false);
    elementwise(kernels, &bt_op_add, 2, 100, 100, "add", false, false);
    elementwise(kernels, &bt_op_add, 2, 100, 10, "add a row", true, false);
    elementwise(kernels, &bt_op_add, 2, 784, 100, "add turned", false, true);
    elementwise(kernels, &bt_op_less, 2, 100, 100, "less", false, false);
    elementwise(kernels, &bt_op_exp, 1, 100, 100, "exp", false, false);
    elementwise(kernels, &bt_op_tanh, 1, 100, 100, "tanh", false, false);
    elementwise(kernels, &bt_op_sigmoid, 1, 100, 100, "sigmoid", false, false);
    elementwise(kernels, &bt_op_softplus, 1, 100, 100, "softplus", false, false);
    losses(kernels, &bt_op_softmax, 100, 10, "softmax");
    losses(kernels, &bt_op_softmax, 100, 100, "softmax");
    losses(kernels, &bt_op_cross_entropy, 100, 10, "cross_entropy");
    losses(kernels, &bt_op_cross_entropy_grad, 100, 10, "cross_entropy_grad");
}

static int compare_all(int count, char **words)
{
    static const char *const isas[] = {"amx", "v4b", "v4", "v3", "generic"};
    enum { V4 = 2, LAST = 4 };
    const bt_kernel_impl *const *kernels_here = bt_backend_cpu()->kernels.list(); /* BETTY_ISA selects these, too */
    int first = 0;
    while (first < LAST && bt_cpu_kernels(isas[first]) != kernels_here)
        first++;
    first = first < V4 ? V4 : first; /* wider sets differ from v4 in 16-bit kernels only, and no call has 16 bits */
    const char *wide = count > 3 ? words[2] : isas[first], *other = count > 3      ? words[3]
                                                                    : first < LAST ? isas[first + 1]
                                                                                   : "";
    const bt_kernel_impl *const *kernels = bt_cpu_kernels(wide);
    narrow = bt_cpu_kernels(other);
    seconds = count > 4 ? atof(words[4]) : 0.02;
    if (!kernels || !narrow || !*other) {
        fprintf(stderr, "this machine cannot run both %s and %s\n", wide, *other ? other : "a narrower one");
        return 2;
    }
    printf("%-48s  %s  %s  ratio\n", "", wide, other);
    calls(kernels);
    printf("%s is slower than %s by more than 5 %% in %d of %d calls\n", wide, other, slower, compared);
    return slower > 0;
}

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "--compare-isa") == 0)
        return compare_all(count, words);
    if (count > 1 && *words[1])
        setenv("BETTY_ISA", words[1], 1); /* the library itself chooses how batches are gathered */
    const bt_kernel_impl *const *kernels = bt_backend_cpu()->kernels.list();
    if (count > 1 && *words[1])
        kernels = bt_cpu_kernels(words[1]);
    if (count > 2)
        seconds = atof(words[2]);
    if (!kernels) {
        fprintf(stderr, "this machine cannot run %s\n", words[1]);
        return 1;
    }
    printf("%s, at most %.1f GF/s in f32 on one core\n", count > 1 && *words[1] ? words[1] : bt_backend_cpu()->isa(),
           roof_speed(bt_backend_cpu()->isa()) * 1e-9);
    calls(kernels);
    dispatch();
    batches();
    return lines_read == 1; /* so that the reads are not optimised away */
}
