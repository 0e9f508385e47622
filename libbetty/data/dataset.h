/* data/dataset.h: internals of data sets; only for the files of data/. */
#ifndef BT_DATASET_H
#define BT_DATASET_H

#include "base/base.h"
#include "data/data.h"

enum { BT_MAX_EXAMPLES = INT32_MAX }; /* places are 32-bit, like the field `index` */

/* ---- store.c: reference-counted values of one field: views share them, and so do sets read from one file ---- */

typedef struct bt_store {
    bt_array array; /* the first axis is that of rows; data comes from bt_alloc */
    int64_t row_items;
    size_t row_bytes;
    size_t row_step; /* bytes between the starts of two rows; less than row_bytes if rows overlap */
    size_t bytes;    /* of array.data; 0 if it is mapped from a file */
    void *map;       /* the mapped file that contains array.data; NULL: data comes from bt_alloc */
    size_t map_bytes;
    size_t absent; /* bytes of rows that were not read, because row 0 stands for them */
    bool scaled;   /* bytes that mean x/255 and are delivered as such */
    bool single;   /* scaled bytes in place of floats: each means the f32 nearest to x/255, in f64 too (narrow.c) */
    char **names;  /* of a table's columns, or of the classes 0, 1, ...; from bt_alloc; NULL: none */
    int64_t name_count;
    int64_t below;         /* for the columns of sparse rows: the number of columns; else 0 */
    int32_t *borders;      /* for the tokens of a text: where each source begins, and the end; NULL: not a text */
    char *note;            /* what a user should know about these values; NULL: nothing */
    bool told;             /* the note has been asked for */
    char *key;             /* identifies the file that it was read from; NULL: not from a file */
    int field;             /* number of the field in that file */
    int64_t owners;        /* reference count; one lock guards it and the list */
    struct bt_store *next; /* in the list of stores with a key */
} bt_store;

bt_store *bt_store_new(bt_array array, bool scaled);                  /* takes array.data over, also on failure */
bt_store *bt_store_over(bt_array array, void *map, size_t map_bytes); /* takes the mapping over, also on failure */
bt_store *bt_store_windows(bt_array line, int64_t length); /* of [n] numbers: rows of `length`, each starts one later */
bt_store *bt_store_again(bt_store *store);                 /* adds an owner */
bt_store *bt_store_find(const char *key, int field);       /* adds an owner; NULL (no error): not in memory */
void bt_store_publish(bt_store *store, const char *key, int field);
void bt_store_identify(bt_text *key, const char *path); /* adds the file's identity and time to a key; "": none */
void bt_store_release(bt_store *store);                 /* NULL is allowed */
bt_status bt_store_name(bt_store *store, char *const *names, int64_t count); /* copies the names; only once per store */
size_t bt_store_bytes(void);                                                 /* of all stores in the process, */
void bt_store_lacks(bt_store *store, size_t missing);
size_t bt_store_absent(void);                                    /* and of rows not read because of bt_dataset_repeat */
char *bt_store_take_note(bt_store *store);                       /* the first time; NULL afterwards. To be freed */
bt_dtype bt_store_dtype(const bt_store *store, bt_dtype floats); /* as delivered in a batch */

/* ---- mapped.c: values that stay in their file ---- */

bt_store *bt_store_map(const char *path, bt_array array, size_t offset); /* maps the array at the end of a file */

/* ---- narrow.c ---- */

/* Makes a byte store from these numbers, which still belong to the caller. *store is NULL (no error) if that would not
 * be exact. */
bt_status bt_store_narrow(bt_array values, bt_store **store);
bt_store *bt_store_like(const bt_store *from, bt_array array); /* takes array.data over; its numbers mean the same */
bt_dtype bt_store_given(const bt_store *store); /* dtype of the original values: BT_F32 if they were narrowed */
double bt_store_number(const bt_store *store, int64_t k); /* element k of the store; for images the byte */
static inline bool bt_store_images(const bt_store *store) { return store->scaled && !store->single; }

/* ---- dataset.c ---- */

typedef struct bt_rows { /* example i of the set is row at[i] of the store; several fields can share one map */
    int64_t owners;
    int32_t at[];
} bt_rows;

typedef struct bt_column {
    char *name;
    bt_store *store;
    bt_rows *rows; /* NULL: example i is row i */
    uint64_t hash; /* of the values, computed when needed: digest.c */
    bool hashed;
} bt_column;

typedef struct bt_tasks bt_tasks;
typedef struct bt_augment bt_augment;

struct bt_dataset {
    int64_t count;
    bt_column *columns;
    int64_t column_count, column_capacity;
    bt_status broken;    /* status of the first bt_dataset_add that failed */
    bt_tasks *tasks;     /* each batch is one task; NULL: each batch is a set of examples */
    bt_augment *augment; /* how images are changed; NULL: not at all */
    char *prefix;        /* of its fields in a joined set; NULL: the first set */
    bt_dataset *next;    /* the other sets joined to it */
};

bt_status bt_check_field(const char *function, const char *name, bt_array values); /* checks a user's field */
bt_status bt_dataset_take(bt_dataset *data, const char *name, bt_store *store); /* takes the store, also on failure */
bt_dataset *bt_dataset_of(bt_dataset *data, const char *const *names, bt_store **stores,
                          int count);                                                /* takes all stores over */
