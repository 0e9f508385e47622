/* engine/output/csv.c: metrics.csv. Each value has its own line, because some metrics are unknown when the file begins.
 * One line of pandas, or a pivot table, turns it into a table. */
#include "engine/output/sinks_inside.h"

#include <math.h>
#include <string.h>

static bt_status open_csv(bt_sink *sink, const char *folder, int64_t length, int64_t step)
{
    static const char head[] = "step,time,metric,value,interval\n";
    (void)step;
    sink->file = bt_append_open(folder, bt_sink_csv.file, length);
    if (!sink->file)
        return bt_error_status();
    return length > 0 ? BT_OK : bt_append_put(sink->file, head, strlen(head));
}

static void put(bt_text *out, const bt_log_line *line)
{
    for (int i = 0; i < line->count; i++) {
        const bt_metric_value *metric = &line->metrics[i];
        bt_text_add(out, "%lld,%.6f,", (long long)line->step, line->time);
        bt_csv_text(out, metric->name);
        bt_text_add(out, ",");
        bt_csv_number(out, metric->value);
        bt_text_add(out, ",");
        if (!isnan(metric->interval))
            bt_csv_number(out, metric->interval);
        bt_text_add(out, "\n");
    }
}

const bt_sink_def bt_sink_csv = {.length_key = "csv_length", .file = "metrics.csv", .open = open_csv, .put = put};
