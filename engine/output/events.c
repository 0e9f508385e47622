/* engine/output/events.c: event files for TensorBoard.
 *
 * A file is a sequence of records: the length of an event in 8 bytes, the masked CRC-32C of these, the event, its
 * masked CRC-32C (tensorflow/core/lib/io/record_writer.h). An event is a protocol buffers message of which these fields
 * are used (tensorboard/compat/proto/{event,summary,tensor,tensor_shape}.proto):
 *
 *   Event           1 wall_time  2 step  3 file_version  5 summary  7 session_log
 *   SessionLog      1 status (1: START)
 *   Summary         1 value
 *   Summary.Value   1 tag  2 simple_value  5 histo  8 tensor  9 metadata
 *   HistogramProto  1 min  2 max  3 num  4 sum  5 sum_squares  6 bucket_limit  7 bucket (both packed)
 *   SummaryMetadata 1 plugin_data      PluginData  1 plugin_name
 *   TensorProto     1 dtype (7: text)  2 tensor_shape  8 string_val
 *
 * A resumed run writes a new file, whose name sorts after the earlier ones, and begins it with a START at the next
 * step: this makes TensorBoard discard any events it has read of that step or later. Here they are cut off as well,
 * so that other readers see nothing twice. */
#include "engine/output/sinks_inside.h"

#include "io/file.h"
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BEGIN "events.out.tfevents."
#define END   ".betty" /* so that other files are left alone */

enum { TEXT_DTYPE = 7, SESSION_START = 1 };

/* ---- the files of a folder ---- */

static int is_ours(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name), begin = strlen(BEGIN), end = strlen(END);
    return length > begin + end && strncmp(entry->d_name, BEGIN, begin) == 0 &&
           strcmp(entry->d_name + length - end, END) == 0;
}

/* Calls `each` for every file in order of name, which is the order of time. */
static bt_status visit(const char *folder, void (*each)(void *user, const char *path, const char *name, int64_t size),
                       void *user)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_ours, alphasort);
    if (count < 0)
        return bt_fail(BT_ERROR_FILE, "%s cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        int64_t size = bt_append_size(folder, entries[i]->d_name);
        if (size >= 0)
            each(user, path, entries[i]->d_name, size);
        free(entries[i]);
    }
    free(entries);
    return BT_OK;
}

static void add_size(void *user, const char *path, const char *name, int64_t size)
{
    int64_t *sum = user;
    (void)path, (void)name;
    *sum = (*sum < 0 ? 0 : *sum) + size;
}

static int64_t size_of(const char *folder)
{
    int64_t sum = -1;
    return visit(folder, add_size, &sum) == BT_OK ? sum : -1;
}

static void remove_one(void *user, const char *path, const char *name, int64_t size)
{
    (void)user, (void)name, (void)size;
    unlink(path);
}

static void remove_all(const char *folder) { (void)visit(folder, remove_one, NULL); }

typedef struct cut {
    int64_t keep, before; /* bytes of all files: to keep; kept so far */
    int64_t last;         /* seconds in the name of the last remaining file */
    bool failed;
} cut;

static void cut_one(void *user, const char *path, const char *name, int64_t size)
{
    cut *cut = user;
    int64_t keep = cut->keep - cut->before;
    if (keep <= 0) {
        unlink(path);
        return;
    }
    if (keep < size && truncate(path, keep) != 0 && !cut->failed) {
        cut->failed = true;
        bt_fail(BT_ERROR_FILE, "%s cannot be cut: %s", path, strerror(errno));
    }
    cut->before += keep < size ? keep : size;
    cut->last = strtoll(name + strlen(BEGIN), NULL, 10);
}

/* ---- events ---- */

/* Buckets are counted outwards from the middle. */
double bt_histogram_limit(int bucket)
{
    const int place = bucket - BT_HISTOGRAM_SIDE;
    const double per = BT_HISTOGRAM_PER_OCTAVE;
    if (place == BT_HISTOGRAM_SIDE)
        return DBL_MAX;
    return place >= 0 ? exp2(place / per - BT_HISTOGRAM_OCTAVES) : -exp2((-1 - place) / per - BT_HISTOGRAM_OCTAVES);
}

