/* engine/state/files.c: checkpoint files: names, checks, finding the newest one, removing old ones. */
#include "engine/state/checkpoint.h"

#include "base/version.h"
#include "io/json.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "betty checkpoint 3"

static void hex(char text[17], uint64_t value) { snprintf(text, 17, "%016" PRIx64, value); }

/* The end of a record: the hash of everything before it. */
enum { TAIL = sizeof ",\n  \"hash\": \"0123456789abcdef\"\n}\n" - 1 };

static void make_tail(char tail[TAIL + 1], const char *text, size_t size)
{
    snprintf(tail, TAIL + 1, ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", bt_hash(0, text, size));
}

/* ---- writing ---- */

static bt_status seal(json_t *record, int64_t step, bt_file_sum sum)
{
    char text[17];
    hex(text, sum.hash);
    bool good = json_object_set_new(record, "format", json_string(FORMAT)) == 0 &&
                json_object_set_new(record, "version", json_string(BT_VERSION)) == 0 &&
                json_object_set_new(record, "step", json_integer(step)) == 0 &&
                json_object_set_new(record, "tensors",
                                    json_pack("{s:I, s:s}", "bytes", (json_int_t)sum.bytes, "hash", text)) == 0;
    return good ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status write_record(const char *folder, const char *name, const json_t *record)
{
    char file[BT_CHECKPOINT_NAME + 8], tail[TAIL + 1];
    bt_text whole = {0};
    size_t size;
    snprintf(file, sizeof file, "%s.json", name);
    char *text = bt_json_text(record, JSON_INDENT(2), &size);
    if (!text)
        return BT_ERROR_MEMORY;
    size -= sizeof "\n}\n" - 1; /* the tail replaces it */
    make_tail(tail, text, size);
    bt_text_add(&whole, "%.*s%s", (int)size, text, tail);
    bt_status status = whole.failed ? BT_ERROR_MEMORY : bt_output_write(folder, file, whole.data, (size_t)whole.size);
    bt_text_free(&whole);
    bt_free(text);
    return status;
}

static bt_status write_both(const char *folder, const char *name, int64_t step, const bt_tensor_list *list,
                            json_t *record)
{
    bt_file_sum sum;
    char *path = bt_string("%s/%s.safetensors", folder, name);
    bt_status status = path ? bt_safetensors_write(path, list->items, list->count, &sum) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = seal(record, step, sum);
    if (status == BT_OK)
        status = write_record(folder, name, record);
    bt_free(path);
    return status;
}

void bt_checkpoint_name(char name[BT_CHECKPOINT_NAME], int64_t step)
{
    snprintf(name, BT_CHECKPOINT_NAME, "step-%lld", (long long)step);
}

bt_status bt_checkpoint_write(const char *folder, const char *name, int64_t step, const bt_tensor_list *list,
                              json_t *record)
{
    char *inside = bt_string("%s/checkpoints", folder);
    bt_status status = inside ? BT_OK : BT_ERROR_MEMORY;
    if (inside && mkdir(inside, 0777) == 0)
        bt_folder_sync(folder);
    else if (inside && errno != EEXIST)
        status = bt_fail(BT_ERROR_FILE, "%s cannot be created: %s", inside, strerror(errno));
    if (status == BT_OK)
        status = write_both(inside, name, step, list, record);
    bt_free(inside);
    return status;
}

/* ---- listing ---- */

/* The step of "step-N.SUFFIX"; -1: another name. */
static int64_t step_of(const char *name, const char **suffix)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    long long step = strtoll(name + 5, &end, 10);
    *suffix = end;
    return errno || *end != '.' ? -1 : step;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The steps that have a record, newest first. */
static bt_status list_steps(const char *inside, int64_t **steps, int64_t *count)
{
    DIR *entries = opendir(inside);
    const struct dirent *entry;
    const char *suffix = NULL;
    int64_t room = 0, *grown;
    bt_status status = BT_OK;
    *steps = NULL;
    *count = 0;
    while (entries && status == BT_OK && (entry = readdir(entries)) != NULL) {
        int64_t step = step_of(entry->d_name, &suffix);
        if (step < 0 || strcmp(suffix, ".json") != 0)
            continue;
        grown = bt_grow(*steps, &room, *count + 1, sizeof *grown);
        if (grown) {
            *steps = grown;
            grown[(*count)++] = step;
        } else {
            status = BT_ERROR_MEMORY;
        }
    }
    if (entries)
        closedir(entries);
    if (*count)
        qsort(*steps, (size_t)*count, sizeof **steps, descending);
    return status;
}

/* ---- reading ---- */

static bt_status damaged(const char *path, const char *why)
{
    return bt_fail(BT_ERROR_FILE, "%s is damaged: %s", path, why);
}

static bt_status check_record(json_t *record, const char *path, int64_t step)
{
    const char *format, *version, *tensors;
    json_int_t bytes, number;
    if (json_unpack(record, "{s:s, s:s, s:I, s:{s:I, s:s}}", "format", &format, "version", &version, "step", &number,
                    "tensors", "bytes", &bytes, "hash", &tensors) != 0)
        return damaged(path, "it lacks something that every checkpoint has");
    if (strcmp(format, FORMAT) != 0)
        return bt_fail(BT_ERROR_FILE,
                       "%s was written by version %s in another format (`%s`) than the one that this program, version "
                       "%s, can continue from (`" FORMAT
                       "`): continue with the program that wrote it, or start a new run from its parameters, with "
                       "three keys per problem: `weights = %.*s.safetensors`, `weights_layout = plain`, `weights_names "
                       "= PROBLEM.* > *`",
                       path, version, format, BT_VERSION, (int)(strlen(path) - strlen(".json")), path);
    return step < 0 || number == step ? BT_OK : damaged(path, "it is of another step than its name says");
}

static bt_status parse_record(const char *path, const char *text, size_t size, json_t **record)
{
    char tail[TAIL + 1];
    json_error_t error;
    make_tail(tail, text, size < TAIL ? 0 : size - TAIL);
    if (size < TAIL || memcmp(text + size - TAIL, tail, TAIL) != 0)
        return damaged(path, "its content has changed since it was written (its hash differs)");
    *record = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    return *record ? BT_OK : bt_fail(BT_ERROR_FILE, "%s is damaged: line %d: %s", path, error.line, error.text);
}

static bt_status read_record(const char *path, int64_t step, json_t **record)
{
    char *text;
    size_t size;
    BT_TRY(bt_file_read(path, &text, &size));
    bt_status status = parse_record(path, text, size, record);
    bt_free(text);
    return status == BT_OK ? check_record(*record, path, step) : status;
}

bt_status bt_checkpoint_record(const char *folder, json_t **record)
{
    int64_t *steps = NULL, count = 0;
    char name[BT_CHECKPOINT_NAME];
    *record = NULL;
    char *inside = bt_string("%s/checkpoints", folder);
    bt_status status = inside ? list_steps(inside, &steps, &count) : BT_ERROR_MEMORY;
    if (status == BT_OK && count) {
        bt_checkpoint_name(name, steps[0]);
        char *path = bt_string("%s/%s.json", inside, name), *text = NULL;
        size_t size;
        status = path ? bt_file_read(path, &text, &size) : BT_ERROR_MEMORY;
        if (status == BT_OK)
            status = parse_record(path, text, size, record);
        bt_free(text);
        bt_free(path);
    }
    bt_free(steps);
    bt_free(inside);
    if (status == BT_OK)
        return BT_OK;
    json_decref(*record);
    *record = NULL;
    return status;
}

static bt_status read_tensors(const char *path, bt_checkpoint_content *checkpoint)
{
    size_t size;
    json_int_t bytes = 0;
    const char *hash = "";
    char found[17], why[128];
    BT_TRY(bt_file_read(path, &checkpoint->data, &size));
    json_unpack(checkpoint->record, "{s:{s:I, s:s}}", "tensors", "bytes", &bytes, "hash", &hash);
    snprintf(why, sizeof why, "it has %zu bytes, but had %lld", size, (long long)bytes);
    if (bytes < 0 || (uint64_t)bytes != size)
        return damaged(path, why);
    hex(found, bt_file_sum_of(checkpoint->data, size).hash);
    if (strcmp(found, hash) != 0)
        return damaged(path, "its content has changed since it was written (its hash differs)");
    return bt_safetensors_parse(path, checkpoint->data, size, &checkpoint->tensors);
}

/* What had been written to metrics.jsonl by then must still be there. */
static bt_status check_metrics(const char *folder, const json_t *record)
{
    const int64_t was = bt_record_lengths(record).bytes[BT_SINK_JSONL];
    const int64_t now = bt_log_lengths_of(folder).bytes[BT_SINK_JSONL];
    if (now >= was)
        return BT_OK;
    return bt_fail(BT_ERROR_FILE, "%s/metrics.jsonl has %lld bytes, but had %lld", folder,
                   (long long)(now < 0 ? 0 : now), (long long)was);
}

/* step: from the name; -1: the name has none. */
static bt_status open_checkpoint(const char *folder, const char *name, int64_t step, bt_checkpoint_content *checkpoint)
{
    *checkpoint = (bt_checkpoint_content){.step = step};
    snprintf(checkpoint->name, sizeof checkpoint->name, "%s", name);
    char *record = bt_string("%s/checkpoints/%s.json", folder, name);
    char *tensors = bt_string("%s/checkpoints/%s.safetensors", folder, name);
    bt_status status = record && tensors ? read_record(record, step, &checkpoint->record) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = read_tensors(tensors, checkpoint);
    if (status == BT_OK)
        status = check_metrics(folder, checkpoint->record);
    if (status == BT_OK)
        checkpoint->step = json_integer_value(json_object_get(checkpoint->record, "step"));
    bt_free(record);
    bt_free(tensors);
    if (status != BT_OK)
        bt_checkpoint_free(checkpoint);
    return status;
}

void bt_checkpoint_free(bt_checkpoint_content *checkpoint)
{
    json_decref(checkpoint->record);
    bt_safetensors_free(&checkpoint->tensors);
    bt_free(checkpoint->data);
    *checkpoint = (bt_checkpoint_content){0};
}

static bt_status newest_of(const char *folder, const int64_t *steps, int64_t count, bt_checkpoint_content *checkpoint,
                           bt_text *warning)
{
    for (int64_t i = 0; i < count; i++) {
        char name[BT_CHECKPOINT_NAME];
        bt_checkpoint_name(name, steps[i]);
        bt_status status = open_checkpoint(folder, name, steps[i], checkpoint);
        if (status == BT_OK || status == BT_ERROR_MEMORY)
            return status;
        bt_text_add(warning, "%s%s", warning->size ? "; " : "", bt_error());
        bt_error_clear();
    }
    if (!count)
        return bt_fail(BT_ERROR_FILE, "%s/checkpoints holds no checkpoint to continue from; start a new run", folder);
    return bt_fail(BT_ERROR_FILE, "%s holds no checkpoint that can be used: %s", folder, bt_text_get(warning));
}

/* FOLDER/checkpoints/NAME, with or without the suffix of one of the files; otherwise a folder. */
bt_status bt_checkpoint_place(const char *path, char **folder, char name[BT_CHECKPOINT_NAME])
{
    static const char within[] = "/checkpoints/";
    const char *found = strstr(path, within), *next;
    while (found && (next = strstr(found + 1, within)) != NULL)
        found = next;
    const char *begin = found ? found + sizeof within - 1 : path + strlen(path);
    size_t length = strcspn(begin, ".");
    bool ends = !begin[length] || strcmp(begin + length, ".json") == 0 || strcmp(begin + length, ".safetensors") == 0;
    *name = 0;
    if (length == 0 || length >= BT_CHECKPOINT_NAME || memchr(begin, '/', length) || !ends)
        return (*folder = bt_strdup(path)) ? BT_OK : BT_ERROR_MEMORY;
    snprintf(name, BT_CHECKPOINT_NAME, "%.*s", (int)length, begin);
    return (*folder = bt_string("%.*s", (int)(found - path), path)) ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_checkpoint_open(const char *folder, const char *name, bt_checkpoint_content *checkpoint, bt_text *warning)
{
    int64_t *steps, count;
    *checkpoint = (bt_checkpoint_content){0};
    if (*name) {
        const char *suffix = NULL;
        char *file = bt_string("%s.", name);
        int64_t step = file ? step_of(file, &suffix) : -1;
        bt_status opened = file ? open_checkpoint(folder, name, step, checkpoint) : BT_ERROR_MEMORY;
        bt_free(file);
        return opened;
    }
    char *inside = bt_string("%s/checkpoints", folder);
    if (!inside)
        return BT_ERROR_MEMORY;
    bt_status status = list_steps(inside, &steps, &count);
    if (status == BT_OK)
        status = newest_of(folder, steps, count, checkpoint, warning);
    bt_free(steps);
    bt_free(inside);
    return status;
}

int64_t bt_checkpoint_step(const char *folder, const char *name)
{
    json_t *record = NULL;
    char *path = bt_string("%s/checkpoints/%s.json", folder, name);
    bt_failure before = bt_failure_take();
    int64_t step = path && read_record(path, -1, &record) == BT_OK
                       ? (int64_t)json_integer_value(json_object_get(record, "step"))
                       : -1;
    bt_error_clear();
    bt_failure_give(&before);
    json_decref(record);
    bt_free(path);
    return step;
}

/* ---- removing ---- */

static bool stays(int64_t step, const char *suffix, const int64_t *kept, int64_t count)
{
    bool known = strcmp(suffix, ".json") == 0 || strcmp(suffix, ".safetensors") == 0;
    for (int64_t i = 0; known && i < count; i++)
        if (kept[i] == step)
            return true;
    return false;
}

/* `records`: removes only records. They go first, so that no record is left without its tensors. */
static void remove_others(const char *inside, const int64_t *kept, int64_t count, bool records)
{
    DIR *entries = opendir(inside);
    const struct dirent *entry;
    const char *suffix = NULL;
    while (entries && (entry = readdir(entries)) != NULL) {
        int64_t step = step_of(entry->d_name, &suffix);
        if (step >= 0 && (!records || strcmp(suffix, ".json") == 0) && !stays(step, suffix, kept, count))
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries)
        closedir(entries);
}

void bt_checkpoint_prune(const char *folder, int64_t step, int64_t keep)
{
    int64_t *steps = NULL, count = 0, first = 0;
    char *inside = bt_string("%s/checkpoints", folder);
    if (inside && list_steps(inside, &steps, &count) == BT_OK) {
        while (first < count && steps[first] > step) /* later ones, from which the run has gone back */
            first++;
        int64_t kept = count - first < keep ? count - first : keep;
        if (first < count && steps[first] == step) {
            remove_others(inside, steps + first, kept, true);
            remove_others(inside, steps + first, kept, false);
        }
    }
    bt_free(steps);
    bt_free(inside);
}
