/* Work shared between threads: each part is done once, by any thread; waiting threads sleep. And the number of cores,
 * as read from the files of control groups. */
#include "base/base.h"
#include "base/cores.h"
#include "base/team.h"

#include "support/suite.h"
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 200, ROUNDS = 300, CALLERS = 4 };

static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

typedef struct tally {
    atomic_int done[MOST];
    pthread_t who[MOST];
    int parts, wait;
} tally;

static void count(const void *work, int part, int parts)
{
    tally *t = (tally *)(uintptr_t)work;
    ck_assert_int_eq(parts, t->parts);
    atomic_fetch_add(&t->done[part], 1);
    t->who[part] = pthread_self();
    if (t->wait)
        wait_ms(t->wait);
}

static void check_once(const tally *t)
{
    for (int i = 0; i < MOST; i++)
        ck_assert_int_eq(atomic_load(&t->done[i]), i < t->parts);
}

START_TEST(each_part_is_done_once)
{
    for (int round = 0; round < ROUNDS; round++) {
        tally t = {.parts = 1 + round % 7};
        bt_team_do(count, &t, t.parts);
        check_once(&t);
    }
    tally many = {.parts = MOST};
    bt_team_do(count, &many, many.parts);
    check_once(&many);
    for (int round = 0; round < 10; round++) { /* slow parts, so that other threads get some even on a busy core */
        tally slow = {.parts = 6, .wait = 2};
        bt_team_do(count, &slow, slow.parts);
        check_once(&slow);
    }
}
END_TEST

/* Slow parts run in parallel. */
START_TEST(others_help)
{
    tally t = {.parts = 3, .wait = 100};
    bt_team_do(count, &t, t.parts);
    check_once(&t);
    ck_assert(!pthread_equal(t.who[0], t.who[1]) && !pthread_equal(t.who[1], t.who[2]));
    ck_assert(pthread_equal(t.who[0], pthread_self()));
}
END_TEST

static void *call_often(void *failed)
{
    for (int round = 0; round < ROUNDS; round++) {
        tally t = {.parts = 1 + round % 5};
        bt_team_do(count, &t, t.parts);
        for (int i = 0; i < t.parts; i++)
            if (atomic_load(&t.done[i]) != 1)
                atomic_store((atomic_int *)failed, 1);
    }
    return NULL;
}

START_TEST(several_may_call)
{
    pthread_t callers[CALLERS];
    atomic_int failed = 0;
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&callers[i], NULL, call_often, &failed), 0);
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_join(callers[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&failed), 0);
}
END_TEST

static void nest(const void *work, int part, int parts)
{
    (void)parts;
    tally *t = (tally *)(uintptr_t)work;
    bt_team_do(count, &t[part], 4);
}

START_TEST(a_part_may_call)
{
    static tally t[3];
    for (int i = 0; i < 3; i++)
        t[i].parts = 4;
    bt_team_do(nest, t, 3);
    for (int i = 0; i < 3; i++)
        check_once(&t[i]);
}
END_TEST

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Threads without work sleep while this one sleeps, and this one sleeps while a thread does the last part. */
START_TEST(who_waits_sleeps)
{
    tally t = {.parts = 4, .wait = 300};
    bt_team_do(count, &t, t.parts);
    double before = processor_seconds();
    wait_ms(300);
    tally slow = {.parts = 4, .wait = 300};
    bt_team_do(count, &slow, slow.parts);
    double used = processor_seconds() - before;
    ck_assert_msg(used < 0.05, "%.3f s of processor time while nobody had anything to do", used);
}
END_TEST

/* A forked child has none of the threads, and creates its own. */
START_TEST(after_a_fork)
{
    tally t = {.parts = 3};
    bt_team_do(count, &t, t.parts);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        tally own = {.parts = 3, .wait = 50};
        bt_team_do(count, &own, own.parts);
        bool good = !pthread_equal(own.who[0], own.who[1]);
        for (int i = 0; i < 3; i++)
            good = good && atomic_load(&own.done[i]) == 1;
        _exit(good ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* ---- cores ---- */

static char folder[] = "/tmp/betty-cores-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *c = path + strlen(folder) + 1; (c = strchr(c, '/')) != NULL; *c++ = '/') {
        *c = 0;
        mkdir(path, 0777);
    }
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static int cores(const char *groups, int most)
{
    char path[512];
    put("cgroup", groups);
    snprintf(path, sizeof path, "%s/cgroup", folder);
    return bt_cores_of_groups(path, folder, most);
}

START_TEST(cores_of_groups)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(bt_cores_of_groups("/nowhere/cgroup", folder, 8), 8);
    put("two/half/cpu.max", "250000 100000\n");
    put("two/none/cpu.max", "max 100000\n");
    put("two/little/cpu.max", "20000 100000\n");
    ck_assert_int_eq(cores("0::/two/half\n", 8), 2);
    ck_assert_int_eq(cores("0::/two/half/inner\n", 8), 2); /* the limit of a parent group counts, too */
    ck_assert_int_eq(cores("0::/two/half\n", 1), 1);
    ck_assert_int_eq(cores("0::/two/none\n", 8), 8);
    ck_assert_int_eq(cores("0::/two/little\n", 8), 1);
    ck_assert_int_eq(cores("0::/elsewhere\n", 8), 8);
    put("cpu,cpuacct/one/cpu.cfs_quota_us", "300000\n");
    put("cpu,cpuacct/one/cpu.cfs_period_us", "100000\n");
    put("cpu/none/cpu.cfs_quota_us", "-1\n");
    put("cpu/none/cpu.cfs_period_us", "100000\n");
    put("cpuset/one/cpu.max", "100000 100000\n");
    ck_assert_int_eq(cores("4:memory:/one\n3:cpu,cpuacct:/one\n0::/one\n", 8), 3);
    ck_assert_int_eq(cores("3:cpu:/none\n", 8), 8);
    ck_assert_int_eq(cores("3:cpuset:/one\n", 8), 8);
    ck_assert_int_eq(cores("nonsense\n:::\n3:cpu\n", 8), 8);
    put("cpu.max", "400000 100000\n"); /* a container's view of its own group */
    ck_assert_int_eq(cores("0::/not/there\n", 8), 4);
    char remove[600];
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    ck_assert_int_eq(system(remove), 0);
}
END_TEST

START_TEST(cores_of_this_process)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    ck_assert_int_le(bt_cores(), CPU_COUNT(&all));
    size_t first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_SET(first, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(bt_cores(), 1);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tests = tcase_create("team");
    tcase_add_test(tests, each_part_is_done_once);
    tcase_add_test(tests, others_help);
    tcase_add_test(tests, several_may_call);
    tcase_add_test(tests, a_part_may_call);
    tcase_add_test(tests, who_waits_sleeps);
    const char *sanitizer = getenv("BT_SANITIZE");
    if (!sanitizer || strcmp(sanitizer, "thread") != 0) /* which does not support threads after a fork */
        tcase_add_test(tests, after_a_fork);
    tcase_add_test(tests, cores_of_groups);
    tcase_add_test(tests, cores_of_this_process);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
