/* data/loader_open.c: opens a loader: its sets, the shapes of its batches, all its memory. */
#include "data/loader_inside.h"

bt_loader_options bt_loader_defaults(void)
{
    return (bt_loader_options){
        .shuffle = true, .chance = true, .dtype = BT_F32, .keep = 1, .prefetch = true, .threads = 1, .ranks = 1};
}

static bt_status check(const bt_dataset *data, const bt_loader_options *o)
{
    if (!data)
        return bt_fail(BT_ERROR_ARGUMENT, "a loader needs a data set; found NULL");
    if (data->broken != BT_OK)
        return bt_fail(data->broken, "the data set is incomplete: a field could not be added");
    for (const bt_dataset *part = data; part; part = part->next)
        if (!part->column_count)
            return bt_fail(BT_ERROR_DATA, "the data set%s%s has no fields; add some with bt_dataset_add",
                           part->prefix ? " joined as " : "", part->prefix ? part->prefix : "");
    if (o->batch_size < 0)
        return bt_fail(BT_ERROR_ARGUMENT, "found batch size %lld; expected at least 1, or 0 for all examples",
                       (long long)o->batch_size);
    if (o->keep < 1 || o->keep > (1 << 20))
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is asked to keep %lld batches ready; expected 1 to %d",
                       (long long)o->keep, 1 << 20);
    if (o->threads < 1)
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is given %d threads; expected at least 1", o->threads);
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return bt_fail(BT_ERROR_ARGUMENT,
                       "a loader is opened for rank %d of %d; expected a rank from 0 and below the number of ranks",
                       o->rank, o->ranks);
    if (!bt_dtype_floats(o->dtype))
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is asked for floating fields as %s; expected f32 or f64",
                       bt_dtype_name(o->dtype));
    if (o->drop_last && o->batch_size > data->count && !data->tasks)
        return bt_fail(
            BT_ERROR_DATA,
            "no batch is left: there are %lld examples for batches of %lld (batch_size), and the short last batch is "
            "dropped (drop_last)",
            (long long)data->count, (long long)o->batch_size);
    return BT_OK;
}

/* The maximum number of draws. The examples of all draws of a set are numbered consecutively, including those that
 * drop_last leaves out. */
static int64_t most_draws(const bt_loader *loader)
{
    int64_t each = 1;
    for (int64_t k = 0; !loader->constant && k < loader->feed_count; k++) {
        const bt_feed *f = &loader->feeds[k];
        for (int part = 0; part < bt_feed_parts(f); part++)
            each = bt_feed_examples(f, part) > each ? bt_feed_examples(f, part) : each;
    }
    int64_t of_epoch = loader->per_epoch ? loader->data->count / loader->per_epoch + 1 : 0;
    return INT64_MAX / (of_epoch > each && !loader->constant ? of_epoch : each) - 2; /* the thread is one ahead */
}

static bt_status open_feeds(bt_loader *loader)
{
    for (const bt_dataset *part = loader->data; part; part = part->next)
        loader->feed_count++;
    loader->feeds = bt_alloc_array((size_t)loader->feed_count, sizeof *loader->feeds);
    if (!loader->feeds)
        return BT_ERROR_MEMORY;
    const bt_loader_options *o = &loader->options;
    bool whole = true, chance = false;
    const bt_dataset *part = loader->data;
    for (int64_t k = 0; k < loader->feed_count; k++, part = part->next) {
        int64_t batch = o->batch_size && o->batch_size < part->count ? o->batch_size : part->count;
        loader->feeds[k] = (bt_feed){part, batch, bt_endless_of(part->count, o->seed, (uint32_t)k)};
        whole = whole && batch == part->count && !part->tasks;
        chance = chance || (o->chance && bt_augment_is_random(part->augment));
    }
    loader->constant = whole && !chance;
    for (int64_t k = 0; o->shuffle && !whole && k < loader->feed_count; k++) {
        bt_feed *f = &loader->feeds[k];
        const bool across = k || loader->data->tasks; /* a batch may span the end of a joined set's epoch */
        if (!f->set->tasks)
            BT_TRY(bt_endless_shuffle(&f->row, across ? 2 : 1));
    }
    int64_t n = loader->data->count, batch = loader->feeds[0].batch;
    bool epochs = !loader->data->tasks, has_short = epochs && n % batch != 0 && !o->drop_last;
    loader->shape_count = has_short ? 2 : 1;
    loader->per_epoch = epochs ? n / batch + has_short : 0;
    loader->most = most_draws(loader);
    return BT_OK;
}

