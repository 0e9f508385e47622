/* engine/ablation/offers.c: if a memory budget cannot be met, finds out what would fit with one key changed on every
 * level that has it. Each change is tried by planning it in a separate process. */
#include "engine/ablation/ablation_inside.h"
#include "engine/output/ticker.h"
#include "engine/session/session.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 6 }; /* keys tried at most: each value takes about as long as the failed plan */

typedef struct offer {
    bt_ablation_row row; /* the change: one value of one key */
    size_t saves;        /* bytes that it may reduce, where the failed plan needs most */
    bool promises;       /* that reduction may be enough */
    bool tried, fits;
    size_t bytes; /* bytes of the whole run, if it fits */
} offer;

struct bt_offers {
    bt_region *region;
    json_t *choices; /* owns the text of the offers */
    offer *list;     /* in the order of trials */
    int64_t count;
    size_t missing, bytes[BT_CATEGORIES];
};

/* ---- what could be changed ---- */

static size_t saved_by(const bt_offers *o, const bt_choice *choice)
{
    size_t sum = 0;
    for (int c = 0; c < BT_CATEGORIES; c++)
        if (!choice->saves || choice->saves >> c & 1)
            sum += o->bytes[c];
    return sum;
}

/* First what may save enough; among these, the key that may save most; for each key, its strongest value. */
static int by_promise(const void *a, const void *b)
{
    const offer *x = a, *y = b;
    const bt_choice *p = x->row.choices[0], *q = y->row.choices[0];
    if (x->promises != y->promises)
        return x->promises ? -1 : 1;
    if (x->saves != y->saves)
        return x->saves > y->saves ? -1 : 1;
    const int keys = strcmp(p->key, q->key);
    return keys ? keys : p->stronger - q->stronger;
}

/* Makes one offer for each value of a key, on all levels. */
static bt_status make(bt_offers *o)
{
    const int64_t count = (int64_t)json_array_size(o->choices);
    const bt_choice *choices = bt_choices_read(o->region, o->choices);
    o->list = bt_region_alloc(o->region, (size_t)(count + 1) * sizeof *o->list);
    for (int64_t i = 0; choices && o->list && i < count; i++) {
        int64_t at = 0;
        while (at < o->count && !bt_choice_same(o->list[at].row.choices[0], &choices[i]))
            at++;
        offer *offer = &o->list[at];
        if (at == o->count) {
            offer->row.choices = bt_region_alloc(o->region, (size_t)count * sizeof *offer->row.choices);
            offer->row.name = bt_region_format(o->region, "%s = %s", choices[i].key, choices[i].value);
            if (!offer->row.choices || !offer->row.name)
                return BT_ERROR_MEMORY;
            offer->saves = saved_by(o, &choices[i]);
            offer->promises = offer->saves >= o->missing;
            o->count++;
        }
        offer->row.choices[offer->row.count++] = &choices[i];
    }
    if (!choices || !o->list)
        return BT_ERROR_MEMORY;
    qsort(o->list, (size_t)o->count, sizeof *o->list, by_promise);
    return BT_OK;
}

/* Sums the persistent bytes and those live at the peak. */
static void count_bytes(bt_offers *o, const bt_context *context)
{
    size_t live[BT_CATEGORIES] = {0};
    const bt_phase *largest = bt_phase_largest(context->instance);
    bt_persistent_bytes(context, o->bytes, NULL);
    if (largest)
        bt_phase_at_peak(largest, live);
    for (int c = 0; c < BT_CATEGORIES; c++)
        o->bytes[c] += live[c];
}

bt_offers *bt_offers_new(bt_engine *engine)
{
    if (!engine || !engine->context.proposal.over)
        return NULL;
    bt_failure failure = bt_failure_take();
    bt_offers *o = bt_alloc(sizeof *o);
    bt_status status = o && (o->region = bt_region_new()) ? BT_OK : BT_ERROR_MEMORY;
    if (status == BT_OK) {
        o->missing = engine->context.proposal.over;
        count_bytes(o, &engine->context);
        o->choices = bt_choices_list(engine, NULL, true);
        status = o->choices ? make(o) : BT_ERROR_MEMORY;
    }
    bt_error_clear();
    bt_failure_give(&failure);
    if (status == BT_OK)
        return o;
    bt_offers_free(o);
    return NULL;
}

void bt_offers_free(bt_offers *o)
{
    if (!o)
        return;
    json_decref(o->choices);
    bt_region_free(o->region);
    bt_free(o);
}

/* ---- trials ---- */

typedef struct trial {
    bt_turn turn;
    offer *offer;
} trial;

static bt_status run(void *user, FILE *tell)
{
    const trial *t = user;
    return bt_turn_take(&t->turn, tell);
}

static bt_status hear(void *user, json_t *line)
{
    trial *t = user;
    const json_t *plan = json_object_get(line, "plan");
    if (!plan)
        return BT_OK;
    t->offer->fits = true;
    t->offer->bytes = (size_t)bt_ablation_sum(json_object_get(plan, "planned_bytes"));
    return BT_OK;
}

