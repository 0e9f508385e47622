/* base/base.h: what every file of the library may use: memory, text, errors, hashing, dtypes. */
#ifndef BT_BASE_H
#define BT_BASE_H

#include <betty/base.h>
#include <stdarg.h>

#define BT_COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))
#define BT_ALIGN           ((size_t)64) /* of every buffer: the size of a cache line and of a vector register */

/* Returns from the enclosing function if `expression` is a status other than BT_OK. */
#define BT_TRY(expression)                                                                                             \
    do {                                                                                                               \
        bt_status status_ = (expression);                                                                              \
        if (status_ != BT_OK)                                                                                          \
            return status_;                                                                                            \
    } while (0)

/* ---- memory.c: every allocation of the library goes through these; NULL after bt_fail(BT_ERROR_MEMORY) ---- */

void *bt_alloc(size_t size);                     /* zeroed; size 0 gives a valid pointer */
void *bt_alloc_array(size_t count, size_t size); /* zeroed; checked for overflow */
void *bt_grow(void *items, int64_t *capacity, int64_t count,
              size_t size);        /* makes room for `count` items; on NULL, `items` is still valid */
char *bt_strdup(const char *text); /* NULL gives NULL */
void bt_free(void *memory);
void *bt_alloc_aligned(size_t size); /* aligned to BT_ALIGN, zeroed; counted by bt_live_bytes */
void bt_free_aligned(void *memory);
size_t bt_live_bytes(void);                           /* held by bt_alloc_aligned: the sizes that were asked for */
bool bt_mul_size(size_t a, size_t b, size_t *result); /* false on overflow */
bool bt_add_size(size_t a, size_t b, size_t *result);
size_t bt_align_up(size_t size); /* rounds up to BT_ALIGN; SIZE_MAX on overflow */

/* A region: many small pieces, freed together. */
typedef struct bt_region bt_region;
bt_region *bt_region_new(void);
void *bt_region_alloc(bt_region *region, size_t size); /* zeroed, aligned to 16; NULL: out of memory */
void *bt_region_copy(bt_region *region, const void *from, size_t size);
char *bt_region_format(bt_region *region, const char *format, ...) BT_FORMAT(2, 3);
void bt_region_free(bt_region *region);

/* ---- machine.c ---- */

double bt_seconds(void); /* monotonic */
int bt_cores(void);      /* how many cores this process may use; at least 1 */

/* installed.c: finds PREFIX/folder if it holds `file`. The program or the library is PREFIX/bin/NAME or lies below
 * PREFIX/lib. *found: free with bt_free; NULL: not found. */
bt_status bt_installed(const char *folder, const char *file, char **found);

/* ---- text.c ---- */

typedef struct bt_text { /* a growing string; starts as {0}; data is NULL while empty */
    char *data;
    int64_t size, capacity;
    bool failed;
} bt_text;
void bt_text_add(bt_text *text, const char *format, ...) BT_FORMAT(2, 3);
void bt_text_vadd(bt_text *text, const char *format, va_list args);
void bt_text_put(bt_text *text, const void *data, size_t size); /* any bytes */
void bt_text_free(bt_text *text);
const char *bt_text_get(const bt_text *text); /* never NULL */

/* The next word of a list separated by ',' or '|', without surrounding blanks; NULL after the last word. Empty words
 * have length 0. Set *list to the beginning of the text first. */
const char *bt_word_next(const char **list, char separator, size_t *length);

/* Whether the pattern of `length` characters matches the whole name. * stands for any text, as short as possible, and ?
 * for any one character. parts receives what each * stands for, up to `most` of them; it may be NULL. *count: the
 * number of stars. */
typedef struct bt_star {
    const char *text;
    size_t length;
} bt_star;
bool bt_match(const char *pattern, size_t length, const char *name, bt_star *parts, int most, int *count);
/* Whether `name` ("layer2.0.weight") matches one of the comma-separated patterns ("layer0.*, *.bias"). */
bool bt_pattern_match(const char *patterns, const char *name);

/* The entry of the NULL-terminated list with the smallest edit distance to `word`; NULL if none is close. */
const char *bt_nearest(const char *word, const char *const *list);

/* "48 B", "1.9 KiB", "20.0 MiB"; the buffer has at least 32 bytes. */
const char *bt_bytes_text(char *buffer, size_t bytes);

/* The length in bytes of the text's first character; 0 if it is not valid UTF-8 or the text is empty. Names in C code
 * that checkpoints store must be UTF-8, because JSON allows nothing else. */
size_t bt_utf8_bytes(const char *text);
bool bt_is_utf8(const char *text);

/* Whether a text has control characters, which a terminal would obey. bt_show_controls writes them as \xHH, except
 * newlines and tabs. A text that does not fit ends with dots. */
bool bt_has_controls(const char *text);
void bt_show_controls(char *to, size_t room, const char *text);

/* A new string; free it with bt_free. NULL: out of memory. */
char *bt_string(const char *format, ...) BT_FORMAT(1, 2);
char *bt_format(const char *format, va_list args);

/* ---- status.c ---- */

void bt_error_context(const char *format, ...) BT_FORMAT(1, 2); /* puts "TEXT: " before the message, if there is one */
bt_status bt_error_status(void);                                /* status of the first failure; BT_OK if none */

/* The first failure, set aside during a clean-up and then restored. */
typedef struct bt_failure {
    bt_status status; /* BT_OK: there was none */
    char *message;
} bt_failure;

bt_failure bt_failure_take(void);
void bt_failure_give(bt_failure *failure); /* if another failure has happened since, that one is kept */

/* ---- guest.c: the user's code that runs on this thread, so that a crash handler can name it ---- */

typedef struct bt_guest { /* texts that live as long as the call; NULL: unknown, or library code runs */
    const char *file;     /* "problem.c" */
    const char *owner;    /* the problem, the optimiser */
    const char *function; /* "training_step" */
} bt_guest;
bt_guest bt_guest_enter(bt_guest guest); /* returns the guest before, for bt_guest_leave */
void bt_guest_leave(bt_guest before);
bt_guest bt_guest_now(void); /* may be called in a signal handler */

/* ---- hash.c ---- */

uint64_t bt_hash(uint64_t seed, const void *data,
                 size_t size); /* 64 bits, for tables and fingerprints; not for security */
uint64_t bt_hash_text(uint64_t seed, const char *text);

/* ---- dtype.c ---- */

size_t bt_dtype_size(bt_dtype dtype);
const char *bt_dtype_name(bt_dtype dtype); /* "f32" */
bool bt_dtype_floats(bt_dtype dtype);
bool bt_dtype_half(bt_dtype dtype);                  /* a floating dtype of 16 bits */
double bt_dtype_round(bt_dtype dtype, double value); /* the value after a round trip through bt_put and bt_get */
size_t bt_array_bytes(bt_array array);               /* SIZE_MAX on overflow */
bool bt_shape_same(bt_array a, bt_array b);
bool bt_array_same(bt_array a, bt_array b);                             /* shape and dtype */
const char *bt_shape_text(char *buffer, int rank, const int64_t *dims); /* "[100, 784]"; the buffer has 256 bytes */
/* Element i as a number, for any dtype. bt_put converts back: it rounds to floating dtypes, and truncates and clamps to
 * integers. */
double bt_get(bt_dtype dtype, const void *data, int64_t i);
void bt_put(bt_dtype dtype, void *data, int64_t i, double value);
bt_status bt_array_convert(bt_array to, bt_array from); /* both must have the same element count */

/* ---- the random generator is in philox.h ---- */

#endif
