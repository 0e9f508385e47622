/* bench/libbetty/files.c: plain arrays without a header in the data folder: reads the sets, and writes the starting
 * point of the other programs, that is, our initial values and our order of the batches. */
#include "bench.h"

#include "base/base.h"
#include "data/data.h"
#include "engine/session/session.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    long length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *data = length > 0 ? malloc((size_t)length) : NULL;
    *bytes = data && fseek(file, 0, SEEK_SET) == 0 ? fread(data, 1, (size_t)length, file) : 0;
    if (length <= 0 || *bytes != (size_t)length) {
        bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", path, strerror(errno));
        free(data);
        data = NULL;
    }
    if (file)
        fclose(file);
    return data;
}

static bt_status write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0)
        good = false;
    return good ? BT_OK : bt_fail(BT_ERROR_FILE, "%s cannot be written: %s", path, strerror(errno));
}

/* ---- sets ---- */

static bt_array whole_numbers(int64_t *y, int64_t rows, size_t bytes)
{
    int64_t each = (int64_t)(bytes / sizeof *y) / rows;
    return each > 1 ? BT_ARRAY(y, rows, each) : BT_ARRAY(y, rows);
}

/* SET_x.f32 with rows of features, and SET_y.f32 or, for classes, SET_y.i64. */
bt_dataset *read_set(const session *s, const char *set)
{
    char name[64];
    size_t x_bytes, y_bytes = 0;
    const workload *w = s->workload;
    int64_t features = w->features ? w->features : s->hidden;
    snprintf(name, sizeof name, "%s_x.f32", set);
    float *x = read_file(s->folder, name, &x_bytes);
    snprintf(name, sizeof name, "%s_y.%s", set, w->classes ? "i64" : "f32");
    void *y = read_file(s->folder, name, &y_bytes);
    int64_t rows = (int64_t)(x_bytes / sizeof *x) / features;
    bt_dataset *data = x && y ? bt_dataset_new(rows) : NULL;
    bt_dataset_add(data, w->input, BT_ARRAY(x, rows, features));
    bt_dataset_add(data, w->label, w->classes ? whole_numbers(y, rows, y_bytes) : BT_ARRAY((float *)y, rows));
    free(x);
    free(y);
    return data;
}

bt_dataset *lower_data(bt_problem *self) { return read_set(bt_user(self), "train"); }

bt_dataset *upper_data(bt_problem *self) { return read_set(bt_user(self), "meta"); }

/* ---- parameters ---- */

static bt_tensor *all_params(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_params(self);
}

double *params_of(session *s, const char *name, int64_t *count)
{
    bt_problem *problem = bt_engine_problem(s->engine, name);
    *count = problem ? bt_param_count(problem) : 0;
    double *params = *count ? calloc((size_t)*count, sizeof *params) : NULL;
    if (params && bt_eval(problem, all_params, NULL, BT_ARRAY(params, *count)) == BT_OK)
        return params;
    bt_fail(BT_ERROR_MEMORY, "no memory for the parameters of %s", name);
    free(params);
    return NULL;
}

static bt_status export_params(session *s, const char *name)
{
    char file[64];
    int64_t count;
    double *params = params_of(s, name, &count);
    snprintf(file, sizeof file, "%s.f64", name);
    bt_status status = params ? write_file(s->folder, file, params, (size_t)count * sizeof *params) : BT_ERROR_MEMORY;
    free(params);
    return status;
}

/* ---- batches ---- */

/* The first `batches` batches that the engine's loader draws for a problem, as positions in its data set: the same
 * loader with the same seed, over a set with a dummy field only. */
static bt_status export_order(session *s, const char *set, const char *name, int64_t batches)
{
    char file[64];
    bt_dataset *all = read_set(s, set);
    int64_t rows = bt_dataset_count(all), each = s->batch;
    bt_dataset_free(all);
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = each;
    options.shuffle = true;
    options.seed = bt_hash_text(bt_seed(bt_engine_problem(s->engine, name)), name);
    int32_t *order = calloc((size_t)(batches * each), sizeof *order);
    float *nothing = calloc((size_t)rows, sizeof *nothing);
    bt_dataset *data = order && nothing ? bt_dataset_new(rows) : NULL;
    bt_dataset_add(data, "nothing", BT_ARRAY(nothing, rows));
    bt_loader *loader = bt_loader_open(data, &options);
    bt_status status = loader ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t b = 0; status == BT_OK && b < batches; b++) {
        const bt_batch *batch;
        status = bt_loader_draw(loader, &batch);
        for (int f = 0; status == BT_OK && f < batch->field_count; f++)
            if (strcmp(batch->fields[f].name, "index") == 0)
                status = bt_array_convert(BT_ARRAY(order + each * b, each), batch->fields[f].array);
    }
    snprintf(file, sizeof file, "%s_order.i32", set);
    if (status == BT_OK)
        status = write_file(s->folder, file, order, (size_t)(batches * each) * sizeof *order);
    bt_loader_free(loader);
    free(order);
    free(nothing);
    return status;
}

static bt_status append_field(const bt_batch *task, const char *field, FILE *file)
{
    enum { MOST = 1 << 20 };
    static float images[MOST];
    for (int f = 0; f < task->field_count; f++) {
        bt_array array = task->fields[f].array;
        size_t count = (size_t)bt_array_count(array);
        if (strcmp(task->fields[f].name, field) != 0)
            continue;
        BT_TRY(count <= MOST ? bt_array_convert(BT_ARRAY(images, (int64_t)count), array) : BT_ERROR_ARGUMENT);
        return fwrite(images, sizeof *images, count, file) == count ? BT_OK : BT_ERROR_FILE;
    }
    return bt_fail(BT_ERROR_ARGUMENT, "a task has no field `%s`", field);
}

/* The images of the first `count` tasks that the problem draws. */
static bt_status export_tasks(session *s, const char *part, int64_t count)
{
    char path[4096], field[64];
    snprintf(path, sizeof path, "%s/%s_x.f32", s->folder, part);
    snprintf(field, sizeof field, "%s.image", part);
    bt_loader *loader = bt_loader_new(few_shot_tasks(bt_engine_problem(s->engine, "upper")), 1, 0);
    FILE *file = fopen(path, "wb");
    bt_status status = loader && file ? BT_OK : bt_fail(BT_ERROR_FILE, "%s cannot be written", path);
    for (int64_t i = 0; i < count && status == BT_OK; i++) {
        const bt_batch *task;
        status = bt_loader_next(loader, &task);
        if (status == BT_OK)
            status = append_field(task, field, file);
    }
    if (file && fclose(file) != 0 && status == BT_OK)
        status = BT_ERROR_FILE;
    bt_loader_free(loader);
    return status;
}

bt_status export_start(session *s, int64_t batches)
{
    BT_TRY(export_params(s, "lower"));
    if (strcmp(s->workload->top, "upper") == 0)
        BT_TRY(export_params(s, "upper"));
    if (!s->workload->set) {
        BT_TRY(export_tasks(s, "support", batches));
        BT_TRY(export_tasks(s, "query", batches));
    } else if (batches) {
        BT_TRY(export_order(s, "train", "lower", batches));
        BT_TRY(export_order(s, "meta", "upper", batches));
    }
    printf("{\"exported\": true}\n");
    return BT_OK;
}
