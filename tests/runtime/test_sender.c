/* Exchange between ranks in the background: the bits are those of ranks that wait, whatever the order of steps and
 * however slow the others are; a failure surfaces in the step that needs the failed result. */
#include "runtime/sender.h"
#include "support/scene.h"

#include "ops/ops.h"
#include "runtime/backend.h"
#include "runtime/store.h"
#include "support/suite.h"
#include "transform/grad.h"
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- another rank with the same data as this one, but slow ---- */

static struct {
    int calls, fails_at; /* 0: it never fails */
    int64_t nap;         /* ns */
    atomic_int inside;
} other;

/* There must be no two calls at the same time. */
static bt_status begin_call(void)
{
    if (atomic_fetch_add(&other.inside, 1) > 0)
        return bt_fail(BT_ERROR_INTERNAL, "a call in the middle of another one");
    nanosleep(&(struct timespec){0, other.nap}, NULL);
    atomic_store(&other.inside, 0);
    return ++other.calls == other.fails_at ? bt_fail(BT_ERROR_DEVICE, "the other rank has failed") : BT_OK;
}

static bt_status gather(bt_transport *t, uint64_t what, const void *own, size_t mine, void *all, size_t bytes)
{
    (void)t, (void)what;
    BT_TRY(begin_call());
    ck_assert_uint_eq(mine, bytes);
    for (size_t r = 0; r < 2; r++)
        memcpy((char *)all + r * bytes, own, bytes);
    return BT_OK;
}

static bt_status reduce(bt_transport *t, uint64_t what, const bt_folding *how, const void *own, void *to, size_t bytes)
{
    (void)t, (void)what;
    BT_TRY(begin_call());
    char *copy = malloc(bytes + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, own, bytes);
    bt_status status = how->fold(how, (const char *const[]){copy, copy}, bytes, to);
    free(copy);
    return status;
}

static bt_transport slow = {.rank = 0, .ranks = 2, .threads = 1, .gather = gather, .reduce = reduce};

/* ---- a network that learns from its half of the rows ---- */

/* In addition: a gradient that is kept; a value that is gathered, and overwritten by its reader meanwhile; a variable
 * of the phase that is summed, and gets its next value meanwhile. */

enum { ROWS = 12, WIDE = 6, LAYERS = 5, STEPS = 3 };

typedef struct world {
    scene scene;
    bt_instance *instance;
    bt_phase *phase;
    bt_var *x, *w[LAYERS], *b[LAYERS], *slope, *turned, *sum;
    double rows[ROWS * WIDE];
} world;

static void record(world *u, bt_graph *graph)
{
    bt_trace trace;
    bt_trace_begin(&trace, graph, BT_TRAIN, BT_F64);
    trace.tag.level = trace.tag.owner = "net";
    bt_tensor *y = bt_trace_read(u->x), *w[LAYERS], *b[LAYERS];
    y->batch_axis = 0;
    y = bt_add(y, bt_trace_read(u->sum));
    for (int l = 0; l < LAYERS; l++) {
        w[l] = bt_trace_read(u->w[l]);
        b[l] = bt_trace_read(u->b[l]);
        y = bt_add(bt_matmul(y, w[l]), b[l]);
        y = bt_tanh(l % 2 ? bt_batch_norm(y, 1, NULL, NULL, 0.1, NULL, NULL) : y);
    }
    bt_tensor *moved = bt_exp(bt_trace_read(u->x)), *turned = bt_sum(bt_cumsum(moved, 0), 0);
    bt_graph_assign(graph, u->turned, bt_add(turned, bt_sum(bt_sin(moved), 0)));
    bt_graph_assign(graph, u->sum, bt_sum(bt_mul(bt_trace_read(u->x), bt_slice(bt_trace_read(u->turned), 0, 0, 1)), 0));
    bt_tensor *loss = bt_mean(bt_square(y));
    bt_graph_output(graph, loss);
    for (int l = 0; l < LAYERS; l++) {
        bt_tensor *slope = bt_grad(loss, w[l]);
        if (l == 2)
            bt_graph_assign(graph, u->slope, slope);
        bt_graph_assign(graph, u->w[l], bt_sub(w[l], bt_mul(slope, 0.3)));
        bt_graph_assign(graph, u->b[l], bt_sub(b[l], bt_mul(bt_grad(loss, b[l]), 0.3)));
    }
    bt_trace_end(&trace);
    ck_assert_msg(graph->status == BT_OK, "%s", graph->message);
}

