/* data/data.h: the internal interface of data sets, batches and loaders, for the engine. */
#ifndef BT_DATA_H
#define BT_DATA_H

#include "runtime/variable.h"
#include <betty/data.h>

typedef struct bt_batch_field {
    char *name;
    bt_array array; /* this batch's values; data NULL in a template */
    bt_var *var;    /* the external variable that a trace reads; made by the batch, with the array's shape and dtype */
} bt_batch_field;

struct bt_batch {
    bt_batch_field *fields;
    int field_count;
    int64_t count;  /* number of examples */
    int64_t number; /* number of the batch in its loader, from 0, counting on over epochs */
    bool owns;      /* the arrays are copies that bt_batch_free frees */
};

/* A template: the fields and shapes of `shape`, with variables of its own and without data. */
bt_batch *bt_batch_template(const bt_batch *shape);
bool bt_batch_counts(const bt_batch *batch, const bt_array *field); /* whether the field has one row per example */
bool bt_batch_fits(const bt_batch *a, const bt_batch *b);           /* same fields, dtypes and shapes */
void bt_batch_bind(bt_batch *to, const bt_batch *from);             /* makes to's variables point to from's values */
/* The variable of `to` that corresponds to `var` of `from`; NULL: var is no field of it. */
bt_var *bt_batch_other(const bt_batch *from, const bt_batch *to, const bt_var *var);

typedef struct bt_loader_options {
    int64_t batch_size; /* 0, or at least the number of examples: the whole set in its own order, gathered only once if
                           nothing changes */
    uint64_t seed;
    bool shuffle;    /* a new order each epoch, a pure function of (seed, epoch) */
    bool drop_last;  /* drop a short last batch */
    bool chance;     /* change images at random if the set says so; else they are only normalised */
    bt_dtype dtype;  /* of floating fields: BT_F32 or BT_F64 */
    int64_t keep;    /* number of drawn batches that stay valid, including the newest; at least 1 */
    bool prefetch;   /* gather one batch ahead on a thread, if batches are large enough to make it worthwhile */
    int threads;     /* number of threads that gather a large batch when it is drawn; at least 1 */
    bool dry;        /* no batch will be drawn: only count the memory, and gather nothing ahead */
    bool lent;       /* batches may use memory lent with bt_loader_lend */
    int rank, ranks; /* read only this rank's rows of fields with one row per example: bt_share_first */
} bt_loader_options;
/* The whole set, seed 0, shuffled, with the short last batch, random changes, f32, keep 1, prefetch, 1 thread, not
 * lent, rank 0 of 1. */
bt_loader_options bt_loader_defaults(void);

/* Takes over the set, also on failure. Allocates all its memory unless `lent`, so that drawing cannot fail before
 * bt_loader_most. In a joined set, the first set's epochs are the loader's. The other sets give the same number of
 * examples to every batch, short or not, and go through epochs of their own, in each of which every example occurs
 * once. With a set of tasks, each batch has one task, whatever the batch size. If the first set is one of tasks, there
 * are no epochs, and the other sets give batch_size examples. */
bt_loader *bt_loader_open(bt_dataset *data, const bt_loader_options *options);

/* The shapes that batches can have, as templates that the loader owns, the full one first. Returns their number, 1 or
 * 2. */
int bt_loader_shapes(const bt_loader *loader, const bt_batch **shapes);

/* The next batch; starts the next epoch by itself. Valid until `keep` more batches are drawn. */
bt_status bt_loader_draw(bt_loader *loader, const bt_batch **batch);

/* Reads the rows of all ranks into the batch drawn last, or into one that is still valid. */
void bt_loader_complete(bt_loader *loader, const bt_batch *batch);

/* From now on, batches are stored in this memory, aligned to BT_ALIGN. NULL: in the loader's own memory, which it
 * allocates at the first such draw. Earlier batches become invalid. */
void bt_loader_lend(bt_loader *loader, char *memory);
size_t bt_loader_room(const bt_loader *loader); /* bytes needed to lend; 0: it uses its own memory only */

const bt_dataset *bt_loader_data(const bt_loader *loader);     /* the set; NULL if the loader is NULL */
int64_t bt_loader_position(const bt_loader *loader);           /* number of batches drawn */
bt_status bt_loader_seek(bt_loader *loader, int64_t position); /* the next draw gives the batch at this position */
int64_t bt_loader_most(const bt_loader *loader);               /* maximum number of draws, and last position */
int64_t bt_loader_epoch(const bt_loader *loader);              /* number of whole epochs drawn; 0 for tasks */
int64_t bt_loader_per_epoch(const bt_loader *loader);          /* batches per epoch; 0: tasks, which have no epochs */
double bt_loader_wait_seconds(const bt_loader *loader);        /* time that draws spent waiting or gathering */
size_t bt_loader_bytes(const bt_loader *loader);               /* of its batch buffers; in the category batch */

/* A hash of each field's values, in the order of the set; computed once, in about 40 ms per 100 MB. prefix: of a joined
 * set; "" for the first. */
typedef void bt_field_hash_fn(void *user, const char *prefix, const char *name, uint64_t hash);
void bt_loader_hash(bt_loader *loader, bt_field_hash_fn *visit, void *user);

/* Sets a folder in which bt_dataset_open, on this thread, also looks for files: that of the INI file. Not copied; NULL:
 * none. Returns the earlier one. */
const char *bt_data_beside(const char *folder);

/* Sets whether bt_dataset_open, on this thread, reads only the first image of a folder: the number, size and classes
 * are then known, and every image looks like the first. Returns the earlier setting. */
bool bt_data_blank(bool blank);

/* Registers a user's data set, which bt_dataset_open tries first. The record must live until it is removed. If several
 * have the same name, the newest is used. An open function may open an older set of its own name. */
bt_status bt_dataset_register(const bt_dataset_def *def);
void bt_dataset_unregister(const bt_dataset_def *def);

/* The next note about the values that a user should know; NULL after the last. Each note is returned once while its
 * values are in memory. To be freed. */
char *bt_dataset_next_note(bt_dataset *data);

int64_t bt_dataset_count(const bt_dataset *data);
int64_t bt_dataset_names(const bt_dataset *data); /* number of classes with a name; 0 for NULL */
int64_t bt_dataset_field_dim(const bt_dataset *data, const char *field, int axis); /* axis 0: examples; -1 if missing */
size_t
bt_dataset_bytes(const bt_dataset *data); /* held in memory; a set shared by several views counts once per view */

#endif
