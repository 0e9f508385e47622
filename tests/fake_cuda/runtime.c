/* tests/fake_cuda/runtime.c: streams are queues, and the timing is random. A call appends an operation. Operations run
 * when the host waits, or earlier: always one that is first in its stream and whose event has completed. During a
 * capture, operations become nodes of a graph; a graph launch is one operation that runs the nodes in a random valid
 * order. */
#include "block.h"
#include "memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { KERNEL, WORK, PART, COPY, FILL, HOST, RECORD, WAIT, GRAPH };
enum order { RANDOM, EAGER, LAZY };
enum { MOST_TIPS = 16 };

typedef struct op {
    enum kind kind;
    fake_kernel *kernel;
    fake_caller *call;
    fake_work *work;
    fake_part *part;
    void *args; /* owned */
    unsigned blocks, threads;
    char *to;
    const char *from;
    size_t bytes;
    int byte;
    cudaHostFn_t host;
    void *user;
    cudaEvent_t event;
    int64_t ticket;
    cudaGraphExec_t graph;
    struct launch *launch; /* of the graph, once it has started; owned */
} op;

typedef struct launch {
    bool *done; /* for each node */
    int finished;
} launch;

typedef struct node { /* a node of a graph, and the nodes that must come before it */
    op op;
    int *before, before_count;
} node;

struct CUgraph_st {
    node *nodes;
    int count;
    cudaStream_t origin;
    pthread_t thread; /* this thread may not make calls that wait */
};

struct CUgraphExec_st {
    node *nodes;
    int count;
};

typedef struct tips { /* the next operation depends on these nodes */
    int node[MOST_TIPS], count;
} tips;

struct CUstream_st {
    op *ops;
    size_t first, last, room;
    cudaGraph_t capture; /* NULL: no capture */
    tips tips;
    struct CUstream_st *next;
};

struct CUevent_st {
    int64_t recorded, done; /* tickets */
    cudaGraph_t capture;    /* the capture in which it was last recorded */
    tips tips;
    struct timespec when;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t streams;
static enum order how = RANDOM;
static uint64_t state;
static bool known, working;
static fake_counts counts;

static void die(const char *what)
{
    fprintf(stderr, "fake CUDA: %s\n", what);
    abort();
}

static void *take(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        die("out of memory");
    return memory;
}

/* ---- random numbers ---- */

void fake_order(const char *order)
{
    known = true;
    how = strcmp(order, "eager") == 0 ? EAGER : strcmp(order, "lazy") == 0 ? LAZY : RANDOM;
    state = strtoull(order, NULL, 10) * 0x9E3779B97F4A7C15U + 0x2545F4914F6CDD1DU;
}

static unsigned draw(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (unsigned)((state >> 33) % below) : 0;
}

static int number_of(const char *name, int fallback)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : fallback;
}

unsigned fake_block(unsigned threads)
{
    const unsigned most = (unsigned)number_of("FAKE_CUDA_THREADS", 32);
    return threads < most ? threads : most;
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    if (!known)
        fake_order(getenv("FAKE_CUDA_ORDER") ? getenv("FAKE_CUDA_ORDER") : "1");
}

