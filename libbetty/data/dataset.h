/* data/dataset.h: the inside of a data set; for the files of data/ only. */
#ifndef BT_DATASET_H
#define BT_DATASET_H

#include "base/base.h"
#include "data/data.h"

enum { BT_MAX_EXAMPLES = INT32_MAX }; /* places are 32-bit: so is the field `index` */

/* ---- store.c: the values of one field, counted by reference: views share them, and sets read from one file ---- */

typedef struct bt_store {
    bt_array array; /* the first axis counts rows; data is of bt_alloc */
    int64_t row_items;
    size_t row_bytes;
    size_t row_step; /* from a row to the next one; less than row_bytes where they overlap */
    size_t bytes;    /* of array.data; 0 where it lies in a file */
    void *map;       /* the file that array.data is a part of, mapped; NULL: it is of bt_alloc */
    size_t map_bytes;
    size_t absent; /* bytes of the rows that row 0 stands for */
    bool scaled;   /* bytes that stand for x/255, and are delivered so */
    bool single;   /* scaled, in the place of floats: for the f32 nearest to x/255, in f64 too (narrow.c) */
    char **names;  /* of a table's columns, or of the classes 0, 1, ...; of bt_alloc; NULL: they have none */
    int64_t name_count;
    int64_t below;         /* of the columns of sparse rows: how many there are; else 0 */
    int32_t *borders;      /* of the tokens of a text: where each source begins, and the end; NULL: it is none */
    char *note;            /* what a user should know of these values; NULL: nothing */
    bool told;             /* the note has been asked for */
    char *key;             /* what it was read from; NULL: memory */
    int field;             /* which of what was read there */
    int64_t owners;        /* guarded, like the list, by one lock */
    struct bt_store *next; /* in the list of those with a key */
} bt_store;

bt_store *bt_store_new(bt_array array, bool scaled);                  /* takes array.data over, also on failure */
bt_store *bt_store_over(bt_array array, void *map, size_t map_bytes); /* takes the mapping over, also on failure */
bt_store *bt_store_windows(bt_array line, int64_t length); /* of [n] numbers: rows of so many, each begins one later */
bt_store *bt_store_again(bt_store *store);                 /* one more owner */
bt_store *bt_store_find(const char *key, int field);       /* one more owner; NULL (no failure) if none is alive */
void bt_store_publish(bt_store *store, const char *key, int field);
void bt_store_identify(bt_text *key, const char *path); /* adds which file, as it is now, to a key; "": none */
void bt_store_release(bt_store *store);                 /* NULL: nothing */
bt_status bt_store_name(bt_store *store, char *const *names, int64_t count); /* copied; it has had none */
size_t bt_store_bytes(void);                                                 /* of all stores of the process, */
void bt_store_lacks(bt_store *store, size_t missing);
size_t bt_store_absent(void);              /* and of the rows that were not read: bt_dataset_repeat */
char *bt_store_take_note(bt_store *store); /* the first time; else NULL. To be freed */
bt_dtype bt_store_dtype(const bt_store *store, bt_dtype floats); /* as a batch delivers it */

/* ---- mapped.c: values that stay in their file ---- */

bt_store *bt_store_map(const char *path, bt_array array, size_t offset); /* of the file, which ends with the array */

/* ---- narrow.c ---- */

/* A store of bytes instead of these numbers, which stay the caller's; NULL (no failure) if that is not exact. */
bt_status bt_store_narrow(bt_array values, bt_store **store);
bt_store *bt_store_like(const bt_store *from, bt_array array); /* takes array.data over; its numbers mean the same */
bt_dtype bt_store_given(const bt_store *store);                /* of the values: BT_F32 where they were narrowed */
double bt_store_number(const bt_store *store, int64_t k);      /* number k of all; of an image the byte */
static inline bool bt_store_images(const bt_store *store) { return store->scaled && !store->single; }

/* ---- dataset.c ---- */

typedef struct bt_rows { /* example i of the set is row at[i] of the store; one map serves several fields */
    int64_t owners;
    int32_t at[];
} bt_rows;

typedef struct bt_column {
    char *name;
    bt_store *store;
    bt_rows *rows; /* NULL: row i */
    uint64_t hash; /* of its values, once they have been looked at: digest.c */
    bool hashed;
} bt_column;

typedef struct bt_tasks bt_tasks;
typedef struct bt_augment bt_augment;

struct bt_dataset {
    int64_t count;
    bt_column *columns;
    int64_t column_count, column_capacity;
    bt_status broken;    /* of the first bt_dataset_add that failed */
    bt_tasks *tasks;     /* a batch is one of these; NULL: it is some examples */
    bt_augment *augment; /* how its images are changed; NULL: not at all */
    char *prefix;        /* of its fields in a joined set; NULL: the first */
    bt_dataset *next;    /* the other streams of a joined set */
};

bt_status bt_check_field(const char *function, const char *name, bt_array values); /* a field that a user gives */
bt_status bt_dataset_take(bt_dataset *data, const char *name, bt_store *store); /* takes the store, also on failure */
bt_dataset *bt_dataset_of(bt_dataset *data, const char *const *names, bt_store **stores,
                          int count);                                                /* takes all over */
