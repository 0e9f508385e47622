/* backend/cpu/backend.c: the CPU backend: chooses the instruction set and puts the kernel lists together, the best
 * first. What the kernels of a set leave to narrower vectors, those of the next narrower set are asked for. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef const bt_kernel_impl *const family;

static family plain[] = {bt_cpu_reference_elementwise,
                         bt_cpu_reference_reduce,
                         bt_cpu_reference_move,
                         bt_cpu_reference_index,
                         bt_cpu_reference_conv,
                         bt_cpu_reference_dot,
                         bt_cpu_reference_random,
                         bt_cpu_reference_loss,
                         bt_cpu_reference_update,
                         bt_cpu_reference_channel,
                         bt_cpu_reference_pool,
                         bt_cpu_reference_linalg,
                         bt_cpu_along,
                         NULL};

#define BT_CPU_ENTRY(name, isa) bt_cpu_##name##_##isa,

static family generic[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, generic) bt_cpu_pieces_generic, NULL};
#if defined BT_CPU_HAVE_X86
static family v3[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, v3) bt_cpu_pieces_v3, NULL};
#if defined BT_CPU_HAVE_V4
static family v4[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, v4) bt_cpu_pieces_v4, NULL};
#endif

static bool runs_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

#if defined BT_CPU_HAVE_V4
static bool runs_v4(void)
{
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif
#endif

static bool runs_anywhere(void) { return true; }

enum { KERNELS = 1024, SETS = 4 };

static const struct set { /* the best last */
    const char *name, *text;
    family *families;
    const bt_conversions *conversions;
    bool (*runs)(void);
} sets[] = {
    {"", "no vectors", NULL, &bt_cpu_convert_generic, runs_anywhere},
    {"generic", "generic", generic, &bt_cpu_convert_generic, runs_anywhere},
#if defined BT_CPU_HAVE_X86
    {"v3", "x86-64-v3", v3, &bt_cpu_convert_v3, runs_v3},
#if defined BT_CPU_HAVE_V4
    {"v4", "x86-64-v4", v4, &bt_cpu_convert_v4, runs_v4},
#endif
#endif
};

static const bt_kernel_impl *lists[SETS][KERNELS + 1];
static int chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int append(const bt_kernel_impl **list, int count, family *families)
{
    for (; families && *families; families++)
        for (const bt_kernel_impl *kernel = *families; kernel->op && count < KERNELS; kernel++)
            list[count++] = kernel;
    return count;
}

static void build(void)
{
    const char *wanted = getenv("BETTY_ISA");
    for (int i = 0; i < BT_COUNT_OF(sets); i++) {
        if (!sets[i].runs())
            continue;
        int count = 0;
        for (int k = i; k >= 0; k--)
            count = append(lists[i], count, sets[k].families);
        append(lists[i], count, plain);
        if (!wanted || !*wanted || chosen == 0 || strcmp(wanted, sets[i].name) == 0 ||
            strcmp(wanted, sets[chosen].name) != 0)
            chosen = i;
    }
}

static const char *isa(void)
{
    pthread_once(&once, build);
    return sets[chosen].text;
}

static const bt_kernel_impl *const *kernels(void)
{
    pthread_once(&once, build);
    return lists[chosen];
}

static const bt_conversions *conversions(void)
{
    pthread_once(&once, build);
    return sets[chosen].conversions;
}

static int named(const char *name) /* -1: not here */
{
    pthread_once(&once, build);
    for (int i = 0; i < BT_COUNT_OF(sets); i++)
        if (strcmp(sets[i].name, name) == 0 && sets[i].runs())
            return i;
    return -1;
}

const bt_kernel_impl *const *bt_cpu_kernels(const char *name)
{
    const int i = named(name);
    return i < 0 ? NULL : lists[i];
}

const bt_conversions *bt_cpu_conversions(const char *name)
{
    const int i = named(name);
    return i < 0 ? NULL : sets[i].conversions;
}

const bt_backend *bt_backend_cpu(void)
{
    static const bt_backend backend = {
        .name = "cpu", .isa = isa, .kernels = {"cpu", kernels}, .conversions = conversions};
    return &backend;
}