static cudaError_t leave(cudaError_t error)
{
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- running one operation ---- */

static fake_progress go_on(cudaGraphExec_t graph, launch *l);

static fake_progress do_op(const op *o)
{
    switch (o->kind) {
    case PART:
        return o->part(o->args);
    case KERNEL:
        fake_run_kernel(o->kernel, o->call, o->args, o->blocks, o->threads, draw);
        break;
    case WORK:
        o->work(o->args);
        break;
    case COPY:
        memmove(o->to, o->from, o->bytes);
        break;
    case FILL:
        memset(o->to, o->byte, o->bytes);
        break;
    case HOST: /* host code, which must not access device memory */
        fake_memory_close();
        pthread_mutex_unlock(&lock);
        o->host(o->user);
        pthread_mutex_lock(&lock);
        fake_memory_open();
        break;
    case RECORD:
        o->event->done = o->ticket;
        clock_gettime(CLOCK_MONOTONIC, &o->event->when);
        break;
    case GRAPH:
        return go_on(o->graph, o->launch);
    case WAIT:
        break;
    }
    return FAKE_DONE;
}

/* The nodes whose dependencies are done; at most MOST_TIPS. */
static int ready_nodes(cudaGraphExec_t graph, const launch *l, int ready[MOST_TIPS])
{
    int count = 0;
    for (int i = 0; i < graph->count && count < MOST_TIPS; i++) {
        bool may = !l->done[i];
        for (int k = 0; k < graph->nodes[i].before_count && may; k++)
            may = l->done[graph->nodes[i].before[k]];
        if (may)
            ready[count++] = i;
    }
    return count;
}

/* Runs one more node, in an order that the edges allow. */
static fake_progress go_on(cudaGraphExec_t graph, launch *l)
{
    int ready[MOST_TIPS];
    const int count = ready_nodes(graph, l, ready), from = how == RANDOM ? (int)draw((unsigned)count) : 0;
    fake_progress progress = count ? FAKE_STUCK : FAKE_DONE; /* for an empty graph */
    for (int i = 0; i < count && progress == FAKE_STUCK; i++) {
        const int which = ready[(from + i) % count];
        progress = do_op(&graph->nodes[which].op);
        l->done[which] = progress == FAKE_DONE;
        l->finished += progress == FAKE_DONE;
    }
    return l->finished == graph->count ? FAKE_DONE : progress == FAKE_DONE ? FAKE_MOVED : progress;
}

static bool may_step(const struct CUstream_st *s)
{
    const op *o = &s->ops[s->first];
    return s->first < s->last && (o->kind != WAIT || o->event->done >= o->ticket);
}

/* Runs the first operation of the stream, or part of it. False: it must wait for other processes. */
static bool step(cudaStream_t s)
{
    op *first = &s->ops[s->first];
    if (first->kind == GRAPH && !first->launch) {
        first->launch = take(sizeof *first->launch);
        first->launch->done = take((size_t)first->graph->count);
    }
    const op o = *first; /* a copy, as other operations may be appended while it runs */
    const fake_progress progress = do_op(&o);
    if (progress != FAKE_DONE)
        return progress == FAKE_MOVED;
    if (++s->first == s->last)
        s->first = s->last = 0;
    if (o.launch)
        free(o.launch->done);
    free(o.launch);
    free(o.args);
    return true;
}

static bool any_step(void)
{
    cudaStream_t may[64];
    unsigned count = 0;
    for (cudaStream_t s = streams; s && count < 64; s = s->next)
        if (may_step(s))
            may[count++] = s;
    const unsigned from = draw(count);
    for (unsigned i = 0; i < count; i++)
        if (step(may[(from + i) % count]))
            return true;
    return false;
}

/* Whether some stream must wait for other processes. */
static bool any_stuck(void)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (may_step(s))
            return true;
    return false;
}

/* The device does at most `steps` steps, or stops once `until` is true. */
static void work(uint64_t steps, bool (*until)(const void *), const void *what)
{
    if (working)
        die("a function that was given to cudaLaunchHostFunc calls CUDA");
    working = true;
    fake_memory_open();
    while (steps-- && !(until && until(what)) && any_step())
        ;
    fake_memory_close();
    working = false;
}

/* After every call: the device may make some progress, at random. */
static void pump(void)
{
    if (how == EAGER)
        work(UINT64_MAX, NULL, NULL);
    else if (how == RANDOM && draw(16) == 0)
        work(draw(64), NULL, NULL);
}

static void *go_on_alone(void *nothing)
{
    const struct timespec nap = {.tv_nsec = 300000};
    for (;; nanosleep(&nap, NULL)) {
        pthread_mutex_lock(&lock);
        if (!working)
            work(64, NULL, NULL);
        pthread_mutex_unlock(&lock);
    }
    return nothing;
}