void bt_dataset_replace(bt_dataset *data, const bt_column *column, bt_store *store); /* row i for example i */
const bt_column *bt_dataset_column(const bt_dataset *data, const char *name);        /* of the first stream; NULL */
/* Each example of the set has row 0 of the field, the only one that was read. */
bt_status bt_dataset_repeat(bt_dataset *data, const char *name);
/* Example i of the field has row at[i]; NULL: row 0. */
bt_status bt_dataset_map(bt_dataset *data, const char *name, const int32_t *at);
bt_status bt_dataset_select(bt_dataset *data, const int32_t *places, int64_t count);
bool bt_dataset_usable(const char *function, const bt_dataset *data); /* one plain, whole set; else fails */
bt_dataset *bt_dataset_done(bt_dataset *data, bt_status status);      /* the set, or NULL and the set freed */

void bt_dataset_hash(bt_dataset *data, bt_field_hash_fn *visit, void *user); /* digest.c: NULL: nothing */

/* ---- classes.c: the different values of the field `label`, or of `y` in a table, in increasing order ---- */

typedef struct bt_classes {
    const bt_column *column;
    int64_t count;
    int64_t *values;  /* [count] */
    int32_t *of;      /* [examples]: which class */
    int32_t *members; /* [examples]: places, by class, in the order of the set */
    int64_t *starts;  /* [count + 1]: of the classes in members */
} bt_classes;

bt_status bt_classes_find(const char *function, const bt_dataset *data,
                          bt_classes *c); /* nothing to free if it fails */
void bt_classes_free(bt_classes *c);

/* ---- tasks.c: few-shot tasks, drawn from a set ---- */

enum { BT_TASK_PARTS = 2 };

typedef struct bt_task_part { /* some examples of a task: the first `each` of class 0 of the task, of class 1, ... */
    const char *name;         /* "support" or "query" */
    int64_t each, count;      /* of a class; of all */
} bt_task_part;

const bt_task_part *bt_tasks_parts(const bt_tasks *tasks);                   /* [BT_TASK_PARTS] */
void bt_tasks_draw(bt_tasks *tasks, int64_t number, int32_t *const *places); /* places[part][count]; one thread only */
int64_t bt_tasks_label(const bt_tasks *tasks);                               /* which column the classes are in */
size_t bt_tasks_bytes(const bt_tasks *tasks);
void bt_tasks_free(bt_tasks *tasks);

/* ---- augment.c: how images are changed when a batch is gathered ---- */

typedef enum bt_change { BT_CROP, BT_FLIP, BT_CUTOUT, BT_MIXUP, BT_ZOOM, BT_CHANGES } bt_change; /* at random */

enum { BT_MAX_PADDING = 1 << 20 };

/* The fields that mixup adds to a batch. */
#define BT_OTHER_LABEL "other_label"
#define BT_SHARE       "share"

struct bt_augment {
    int64_t image, label;                 /* which columns these are in; label: -1 where none is needed */
    int64_t height, width, channels, row; /* row: numbers in a row of pixels */
    int64_t padding;                      /* of the crop; 0: none */
    int64_t hole;                         /* of the cutout: its side; 0: none */
    bool flip;
    double alpha; /* of mixup; 0: none */
    double least; /* share of the area that a random resized crop shows; 0: none */
    uint64_t seeds[BT_CHANGES];
    void *linear[2]; /* normalised, x is scale x + shift: [2, row], as f64 and as f32; NULL: not normalised */
};

bool bt_augment_is_random(const bt_augment *augment); /* NULL: no */
uint64_t bt_augment_hash(const bt_augment *augment, uint64_t hash);
void bt_augment_free(bt_augment *augment);

/* ---- gather.c: rows of a field, one after the other, as a batch has them ---- */

/* A batch of fewer bytes is filled sooner than a thread is woken. */
#define BT_WORTH_A_THREAD ((size_t)1 << 16)

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out,
                    int threads);
const char *bt_gather_row(const bt_column *column, int32_t place);
/* For `count` rows, taken one after the other: prefetches those that are needed next. Called before each row i. */
void bt_gather_near(const bt_column *column, const int32_t *places, int64_t i, int64_t count);
void bt_gather_convert(const bt_store *store, const void *from, int64_t count, bt_dtype dtype, void *to); /* numbers */

/* Of a field in a file: the rows are needed soon; what has been read is not needed now (mapped.c). */
void bt_store_ahead(const bt_column *column, const int32_t *places, int64_t count);
void bt_store_let_go(const bt_store *store);

/* ---- change.c: the same of images that are changed ---- */

typedef struct bt_drawn { /* a batch's examples of one set */
    const int32_t *places;
    int64_t count;
    int64_t from, per_epoch; /* they are the examples from, from + 1, ... of all epochs, one after the other */
    bool chance;             /* false: images are only normalised */
} bt_drawn;

void bt_change_images(const bt_dataset *set, const bt_drawn *drawn, bt_dtype dtype, void *out, char *scratch,
                      int threads);
size_t bt_change_scratch(const bt_dataset *set, bt_dtype dtype); /* bytes that each thread needs; 0: none */

/* Of mixup: the label of the partner, and the share of the example itself. */
void bt_change_labels(const bt_dataset *set, const bt_drawn *drawn, const bt_array *other, const bt_array *share);

/* ---- batch.c: a field of a shape and its variable, without values ---- */

bt_status bt_batch_declare(bt_batch *batch, const char *name, bt_array shape);

#endif
