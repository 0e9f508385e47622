/* compile/pipeline.c: the passes from a graph to a program, in their order. */
#include "compile/compile_inside.h"
#include "compile/spaces.h"

#include "transform/absorb.h"
#include "transform/bucket.h"
#include "transform/fuse.h"
#include "transform/inline.h"
#include "transform/reassociate.h"
#include "transform/simplify.h"

/* ---- passes from graph to graph ---- */

/* Replaces the graph by a better one; NULL: keeps it. */
static bt_status replace(bt_compilation *c, bt_status status, bt_graph *better)
{
    if (status == BT_OK && better) {
        bt_graph_free(c->program->graph);
        c->program->graph = better;
    }
    return status;
}

static bt_status made(bt_graph *graph)
{
    if (graph)
        return BT_OK;
    return bt_error_status() != BT_OK ? bt_error_status() : bt_fail(BT_ERROR_MEMORY, "out of memory while compiling");
}

static bt_status run_inline(bt_compilation *c)
{
    BT_TRY(bt_graph_verify(c->source, "tracing"));
    bt_graph *inlined = bt_inline(c->source, bt_compile_takes, c);
    return replace(c, made(inlined), inlined);
}

static bt_status run_simplify(bt_compilation *c)
{
    bt_graph *simple = bt_simplify(c->program->graph, true);
    return replace(c, made(simple), simple);
}

static bt_status run_shard(bt_compilation *c)
{
    bt_graph *own = bt_shard(c->program->graph, c->options->world, &c->program->sharded);
    return replace(c, made(own), own);
}

static bt_status run_bucket(bt_compilation *c)
{
    bt_graph *joined = NULL;
    bt_status status = bt_bucket(c->program->graph, c->options->bucket, &joined, &c->program->sharded.reductions);
    return replace(c, status, joined);
}

static bt_status run_reassociate(bt_compilation *c)
{
    double saved;
    bt_graph *better = NULL;
    bt_status status = bt_reassociate(c->program->graph, &better, &saved);
    return replace(c, status, better);
}

static bt_status run_fuse(bt_compilation *c)
{
    bt_graph *better = NULL;
    bt_status status = bt_fuse(c->program->graph, &better);
    return replace(c, status, better);
}

static bt_status run_absorb(bt_compilation *c)
{
    bt_graph *better = NULL;
    bt_status status = bt_absorb(c->program->graph, &better);
    return replace(c, status, better);
}

/* ---- the list ---- */

#define WANTED(name)                                                                                                   \
    static bool wants_##name(const bt_compile_options *options) { return options->name; }
WANTED(simplify)
WANTED(world)
WANTED(reassociate)
WANTED(fuse)
WANTED(absorb)
WANTED(order)
WANTED(rows)
WANTED(strips)
WANTED(chain)
WANTED(merge)
WANTED(overlap)
WANTED(spaces)

static bool wants_bucket(const bt_compile_options *options) { return options->world && options->bucket; }

static const struct pass {
    const char *name;
    bt_status (*run)(bt_compilation *c);
    bool (*wanted)(const bt_compile_options *options); /* NULL: always */
} passes[BT_PASSES] = {
    [BT_PASS_INLINE] = {"inline", run_inline, NULL},
    [BT_PASS_SIMPLIFY] = {"simplify", run_simplify, wants_simplify},
    [BT_PASS_REASSOCIATE] = {"reassociate", run_reassociate, wants_reassociate},
    [BT_PASS_SHARD] = {"shard", run_shard, wants_world},
    [BT_PASS_BUCKET] = {"bucket", run_bucket, wants_bucket},
    [BT_PASS_FUSE] = {"fuse", run_fuse, wants_fuse},
    [BT_PASS_ABSORB] = {"absorb", run_absorb, wants_absorb},
    [BT_PASS_LOWER] = {"lower", bt_pass_lower, NULL},
    [BT_PASS_ORDER] = {"order", bt_pass_order, wants_order},
    [BT_PASS_ROWS] = {"rows", bt_pass_rows, wants_rows},
    [BT_PASS_STRIPS] = {"strips", bt_pass_strips, wants_strips},
    [BT_PASS_CHAIN] = {"chain", bt_pass_chain, wants_chain},
    [BT_PASS_FLIGHT] = {"flight", bt_pass_flight, wants_overlap},
    [BT_PASS_SPACES] = {"spaces", bt_pass_spaces, wants_spaces},
    [BT_PASS_COMMIT] = {"commit", bt_pass_commit, NULL},
    [BT_PASS_LIVES] = {"lives", bt_pass_lives, NULL},
    [BT_PASS_MERGE] = {"merge", bt_pass_merge, wants_merge},
};

