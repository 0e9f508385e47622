/* data/loader_fill.c: the content of a draw: which examples it has, and their values gathered into a buffer. */
#include "data/loader_inside.h"
#include "ops/ops.h"

bool bt_feed_mixes(const bt_feed *f) { return f->set->augment && f->set->augment->alpha != 0; }

int bt_feed_parts(const bt_feed *f) { return f->set->tasks ? BT_TASK_PARTS : 1; }

int64_t bt_feed_examples(const bt_feed *f, int part)
{
    return f->set->tasks ? bt_tasks_parts(f->set->tasks)[part].count : f->batch;
}

int64_t bt_feed_examples_in(const bt_loader *loader, const bt_feed *f, int part, bool in_short)
{
    return f == loader->feeds && in_short ? f->set->count % f->batch : bt_feed_examples(f, part);
}

/* Each epoch of the first set starts with a new batch, so its last batch may be short; the other sets continue without
 * end. */
static int64_t begin_of(const bt_loader *loader, const bt_feed *f, int64_t draw)
{
    if (f->row.part || !loader->per_epoch)
        return draw * f->batch;
    return draw / loader->per_epoch * f->set->count + draw % loader->per_epoch * f->batch;
}

static bool is_short(const bt_loader *loader, int64_t draw)
{
    return loader->shape_count == 2 && draw % loader->per_epoch == loader->per_epoch - 1;
}

bt_batch *bt_loader_head(const bt_loader *loader, bt_slot *s, int64_t draw) { return s->heads[is_short(loader, draw)]; }

/* Chooses the examples of each part; without tasks, `count` examples of the only part. */
static void choose(const bt_loader *loader, bt_feed *f, int64_t draw, int64_t count,
                   int32_t *const places[BT_TASK_PARTS])
{
    if (f->set->tasks)
        bt_tasks_draw(f->set->tasks, draw, places);
    else
        bt_endless_places(&f->row, begin_of(loader, f, draw), count, places[0]);
}

/* ---- fields stored in files ---- */

enum { KEPT = 1 << 24 }; /* pages of such files are released after this many bytes, at the end of a batch */

static void ask_for(bt_loader *loader, bt_feed *f, int64_t draw)
{
    const int parts = bt_feed_parts(f);
    const int64_t count = bt_feed_examples_in(loader, f, 0, is_short(loader, draw));
    int32_t *const places[BT_TASK_PARTS] = {loader->ahead, loader->ahead + count};
    const bt_loader_options *o = &loader->options;
    choose(loader, f, draw, count, places);
    for (int part = 0; part < parts; part++) {
        const int64_t n = part ? bt_feed_examples(f, part) : count, first = bt_share_first(n, o->rank, o->ranks);
        for (int64_t i = 0; i < f->set->column_count; i++)
            bt_store_ahead(&f->set->columns[i], places[part] + first, bt_share_first(n, o->rank + 1, o->ranks) - first);
    }
}

/* Announces what this draw needs, unless that was done before, and what the next one needs. So the disk works while
 * this draw is gathered and the previous one is used. */
static void ask_ahead(bt_loader *loader, int64_t draw)
{
    for (int64_t next = loader->asked > draw ? loader->asked : draw; next <= draw + 1 && next < loader->most; next++)
        for (int64_t k = 0; k < loader->feed_count; k++)
            ask_for(loader, &loader->feeds[k], next);
    loader->asked = draw + 2;
}

static void let_go(bt_loader *loader, const bt_feed *f, int64_t examples)
{
    for (int64_t i = 0; i < f->set->column_count; i++) {
        const bt_store *store = f->set->columns[i].store;
        loader->gathered += store->map ? (size_t)examples * store->row_bytes : 0;
    }
    if (loader->gathered < KEPT)
        return;
    for (int64_t k = 0; k < loader->feed_count; k++)
        for (int64_t i = 0; i < loader->feeds[k].set->column_count; i++)
            bt_store_let_go(loader->feeds[k].set->columns[i].store);
    loader->gathered = 0;
}