void bt_dataset_replace(bt_dataset *data, const bt_column *column, bt_store *store); /* one row per example */
const bt_column *bt_dataset_column(const bt_dataset *data, const char *name); /* of the first set; NULL: missing */
/* Makes row 0, the only one that was read, the value of every example. */
bt_status bt_dataset_repeat(bt_dataset *data, const char *name);
/* Example i of the field has row at[i]; at NULL: row 0. */
bt_status bt_dataset_map(bt_dataset *data, const char *name, const int32_t *at);
bt_status bt_dataset_select(bt_dataset *data, const int32_t *places, int64_t count);
bool bt_dataset_usable(const char *function, const bt_dataset *data); /* one plain, whole set; else fails */
bt_dataset *bt_dataset_done(bt_dataset *data, bt_status status);      /* the set, or NULL and the set freed */

void bt_dataset_hash(bt_dataset *data, bt_field_hash_fn *visit, void *user); /* digest.c; NULL is allowed */

/* ---- classes.c: the different values of the field `label`, or of a table's `y`, in increasing order ---- */

typedef struct bt_classes {
    const bt_column *column;
    int64_t count;
    int64_t *values;  /* [count] */
    int32_t *of;      /* [examples]: number of the class */
    int32_t *members; /* [examples]: places sorted by class, in the order of the set within a class */
    int64_t *starts;  /* [count + 1]: where each class starts in members */
} bt_classes;

bt_status bt_classes_find(const char *function, const bt_dataset *data,
                          bt_classes *c); /* after a failure nothing is to be freed */
void bt_classes_free(bt_classes *c);

/* ---- tasks.c: few-shot tasks drawn from a set ---- */

enum { BT_TASK_PARTS = 2 };

typedef struct bt_task_part { /* one part of a task: `each` examples of its class 0, then of its class 1, ... */
    const char *name;         /* "support" or "query" */
    int64_t each, count;      /* examples per class; in total */
} bt_task_part;

const bt_task_part *bt_tasks_parts(const bt_tasks *tasks);                   /* [BT_TASK_PARTS] */
void bt_tasks_draw(bt_tasks *tasks, int64_t number, int32_t *const *places); /* places[part][count]; one thread only */
int64_t bt_tasks_label(const bt_tasks *tasks);                               /* index of the column with the classes */
size_t bt_tasks_bytes(const bt_tasks *tasks);
void bt_tasks_free(bt_tasks *tasks);

/* ---- augment.c: how images change when a batch is gathered ---- */

typedef enum bt_change { BT_CROP, BT_FLIP, BT_CUTOUT, BT_MIXUP, BT_ZOOM, BT_CHANGES } bt_change; /* random changes */

enum { BT_MAX_PADDING = 1 << 20 };

/* Fields that mixup adds to a batch. */
#define BT_OTHER_LABEL "other_label"
#define BT_SHARE       "share"

struct bt_augment {
    int64_t image, label;                 /* column indices; label: -1 if it is not needed */
    int64_t height, width, channels, row; /* row: numbers per row of pixels */
    int64_t padding;                      /* of crop; 0: no crop */
    int64_t hole;                         /* side of the cutout; 0: no cutout */
    bool flip;
    double alpha; /* of mixup; 0: no mixup */
    double least; /* smallest share of the area that a random resized crop shows; 0: no such crop */
    uint64_t seeds[BT_CHANGES];
    void *linear[2]; /* normalisation scale x + shift: [2, row], as f64 and as f32; NULL: none */
};

bool bt_augment_is_random(const bt_augment *augment); /* NULL: false */
uint64_t bt_augment_hash(const bt_augment *augment, uint64_t hash);
void bt_augment_free(bt_augment *augment);

/* ---- gather.c: copies rows of a field into a batch, one after another ---- */

/* Smaller batches are filled faster than a thread wakes up. */
#define BT_WORTH_A_THREAD ((size_t)1 << 16)

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out,
                    int threads);
const char *bt_gather_row(const bt_column *column, int32_t place);
/* Prefetches the rows that are needed next. Call it before each row i when visiting `count` rows in order. */
void bt_gather_near(const bt_column *column, const int32_t *places, int64_t i, int64_t count);
void bt_gather_convert(const bt_store *store, const void *from, int64_t count, bt_dtype dtype, void *to); /* numbers */

/* For a field in a file: announces rows that are needed soon, and releases pages that were read (mapped.c). */
void bt_store_ahead(const bt_column *column, const int32_t *places, int64_t count);
void bt_store_let_go(const bt_store *store);

/* ---- change.c: the same for images that are changed ---- */

typedef struct bt_drawn { /* a batch's examples from one set */
    const int32_t *places;
    int64_t count;
    int64_t from, per_epoch; /* they are examples from, from + 1, ... of the sequence of all epochs */
    bool chance;             /* false: only normalise images */
} bt_drawn;

void bt_change_images(const bt_dataset *set, const bt_drawn *drawn, bt_dtype dtype, void *out, char *scratch,
                      int threads);
size_t bt_change_scratch(const bt_dataset *set, bt_dtype dtype); /* bytes per thread; 0: none */

/* For mixup: the label of the partner, and the example's own share. */
void bt_change_labels(const bt_dataset *set, const bt_drawn *drawn, const bt_array *other, const bt_array *share);

/* ---- batch.c: adds a field of this shape and its variable, without values ---- */

bt_status bt_batch_declare(bt_batch *batch, const char *name, bt_array shape);

#endif
