/* engine/level/metrics.c: values that callbacks log: summed where they are computed, read when they are reported. */
#include "engine/level/level.h"
#include "engine/level/metrics_inside.h"

#include <math.h>
#include <string.h>

/* The numbers of a row that are part of a run. */
static const struct {
    const char *part;
    bt_row_kind kind;
    size_t place;
} number_rows[BT_METRIC_NUMBERS] = {
    {"last", BT_ROW_REAL, offsetof(bt_metric_row, last)},
    {"interval", BT_ROW_REAL, offsetof(bt_metric_row, interval)},
    {"host_sum", BT_ROW_REAL, offsetof(bt_metric_row, host_sum)},
    {"host_spread", BT_ROW_REAL, offsetof(bt_metric_row, host_spread)},
    {"host_count", BT_ROW_INT, offsetof(bt_metric_row, host_count)},
};

bool bt_metric_keeps(const bt_metric_row *row, const bt_var *var)
{
    const bt_histogram_row *histogram = row->histogram;
    return var == row->sum || var == row->weight ||
           (histogram && (var == histogram->counts || var == histogram->least || var == histogram->most ||
                          var == histogram->square));
}

static bt_status enter_numbers(bt_metric_row *row)
{
    for (int i = 0; i < BT_METRIC_NUMBERS; i++) {
        row->numbers[i] = bt_string("%s%s.%s", row->valid ? "valid." : "", row->name, number_rows[i].part);
        if (!row->numbers[i])
            return BT_ERROR_MEMORY;
        BT_TRY(bt_ledger_enter_number(row->problem->context, row->problem, BT_ROLE_METRIC, row->numbers[i],
                                      number_rows[i].kind, (char *)row + number_rows[i].place));
    }
    return BT_OK;
}

static void row_free(bt_metric_row *row)
{
    if (!row)
        return;
    for (int i = 0; i < BT_METRIC_NUMBERS; i++) {
        bt_ledger_leave(row->problem->context, (char *)row + number_rows[i].place);
        bt_free(row->numbers[i]);
    }
    bt_free(row->name);
    bt_free(row->full);
    bt_ledger_var_free(row->problem->context, row->sum);
    bt_ledger_var_free(row->problem->context, row->weight);
    bt_histogram_free(row);
    bt_free(row);
}

void bt_metrics_free(bt_context *context)
{
    for (int i = 0; i < context->metric_count; i++)
        row_free(context->metrics[i]);
    bt_free(context->metrics);
    context->metrics = NULL;
    context->metric_count = context->metric_capacity = 0;
}

bt_var *bt_metric_part(const bt_metric_row *row, const char *part, bt_array shape)
{
    const bt_problem *problem = row->problem;
    char *name = bt_string("%s%s.%s", row->valid ? "valid." : "", row->name, part);
    bt_text words = {0};
    bt_var *var = NULL;
    if (name && bt_name_is_free(problem, name, &words))
        var = bt_ledger_var(problem->context, problem, BT_ROLE_METRIC, BT_BUFFERS, name, shape);
    else if (name)
        bt_fail(BT_ERROR_ARGUMENT,
                "%s: bt_metric `%s` would be kept as the variable `%s`, which is the name of %s; choose another name",
                problem->name, row->name, name, bt_text_get(&words));
    bt_text_free(&words);
    bt_free(name);
    return var;
}

/* Whether `longer` is reported as "X.interval" and `full` as "X". */
static bool is_interval(const char *longer, const char *full)
{
    size_t length = strlen(full);
    return strncmp(longer, full, length) == 0 && strcmp(longer + length, ".interval") == 0;
}

/* No other row may be reported under the name of this one. */
static bt_status check_reported(const bt_context *context, const bt_metric_row *row)
{
    static const char *const kinds[] = {"training", "validation"};
    for (int i = 0; i < context->metric_count; i++) {
        const bt_metric_row *known = context->metrics[i];
        if (known->problem != row->problem) /* the reported name begins with the problem's */
            continue;
        bool same = strcmp(known->full, row->full) == 0;
        if (same || is_interval(known->full, row->full) || is_interval(row->full, known->full))
            return bt_fail(BT_ERROR_ARGUMENT,
                           "%s: bt_metric: the %s metric `%s` and the %s metric `%s` would both be reported as %s; "
                           "give one of them another name",
                           row->problem->name, kinds[known->valid], known->name, kinds[row->valid], row->name,
                           strlen(known->full) > strlen(row->full) ? known->full : row->full);
    }
    return BT_OK;
}

static bt_metric_row *row_new(bt_problem *problem, const char *name, bool valid)
{
    if (!bt_is_utf8(name)) {
        bt_fail(BT_ERROR_ARGUMENT, "%s: bt_metric: the name `%s` is not UTF-8", problem->name, name);
        return NULL;
    }
    bt_metric_row *row = bt_alloc(sizeof *row);
    if (!row)
        return NULL;
    *row = (bt_metric_row){.problem = problem, .valid = valid, .last = NAN, .interval = NAN};
    row->name = bt_strdup(name);
    row->full = bt_string("%s.%s%s", problem->name, valid ? "valid." : "", name);
    if (row->name && row->full && check_reported(problem->context, row) == BT_OK &&
        (row->sum = bt_metric_part(row, "sum", (bt_array){.dtype = BT_F64})) &&
        (row->weight = bt_metric_part(row, "weight", (bt_array){.dtype = BT_F64})) && enter_numbers(row) == BT_OK)
        return row;
    row_free(row);
    return NULL;
}

