/* engine/find_lr/show.c: losses over learning rates, as text, CSV, JSON and a picture. */
#include "engine/find_lr/find_lr_inside.h"
#include "engine/output/json.h"
#include "engine/output/sheet.h"
#include "engine/output/svg.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 25, BAR = 40 }; /* of the printed curve, at most: rows; characters per bar */

/* Losses above this are cut: the initial loss plus half of the decrease. */
static double top_of(const bt_lr_curve *curve)
{
    const double first = curve->points[0].smooth, fallen = first - curve->least;
    return fallen > 0 ? first + fallen / 2 : bt_lr_limit(curve);
}

/* ---- text ---- */

static const char *const headers[] = {"lr", "loss", "smoothed", ""};

static void add_bar(const bt_lr_curve *curve, double smooth, bt_text *cell)
{
    const double part = (fmin(smooth, top_of(curve)) - curve->least) / (top_of(curve) - curve->least);
    for (int i = 0; i < BAR; i++)
        bt_text_add(cell, "%c", i < part * BAR ? '#' : ' ');
}

static void add_points(const bt_lr_curve *curve, bt_text *text)
{
    const int64_t stride = (curve->count + ROWS - 2) / (ROWS - 1), rows = (curve->count - 2 + stride) / stride + 1;
    bt_sheet *sheet = bt_sheet_new(rows, BT_COUNT_OF(headers));
    for (int c = 0; sheet && c < BT_COUNT_OF(headers); c++)
        bt_text_add(bt_sheet_cell(sheet, 0, c), "%s", headers[c]);
    for (int64_t r = 0; sheet && r < rows; r++) {
        const bt_lr_point *point = &curve->points[r == rows - 1 ? curve->count - 1 : r * stride];
        bt_text_add(bt_sheet_cell(sheet, r + 1, 0), "%.2e", point->rate);
        bt_text_add(bt_sheet_cell(sheet, r + 1, 1), "%.4g", point->loss);
        bt_text_add(bt_sheet_cell(sheet, r + 1, 2), "%.4g", point->smooth);
        add_bar(curve, point->smooth, bt_sheet_cell(sheet, r + 1, 3));
    }
    if (sheet)
        bt_sheet_add(sheet, false, text);
    text->failed = text->failed || !sheet;
    bt_sheet_free(sheet);
}

/* As printed, and as to be written into the file. */
static const char *round_rate(const bt_lr_point *point, char words[32])
{
    snprintf(words, 32, "%.3g", point->rate);
    return words;
}

static void add_suggestion(const bt_lr_curve *curve, const char *problem, bt_text *text)
{
    const bt_lr_point *best = bt_lr_suggest(curve);
    char words[32];
    if (best)
        bt_text_add(text, "suggestion: %s, where the smoothed loss falls fastest\n\n[%s]\nlr = %s\n",
                    round_rate(best, words), problem, words);
    else
        bt_text_add(text, "no suggestion: the smoothed loss falls nowhere within the range; try other rates, or more "
                          "steps: --lr-range LOW:HIGH:N\n");
}

void bt_lr_text(const bt_lr_curve *curve, const char *problem, bt_text *text)
{
    bt_text_add(text, "%s: learning rates from %g to %g in %lld steps", problem, curve->low, curve->high,
                (long long)curve->steps);
    if (curve->end == BT_LR_ROSE)
        bt_text_add(text, "; stopped after %lld: the smoothed loss has risen to more than %.4g",
                    (long long)curve->count, bt_lr_limit(curve));
    if (curve->end == BT_LR_INFINITE)
        bt_text_add(text, "; stopped after %lld: the next loss is not finite", (long long)curve->count);
    bt_text_add(text, "\n\n");
    if (curve->count)
        add_points(curve, text);
    bt_text_add(text, "\n");
    add_suggestion(curve, problem, text);
}

