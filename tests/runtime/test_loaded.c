/* The library loaded at run time (dlopen): its threads sleep when idle, and are gone once it is unloaded. */
#include "support/suite.h"
#include <betty/engine.h>

#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int threads_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ISO C cannot convert an object pointer to a function pointer. */
#define FIND(library, name)                                                                                            \
    do {                                                                                                               \
        void *found = dlsym(library, #name);                                                                           \
        ck_assert_ptr_nonnull(found);                                                                                  \
        memcpy(&name##_, &found, sizeof found);                                                                        \
    } while (0)

static char *file_of(const char *variable, const char *name)
{
    static char path[2][4096];
    static int next;
    const char *folder = getenv(variable);
    snprintf(path[next ^= 1], sizeof path[0], "%s/%s", folder ? folder : ".", name);
    return path[next];
}

START_TEST(loaded_and_unloaded)
{
    void *library = dlopen(file_of("BT_BUILD_DIR", "libbetty.so"), RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    bt_engine *(*bt_engine_new_)(void);
    void (*bt_engine_free_)(bt_engine *);
    bt_status (*bt_engine_load_)(bt_engine *, const char *), (*bt_engine_run_)(bt_engine *);
    bt_status (*bt_engine_set_)(bt_engine *, const char *, const char *, ...);
    const char *(*bt_error_)(void);
    FIND(library, bt_engine_new);
    FIND(library, bt_engine_free);
    FIND(library, bt_engine_load);
    FIND(library, bt_engine_run);
    FIND(library, bt_engine_set);
    FIND(library, bt_error);
    const int before = threads_now();
    bt_engine *engine = bt_engine_new_();
    ck_assert_int_eq(bt_engine_load_(engine, file_of("BT_SOURCE_DIR", "examples/sine.ini")), BT_OK);
    bt_engine_set_(engine, "engine.threads", "2");
    bt_engine_set_(engine, "engine.train_iters", "20");
    bt_engine_set_(engine, "engine.valid_step", "0");
    bt_engine_set_(engine, "meta.width", "1000");
    ck_assert_msg(bt_engine_run_(engine) == BT_OK, "%s", bt_error_());
    ck_assert_int_eq(threads_now(), before + 1);
    double used = processor_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 300000000L}, NULL);
    used = processor_seconds() - used;
    ck_assert_msg(used < 0.03, "%.3f s of processor time in 0.3 s without work", used);
    bt_engine_free_(engine);
    ck_assert_int_eq(dlclose(library), 0);
    ck_assert_int_eq(threads_now(), before);
}
END_TEST

int main(void)
{
    if (getenv("BT_SANITIZE") || access(file_of("BT_BUILD_DIR", "libbetty.so"), R_OK) != 0)
        return 77; /* the sanitizer's own library would have to be loaded first */
    Suite *suite = suite_create("loaded");
    TCase *tests = tcase_create("loaded");
    tcase_add_test(tests, loaded_and_unloaded);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
