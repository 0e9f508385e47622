/* tests/fake_cuda/block.c: the threads of a block. They run one after the other on one stack until one reaches a
 * barrier: that thread keeps the stack, and the rest continue on another. When all threads wait, they resume in a new
 * random order. */
#include "block.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK = 1 << 16, MOST = 1024 };

typedef struct stack { /* a stack, and the thread that waits on it */
    char *memory;
    ucontext_t start;
    jmp_buf now;
    bool started;
    unsigned thread;
    const char *file;
    int line;
    void *shadow; /* AddressSanitizer's */
} stack;

typedef struct block {
    fake_kernel *kernel;
    fake_caller *call;
    const void *args;
    unsigned order[MOST], threads, next; /* next: the first thread that has not started */
} block;

fake_thread_place fake_thread;

static stack *stacks[MOST], *waiting[MOST], *running;
static unsigned waiting_count, stack_count;
static block current;
static jmp_buf scheduler;
static fake_draw *draw;

static void die(const char *what, const char *file, int line)
{
    fprintf(stderr, "fake CUDA: %s (%s:%d)\n", what, file, line);
    abort();
}

static void shuffle(unsigned *list, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        const unsigned k = draw(i), kept = list[k];
        list[k] = list[i - 1];
        list[i - 1] = kept;
    }
}

/* ---- switching stacks ---- */

#if defined __SANITIZE_ADDRESS__
static ucontext_t outside, contexts[MOST];
static void *outside_shadow;
static const void *outside_stack;
static size_t outside_size;

static void leave(stack *s) /* to the scheduler */
{
    const unsigned i = s->thread;
    __sanitizer_start_switch_fiber(&s->shadow, outside_stack, outside_size);
    swapcontext(&contexts[i], &outside);
    __sanitizer_finish_switch_fiber(s->shadow, NULL, NULL);
}

static void enter(stack *s)
{
    __sanitizer_start_switch_fiber(&outside_shadow, s->memory, STACK);
    swapcontext(&outside, s->started ? &contexts[s->thread] : &s->start);
    __sanitizer_finish_switch_fiber(outside_shadow, NULL, NULL);
}

static void arrived(void) { __sanitizer_finish_switch_fiber(NULL, &outside_stack, &outside_size); }

static void finish(stack *s)
{
    __sanitizer_start_switch_fiber(NULL, outside_stack, outside_size);
    s->started = false;
    setcontext(&outside);
}
#else
static void leave(stack *s)
{
    if (!_setjmp(s->now))
        _longjmp(scheduler, 1);
}

static void enter(stack *s)
{
    if (_setjmp(scheduler))
        return;
    if (s->started)
        _longjmp(s->now, 1);
    setcontext(&s->start);
}

static void arrived(void) {}

static void finish(stack *s)
{
    s->started = false;
    _longjmp(scheduler, 1);
}
#endif

static void run_thread(unsigned thread)
{
    fake_thread.index.x = thread;
    running->thread = thread;
    current.call(current.kernel, current.args);
}

/* Runs on its own stack: one thread after the other, until one waits. */
static void carry(void)
{
    arrived();
    running->started = true;
    stack *const own = running;
    while (current.next < current.threads) {
        run_thread(current.order[current.next++]);
        running = own; /* the thread may have waited and come back; by then all have started */
    }
    finish(own);
}

static stack *stack_new(void)
{
    if (!stack_count) {
        stack *s = calloc(1, sizeof *s);
        if (!s || !(s->memory = malloc(STACK)))
            die("out of memory", __FILE__, __LINE__);
        stacks[stack_count++] = s;
    }
    stack *s = stacks[--stack_count];
    getcontext(&s->start);
    s->start.uc_stack.ss_sp = s->memory;
    s->start.uc_stack.ss_size = STACK;
    s->start.uc_link = NULL;
    makecontext(&s->start, carry, 0);
    s->started = false;
    s->file = NULL;
    return s;
}

static void go(stack *s)
{
    running = s;
    s->file = NULL;
    enter(s);
    if (!s->file) /* it has finished */
        stacks[stack_count++] = s;
}

void fake_barrier(const char *file, int line)
{
    stack *me = running;
    me->file = file;
    me->line = line;
    waiting[waiting_count++] = me;
    leave(me);
    running = me;
    fake_thread.index.x = me->thread;
}

/* Checks that all threads are at the same barrier, and resumes them. */
static void release(void)
{
    stack *list[MOST];
    unsigned order[MOST];
    const unsigned count = waiting_count;
    for (unsigned i = 0; i < count; i++) {
        list[i] = waiting[i];
        order[i] = i;
        if (list[i]->line != list[0]->line || list[i]->file != list[0]->file)
            die("threads of a block wait at different barriers", list[i]->file, list[i]->line);
    }
    if (count != current.threads)
        die("some threads of the block have ended, and others wait for them", list[0]->file, list[0]->line);
    shuffle(order, count);
    waiting_count = 0;
    for (unsigned i = 0; i < count; i++)
        go(list[order[i]]);
}

static void run_block(void)
{
    current.next = 0;
    waiting_count = 0;
    for (unsigned i = 0; i < current.threads; i++)
        current.order[i] = i;
    shuffle(current.order, current.threads);
    fake_thread.number++;
    while (current.next < current.threads)
        go(stack_new());
    while (waiting_count)
        release();
}

void fake_shared(uint64_t *filled, void *memory, size_t bytes)
{
    if (*filled == fake_thread.number)
        return;
    *filled = fake_thread.number;
    memset(memory, 0xA5, bytes);
}

void fake_run_kernel(fake_kernel *kernel, fake_caller *call, const void *args, unsigned blocks, unsigned threads,
                     fake_draw *from)
{
    if (threads > MOST)
        die("a block has more than 1024 threads", __FILE__, __LINE__);
    draw = from;
    current.kernel = kernel;
    current.call = call;
    current.args = args;
    current.threads = threads;
    fake_thread.block_size.x = threads;
    fake_thread.grid_size.x = blocks;
    const unsigned first = draw(blocks); /* blocks run in any order, too */
    for (unsigned b = 0; b < blocks; b++) {
        fake_thread.block.x = (first + b) % blocks;
        run_block();
    }
}