/* ---- values ---- */

/* The classes of a task are 0, 1, ..., with equally many examples each; starts at example `first`. */
static void number_classes(const bt_array *label, int64_t first, int64_t each)
{
    int32_t *to = label->data;
    for (int64_t i = 0; i < label->dims[0]; i++)
        to[i] = (int32_t)((first + i) / each);
}

/* Number of fields of a part of a draw: those of the set, `index`, and those of mixup. */
static int64_t fields_of(const bt_feed *f) { return f->set->column_count + 1 + (bt_feed_mixes(f) ? 2 : 0); }

/* The rows of a field to fill: this rank's, if the field has one row per example of the batch; otherwise all. */
static void own_rows(const bt_loader *loader, const bt_batch *batch, const bt_array *field, int64_t *first,
                     int64_t *end)
{
    const bt_loader_options *o = &loader->options;
    const bool whole = o->ranks == 1 || !bt_batch_counts(batch, field);
    *first = whole ? 0 : bt_share_first(batch->count, o->rank, o->ranks);
    *end = whole ? field->dims[0] : bt_share_first(batch->count, o->rank + 1, o->ranks);
}

static bt_array rows_of(bt_array array, int64_t first, int64_t end)
{
    array.data = (char *)array.data + (size_t)first * (bt_array_bytes(array) / (size_t)array.dims[0]);
    array.dims[0] = end - first;
    return array;
}

static void fill_part(bt_loader *loader, bt_feed *f, int part, const bt_batch *batch, const bt_batch_field *field,
                      int threads)
{
    const bt_dataset *set = f->set;
    const bt_array *places = &field[set->column_count].array;
    const int64_t draw = batch->number, all = places->dims[0];
    int64_t first, end;
    own_rows(loader, batch, places, &first, &end);
    const bt_drawn drawn = {.places = (const int32_t *)places->data + first,
                            .count = end - first,
                            .from = (set->tasks ? draw * all : begin_of(loader, f, draw)) + first,
                            .per_epoch = set->tasks ? all : set->count,
                            .chance = loader->options.chance};
    for (int64_t i = 0; i < set->column_count; i++) {
        const bt_array to = rows_of(field[i].array, first, end);
        if (set->tasks && i == bt_tasks_label(set->tasks))
            number_classes(&to, first, bt_tasks_parts(set->tasks)[part].each);
        else if (set->augment && i == set->augment->image)
            bt_change_images(set, &drawn, to.dtype, to.data, loader->scratch, threads);
        else
            bt_gather_rows(&set->columns[i], drawn.places, drawn.count, to.dtype, to.data, threads);
    }
    if (bt_feed_mixes(f)) {
        const bt_array other = rows_of(field[set->column_count + 1].array, first, end);
        const bt_array share = rows_of(field[set->column_count + 2].array, first, end);
        bt_change_labels(set, &drawn, &other, &share);
    }
}

void bt_loader_fill(bt_loader *loader, bt_slot *s, int64_t draw, int threads)
{
    bt_batch *batch = bt_loader_head(loader, s, draw);
    const bt_batch_field *field = batch->fields;
    batch->number = draw;
    if (loader->ahead)
        ask_ahead(loader, draw);
    for (int64_t k = 0; k < loader->feed_count; k++) {
        bt_feed *f = &loader->feeds[k];
        const bt_batch_field *index = field + f->set->column_count;
        const int parts = bt_feed_parts(f);
        choose(loader, f, draw, index->array.dims[0],
               (int32_t *const[]){index->array.data, parts > 1 ? index[fields_of(f)].array.data : NULL});
        for (int part = 0; part < parts; part++, field += fields_of(f)) {
            fill_part(loader, f, part, batch, field, threads);
            if (loader->ahead)
                let_go(loader, f, field[f->set->column_count].array.dims[0]);
        }
    }
}