bt_metric_row *bt_metric_find(bt_context *context, bt_problem *problem, const char *name, bool valid)
{
    for (int i = 0; i < context->metric_count; i++) {
        bt_metric_row *row = context->metrics[i];
        if (row->problem == problem && row->valid == valid && strcmp(row->name, name) == 0)
            return row;
    }
    int64_t capacity = context->metric_capacity;
    bt_metric_row **rows = bt_grow(context->metrics, &capacity, context->metric_count + 1, sizeof *rows);
    if (!rows)
        return NULL;
    context->metrics = rows;
    context->metric_capacity = (int)capacity;
    bt_metric_row *row = row_new(problem, name, valid);
    if (row)
        context->metrics[context->metric_count++] = row;
    return row;
}

bool bt_metric_is_taken(const bt_problem *problem, const char *name, bool valid)
{
    return strcmp(name, "loss") == 0 && (!valid || (problem->valid && problem->def->validation_step));
}

/* A row for numbers from the host; NULL after an error. */
static bt_metric_row *row_for_numbers(bt_problem *self, const char *name)
{
    bool valid = bt_stage_within(self->context, BT_STAGE_VALIDATION);
    bt_metric_row *row = bt_metric_find(self->context, self, name, valid);
    if (!row || !(row->traced || row->histogram || bt_metric_is_taken(self, name, valid)))
        return row;
    bt_fail(BT_ERROR_ARGUMENT,
            "%s: bt_metric: traced callbacks already log %s, and a number from the host would replace it; choose "
            "another name than `%s`",
            self->name, row->full, name);
    return NULL;
}

void bt_metric_number_(bt_problem *self, const char *name, double value)
{
    bt_metric_use_number_(self, name, value, BT_METRIC_ONCE);
}

void bt_metric_use_number_(bt_problem *self, const char *name, double value, bt_metric_use use)
{
    if (bt_trace_now()) {
        bt_metric_use_tensor_(self, name, bt_number(value, BT_F64), use);
        return;
    }
    if (!self || !name || self->missing) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_metric: expected a problem and a name, one of them is NULL");
        return;
    }
    if (bt_stage_within(self->context, BT_STAGE_QUESTION)) /* on_inner_loop_start during bt_adapt */
        return;
    bt_metric_row *row = row_for_numbers(self, name);
    if (!row)
        return;
    row->exponential = use == BT_METRIC_PERPLEXITY;
    /* Youngs and Cramer, 1971: a sum of squares would lose a small spread around a large mean. */
    double n = (double)++row->host_count;
    row->host_sum += value;
    if (n > 1)
        row->host_spread += (n * value - row->host_sum) * (n * value - row->host_sum) / (n * (n - 1));
}

/* The mean since the last report, with half of a 95 % interval if there were several numbers. False: there were
 * none. */
static bool mean_of(const bt_metric_row *row, bt_metric_value *value)
{
    const bt_context *context = row->problem->context;
    double sum = bt_number_get(context, row->sum), weight = bt_number_get(context, row->weight);
    *value = (bt_metric_value){.name = row->full, .interval = NAN};
    if (row->host_count) {
        double n = (double)row->host_count;
        value->value = row->host_sum / n;
        if (row->host_count > 1)
            value->interval = 1.96 * sqrt(row->host_spread / (n - 1) / n);
    } else if (weight > 0) {
        value->value = sum / weight;
    } else {
        return false;
    }
    if (row->exponential) {
        value->value = exp(value->value);
        value->interval *= value->value; /* the derivative of the exponential there */
    }
    return true;
}

double bt_metric_last(const bt_metric_row *row)
{
    bt_metric_value now;
    bool validates = row->valid && bt_stage_within(row->problem->context, BT_STAGE_VALIDATION);
    return validates && mean_of(row, &now) ? now.value : row->last;
}

static bool take(bt_metric_row *row, bt_metric_value *value)
{
    const bt_context *context = row->problem->context;
    if (row->histogram || !mean_of(row, value))
        return false;
    row->last = value->value;
    row->interval = value->interval;
    bt_number_set(context, row->sum, 0);
    bt_number_set(context, row->weight, 0);
    row->host_sum = row->host_spread = 0;
    row->host_count = 0;
    return true;
}

int bt_metrics_take(bt_context *context, const bt_problem *problem, bool valid, bt_metric_value *values)
{
    int count = 0;
    for (int i = 0; i < context->metric_count; i++) {
        bt_metric_row *row = context->metrics[i];
        if (row->problem == problem && row->valid == valid && take(row, &values[count]))
            count++;
    }
    return count;
}
