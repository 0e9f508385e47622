/* engine/level/histogram.c: histograms of the values that callbacks log: counted where they are computed, read when
 * they are reported. */
#include "engine/level/level.h"
#include "engine/level/metrics_inside.h"

#include "runtime/store.h"

void bt_histogram_free(const bt_metric_row *row)
{
    bt_histogram_row *histogram = row->histogram;
    if (!histogram)
        return;
    bt_ledger_var_free(row->problem->context, histogram->counts);
    bt_ledger_var_free(row->problem->context, histogram->least);
    bt_ledger_var_free(row->problem->context, histogram->most);
    bt_ledger_var_free(row->problem->context, histogram->square);
    bt_free(histogram);
}

bt_metric_row *bt_histogram_find(bt_context *context, bt_problem *problem, const char *name, bool valid)
{
    const bt_array number = {.dtype = BT_F64}, counts = {.dtype = BT_F64, .rank = 1, .dims = {BT_HISTOGRAM_BUCKETS}};
    bt_metric_row *row = bt_metric_find(context, problem, name, valid);
    if (!row || row->histogram)
        return row;
    if (row->traced || row->host_count || bt_metric_is_taken(problem, name, valid)) {
        bt_fail(BT_ERROR_ARGUMENT, "%s: bt_histogram: %s is logged as a number; choose another name than `%s`",
                problem->name, row->full, name);
        return NULL;
    }
    bt_histogram_row *histogram = row->histogram = bt_alloc(sizeof *histogram);
    bool good = histogram && (histogram->counts = bt_metric_part(row, "counts", counts)) &&
                (histogram->least = bt_metric_part(row, "least", number)) &&
                (histogram->most = bt_metric_part(row, "most", number)) &&
                (histogram->square = bt_metric_part(row, "square", number));
    if (good)
        return row;
    bt_histogram_free(row);
    row->histogram = NULL;
    return NULL;
}

/* False: no finite value since the last report. */
static bool take(const bt_metric_row *row, bt_histogram_value *value)
{
    const bt_context *context = row->problem->context;
    bt_histogram_row *histogram = row->histogram;
    double number = bt_number_get(context, row->weight);
    if (!(number > 0) ||
        bt_store_read(context->instance, histogram->counts, 0, histogram->taken, sizeof histogram->taken) != BT_OK)
        return false;
    *value = (bt_histogram_value){.name = row->full,
                                  .number = number,
                                  .least = bt_number_get(context, histogram->least),
                                  .most = bt_number_get(context, histogram->most),
                                  .sum = bt_number_get(context, row->sum),
                                  .square = bt_number_get(context, histogram->square),
                                  .counts = histogram->taken};
    bt_store_clear(context->instance, histogram->counts);
    bt_store_clear(context->instance, histogram->square);
    bt_store_clear(context->instance, row->sum);
    bt_store_clear(context->instance, row->weight);
    return true;
}

int bt_histograms_take(bt_context *context, const bt_problem *problem, bool valid, bt_histogram_value *values)
{
    int count = 0;
    for (int i = 0; i < context->metric_count; i++) {
        const bt_metric_row *row = context->metrics[i];
        if (row->histogram && row->problem == problem && row->valid == valid && take(row, &values[count]))
            count++;
    }
    return count;
}
