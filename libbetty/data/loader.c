/* data/loader.c: draws batches: the ring of buffers, and the thread that fills it ahead.
 *
 * All memory is allocated or lent before a batch is drawn, so that filling cannot fail on any thread. A draw's content
 * is a pure function of its number, so seeking is just counting. */
#include "data/loader_inside.h"
#include "runtime/store.h"

#include <signal.h>

/* ---- ahead, on a thread ---- */

static void *fill_ahead(void *argument)
{
    bt_loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->filled > loader->position) { /* the ring has room for one batch ahead */
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        int64_t draw = loader->filled;
        pthread_mutex_unlock(&loader->lock);
        bt_loader_fill(loader, &loader->slots[draw % loader->slot_count], draw, 1);
        pthread_mutex_lock(&loader->lock);
        loader->filled++;
        pthread_cond_signal(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* The thread blocks all signals, which are meant for the program's own threads. If it cannot start, batches are filled
 * when they are drawn. */
void bt_loader_start(bt_loader *loader)
{
    sigset_t all, before;
    loader->stop = false;
    loader->filled = loader->position;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    loader->threaded = pthread_create(&loader->thread, NULL, fill_ahead, loader) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void bt_loader_stop(bt_loader *loader)
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

/* ---- memory of batches ---- */

/* Points the fields of a head to a buffer that is large enough for the full shape. */
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
        bt_slot *s = &loader->slots[k];
        char *memory = loader->lent ? loader->lent + (size_t)k * loader->slot_bytes : s->memory;
        for (int i = 0; i < loader->shape_count; i++)
            lay_into(s->heads[i], loader->shapes[0], memory);
    }
}

bt_status bt_loader_take_memory(bt_loader *loader)
{
    for (int64_t k = 0; k < loader->slot_count; k++) {
        bt_slot *s = &loader->slots[k];
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
    bt_loader_stop(loader);
    loader->lent = memory;
    lay_out(loader);
    if (memory && loader->fills_ahead && !loader->options.dry)
        bt_loader_start(loader);
}

/* ---- drawing ---- */

static bt_batch *draw_constant(bt_loader *loader)
{
    bt_slot *s = &loader->slots[loader->position % loader->slot_count];
    if (!loader->ready) {
        double begin = bt_seconds();
        bt_loader_fill(loader, &loader->slots[0], 0, loader->options.threads);
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
    return bt_loader_head(loader, &loader->slots[draw % loader->slot_count], draw);
}

static bt_batch *draw_now(bt_loader *loader)
{
    double begin = bt_seconds();
    int64_t draw = loader->position++;
    bt_slot *s = &loader->slots[draw % loader->slot_count];
    bt_loader_fill(loader, s, draw, loader->options.threads);
    loader->waited += bt_seconds() - begin;
    return bt_loader_head(loader, s, draw);
}

bt_status bt_loader_draw(bt_loader *loader, const bt_batch **batch)
{
    if (batch)
        *batch = NULL;
    if (!loader || !batch)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_draw: the %s is NULL", loader ? "place for the batch" : "loader");
    if (loader->position >= loader->most)
        return bt_fail(BT_ERROR_UNSUPPORTED, "a loader has drawn %lld batches; it cannot count the examples of more",
                       (long long)loader->most);
    if (!loader->lent && !loader->slots[0].memory)
        BT_TRY(bt_loader_take_memory(loader));
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
    bt_loader_stop(loader); /* the thread uses the same scratch memory */
    loader->options.ranks = 1;
    for (int64_t k = 0; k < loader->slot_count; k++)
        for (int i = 0; i < loader->shape_count; i++)
            if (loader->slots[k].heads[i] == batch)
                bt_loader_fill(loader, &loader->slots[k], batch->number, loader->options.threads);
    loader->options.ranks = ranks;
    if (threaded)
        bt_loader_start(loader);
}

bt_status bt_loader_seek(bt_loader *loader, int64_t position)
{
    if (!loader)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_seek: the loader is NULL");
    if (position < 0 || position > loader->most)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_loader_seek: found position %lld; expected 0 to %lld",
                       (long long)position, (long long)loader->most);
    bool threaded = loader->threaded;
    bt_loader_stop(loader);
    loader->position = position;
    loader->asked = 0;
    loader->told_end = false;
    if (threaded)
        bt_loader_start(loader);
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