static void begin(world *u, bool overlap, size_t bucket, bt_order_rule rule)
{
    double numbers[WIDE * WIDE];
    *u = (world){.instance = bt_instance_new(bt_backend_cpu(), 1)};
    scene_begin(&u->scene, BT_F64);
    scene_end(&u->scene);
    EXPECT_OK(bt_instance_join(u->instance, &slow));
    if (overlap)
        EXPECT_OK(bt_instance_overlap(u->instance));
    u->instance->options.bucket = bucket;
    u->instance->options.rule = rule;
    u->instance->options.rows = rule % 2;
    u->phase = bt_phase_new(u->instance, "net", "step");
    u->x = bt_var_new(BT_EXTERNAL, BT_BATCH, "", "x", (bt_array){.dtype = BT_F64, .rank = 2, .dims = {ROWS, WIDE}});
    for (int i = 0; i < ROWS * WIDE; i++)
        u->rows[i] = (i * 7 % 23 - 11) / 8.0;
    for (int l = 0; l < LAYERS; l++) {
        for (int i = 0; i < WIDE * WIDE; i++)
            numbers[i] = ((i + l) * 5 % 17 - 8) / 9.0;
        u->w[l] = scene_var(&u->scene, "w", BT_F64, numbers, (const int64_t[]){WIDE, WIDE, BT_END});
        u->b[l] = scene_var(&u->scene, "b", BT_F64, numbers, (const int64_t[]){WIDE, BT_END});
    }
    u->slope = scene_var(&u->scene, "slope", BT_F64, numbers, (const int64_t[]){WIDE, WIDE, BT_END});
    u->turned = scene_var(&u->scene, "turned", BT_F64, numbers, (const int64_t[]){WIDE, BT_END});
    u->sum = bt_phase_own(u->phase, bt_var_new(BT_PHASE, BT_VECTORS, "net", "sum",
                                               (bt_array){.dtype = BT_F64, .rank = 1, .dims = {WIDE}}));
    u->sum->clear = true;
    bt_graph *graph = bt_graph_new();
    record(u, graph);
    ck_assert_msg(bt_phase_add(u->phase, graph, 1, "gradient") == 0, "%s", bt_error());
    bt_graph_free(graph);
    EXPECT_OK(bt_phase_plan(u->phase));
    bt_store_point(u->x, u->rows);
}

static bt_status step(world *u)
{
    bt_phase_begin(u->phase);
    bt_status status = bt_phase_run(u->phase, 0);
    status = status == BT_OK ? bt_phase_run(u->phase, 0) : status;
    bt_phase_end(u->phase);
    return status;
}

static void end(world *u)
{
    bt_phase_free(u->phase);
    bt_instance_free(u->instance);
    bt_var_free(u->x);
    scene_free(&u->scene);
    bt_error_clear();
}

static void take(const world *u, double *values)
{
    for (int l = 0; l < LAYERS; l++) {
        memcpy(values, var_near(u->w[l]), u->w[l]->bytes);
        memcpy(values + WIDE * WIDE, var_near(u->b[l]), u->b[l]->bytes);
        values += WIDE * WIDE + WIDE;
    }
    memcpy(values, var_near(u->slope), u->slope->bytes);
    memcpy(values + WIDE * WIDE, var_near(u->turned), u->turned->bytes);
}

/* The number of collectives in progress while other steps run. */
static int under_way(const world *u)
{
    const bt_program *program = u->phase->entries[0].program;
    int count = 0;
    for (int64_t s = 0; s < program->step_count; s++)
        count += program->steps[s].until > s + 1;
    return count;
}

START_TEST(the_same_bits)
{
    static const size_t buckets[] = {0, 100, 300, 25 << 20};
    static double due[(LAYERS + 1) * (WIDE * WIDE + WIDE)], found[(LAYERS + 1) * (WIDE * WIDE + WIDE)];
    int most = 0;
    world u;
    for (int overlap = 0; overlap < 2; overlap++)
        for (int rule = 0; rule <= BT_ORDERS; rule++) {
            other.calls = other.fails_at = 0;
            other.nap = overlap ? 300000 : 0;
            begin(&u, overlap, buckets[_i], (bt_order_rule)rule);
            bt_instance_fill(u.instance);
            for (int k = 0; k < STEPS; k++)
                EXPECT_OK(step(&u));
            take(&u, overlap || rule ? found : due);
            if (overlap || rule)
                ck_assert_msg(memcmp(found, due, sizeof due) == 0, "other bits by rule %d, %s", rule,
                              overlap ? "under way" : "waited for");
            ck_assert(overlap || under_way(&u) == 0);
            most = under_way(&u) > most ? under_way(&u) : most;
            end(&u);
        }
    ck_assert_int_gt(most, 0);
}
END_TEST