static bt_status plan(const bt_ablation *how, offer *offer)
{
    trial t = {.turn = {.ablation = how, .row = &offer->row, .reference = -1}, .offer = offer};
    bt_process child = {.run = run, .hear = hear, .user = &t}, *list = &child, *ended = NULL;
    bt_status status = bt_process_start(&child);
    while (status == BT_OK && !ended) {
        status = bt_process_listen(&list, 1, &ended);
        if (status == BT_OK && how->stop && *how->stop)
            status = BT_ERROR_INTERRUPTED;
    }
    offer->tried = true;
    bt_process_free(&child);
    return status;
}

/* Whether a stronger value did not fit; then a weaker one need not be tried. */
static bool has_failed(const bt_offers *o, const bt_choice *choice)
{
    for (int64_t i = 0; i < o->count; i++) {
        const bt_choice *other = o->list[i].row.choices[0];
        if (strcmp(other->key, choice->key) == 0 && other->stronger < choice->stronger && o->list[i].tried &&
            !o->list[i].fits)
            return true;
    }
    return false;
}

static bool is_another_key(const bt_offers *o, const bt_choice *choice)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->list[i].tried && strcmp(o->list[i].row.choices[0]->key, choice->key) == 0)
            return false;
    return true;
}

static bt_status try(bt_offers *o, const bt_ablation *how)
{
    bt_ticker ticker = bt_ticker_on(how->progress);
    bt_status status = BT_OK;
    int trials = 0, keys = 0;
    for (int64_t i = 0; i < o->count && status == BT_OK; i++) {
        const bt_choice *choice = o->list[i].row.choices[0];
        const bool another = is_another_key(o, choice);
        if (has_failed(o, choice) || (another && keys == KEYS))
            continue;
        keys += another;
        char *line = bt_string("planning %d: %s", ++trials, o->list[i].row.name);
        if (line)
            bt_ticker_show(&ticker, line);
        bt_free(line);
        status = plan(how, &o->list[i]);
    }
    bt_ticker_erase(&ticker);
    return status;
}

/* ---- the message ---- */

static const char *between(int64_t i, int64_t count) { return i == 0 ? "" : i + 1 < count ? ", " : " and "; }

static void say_setting(const char *key, const char *value, bt_text *text)
{
    bt_text_add(text, *value ? "%s = %s" : "%s not set", key, value);
}

/* "batch_size = 50", or if levels differ "batch_size = 50 and 25". */
static void say_with(const bt_ablation_row *row, bt_text *text)
{
    const bt_choice *first = row->choices[0];
    bool same = true;
    if (!*first->with)
        return;
    for (int64_t i = 1; i < row->count; i++)
        same = same && strcmp(row->choices[i]->with_value, first->with_value) == 0;
    bt_text_add(text, ", ");
    say_setting(first->with, first->with_value, text);
    for (int64_t i = 1; !same && i < row->count; i++)
        bt_text_add(text, "%s%s", between(i, row->count), row->choices[i]->with_value);
}

static void say(const offer *offer, bt_text *text)
{
    const bt_ablation_row *row = &offer->row;
    char bytes[32];
    say_setting(row->choices[0]->key, row->choices[0]->value, text);
    const bool whole = strcmp(row->choices[0]->level, "engine") == 0;
    for (int64_t i = 0; i < row->count; i++)
        bt_text_add(text, whole ? "%s[%s]" : "%s%s",
                    i       ? between(i, row->count)
                    : whole ? " in "
                            : " for ",
                    row->choices[i]->level);
    say_with(row, text);
    if (offer->fits)
        bt_text_add(text, " (%s)", bt_bytes_text(bytes, offer->bytes));
}

/* Whether it fits and no weaker value of the same key does. */
static bool is_enough(const bt_offers *o, const offer *offer)
{
    for (int64_t i = 0; i < o->count; i++) {
        const bt_choice *other = o->list[i].row.choices[0], *choice = offer->row.choices[0];
        if (o->list[i].fits && strcmp(other->key, choice->key) == 0 && other->stronger > choice->stronger)
            return false;
    }
    return offer->fits;
}

bt_status bt_offers_try(bt_offers *o, const bt_ablation *how, bt_text *text)
{
    if (!o || !how || !how->load || !text)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_offers_try: an argument is NULL");
    BT_TRY(try(o, how));
    bool any = false;
    for (int64_t i = 0; i < o->count; i++)
        any = any || o->list[i].fits;
    bt_text_add(text, any        ? "each of these alone would fit"
                      : o->count ? "none of these would fit"
                                 : "no memory technique is left to try");
    const char *before = ": ";
    for (int64_t i = 0; i < o->count; i++)
        if (any ? is_enough(o, &o->list[i]) : o->list[i].tried) {
            bt_text_add(text, "%s", before);
            say(&o->list[i], text);
            before = "; ";
        }
    return text->failed ? BT_ERROR_MEMORY : BT_OK;
}