void bt_lr_csv(const bt_lr_curve *curve, bt_text *text)
{
    bt_text_add(text, "step,lr,loss,smoothed\n");
    for (int64_t i = 0; i < curve->count; i++)
        bt_text_add(text, "%lld,%.17g,%.17g,%.17g\n", (long long)i + 1, curve->points[i].rate, curve->points[i].loss,
                    curve->points[i].smooth);
}

bt_status bt_lr_json(const bt_lr_curve *curve, const char *problem, FILE *file)
{
    static const char *const ends[] = {"all steps", "the loss rose", "the loss is not finite"};
    const bt_lr_point *best = bt_lr_suggest(curve);
    json_t *points = json_array();
    for (int64_t i = 0; i < curve->count; i++)
        points = bt_json_append(points, json_pack("{s:f, s:f, s:f}", "lr", curve->points[i].rate, "loss",
                                                  curve->points[i].loss, "smoothed", curve->points[i].smooth));
    json_t *all = json_pack("{s:s, s:f, s:f, s:I, s:s, s:o, s:o}", "problem", problem, "low", curve->low, "high",
                            curve->high, "steps", (json_int_t)curve->steps, "stopped", ends[curve->end], "suggestion",
                            bt_json_number(best ? best->rate : NAN), "points", points);
    bt_status status = all ? bt_json_print(all, file) : bt_fail(BT_ERROR_MEMORY, "out of memory for the report");
    json_decref(all);
    return status;
}

/* ---- the picture ---- */

static void tick_rate(double value, char text[32]) { snprintf(text, 32, "%.3g", pow(10, value)); }
static void tick_loss(double value, char text[32]) { snprintf(text, 32, "%.4g", value); }

typedef struct painting {
    const bt_lr_curve *curve;
    bt_region *region;
    bt_svg_line lines[3];
    int64_t count;
    bool failed;
} painting;

static void add_line(painting *p, const char *name, const bt_lr_point *from, int64_t count, bool smooth, bool heavy)
{
    bt_svg_point *points = bt_region_alloc(p->region, (size_t)(count + 1) * sizeof *points);
    p->failed = p->failed || !points || !name;
    for (int64_t i = 0; i < count && !p->failed; i++) {
        const double value = smooth ? from[i].smooth : from[i].loss;
        points[i] = (bt_svg_point){.x = log10(from[i].rate), .y = fmin(value, top_of(p->curve))};
        points[i].note = bt_region_format(p->region, "lr = %.3g: %.6g", from[i].rate, value);
        p->failed = p->failed || !points[i].note;
    }
    p->lines[p->count++] = (bt_svg_line){.name = name, .points = points, .count = count, .heavy = heavy};
}

static void paint(painting *p, const char *problem, bt_text *text)
{
    const bt_lr_point *best = bt_lr_suggest(p->curve);
    const char *title = bt_region_format(p->region, "%s: the loss over the learning rate", problem);
    char words[32];
    add_line(p, "loss", p->curve->points, p->curve->count, false, false);
    add_line(p, "smoothed", p->curve->points, p->curve->count, true, false);
    if (best)
        add_line(p, bt_region_format(p->region, "suggestion: %s", round_rate(best, words)), best, 1, true, true);
    if (p->failed || !title)
        return;
    bt_svg_lines_add(
        &(bt_svg_lines){.title = title,
                        .caption = "the rate rises with each step; larger losses are drawn at the upper edge",
                        .x_title = "learning rate",
                        .y_title = "loss",
                        .lines = p->lines,
                        .count = p->count,
                        .x_tick = tick_rate,
                        .y_tick = tick_loss,
                        .x_unit = 1,
                        .y_unit = 1,
                        .fitted = true},
        text);
}

bt_status bt_lr_picture(const bt_lr_curve *curve, const char *problem, bt_text *text)
{
    painting p = {.curve = curve, .region = bt_region_new()};
    if (p.region)
        paint(&p, problem, text);
    p.failed = p.failed || !p.region;
    bt_region_free(p.region);
    return p.failed || text->failed ? bt_fail(BT_ERROR_MEMORY, "out of memory") : BT_OK;
}