static bt_status declare(bt_batch *batch, const bt_feed *f, int part, const char *field, bt_array shape)
{
    const char *prefix = f->set->prefix, *of = f->set->tasks ? bt_tasks_parts(f->set->tasks)[part].name : NULL;
    bt_text text = {0};
    bt_text_add(&text, "%s%s%s%s%s", prefix ? prefix : "", prefix ? "." : "", of ? of : "", of ? "." : "", field);
    bt_status status = text.failed ? BT_ERROR_MEMORY : bt_batch_declare(batch, text.data, shape);
    bt_text_free(&text);
    return status;
}

static bt_status declare_part(bt_batch *batch, const bt_loader *loader, const bt_feed *f, int part, int64_t count)
{
    for (int64_t i = 0; i < f->set->column_count; i++) {
        bool label = f->set->tasks && i == bt_tasks_label(f->set->tasks);
        bt_array shape = f->set->columns[i].store->array;
        shape.dtype = label ? BT_I32 : bt_store_dtype(f->set->columns[i].store, loader->options.dtype);
        shape.dims[0] = count;
        BT_TRY(declare(batch, f, part, f->set->columns[i].name, shape));
    }
    bt_array numbers = {.dtype = BT_I32, .rank = 1, .dims = {count}};
    BT_TRY(declare(batch, f, part, "index", numbers));
    if (!bt_feed_mixes(f))
        return BT_OK;
    const bt_store *label = f->set->columns[f->set->augment->label].store;
    numbers.dtype = bt_store_dtype(label, loader->options.dtype);
    BT_TRY(declare(batch, f, part, BT_OTHER_LABEL, numbers));
    numbers.dtype = loader->options.dtype;
    return declare(batch, f, part, BT_SHARE, numbers);
}

/* Declares the fields of all sets and their `index`, in the full (0) or short (1) shape. For tasks, the batch's count
 * is that of the query. */
static bt_batch *make_shape(const bt_loader *loader, int which)
{
    bt_batch *batch = bt_alloc(sizeof *batch);
    bt_status status = batch ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t k = 0; status == BT_OK && k < loader->feed_count; k++) {
        const bt_feed *f = &loader->feeds[k];
        for (int part = 0; status == BT_OK && part < bt_feed_parts(f); part++) {
            int64_t count = bt_feed_examples_in(loader, f, part, which);
            status = declare_part(batch, loader, f, part, count);
            batch->count = k ? batch->count : count;
        }
    }
    if (status == BT_OK)
        return batch;
    bt_batch_free(batch);
    return NULL;
}

static bool buffer_size(const bt_batch *shape, size_t *size)
{
    *size = 0;
    for (int i = 0; i < shape->field_count; i++) {
        size_t bytes = bt_array_bytes(shape->fields[i].array);
        if (bytes > SIZE_MAX / 4 || !bt_add_size(*size, bt_align_up(bytes), size))
            return false;
    }
    return true;
}

/* Makes room for the places of a draw announced ahead: enough for the largest set. */
static bt_status open_ahead(bt_loader *loader)
{
    int64_t most = 0;
    bool mapped = false;
    for (int64_t k = 0; k < loader->feed_count; k++) {
        const bt_feed *f = &loader->feeds[k];
        int64_t count = 0;
        for (int part = 0; part < bt_feed_parts(f); part++)
            count += bt_feed_examples(f, part);
        most = count > most ? count : most;
        for (int64_t i = 0; i < f->set->column_count; i++)
            mapped = mapped || f->set->columns[i].store->map;
    }
    if (!mapped)
        return BT_OK;
    loader->bytes += (size_t)most * sizeof *loader->ahead;
    return (loader->ahead = bt_alloc_array((size_t)most, sizeof *loader->ahead)) ? BT_OK : BT_ERROR_MEMORY;
}

