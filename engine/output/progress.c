/* engine/output/progress.c: shows the progress of a run. */
#include "engine/output/log.h"
#include "engine/output/ticker.h"

#include <math.h>
#include <string.h>

#define BETWEEN_UPDATES 0.2  /* seconds, on a terminal */
#define BETWEEN_LINES   1.0  /* seconds, in a pipe */
#define BETWEEN_PARTS   10.0 /* seconds, in a pipe, within a validation */
#define MEMORY          5.0  /* seconds over which the rate is averaged */

struct bt_progress {
    bt_ticker ticker;
    int64_t total, step, rated_step;
    double start, updated, printed, rated; /* times */
    double validated;                      /* time of the last line printed during a validation */
    double rate;                           /* steps per second; 0: not known yet */
    bt_text metrics;                       /* in the line on the terminal */
};

bt_progress *bt_progress_new(FILE *file, int64_t total)
{
    bt_progress *progress = bt_alloc(sizeof *progress);
    if (!progress)
        return NULL;
    progress->ticker = bt_ticker_on(file);
    progress->total = total;
    progress->start = progress->rated = bt_seconds();
    progress->printed = progress->start - BETWEEN_LINES;
    return progress;
}

/* Averages over the whole run at first, later over about MEMORY seconds. */
static void measure(bt_progress *progress, double now)
{
    double passed = now - progress->rated;
    if (passed < 0.05 || progress->step <= progress->rated_step)
        return;
    double recent = (double)(progress->step - progress->rated_step) / passed;
    double weight = fmax(1 - exp(-passed / MEMORY), passed / (now - progress->start));
    progress->rate += weight * (recent - progress->rate);
    progress->rated = now;
    progress->rated_step = progress->step;
}

static void add_time(bt_text *text, double seconds)
{
    int64_t whole = (int64_t)(seconds + 0.5), hours = whole / 3600, minutes = whole / 60 % 60;
    if (hours > 0)
        bt_text_add(text, "%lld:%02lld:%02lld", (long long)hours, (long long)minutes, (long long)(whole % 60));
    else
        bt_text_add(text, "%lld:%02lld", (long long)minutes, (long long)(whole % 60));
}

static void add_rate(const bt_progress *progress, bt_text *text)
{
    if (progress->rate <= 0)
        return;
    bt_text_add(text, progress->rate < 10 ? "  %.2f steps/s" : "  %.0f steps/s", progress->rate);
    int64_t left = progress->total - progress->step;
    bt_text_add(text, left > 0 ? "  ETA " : "  in ");
    add_time(text, left > 0 ? (double)left / progress->rate : bt_seconds() - progress->start);
}

void bt_metrics_text(int64_t step, int64_t total, const bt_metric_value *metrics, int count, bt_text *text)
{
    bt_text_add(text, "step %lld/%lld", (long long)step, (long long)total);
    for (int i = 0; i < count; i++) {
        bt_text_add(text, "  %s %.4g", metrics[i].name, metrics[i].value);
        if (!isnan(metrics[i].interval))
            bt_text_add(text, " +- %.2g", metrics[i].interval);
    }
}

static void draw(bt_progress *progress)
{
    bt_text line = {0};
    bt_text_add(&line, "step %lld/%lld  %.0f %%", (long long)progress->step, (long long)progress->total,
                100 * (double)progress->step / (double)(progress->total > 0 ? progress->total : 1));
    add_rate(progress, &line);
    bt_text_add(&line, "%s", bt_text_get(&progress->metrics));
    bt_ticker_show(&progress->ticker, bt_text_get(&line));
    bt_text_free(&line);
}

void bt_progress_start(bt_progress *progress, int64_t step, int64_t total)
{
    if (!progress)
        return;
    progress->step = progress->rated_step = step;
    progress->total = total;
    progress->start = progress->rated = bt_seconds();
    progress->metrics.size = 0;
}

void bt_progress_step(bt_progress *progress, int64_t step)
{
    if (!progress || !progress->ticker.file)
        return;
    progress->step = step;
    double now = bt_seconds();
    measure(progress, now);
    if (!progress->ticker.terminal || now - progress->updated < BETWEEN_UPDATES)
        return;
    progress->updated = now;
    draw(progress);
}

/* On a terminal this replaces the progress line; the metrics that follow replace it in turn. */
void bt_progress_validation(void *user, const char *level, int64_t done, int64_t batches)
{
    bt_progress *progress = user;
    if (!progress || !progress->ticker.file || !level)
        return;
    const bool terminal = progress->ticker.terminal;
    const double now = bt_seconds();
    double *last = terminal ? &progress->updated : &progress->validated;
    if (!terminal && done <= 1)
        *last = now;
    if (done >= batches || now - *last < (terminal ? BETWEEN_UPDATES : BETWEEN_PARTS))
        return;
    *last = now;
    bt_text line = {0};
    bt_text_add(&line, "step %lld/%lld  validating %s: %lld of %lld batches", (long long)progress->step,
                (long long)progress->total, level, (long long)done, (long long)batches);
    if (terminal)
        bt_ticker_show(&progress->ticker, bt_text_get(&line));
    else
        bt_ticker_say(&progress->ticker, "%s", bt_text_get(&line));
    bt_text_free(&line);
}

static void metrics_line(bt_progress *progress, bool lasting, const char *text)
{
    const char *values = strstr(text, "  "); /* after "step 10/6000" */
    if (progress->ticker.terminal && !lasting) {
        progress->metrics.size = 0;
        bt_text_add(&progress->metrics, "%s", values ? values : "");
        return;
    }
    double now = bt_seconds();
    measure(progress, now);
    if (!lasting && now - progress->printed < BETWEEN_LINES)
        return;
    progress->printed = now;
    bt_text rate = {0};
    if (!progress->ticker.terminal)
        add_rate(progress, &rate);
    bt_ticker_say(&progress->ticker, "%s%s", text, bt_text_get(&rate));
    bt_text_free(&rate);
}

void bt_progress_line(void *user, bt_line kind, const char *text)
{
    bt_progress *progress = user;
    if (!progress || !progress->ticker.file || !text)
        return;
    if (kind == BT_LINE_TRAINING || kind == BT_LINE_VALIDATION)
        metrics_line(progress, kind == BT_LINE_VALIDATION, text);
    else
        bt_ticker_say(&progress->ticker, "%s%s", kind == BT_LINE_WARNING ? "warning: " : "", text);
}

void bt_progress_end(bt_progress *progress)
{
    if (!progress || !progress->ticker.drawn)
        return;
    draw(progress);
    fputc('\n', progress->ticker.file);
    fflush(progress->ticker.file);
    progress->ticker.drawn = false;
}

void bt_progress_free(bt_progress *progress)
{
    if (!progress)
        return;
    bt_progress_end(progress);
    bt_text_free(&progress->metrics);
    bt_free(progress);
}
