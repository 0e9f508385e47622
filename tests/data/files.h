/* files.h: what the tests of data sets share: a folder of their own, files in it, and looking into sets. */
#ifndef FILES_H
#define FILES_H

#include "base/base.h"
#include "data/data.h"
#include <check.h>

/* A fixture for each test: an empty folder, gone afterwards; $BETTY_DATA unset; no message. */
void files_setup(void);
void files_teardown(void);

const char *path_of(const char *name); /* in that folder; valid until the fourth call after this one */
void make_folder(const char *name);
void write_bytes(const char *name, const void *bytes, size_t size); /* a name that ends with .gz: packed */
void write_text(const char *name, const char *text);

/* An IDX file of unsigned bytes: value i is first + i, modulo `modulo`. */
void write_idx(const char *name, int rank, const uint32_t *dims, int first, int modulo);

/* The whole set, in its order, floating fields as f64. Takes the set; the batch is gone after the test. */
const bt_batch *whole(bt_dataset *data);
void files_forget(void);                                                 /* the batches of `whole` so far */
const bt_batch_field *field_of(const bt_batch *batch, const char *name); /* must be there */
const double *f64_of(const bt_batch *batch, const char *name);
const int32_t *i32_of(const bt_batch *batch, const char *name);

/* The call before has failed with that status, and its message has all the pieces (up to NULL). Clears it. */
void expect_failure_(bt_status status, const char *const *pieces);
#define expect_failure(status, ...) expect_failure_((status), (const char *const[]){__VA_ARGS__, NULL})
void expect_no_failure(void);

/* A set of `count` examples: x [count, 2] with x[i] = (i, -i), and label [count] = i mod classes. */
bt_dataset *numbered(int64_t count, int classes);

#define ADD_CASE(suite, function) add_case_((suite), #function, function)
void add_case_(Suite *suite, const char *name, const TTest *test);

#endif
