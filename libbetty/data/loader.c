/* data/loader.c: draws batches: which examples are whose, the ring of buffers, the thread that fills it ahead.
 *
 * All memory is had, or lent, before a batch is drawn, so that filling it cannot fail, on whatever thread. A draw's
 * content is a pure function of its number, so seeking is counting. */
#include "data/dataset.h"
#include "data/endless.h"
#include "ops/ops.h"
#include "runtime/store.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

typedef struct feed { /* one of the sets that are joined: its examples, or its tasks */
    const bt_dataset *set;
    int64_t batch; /* examples per draw, if it is not one of tasks */
    bt_endless row;
} feed;

typedef struct slot { /* a buffer; its heads are batches of the full and of the short shape that lie in it */
    char *memory;     /* the loader's own; NULL: it has none */
    bt_batch *heads[2];
} slot;

struct bt_loader {
    bt_dataset *data;
    bt_loader_options options;
    feed *feeds;
    int64_t feed_count, per_epoch, position; /* per_epoch 0: tasks have no epochs */
    int64_t most;                            /* draws, whose examples can be counted */
    bool constant, ready; /* every batch is the whole set, and the same: filled once, and it has been */
    slot *slots;
    int64_t slot_count;
    size_t slot_bytes;
    char *lent;    /* memory of somebody else, where all slots lie now; NULL: they lie in their own */
    char *scratch; /* of the threads that fill */
    bt_batch *shapes[2];
    int shape_count;
    size_t bytes;
    double waited;
    bool told_end; /* for bt_loader_next: BT_DONE of this epoch has been given */
    bool ahead;    /* the ring has a slot for a batch that is gathered ahead */
    bool threaded, stop;
    int64_t filled; /* draws below this are in the ring; guarded by lock, like position and stop */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* ---- which examples ---- */

static bool is_mixed(const bt_dataset *set) { return set->augment && set->augment->alpha != 0; }

/* How many parts a draw has of a set, each with all fields and `index`, and the examples of a part in a full draw. */
static int part_count(const feed *f) { return f->set->tasks ? BT_TASK_PARTS : 1; }

static int64_t examples_in(const feed *f, int part)
{
    return f->set->tasks ? bt_tasks_parts(f->set->tasks)[part].count : f->batch;
}

/* The first set's epochs begin with a batch, so its last one may be short; the others go on and on. */
static int64_t begin_of(const bt_loader *loader, const feed *f, int64_t draw)
{
    if (f->row.part || !loader->per_epoch)
        return draw * f->batch;
    return draw / loader->per_epoch * f->set->count + draw % loader->per_epoch * f->batch;
}

static bool is_short(const bt_loader *loader, int64_t draw)
{
    return loader->shape_count == 2 && draw % loader->per_epoch == loader->per_epoch - 1;
}

static bt_batch *head_of(const bt_loader *loader, slot *s, int64_t draw) { return s->heads[is_short(loader, draw)]; }

/* Which examples, into the fields `index`: the first part's is `index`, the next one's lies `stride` fields on. */
static void choose(const bt_loader *loader, feed *f, int64_t draw, const bt_batch_field *index, int64_t stride)
{
    if (f->set->tasks)
        bt_tasks_draw(f->set->tasks, draw,
                      (int32_t *const[BT_TASK_PARTS]){index->array.data, index[stride].array.data});
    else
        bt_endless_places(&f->row, begin_of(loader, f, draw), index->array.dims[0], index->array.data);
}

/* In a task the classes are 0, 1, ..., each with as many examples as another; here from example `first` on. */
static void number_classes(const bt_array *label, int64_t first, int64_t each)
{
    int32_t *to = label->data;
    for (int64_t i = 0; i < label->dims[0]; i++)
        to[i] = (int32_t)((first + i) / each);
}

/* The fields of a part of a draw: those of the set, index, and what is made beside. */
static int64_t fields_of(const feed *f) { return f->set->column_count + 1 + (is_mixed(f->set) ? 2 : 0); }

/* The rows that it fills of a field: those of its rank, where the field counts the examples of the batch. */
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

static void fill_part(bt_loader *loader, feed *f, int part, const bt_batch *batch, const bt_batch_field *field,
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
    if (is_mixed(set)) {
        const bt_array other = rows_of(field[set->column_count + 1].array, first, end);
        const bt_array share = rows_of(field[set->column_count + 2].array, first, end);
        bt_change_labels(set, &drawn, &other, &share);
    }
}

static void fill(bt_loader *loader, slot *s, int64_t draw, int threads)
{
    bt_batch *batch = head_of(loader, s, draw);
    const bt_batch_field *field = batch->fields;
    batch->number = draw;
    for (int64_t k = 0; k < loader->feed_count; k++) {
        feed *f = &loader->feeds[k];
        choose(loader, f, draw, field + f->set->column_count, fields_of(f));
        for (int part = 0; part < part_count(f); part++, field += fields_of(f))
            fill_part(loader, f, part, batch, field, threads);
    }
}

/* ---- ahead, on a thread ---- */

static void *fill_ahead(void *argument)
{
    bt_loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->filled > loader->position) { /* one ahead is what the ring has room for */
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        int64_t draw = loader->filled;
        pthread_mutex_unlock(&loader->lock);
        fill(loader, &loader->slots[draw % loader->slot_count], draw, 1);
        pthread_mutex_lock(&loader->lock);
        loader->filled++;
        pthread_cond_signal(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* Signals are for the program's own threads. Without a thread the loader fills its batches when they are drawn. */
static void start(bt_loader *loader)
{
    sigset_t all, before;
    loader->stop = false;
    loader->filled = loader->position;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    loader->threaded = pthread_create(&loader->thread, NULL, fill_ahead, loader) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop(bt_loader *loader)
{
    if (!loader->threaded)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_signal(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    loader->threaded = false;
}

/* ---- where batches lie ---- */

/* Lays the fields of a head into a buffer that was measured for the full shape. */
static void lay_into(bt_batch *head, const bt_batch *full, char *memory)
{
    for (int i = 0; i < head->field_count; i++) {
        head->fields[i].array.data = memory;
        bt_store_point(head->fields[i].var, memory);
        memory += memory ? bt_align_up(bt_array_bytes(full->fields[i].array)) : 0;
    }
}

static void lay_out(bt_loader *loader)
{
    for (int64_t k = 0; k < loader->slot_count; k++) {
        slot *s = &loader->slots[k];
        char *memory = loader->lent ? loader->lent + (size_t)k * loader->slot_bytes : s->memory;
        for (int i = 0; i < loader->shape_count; i++)
            lay_into(s->heads[i], loader->shapes[0], memory);
    }
}

/* Of its own. */
static bt_status take_memory(bt_loader *loader)
{
    for (int64_t k = 0; k < loader->slot_count; k++) {
        slot *s = &loader->slots[k];
        bool own = !s->memory && (k == 0 || !loader->constant);
        if (own)
            s->memory = bt_alloc_aligned(loader->slot_bytes);
        else if (loader->constant)
            s->memory = loader->slots[0].memory;
        if (!s->memory)
            return BT_ERROR_MEMORY;
        loader->bytes += own ? loader->slot_bytes : 0;
    }
    lay_out(loader);
    return BT_OK;
}

size_t bt_loader_room(const bt_loader *loader)
{
    bool lent = loader && loader->options.lent && !loader->constant;
    return lent ? (size_t)loader->slot_count * loader->slot_bytes : 0;
}

void bt_loader_lend(bt_loader *loader, char *memory)
{
    if (!bt_loader_room(loader))
        return;
    stop(loader);
    loader->lent = memory;
    lay_out(loader);
    if (memory && loader->ahead && !loader->options.dry)
        start(loader);
}

/* ---- drawing ---- */

static bt_batch *draw_constant(bt_loader *loader)
{
    slot *s = &loader->slots[loader->position % loader->slot_count];
    if (!loader->ready) {
        double begin = bt_seconds();
        fill(loader, &loader->slots[0], 0, loader->options.threads);
        loader->waited += bt_seconds() - begin;
        loader->ready = true;
    }
    s->heads[0]->number = loader->position++;
    return s->heads[0];
}

static bt_batch *draw_threaded(bt_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    if (loader->filled <= loader->position) {
        double begin = bt_seconds();
        while (loader->filled <= loader->position)
            pthread_cond_wait(&loader->changed, &loader->lock);
        loader->waited += bt_seconds() - begin;
    }
    int64_t draw = loader->position++;
    pthread_mutex_unlock(&loader->lock);
    pthread_cond_signal(&loader->changed);
    return head_of(loader, &loader->slots[draw % loader->slot_count], draw);
}

static bt_batch *draw_now(bt_loader *loader)
{
    double begin = bt_seconds();
    int64_t draw = loader->position++;
    slot *s = &loader->slots[draw % loader->slot_count];
    fill(loader, s, draw, loader->options.threads);
    loader->waited += bt_seconds() - begin;
    return head_of(loader, s, draw);
}

bt_status bt_loader_draw(bt_loader *loader, const bt_batch **batch)
{
    if (batch)
        *batch = NULL;
    if (!loader || !batch)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_draw: the %s is NULL", loader ? "place for the batch" : "loader");
    if (loader->position >= loader->most)
        return bt_fail(BT_ERROR_UNSUPPORTED, "a loader has drawn %lld batches: the examples of more cannot be counted",
                       (long long)loader->most);
    if (!loader->lent && !loader->slots[0].memory)
        BT_TRY(take_memory(loader));
    *batch = loader->constant ? draw_constant(loader) : loader->threaded ? draw_threaded(loader) : draw_now(loader);
    loader->told_end = false;
    return BT_OK;
}

bt_status bt_loader_next(bt_loader *loader, const bt_batch **batch)
{
    if (!loader || !batch)
        return bt_loader_draw(loader, batch);
    if (loader->per_epoch && loader->position > 0 && loader->position % loader->per_epoch == 0 && !loader->told_end) {
        loader->told_end = true;
        *batch = NULL;
        return BT_DONE;
    }
    return bt_loader_draw(loader, batch);
}

void bt_loader_complete(bt_loader *loader, const bt_batch *batch)
{
    const bool threaded = loader->threaded;
    const int ranks = loader->options.ranks;
    if (ranks == 1)
        return;
    stop(loader); /* it fills what lies in the same scratch memory */
    loader->options.ranks = 1;
    for (int64_t k = 0; k < loader->slot_count; k++)
        for (int i = 0; i < loader->shape_count; i++)
            if (loader->slots[k].heads[i] == batch)
                fill(loader, &loader->slots[k], batch->number, loader->options.threads);
    loader->options.ranks = ranks;
    if (threaded)
        start(loader);
}

bt_status bt_loader_seek(bt_loader *loader, int64_t position)
{
    if (!loader)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_seek: the loader is NULL");
    if (position < 0 || position > loader->most)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_seek: found position %lld; expected 0 to %lld",
                       (long long)position, (long long)loader->most);
    bool threaded = loader->threaded;
    stop(loader);
    loader->position = position;
    loader->told_end = false;
    if (threaded)
        start(loader);
    return BT_OK;
}

int bt_loader_shapes(const bt_loader *loader, const bt_batch **shapes)
{
    for (int i = 0; loader && shapes && i < loader->shape_count; i++)
        shapes[i] = loader->shapes[i];
    return loader ? loader->shape_count : 0;
}

const bt_dataset *bt_loader_data(const bt_loader *loader) { return loader ? loader->data : NULL; }

int64_t bt_loader_position(const bt_loader *loader) { return loader ? loader->position : 0; }

int64_t bt_loader_epoch(const bt_loader *loader)
{
    return loader && loader->per_epoch ? loader->position / loader->per_epoch : 0;
}

int64_t bt_loader_most(const bt_loader *loader) { return loader ? loader->most : 0; }

int64_t bt_loader_per_epoch(const bt_loader *loader) { return loader ? loader->per_epoch : 0; }

double bt_loader_wait_seconds(const bt_loader *loader) { return loader ? loader->waited : 0; }

size_t bt_loader_bytes(const bt_loader *loader) { return loader ? loader->bytes : 0; }

void bt_loader_hash(bt_loader *loader, bt_field_hash_fn *visit, void *user)
{
    if (loader && visit)
        bt_dataset_hash(loader->data, visit, user);
}

/* ---- opening ---- */

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
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is asked to keep %lld batches; expected 1 to %d",
                       (long long)o->keep, 1 << 20);
    if (o->threads < 1)
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is given %d threads; expected at least 1", o->threads);
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is for rank %d of %d; expected 0 or more, and less than that",
                       o->rank, o->ranks);
    if (!bt_dtype_floats(o->dtype))
        return bt_fail(BT_ERROR_ARGUMENT, "a loader is asked for floating fields as %s; expected f32 or f64",
                       bt_dtype_name(o->dtype));
    if (o->drop_last && o->batch_size > data->count && !data->tasks)
        return bt_fail(
            BT_ERROR_DATA,
            "no batch is left: %lld examples, batches of %lld (batch_size), and the short last one is dropped "
            "(drop_last)",
            (long long)data->count, (long long)o->batch_size);
    return BT_OK;
}

/* The examples of all draws of a set are numbered one after another, also those that drop_last leaves out. */
static int64_t most_draws(const bt_loader *loader)
{
    int64_t each = 1;
    for (int64_t k = 0; !loader->constant && k < loader->feed_count; k++) {
        const feed *f = &loader->feeds[k];
        for (int part = 0; part < part_count(f); part++)
            each = examples_in(f, part) > each ? examples_in(f, part) : each;
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
        loader->feeds[k] = (feed){part, batch, bt_endless_of(part->count, o->seed, (uint32_t)k)};
        whole = whole && batch == part->count && !part->tasks;
        chance = chance || (o->chance && bt_augment_is_random(part->augment));
    }
    loader->constant = whole && !chance;
    for (int64_t k = 0; o->shuffle && !whole && k < loader->feed_count; k++) {
        feed *f = &loader->feeds[k];
        const bool across = k || loader->data->tasks; /* a batch may lie across the end of a joined set's epoch */
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

static bt_status declare(bt_batch *batch, const feed *f, int part, const char *field, bt_array shape)
{
    const char *prefix = f->set->prefix, *of = f->set->tasks ? bt_tasks_parts(f->set->tasks)[part].name : NULL;
    bt_text text = {0};
    bt_text_add(&text, "%s%s%s%s%s", prefix ? prefix : "", prefix ? "." : "", of ? of : "", of ? "." : "", field);
    bt_status status = text.failed ? BT_ERROR_MEMORY : bt_batch_declare(batch, text.data, shape);
    bt_text_free(&text);
    return status;
}

static bt_status declare_part(bt_batch *batch, const bt_loader *loader, const feed *f, int part, int64_t count)
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
    if (!is_mixed(f->set))
        return BT_OK;
    const bt_store *label = f->set->columns[f->set->augment->label].store;
    numbers.dtype = bt_store_dtype(label, loader->options.dtype);
    BT_TRY(declare(batch, f, part, BT_OTHER_LABEL, numbers));
    numbers.dtype = loader->options.dtype;
    return declare(batch, f, part, BT_SHARE, numbers);
}

/* The fields of all sets, and `index` of each, of the full (0) or short (1) shape. Of a task, the query counts. */
static bt_batch *make_shape(const bt_loader *loader, int which)
{
    bt_batch *batch = bt_alloc(sizeof *batch);
    bt_status status = batch ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t k = 0; status == BT_OK && k < loader->feed_count; k++) {
        const feed *f = &loader->feeds[k];
        for (int part = 0; status == BT_OK && part < part_count(f); part++) {
            int64_t count = k || !which ? examples_in(f, part) : f->set->count % f->batch;
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

/* For each thread as much as the set needs that needs most. */
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
        return bt_fail(BT_ERROR_DATA, "images are too large to be mixed");
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
    loader->ahead = loader->options.prefetch && !loader->constant && loader->slot_bytes >= BT_WORTH_A_THREAD;
    loader->slots = bt_alloc_array((size_t)loader->options.keep + loader->ahead, sizeof *loader->slots);
    if (!loader->slots)
        return BT_ERROR_MEMORY;
    loader->slot_count = loader->options.keep + loader->ahead;
    for (int64_t k = 0; k < loader->slot_count; k++)
        for (int i = 0; i < loader->shape_count; i++)
            if (!(loader->slots[k].heads[i] = bt_batch_template(loader->shapes[i])))
                return bt_error_status();
    if (bt_loader_room(loader))
        return BT_OK;
    BT_TRY(take_memory(loader));
    if (loader->ahead && !loader->options.dry)
        start(loader);
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
    if (open_feeds(loader) == BT_OK && open_scratch(loader) == BT_OK && open_slots(loader) == BT_OK)
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
    stop(loader);
    for (int64_t k = 0; k < loader->slot_count; k++) {
        for (int i = 0; i < 2; i++)
            bt_batch_free(loader->slots[k].heads[i]);
        if (k == 0 || !loader->constant)
            bt_free_aligned(loader->slots[k].memory);
    }
    bt_free(loader->slots);
    bt_free_aligned(loader->scratch);
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