/* For each thread, as much as the most demanding set needs. */
static bt_status open_scratch(bt_loader *loader)
{
    size_t most = 0, bytes;
    for (int64_t k = 0; k < loader->feed_count; k++) {
        size_t needed = bt_change_scratch(loader->feeds[k].set, loader->options.dtype);
        most = needed > most ? needed : most;
    }
    if (!most || !loader->options.chance)
        return BT_OK;
    if (!bt_mul_size(most, (size_t)loader->options.threads, &bytes))
        return bt_fail(BT_ERROR_DATA, "the images are too large for mixup");
    loader->bytes += bytes;
    return (loader->scratch = bt_alloc_aligned(bytes)) ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status open_slots(bt_loader *loader)
{
    for (int i = 0; i < loader->shape_count; i++)
        if (!(loader->shapes[i] = make_shape(loader, i)))
            return bt_error_status();
    if (!buffer_size(loader->shapes[0], &loader->slot_bytes))
        return bt_fail(BT_ERROR_DATA, "a batch of %lld examples is too large", (long long)loader->shapes[0]->count);
    loader->fills_ahead = loader->options.prefetch && !loader->constant && loader->slot_bytes >= BT_WORTH_A_THREAD;
    loader->slots = bt_alloc_array((size_t)loader->options.keep + loader->fills_ahead, sizeof *loader->slots);
    if (!loader->slots)
        return BT_ERROR_MEMORY;
    loader->slot_count = loader->options.keep + loader->fills_ahead;
    for (int64_t k = 0; k < loader->slot_count; k++)
        for (int i = 0; i < loader->shape_count; i++)
            if (!(loader->slots[k].heads[i] = bt_batch_template(loader->shapes[i])))
                return bt_error_status();
    if (bt_loader_room(loader))
        return BT_OK;
    BT_TRY(bt_loader_take_memory(loader));
    if (loader->fills_ahead && !loader->options.dry)
        bt_loader_start(loader);
    return BT_OK;
}

bt_loader *bt_loader_open(bt_dataset *data, const bt_loader_options *options)
{
    bt_loader_options chosen = options ? *options : bt_loader_defaults();
    bt_loader *loader = check(data, &chosen) == BT_OK ? bt_alloc(sizeof *loader) : NULL;
    if (!loader) {
        bt_dataset_free(data);
        return NULL;
    }
    loader->data = data;
    loader->options = chosen;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    if (open_feeds(loader) == BT_OK && open_ahead(loader) == BT_OK && open_scratch(loader) == BT_OK &&
        open_slots(loader) == BT_OK)
        return loader;
    bt_loader_free(loader);
    return NULL;
}

bt_loader *bt_loader_new(bt_dataset *data, int64_t batch_size, uint64_t seed)
{
    bt_loader_options options = bt_loader_defaults();
    options.batch_size = batch_size;
    options.seed = seed;
    return bt_loader_open(data, &options);
}

void bt_loader_free(bt_loader *loader)
{
    if (!loader)
        return;
    bt_loader_stop(loader);
    for (int64_t k = 0; k < loader->slot_count; k++) {
        for (int i = 0; i < 2; i++)
            bt_batch_free(loader->slots[k].heads[i]);
        if (k == 0 || !loader->constant)
            bt_free_aligned(loader->slots[k].memory);
    }
    bt_free(loader->slots);
    bt_free_aligned(loader->scratch);
    bt_free(loader->ahead);
    for (int i = 0; i < 2; i++)
        bt_batch_free(loader->shapes[i]);
    for (int64_t k = 0; loader->feeds && k < loader->feed_count; k++)
        bt_endless_close(&loader->feeds[k].row);
    bt_free(loader->feeds);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    bt_dataset_free(loader->data);
    bt_free(loader);
}
