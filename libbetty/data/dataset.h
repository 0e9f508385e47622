/* data/dataset.h: what a data set is made of; for the files of data/ only. */
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
    bool scaled;           /* bytes that stand for x/255, and are delivered so */
    char *key;             /* what it was read from; NULL: memory */
    int field;             /* which of what was read there */
    int64_t owners;        /* guarded, like the list, by one lock */
    struct bt_store *next; /* in the list of those with a key */
} bt_store;

bt_store *bt_store_new(bt_array array, bool scaled); /* takes array.data over, also on failure */
bt_store *bt_store_find(const char *key, int field); /* one more owner; NULL (no failure) if none is alive */
void bt_store_publish(bt_store *store, const char *key, int field);
void bt_store_release(bt_store *store);                          /* NULL: nothing */
bt_dtype bt_store_dtype(const bt_store *store, bt_dtype floats); /* as a batch delivers it */

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

struct bt_dataset {
    int64_t count;
    bt_column *columns;
    int64_t column_count, column_capacity;
    bt_status broken; /* of the first bt_dataset_add that failed */
    bt_tasks *tasks;  /* a batch is one of these; NULL: it is some examples */
    char *prefix;     /* of its fields in a joined set; NULL: the first */
    bt_dataset *next; /* the other streams of a joined set */
};

bt_status bt_check_field(const char *function, const char *name, bt_array values); /* a field that a user gives */
bt_status bt_dataset_take(bt_dataset *data, const char *name, bt_store *store); /* takes the store, also on failure */
bt_dataset *bt_dataset_of(bt_dataset *data, const char *const *names, bt_store **stores,
                          int count);                                                /* takes all over */
void bt_dataset_replace(bt_dataset *data, const bt_column *column, bt_store *store); /* row i for example i */
const bt_column *bt_dataset_column(const bt_dataset *data, const char *name);        /* of the first stream; NULL */
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

/* ---- gather.c: rows of a field, one after the other, as a batch has them ---- */

/* Bytes of a batch below which it is filled sooner than a thread is woken. */
#define BT_WORTH_A_THREAD ((size_t)1 << 16)

void bt_gather_rows(const bt_column *column, const int32_t *places, int64_t count, bt_dtype dtype, void *out,
                    int threads);

/* ---- batch.c: a field of a shape and its variable, without values ---- */

bt_status bt_batch_declare(bt_batch *batch, const char *name, bt_array shape);

#endif