void fake_go_on_alone(void)
{
    static pthread_t thread;
    static bool begun;
    if (!begun && pthread_create(&thread, NULL, go_on_alone, NULL) != 0)
        die("no thread");
    begun = true;
}

void fake_hold(void) { pthread_mutex_lock(&lock); }
void fake_let_go(void) { pthread_mutex_unlock(&lock); }

/* ---- appending operations ---- */

static void add_tip(tips *t, int n)
{
    for (int i = 0; i < t->count; i++)
        if (t->node[i] == n)
            return;
    if (t->count == MOST_TIPS)
        die("a capture joins more than 16 branches");
    t->node[t->count++] = n;
}

static void add_tips(tips *t, const tips *more)
{
    for (int i = 0; i < more->count; i++)
        add_tip(t, more->node[i]);
}

static void add_node(cudaStream_t s, const op *o)
{
    cudaGraph_t g = s->capture;
    node *nodes = realloc(g->nodes, (size_t)(g->count + 1) * sizeof *nodes);
    if (!nodes)
        die("out of memory");
    g->nodes = nodes;
    node *n = &nodes[g->count];
    *n = (node){.op = *o, .before_count = s->tips.count};
    n->before = take((size_t)s->tips.count * sizeof *n->before);
    memcpy(n->before, s->tips.node, (size_t)s->tips.count * sizeof *n->before);
    s->tips = (tips){.node = {g->count++}, .count = 1};
}

static void append(cudaStream_t s, const op *o)
{
    if (s->capture) {
        add_node(s, o);
        return;
    }
    if (s->last == s->room) {
        s->room = 2 * s->room + 64;
        s->ops = realloc(s->ops, s->room * sizeof *s->ops);
        if (!s->ops)
            die("out of memory");
    }
    s->ops[s->last++] = *o;
    pump();
}

static void *copied(const void *args, size_t bytes)
{
    void *copy = take(bytes);
    memcpy(copy, args, bytes);
    return copy;
}

cudaError_t fake_launch(fake_kernel *kernel, fake_caller *call, unsigned blocks, unsigned threads, const void *args,
                        size_t bytes, cudaStream_t stream)
{
    if (!stream || !blocks || !threads || bytes > 4096)
        return cudaErrorInvalidValue;
    enter();
    counts.kernels++;
    append(stream, &(op){.kind = KERNEL,
                         .kernel = kernel,
                         .call = call,
                         .blocks = blocks,
                         .threads = threads,
                         .args = copied(args, bytes)});
    return leave(cudaSuccess);
}

cudaError_t fake_run(fake_work *function, const void *args, size_t bytes, cudaStream_t stream)
{
    if (!stream)
        return cudaErrorInvalidValue;
    enter();
    counts.kernels++;
    append(stream, &(op){.kind = WORK, .work = function, .args = copied(args, bytes)});
    return leave(cudaSuccess);
}

