/* files.h: shared by the tests of data sets: a temporary folder, files in it, and access to the contents of sets. */
#ifndef FILES_H
#define FILES_H

#include "base/base.h"
#include "data/data.h"
#include <check.h>

/* A fixture for each test: an empty folder, removed afterwards; $BETTY_DATA unset; no pending error. */
void files_setup(void);
void files_teardown(void);

const char *path_of(const char *name); /* in that folder; valid for the next three calls */
void make_folder(const char *name);
void write_bytes(const char *name, const void *bytes, size_t size); /* compressed if the name ends with .gz */
void write_text(const char *name, const char *text);

/* An IDX file of unsigned bytes: value i is first + i, modulo `modulo`. */
void write_idx(const char *name, int rank, const uint32_t *dims, int first, int modulo);

/* The whole set in order, floating-point fields as f64. Takes the set; the batch is freed after the test. */
const bt_batch *whole(bt_dataset *data);
void files_forget(void);                                                 /* frees the batches of `whole` */
const bt_batch_field *field_of(const bt_batch *batch, const char *name); /* must exist */
const double *f64_of(const bt_batch *batch, const char *name);
const int32_t *i32_of(const bt_batch *batch, const char *name);

/* The last call has failed with this status, and its message has all the pieces (up to NULL). Clears the error. */
void expect_failure_(bt_status status, const char *const *pieces);
#define expect_failure(status, ...) expect_failure_((status), (const char *const[]){__VA_ARGS__, NULL})
void expect_no_failure(void);

/* A set of `count` examples: x [count, 2] with x[i] = (i, -i), and label [count] = i mod classes. */
bt_dataset *numbered(int64_t count, int classes);

#define ADD_CASE(suite, function) add_case_((suite), #function, function)
void add_case_(Suite *suite, const char *name, const TTest *test);

#endif