static uint32_t masked(const void *data, size_t size)
{
    uint32_t crc = bt_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void put_little(bt_text *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bt_text_put(out, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

/* Writes the event as a record, and empties it. */
static void put_event(bt_text *out, bt_text *event)
{
    bt_text length = {0};
    put_little(&length, (uint64_t)event->size, 8);
    if (!length.failed && !event->failed) {
        bt_text_put(out, length.data, 8);
        put_little(out, masked(length.data, 8), 4);
        bt_text_put(out, event->data, (size_t)event->size);
        put_little(out, masked(event->data, (size_t)event->size), 4);
    } else {
        out->failed = true;
    }
    bt_text_free(&length);
    bt_text_free(event);
}

static bt_text event_at(int64_t step)
{
    bt_text event = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    bt_proto_double(&event, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    if (step)
        bt_proto_whole(&event, 2, step);
    return event;
}

static void put_version(bt_text *out)
{
    static const char version[] = "brain.Event:2";
    bt_text event = event_at(0);
    bt_proto_bytes(&event, 3, version, strlen(version));
    put_event(out, &event);
}

static void put_start(bt_text *out, int64_t step)
{
    bt_text event = event_at(step), session = {0};
    bt_proto_whole(&session, 1, SESSION_START);
    bt_proto_message(&event, 7, &session);
    put_event(out, &event);
}

/* "classifier.valid.loss" becomes classifier/valid/loss: TensorBoard uses the part before the first / as a heading. */
static void put_tag(bt_text *value, const char *name, const char *end)
{
    char *tag = bt_string("%s%s", name, end);
    for (char *c = tag; c && *c; c++)
        if (*c == '.')
            *c = '/';
    if (tag)
        bt_proto_bytes(value, 1, tag, strlen(tag));
    else
        value->failed = true;
    bt_free(tag);
}

static void put_scalar(bt_text *summary, const char *name, const char *end, double number)
{
    bt_text value = {0};
    put_tag(&value, name, end);
    bt_proto_float(&value, 2, (float)number);
    bt_proto_message(summary, 1, &value);
}

/* Upper limits and counts from the first nonempty bucket to the last; adjacent empty buckets are merged. */
static int64_t buckets(const double *counts, double *limits, double *numbers)
{
    int64_t n = 0;
    int last = BT_HISTOGRAM_BUCKETS - 1;
    while (last >= 0 && counts[last] <= 0)
        last--;
    for (int b = 0; b <= last; b++) {
        bool empty = counts[b] <= 0;
        if (empty && !n)
            continue;
        if (!empty || numbers[n - 1] > 0)
            n++;
        limits[n - 1] = bt_histogram_limit(b);
        numbers[n - 1] = counts[b];
    }
    return n;
}

static void put_histogram(bt_text *summary, const bt_histogram_value *histogram)
{
    const double numbers[] = {histogram->least, histogram->most, histogram->number, histogram->sum, histogram->square};
    double limits[BT_HISTOGRAM_BUCKETS], counts[BT_HISTOGRAM_BUCKETS];
    int64_t count = buckets(histogram->counts, limits, counts);
    bt_text value = {0}, histo = {0};
    put_tag(&value, histogram->name, "");
    for (int i = 0; i < BT_COUNT_OF(numbers); i++)
        bt_proto_double(&histo, 1 + i, numbers[i]);
    bt_proto_doubles(&histo, 6, limits, count);
    bt_proto_doubles(&histo, 7, counts, count);
    bt_proto_message(&value, 5, &histo);
    bt_proto_message(summary, 1, &value);
}

static void put_line(bt_text *out, const bt_log_line *line)
{
    bt_text event = event_at(line->step), summary = {0};
    for (int i = 0; i < line->count; i++) {
        const bt_metric_value *metric = &line->metrics[i];
        put_scalar(&summary, metric->name, "", metric->value);
        if (!isnan(metric->interval))
            put_scalar(&summary, metric->name, ".interval", metric->interval);
    }
    for (int i = 0; i < line->histogram_count; i++)
        put_histogram(&summary, &line->histograms[i]);
    bt_proto_message(&event, 5, &summary);
    put_event(out, &event);
}

/* Writes a text as a vector of one, and empties it. */
static void put_text(bt_text *summary, const char *name, bt_text *text)
{
    static const char plugin[] = "text";
    bt_text value = {0}, tensor = {0}, shape = {0}, dim = {0}, metadata = {0}, data = {0};
    put_tag(&value, name, "");
    bt_proto_whole(&dim, 1, 1);
    bt_proto_message(&shape, 2, &dim);
    bt_proto_whole(&tensor, 1, TEXT_DTYPE);
    bt_proto_message(&tensor, 2, &shape);
    bt_proto_message(&tensor, 8, text);
    bt_proto_message(&value, 8, &tensor);
    bt_proto_bytes(&data, 1, plugin, strlen(plugin));
    bt_proto_message(&metadata, 1, &data);
    bt_proto_message(&value, 9, &metadata);
    bt_proto_message(summary, 1, &value);
}

/* The configuration in the folder, if any, as a Markdown code block. */
static bt_status put_config(bt_text *out, const char *folder, int64_t step)
{
    char *path = bt_string("%s/config.ini", folder), *config = NULL;
    size_t size;
    bool there = path && access(path, F_OK) == 0;
    bt_status status = there ? bt_file_read(path, &config, &size) : path ? BT_OK : BT_ERROR_MEMORY;
    bt_free(path);
    if (!config)
        return status;
    bt_text text = {0}, event = event_at(step), summary = {0};
    bt_text_add(&text, "```\n%s```\n", config);
    put_text(&summary, "config.text_summary", &text);
    bt_proto_message(&event, 5, &summary);
    put_event(out, &event);
    bt_free(config);
    return BT_OK;
}

/* ---- the sink ---- */

/* The name sorts after the last one, whatever the clock says. */
static char *new_name(int64_t last)
{
    char host[65] = "";
    int64_t now = (int64_t)time(NULL);
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        strcpy(host, "localhost");
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '_';
    return bt_string(BEGIN "%010lld.%s" END, (long long)(now > last ? now : last + 1), host);
}

static bt_status begin(bt_sink *sink, const char *folder, bool anew, int64_t step)
{
    bt_text first = {0};
    put_version(&first);
    if (!anew)
        put_start(&first, step + 1);
    bt_status status = anew ? put_config(&first, folder, step) : BT_OK;
    if (status == BT_OK)
        status = first.failed ? bt_fail(BT_ERROR_MEMORY, "%s: no memory for the first event", folder)
                              : bt_append_put(sink->file, first.data, (size_t)first.size);
    bt_text_free(&first);
    return status;
}

static bt_status open_events(bt_sink *sink, const char *folder, int64_t length, int64_t step)
{
    cut cut = {.keep = length};
    BT_TRY(visit(folder, cut_one, &cut));
    if (cut.failed)
        return bt_error_status();
    char *name = new_name(cut.last);
    sink->file = name ? bt_append_open(folder, name, -1) : NULL;
    sink->before = cut.before;
    bt_free(name);
    return sink->file ? begin(sink, folder, length < 0, step) : bt_error_status();
}

const bt_sink_def bt_sink_events = {
    .length_key = "events_length", .open = open_events, .put = put_line, .size = size_of, .remove = remove_all};