cudaError_t fake_run_part(fake_part *part, const void *args, size_t bytes, cudaStream_t stream)
{
    if (!stream)
        return cudaErrorInvalidValue;
    enter();
    counts.kernels++;
    append(stream, &(op){.kind = PART, .part = part, .args = copied(args, bytes)});
    return leave(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!stream)
        return cudaErrorInvalidValue;
    enter();
    const bool tell = kind == cudaMemcpyDefault; /* the addresses tell the direction */
    const bool up = tell ? fake_pinned_has(src, count) : kind == cudaMemcpyHostToDevice;
    const bool down = tell ? fake_pinned_has(dst, count) : kind == cudaMemcpyDeviceToHost;
    if (!(down ? fake_pinned_has(dst, count) : fake_memory_has(dst, count)))
        die(down ? "a copy to memory that is not pinned" : "a copy to memory that is not the device's");
    if (!(up ? fake_pinned_has(src, count) : fake_memory_has(src, count)))
        die(up ? "a copy from memory that is not pinned" : "a copy from memory that is not the device's");
    counts.copies++;
    counts.up += up ? (int64_t)count : 0;
    counts.down += down ? (int64_t)count : 0;
    append(stream, &(op){.kind = COPY, .to = dst, .from = src, .bytes = count});
    return leave(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    if (!stream)
        return cudaErrorInvalidValue;
    enter();
    if (!fake_memory_has(devPtr, count) && !fake_pinned_has(devPtr, count))
        die("memory is filled that is neither the device's nor pinned");
    counts.fills++;
    append(stream, &(op){.kind = FILL, .to = devPtr, .byte = value, .bytes = count});
    return leave(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    if (!stream || !fn)
        return cudaErrorInvalidValue;
    enter();
    counts.host_calls++;
    append(stream, &(op){.kind = HOST, .host = fn, .user = userData});
    return leave(cudaSuccess);
}

/* ---- waiting ---- */

static bool is_empty(const void *stream)
{
    const struct CUstream_st *s = stream;
    return s->first == s->last;
}

static bool all_empty(const void *nothing)
{
    (void)nothing;
    for (cudaStream_t s = streams; s; s = s->next)
        if (!is_empty(s))
            return false;
    return true;
}

static bool has_come(const void *event)
{
    const struct CUevent_st *e = event;
    return e->done >= e->recorded;
}

/* Waits until the condition is true; other processes may have to do their part. */
static void finish(bool (*until)(const void *), const void *what)
{
    const struct timespec nap = {.tv_nsec = 100000};
    for (work(UINT64_MAX, until, what); !until(what) && any_stuck(); work(UINT64_MAX, until, what)) {
        pthread_mutex_unlock(&lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&lock);
    }
}

static cudaError_t wait_for(bool (*until)(const void *), const void *what)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->capture && pthread_equal(s->capture->thread, pthread_self()))
            return cudaErrorStreamCaptureUnsupported;
    counts.waits++;
    finish(until, what);
    if (!until(what))
        die("the host waits for what will never come");
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    enter();
    return leave(wait_for(is_empty, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    enter();
    return leave(event->capture ? cudaErrorCapturedEvent : wait_for(has_come, event));
}

/* Polling lets the device make progress. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    enter();
    if (event->capture)
        return leave(cudaErrorCapturedEvent);
    work(how == RANDOM ? draw(64) : UINT64_MAX, has_come, event);
    return leave(has_come(event) ? cudaSuccess : cudaErrorNotReady);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    if (flags != cudaStreamNonBlocking)
        return cudaErrorInvalidValue;
    enter();
    *pStream = take(sizeof **pStream);
    (*pStream)->next = streams;
    streams = *pStream;
    return leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    enter();
    wait_for(is_empty, stream);
    for (cudaStream_t *s = &streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next;
            break;
        }
    free(stream->ops);
    free(stream);
    return leave(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    (void)flags;
    *event = take(sizeof **event);
    return cudaSuccess;
}

/* Waits first: a pending record would write to freed memory. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    enter();
    if (!event->capture)
        finish(has_come, event);
    free(event);
    return leave(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (!stream)
        return cudaErrorInvalidValue;
    enter();
    event->capture = stream->capture;
    if (stream->capture)
        event->tips = stream->tips;
    else
        append(stream, &(op){.kind = RECORD, .event = event, .ticket = ++event->recorded});
    return leave(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    if (!stream || flags)
        return cudaErrorInvalidValue;
    enter();
    if (event->capture) {
        if (stream->capture && stream->capture != event->capture)
            return leave(cudaErrorStreamCaptureIsolation);
        if (!stream->capture)
            stream->tips.count = 0;
        stream->capture = event->capture;
        add_tips(&stream->tips, &event->tips);
    } else if (stream->capture) {
        return leave(cudaErrorStreamCaptureIsolation);
    } else {
        append(stream, &(op){.kind = WAIT, .event = event, .ticket = event->recorded});
    }
    return leave(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (!has_come(start) || !has_come(end))
        return cudaErrorNotReady;
    *ms = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
                  (double)(end->when.tv_nsec - start->when.tv_nsec) * 1e-6);
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    if (!stream || stream->capture || mode != cudaStreamCaptureModeThreadLocal)
        return cudaErrorInvalidValue;
    enter();
    stream->capture = take(sizeof *stream->capture);
    stream->capture->origin = stream;
    stream->capture->thread = pthread_self();
    stream->tips.count = 0;
    return leave(cudaSuccess);
}

/* Whether another node depends on this one. */
static bool is_followed(cudaGraph_t g, int n)
{
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < g->nodes[i].before_count; k++)
            if (g->nodes[i].before[k] == n)
                return true;
    return false;
}

static bool has_tip(const tips *t, int n)
{
    for (int i = 0; i < t->count; i++)
        if (t->node[i] == n)
            return true;
    return false;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    enter();
    cudaGraph_t g = stream->capture;
    bool joined = g && g->origin == stream;
    if (!joined)
        return leave(cudaErrorStreamCaptureUnmatched);
    for (int n = 0; n < g->count; n++)
        joined = joined && (is_followed(g, n) || has_tip(&stream->tips, n));
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->capture == g)
            s->capture = NULL;
    *pGraph = joined ? g : NULL;
    if (!joined)
        cudaGraphDestroy(g);
    return leave(joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    if (flags)
        return cudaErrorInvalidValue;
    *pGraphExec = take(sizeof **pGraphExec);
    (*pGraphExec)->nodes = graph->nodes; /* moved, not copied */
    (*pGraphExec)->count = graph->count;
    graph->nodes = NULL;
    graph->count = 0;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    if (!stream || stream->capture)
        return cudaErrorInvalidValue;
    enter();
    counts.graphs++;
    append(stream, &(op){.kind = GRAPH, .graph = graphExec});
    return leave(cudaSuccess);
}

static void free_nodes(node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        free(nodes[i].before);
        free(nodes[i].op.args);
    }
    free(nodes);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free_nodes(graph->nodes, graph->count);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    enter();
    wait_for(all_empty, NULL);
    free_nodes(graphExec->nodes, graphExec->count);
    free(graphExec);
    return leave(cudaSuccess);
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    enter();
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->capture && pthread_equal(s->capture->thread, pthread_self()))
            return leave(cudaErrorStreamCaptureUnsupported);
    counts.allocations++;
    *devPtr = fake_memory_new(size);
    return leave(*devPtr ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* as in CUDA, the device finishes first */
cudaError_t cudaFree(void *devPtr)
{
    enter();
    finish(all_empty, NULL);
    return leave(!devPtr || fake_memory_free(devPtr) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    if (flags != cudaHostAllocDefault)
        return cudaErrorInvalidValue;
    enter();
    *pHost = fake_pinned_new(size);
    return leave(*pHost ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *ptr)
{
    enter();
    finish(all_empty, NULL);
    return leave(!ptr || fake_pinned_free(ptr) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    fake_memory_size(free, total);
    return cudaSuccess;
}

/* ---- the rest ---- */

static int current; /* the current device; shared by all threads */

/* CUDA cannot be used in a forked child of a process that has used it. */
static bool is_forked(void)
{
    static pid_t user;
    user = user ? user : getpid();
    return user != getpid();
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (is_forked())
        return cudaErrorInitializationError;
    *count = number_of("FAKE_CUDA_DEVICES", 1);
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    if (is_forked())
        return cudaErrorInitializationError;
    if (device < 0 || device >= number_of("FAKE_CUDA_DEVICES", 1))
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return is_forked() ? cudaErrorInitializationError : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)device;
    *value = attr == cudaDevAttrComputeCapabilityMajor ? 9 : attr == cudaDevAttrComputeCapabilityMinor ? 0 : 132;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return cudaSuccess; }

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    *runtimeVersion = 13000;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driverVersion) { return cudaRuntimeGetVersion(driverVersion); }

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(code, text)                                                                                              \
    {                                                                                                                  \
        code, #code, text                                                                                              \
    }
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureUnmatched, "the capture was not initiated in this stream"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
};

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

fake_counts fake_counted(void) { return counts; }
void fake_forget(void) { counts = (fake_counts){0}; }
