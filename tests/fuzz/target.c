/* tests/fuzz/target.c: files in memory, and the checks after each input. */
#include "fuzz.h"

#include "data/dataset.h"
#include "engine/config/config.h"
#include "engine/session/session.h"
#include "engine/solve/methods.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_one(data, size);
    return 0;
}

void fuzz_check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s; the message is: %s\n", what, bt_error());
    abort();
}

const char *fuzz_file(int slot, const void *data, size_t size)
{
    static int files[2] = {-1, -1};
    static char paths[2][64];
    if (files[slot] < 0) {
        files[slot] = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(paths[slot], sizeof paths[slot], "/proc/self/fd/%d", files[slot]);
    }
    bool written = ftruncate(files[slot], 0) == 0 && pwrite(files[slot], data, size, 0) == (ssize_t)size;
    fuzz_check(written, "no file in memory");
    return paths[slot];
}

void fuzz_refused(bool refused)
{
    fuzz_check(refused == (*bt_error() != 0), refused ? "refused without a message" : "taken, with a message");
    fuzz_check(refused == (bt_error_status() != BT_OK), "the status does not go with the message");
    bt_error_clear();
    fuzz_check(bt_live_bytes() == 0, "memory is not given back");
}

/* ---- data sets ---- */

static void check_column(const bt_dataset *data, const char *name)
{
    const bt_column *column = bt_dataset_column(data, name);
    fuzz_check(column != NULL, "a field is missing");
    bt_array array = column->store->array;
    int64_t count = bt_array_count(array);
    fuzz_check(array.dims[0] == bt_dataset_count(data) && count > 0, "a field has another number of examples");
    for (int64_t i = 0; i < count; i++)
        fuzz_check(isfinite(bt_get(array.dtype, array.data, i)), "a value is not finite");
}

void fuzz_dataset(bt_dataset *data, const char *const *names, int count)
{
    for (int i = 0; data && i < count; i++)
        check_column(data, names[i]);
    bt_dataset_free(data);
    fuzz_refused(data == NULL);
}

/* ---- settings ---- */

bt_config *fuzz_config(void)
{
    bt_config *config = bt_config_new();
    for (int i = 0; bt_method_builtin(i); i++)
        bt_config_add_method(config, bt_method_builtin(i));
    return config;
}

static bool resolve(bt_config *config)
{
    int64_t hidden;
    return bt_error_status() == BT_OK && bt_config_engine(config) && bt_config_add_problem(config, "upper") == BT_OK &&
           bt_config_add_problem(config, "lower") == BT_OK && bt_config_resolve(config) == BT_OK &&
           bt_config_option_int(config, "lower", "hidden", 4, 1, 100, &hidden) == BT_OK &&
           bt_config_finish(config) == BT_OK;
}

static char *print(const bt_config *config)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    fuzz_check(file && bt_config_print(config, file) == BT_OK, "the settings cannot be printed");
    fclose(file);
    return text;
}

void fuzz_resolve(bt_config *config)
{
    bool good = resolve(config);
    if (good) {
        char *first = print(config);
        bt_config *again = fuzz_config();
        bt_config_read(again, fuzz_file(1, first, strlen(first)));
        fuzz_check(resolve(again), "what is printed does not read back");
        char *second = print(again);
        fuzz_check(strcmp(first, second) == 0, "what is printed reads back to something else");
        bt_config_free(again);
        free(first);
        free(second);
    }
    bt_config_free(config);
    fuzz_refused(!good);
}
