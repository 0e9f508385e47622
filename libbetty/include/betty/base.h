/* betty/base.h: conventions, status and errors, numbers on the host */
#ifndef BETTY_BASE_H
#define BETTY_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lists of sizes, axes, indices or tensors are the last arguments and may have any length: bt_sum(x), bt_sum(x, 0, 1).
 * A macro with the function's name closes the list. (bt_sum)(x, axes), with parentheses, calls the function itself,
 * which takes an array that ends with BT_END (a list of pointers ends with NULL). In C++, betty.h includes
 * betty/betty.hpp, which replaces these macros. */
#define BT_END  INT64_MIN       /* closes a list of sizes, axes or indices */
#define BT_KEEP (INT64_MIN + 1) /* in a list of axes: keep these axes, with size 1: bt_sum(x, -1, BT_KEEP) */
#define BT_REST INT64_MAX       /* as the end of a range: up to the last element */

/* If a comment says "format", the argument is a printf format: bt_child(net, "cell%d", i). */
#if defined __GNUC__
#define BT_FORMAT(string, first) __attribute__((format(printf, string, first)))
#else
#define BT_FORMAT(string, first)
#endif

enum { BT_MAX_RANK = 8, BT_MAX_ITEMS = 16 }; /* axes of a tensor; entries of a list in a record */

typedef struct bt_tensor bt_tensor;       /* a symbolic value in a trace: immutable, with known shape and dtype */
typedef struct bt_module bt_module;       /* parameters, buffers and child modules by name, and a forward function */
typedef struct bt_rule bt_rule;           /* hyperparameters and slots of an optimiser or a method, while traced */
typedef struct bt_optimizer bt_optimizer; /* an optimiser with its settings and state */
typedef struct bt_dataset bt_dataset;     /* examples with named fields, on the host */
typedef struct bt_batch bt_batch;         /* named fields of several examples, or of one task */
typedef struct bt_loader bt_loader;       /* draws batches from a data set */
typedef struct bt_function bt_function;   /* a traced function, compiled */
typedef struct bt_problem bt_problem;     /* one level: module, data, loss, optimiser */
typedef struct bt_engine bt_engine;       /* all problems, their dependencies and their training */


#define BT_STATUS_LIST(X)                                                                                              \
    X(BT_OK, 0, "ok")                                                                                                  \
    X(BT_DONE, 1, "no more batches in this epoch")                                                                     \
    X(BT_ERROR_ARGUMENT, 2, "wrong argument")                                                                          \
    X(BT_ERROR_SHAPE, 3, "shapes or types do not fit")                                                                 \
    X(BT_ERROR_CONFIG, 4, "wrong setting")                                                                             \
    X(BT_ERROR_DATA, 5, "unusable data")                                                                               \
    X(BT_ERROR_FILE, 6, "file cannot be read or written")                                                              \
    X(BT_ERROR_MEMORY, 7, "out of memory")                                                                             \
    X(BT_ERROR_NUMERIC, 8, "a value is not finite, or a check failed")                                                 \
    X(BT_ERROR_DEVICE, 9, "the device failed")                                                                         \
    X(BT_ERROR_UNSUPPORTED, 10, "not supported here")                                                                  \
    X(BT_ERROR_INTERRUPTED, 11, "interrupted")                                                                         \
    X(BT_ERROR_INTERNAL, 12, "a fault of the library")

typedef enum bt_status {
#define BT_STATUS_ITEM(name, code, text) name = code,
    BT_STATUS_LIST(BT_STATUS_ITEM)
#undef BT_STATUS_ITEM
} bt_status;

/* The first error of this thread since bt_error_clear, or "". It says what failed and where, what was found, what was
 * expected and what to do. */
const char *bt_error(void);
void bt_error_clear(void);

/* For callbacks: sets the message (format), returns `status`: return bt_fail(BT_ERROR_DATA, "row %d: no label", i); */
bt_status bt_fail(bt_status status, const char *message, ...) BT_FORMAT(2, 3);


/* BT_BF16 and BT_F16 are 16-bit storage formats. Arithmetic is done in f32 and rounded once, to the nearest (ties to
 * even). bf16 has the range of f32 and 8 bits of precision. f16 is IEEE 754's, with 11 bits and values up to 65504. */
typedef enum bt_dtype { BT_F32, BT_F64, BT_I32, BT_I64, BT_U8, BT_BOOL, BT_BF16, BT_F16 } bt_dtype;
typedef enum bt_device { BT_CPU, BT_CUDA } bt_device;
typedef enum bt_mode { BT_TRAIN, BT_VALID } bt_mode; /* BT_VALID: no dropout, running statistics, no changes */

/* A dense array, row-major, in the caller's memory. BT_ARRAY(x, rows, 3) makes one, with the dtype of the pointer
 * (float, double, int32_t, int64_t, uint8_t). BT_ARRAY(&loss), without sizes, is a single number. */
typedef struct bt_array {
    bt_dtype dtype;
    int rank;
    int64_t dims[BT_MAX_RANK];
    void *data; /* NULL if only the shape is known */
} bt_array;

bt_array bt_array_of(bt_dtype dtype, void *data, const int64_t *dims);
#define BT_ARRAY(...)                  BT_ARRAY_(__VA_ARGS__, BT_END)
#define BT_ARRAY_(pointer, ...)        bt_array_of(BT_DTYPE_(pointer), BT_DATA_(pointer), BT_SIZES_(__VA_ARGS__))
/* Also for data that is only read: bt_array serves both. */
#define BT_DATA_(pointer)              ((void *)(uintptr_t)(pointer))
#define BT_SIZES_(...)                 ((const int64_t[]){__VA_ARGS__})
#define BT_LIST_(function, first, ...) (function)((first), (const int64_t[]){__VA_ARGS__})
#define BT_TENSORS_(...)               ((bt_tensor *const[]){__VA_ARGS__})
#define BT_MODULES_(...)               ((bt_module *const[]){__VA_ARGS__})
/* clang-format off */
#define BT_DTYPE_(pointer)                                                                                             \
    _Generic((pointer), float *: BT_F32, const float *: BT_F32, double *: BT_F64, const double *: BT_F64,              \
             int32_t *: BT_I32, const int32_t *: BT_I32, int64_t *: BT_I64, const int64_t *: BT_I64,                   \
             uint8_t *: BT_U8, const uint8_t *: BT_U8)
/* clang-format on */
int64_t bt_array_count(bt_array array); /* number of elements; -1 if it cannot be computed */

/* A random number, uniform in [0, 1): element `element` of stream `stream`. The same on every machine (Philox). */
double bt_host_uniform(uint64_t seed, uint64_t stream, uint64_t element);

#ifdef __cplusplus
}
#endif
#endif