const char *bt_pass_name(bt_pass pass) { return (int)pass >= 0 && pass < BT_PASSES ? passes[pass].name : "unknown"; }

bt_compile_options bt_compile_defaults(const bt_kernel_table *kernels, int threads)
{
    return (bt_compile_options){.kernels = kernels,
                                .threads = threads < 1 ? 1 : threads,
                                .simplify = true,
                                .reassociate = true,
                                .fuse = true,
                                .absorb = true,
                                .bucket = BT_BUCKET,
                                .order = true,
                                .rule = BT_ORDERS,
                                .rows = true,
                                .strips = true,
                                .chain = true,
                                .merge = true,
                                .ahead = BT_AHEAD,
                                .holding = BT_HOLD_PRODUCTS};
}

/* Runs one pass and verifies the graph if it is new. */
static bt_status run(bt_compilation *c, int p)
{
    const bt_graph *before = c->program->graph;
    double start = bt_seconds();
    if (passes[p].wanted && !passes[p].wanted(c->options))
        return BT_OK;
    bt_status status = passes[p].run(c);
    c->program->seconds[p] = bt_seconds() - start;
    if (status == BT_OK && c->program->graph != before)
        status = bt_graph_verify(c->program->graph, passes[p].name);
    return status;
}

/* Runs the passes before `end`. NULL after an error. */
static bt_program *compile(const bt_graph *graph, const bt_compile_options *options, bt_pass end)
{
    bt_compilation c = {.options = options, .source = graph, .program = bt_alloc(sizeof *c.program)};
    if (!c.program)
        return NULL;
    c.program->region = bt_region_new();
    bt_status status = c.program->region ? BT_OK : BT_ERROR_MEMORY;
    for (int p = 0; status == BT_OK && p < (int)end; p++)
        status = run(&c, p);
    if (status == BT_OK && c.program->moves && end == BT_PASSES)
        status = bt_spaces_verify(c.program);
    bt_free(c.looks);
    bt_free(c.stored);
    bt_free(c.stowed);
    bt_free(c.in);
    bt_free(c.trial);
    if (status == BT_OK)
        return c.program;
    if (bt_error_status() == BT_OK)
        bt_fail(BT_ERROR_MEMORY, "out of memory while compiling");
    bt_program_free(c.program);
    return NULL;
}

bt_program *bt_compile_graph(const bt_graph *graph, const bt_compile_options *options)
{
    return compile(graph, options, BT_PASSES);
}

static bt_graph *compile_graph(const bt_graph *graph, const bt_compile_options *options, bt_pass end)
{
    bt_program *program = compile(graph, options, end);
    bt_graph *lowered = program ? program->graph : NULL;
    if (program)
        program->graph = NULL;
    bt_program_free(program);
    return lowered;
}

bt_graph *bt_compile_lowered(const bt_graph *graph, const bt_compile_options *options)
{
    return compile_graph(graph, options, BT_PASS_REASSOCIATE);
}

bt_graph *bt_compile_settled(const bt_graph *graph, const bt_compile_options *options)
{
    return compile_graph(graph, options, BT_PASS_LOWER);
}

bt_compile_options bt_compile_settle(const bt_compile_options *options)
{
    bt_compile_options settled = *options;
    settled.simplify = settled.reassociate = settled.fuse = settled.absorb = false;
    settled.world = NULL; /* the settled graph is already the rank's own */
    return settled;
}