/* Whichever call fails, the run reports it, and no work remains. */
START_TEST(a_failure)
{
    world u;
    begin(&u, true, 0, BT_ORDERS);
    other.calls = other.fails_at = 0;
    other.nap = 0;
    EXPECT_OK(step(&u));
    const int each = other.calls;
    ck_assert_int_gt(each, 5);
    for (int k = 1; k <= each; k++) {
        other.calls = 0;
        other.fails_at = k;
        ck_assert_int_eq(step(&u), BT_ERROR_DEVICE);
        ck_assert_msg(strstr(bt_error(), "the other rank has failed") != NULL, "%s", bt_error());
        ck_assert_int_eq(other.calls, k);
        bt_error_clear();
    }
    other.fails_at = 0;
    EXPECT_OK(step(&u));
    end(&u);
}
END_TEST

/* With profiling, each call is awaited. */
START_TEST(not_as_planned)
{
    world u;
    setenv("BETTY_PLAN", "guard", 1);
    begin(&u, true, 0, BT_ORDERS);
    other.calls = other.fails_at = 0;
    other.nap = 100000;
    EXPECT_OK(step(&u));
    end(&u);
    unsetenv("BETTY_PLAN");
}
END_TEST

/* ---- ranks that are threads ---- */

enum { RANKS = 3, SUMS = 200, LONG = 5000 };

typedef struct rank {
    bt_page *page;
    int rank, wrong;
} rank;

static int length(int k) { return 1 + k * 37 % LONG; }

static float number(int r, int k, int i) { return 1 / (float)(1 + (r * 31 + k * 7 + i) % 101); }

static void *send_all(void *user)
{
    rank *own = user;
    static float values[RANKS][SUMS][LONG];
    static bt_view views[RANKS][SUMS];
    bt_call calls[SUMS];
    const bt_collective_attr attr = {.rank = own->rank, .ranks = RANKS};
    bt_transport *t = bt_page_transport(own->page, own->rank);
    bt_joint *joint = bt_joint_new(t, &bt_backend_cpu()->kernels);
    bt_sender *sender = bt_sender_new(joint);
    for (int k = 0; k < SUMS; k++) {
        float *x = values[own->rank][k];
        bt_view *v = &views[own->rank][k];
        for (int i = 0; i < length(k); i++)
            x[i] = number(own->rank, k, i);
        *v = (bt_view){.data = (char *)x, .dtype = BT_F32, .rank = 1, .dims = {length(k)}, .strides = {1}};
        calls[k] = (bt_call){.op = &bt_op_all_reduce, .attr = &attr, .inputs = 1, .outputs = 1, .in = v, .out = v};
        own->wrong += bt_sender_give(sender, &calls[k], 1) != k + 1;
    }
    for (int k = 0; k < SUMS; k++) {
        own->wrong += bt_sender_wait(sender, k + 1) != BT_OK;
        for (int i = 0; i < length(k); i++) {
            float sum = number(0, k, i);
            for (int r = 1; r < RANKS; r++)
                sum += number(r, k, i);
            own->wrong += values[own->rank][k][i] != sum;
        }
    }
    bt_sender_drain(sender);
    bool flag = own->rank == 1;
    own->wrong += bt_joint_any(joint, &flag, 1) != BT_OK || !flag;
    bt_sender_free(sender);
    bt_joint_free(joint);
    t->close(t);
    return NULL;
}

START_TEST(many_in_turn)
{
    rank ranks[RANKS];
    pthread_t threads[RANKS];
    bt_page *page = bt_page_new(RANKS);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank){page, r, 0};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, send_all, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_int_eq(ranks[r].wrong, 0);
    }
    bt_page_free(page);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sender");
    TCase *tests = tcase_create("sender");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, the_same_bits, 0, 4);
    tcase_add_test(tests, a_failure);
    tcase_add_test(tests, not_as_planned);
    tcase_add_test(tests, many_in_turn);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
