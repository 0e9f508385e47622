/* backend/cpu/backend.c: the CPU backend: chooses the instruction set and builds the kernel lists, the best first.
 * Calls that the kernels of a set do not accept go to the next narrower set. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined BT_CPU_HAVE_HALF
#include <cpuid.h>
#if defined __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

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
                         bt_cpu_collective,
                         NULL};

#define BT_CPU_ENTRY(name, isa) bt_cpu_##name##_##isa,

static family generic[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, generic) bt_cpu_pieces_generic, NULL};
#if defined BT_CPU_HAVE_X86
static family v3[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, v3) bt_cpu_pieces_v3, NULL};
#if defined BT_CPU_HAVE_V4
static family v4[] = {BT_CPU_FAMILIES(BT_CPU_ENTRY, v4) bt_cpu_pieces_v4, NULL};
#endif
#if defined BT_CPU_HAVE_HALF
static family v4b[] = {bt_cpu_half_matmul_v4b, bt_cpu_half_conv_v4b, NULL};
static family amx[] = {bt_cpu_half_matmul_amx, bt_cpu_half_conv_amx, NULL};
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

#if defined BT_CPU_HAVE_HALF
static bool runs_v4b(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return runs_v4() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}

/* AMD's cores multiply bf16 twice as fast as f32; Intel's half as fast. */
static bool pays_v4b(void) { return __builtin_cpu_is("amd"); }

/* A process must ask the system for tiles once. */
static bool runs_amx(void)
{
    bool granted = false;
#if defined __linux__
    enum { REQUEST = 0x1023, TILES = 18 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    granted = runs_v4b() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1 && d >> 24 & 1 &&
              syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#endif
    return granted;
}
#endif
#endif

static bool runs_anywhere(void) { return true; }

enum { KERNELS = 1024, SETS = 6 };

static const struct set { /* the best last */
    const char *name, *text;
    family *families;
    const bt_conversions *conversions;
    bool (*runs)(void), (*pays)(void); /* pays: whether it is chosen where it runs */
} sets[] = {
    {"", "no vectors", NULL, &bt_cpu_convert_generic, runs_anywhere, runs_anywhere},
    {"generic", "generic", generic, &bt_cpu_convert_generic, runs_anywhere, runs_anywhere},
#if defined BT_CPU_HAVE_X86
    {"v3", "x86-64-v3", v3, &bt_cpu_convert_v3, runs_v3, runs_anywhere},
#if defined BT_CPU_HAVE_V4
    {"v4", "x86-64-v4", v4, &bt_cpu_convert_v4, runs_v4, runs_anywhere},
#endif
#if defined BT_CPU_HAVE_HALF
    {"v4b", "x86-64-v4, AVX512_BF16", v4b, &bt_cpu_convert_v4, runs_v4b, pays_v4b},
    {"amx", "x86-64-v4, AMX", amx, &bt_cpu_convert_v4, runs_amx, runs_anywhere},
#endif
#endif
};

static const bt_kernel_impl *lists[SETS][KERNELS + 1];
static bool runs[SETS];
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
        runs[i] = sets[i].runs();
        if (!runs[i])
            continue;
        int count = 0;
        for (int k = i; k >= 0; k--)
            if (k == i || sets[k].pays()) /* else calls left to it would be slower than in the next set */
                count = append(lists[i], count, sets[k].families);
        append(lists[i], count, plain);
        bool is_wanted = wanted && strcmp(wanted, sets[i].name) == 0;
        if (is_wanted || (sets[i].pays() && (!wanted || !*wanted || strcmp(wanted, sets[chosen].name) != 0)))
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

static int named(const char *name) /* -1: not available */
{
    pthread_once(&once, build);
    for (int i = 0; i < BT_COUNT_OF(sets); i++)
        if (strcmp(sets[i].name, name) == 0 && runs[i])
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
    static const bt_backend backend = {.name = "cpu",
                                       .isa = isa,
                                       .kernels = {.device = "cpu", .list = kernels, .join = bt_cpu_join},
                                       .conversions = conversions};
    return &backend;
}
