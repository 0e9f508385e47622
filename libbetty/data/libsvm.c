/* data/libsvm.c: reads tables in libsvm's format: each line is a target followed by INDEX:VALUE entries. Indices start
 * at 1 and increase, unless the form says otherwise. */
#include "data/read.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FEATURES = 1 << 24 };

const char *const bt_sparse_fields[BT_SPARSE_FIELDS] = {"x.value", "x.column", "y"};

typedef struct entry {
    int32_t row, feature;
    double value;
} entry;

typedef struct libsvm {
    bt_source *source;
    const char *path;
    bool only_width;
    bt_libsvm_form form;
    int32_t *seen; /* the indices of a line, if any order is allowed */
    int64_t seen_count, seen_room;
    int64_t line, features;
    entry *entries;
    int64_t count, room;
    double *y;
    int64_t rows, y_room;
} libsvm;

static bt_status wrong(const libsvm *s, const char *token, int64_t length, const char *expected)
{
    return bt_fail(BT_ERROR_DATA, "%s, line %lld: found \"%s\"; expected %s", s->path, (long long)s->line,
                   bt_show(token, length).text, expected);
}

static bt_status add_target(libsvm *s, const char *token, int64_t length)
{
    double value;
    if (bt_read_number(token, length, &value) != BT_NUMERAL)
        return wrong(s, token, length, "the target, a number such as -1, +1 or 0.5");
    if (s->rows == BT_MAX_EXAMPLES)
        return bt_fail(BT_ERROR_DATA, "%s, line %lld: more than %lld rows", s->path, (long long)s->line,
                       (long long)BT_MAX_EXAMPLES);
    double *y = bt_grow(s->y, &s->y_room, s->rows + 1, sizeof *y);
    if (!y)
        return BT_ERROR_MEMORY;
    s->y = y;
    s->y[s->rows++] = value;
    return BT_OK;
}

static bt_status note_index(libsvm *s, int64_t index)
{
    int32_t *seen = bt_grow(s->seen, &s->seen_room, s->seen_count + 1, sizeof *seen);
    if (!seen)
        return BT_ERROR_MEMORY;
    s->seen = seen;
    s->seen[s->seen_count++] = (int32_t)index;
    return BT_OK;
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Checks for duplicates at the end of a line whose indices may be in any order. */
static bt_status check_twice(libsvm *s)
{
    if (s->seen_count > 1)
        qsort(s->seen, (size_t)s->seen_count, sizeof *s->seen, ascending);
    for (int64_t i = 1; i < s->seen_count; i++)
        if (s->seen[i] == s->seen[i - 1])
            return bt_fail(BT_ERROR_DATA, "%s, line %lld: index %d occurs twice; expected each index once", s->path,
                           (long long)s->line, (int)s->seen[i] - s->form.from_zero);
    s->seen_count = 0;
    return BT_OK;
}

/* Reads INDEX:VALUE; *before is the previous index of the line. */
static bt_status add_entry(libsvm *s, const char *token, int64_t length, int64_t *before)
{
    int64_t index = 0, i = 0;
    for (; i < length && token[i] >= '0' && token[i] <= '9' && index <= MOST_FEATURES; i++)
        index = 10 * index + (token[i] - '0');
    if (i == 0 || (index <= MOST_FEATURES && (i == length || token[i] != ':')))
        return wrong(s, token, length, "INDEX:VALUE, such as 3:0.5");
    if (index > MOST_FEATURES)
        return wrong(s, token, length, "an index of at most 16777216");
    if (index == 0 && !s->form.from_zero)
        return wrong(
            s, token, length,
            "an index of at least 1: libsvm counts features from 1; \"FILE:from_zero\" reads a file that counts "
            "from 0");
    index += s->form.from_zero; /* now counted from 1 */
    if (s->form.any_order)
        BT_TRY(note_index(s, index));
    else if (index <= *before)
        return wrong(s, token, length,
                     "a larger index than the one before it: indices increase within a line; \"FILE:any_order\" reads "
                     "a file where they do not");
    double value;
    bt_numeral kind = bt_read_number(token + i + 1, length - i - 1, &value);
    if (kind != BT_NUMERAL)
        return wrong(s, token, length,
                     kind == BT_NUMERAL_LARGE ? "a value that a double can hold" : "a number after the colon");
    *before = index;
    if (index > s->features)
        s->features = index;
    if (s->only_width || value == 0)
        return BT_OK;
    entry *entries = bt_grow(s->entries, &s->room, s->count + 1, sizeof *entries);
    if (!entries)
        return BT_ERROR_MEMORY;
    s->entries = entries;
    s->entries[s->count++] = (entry){(int32_t)(s->rows - 1), (int32_t)(index - 1), value};
    return BT_OK;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Reads up to the end or to #, which starts a comment. */
static bt_status read_line(libsvm *s, const char *line, int64_t length)
{
    int64_t before = 0, at = 0;
    bool first = true;
    for (;;) {
        while (at < length && is_blank(line[at]))
            at++;
        if (at == length || line[at] == '#')
            return check_twice(s);
        int64_t begin = at;
        while (at < length && !is_blank(line[at]) && line[at] != '#')
            at++;
        if (first)
            BT_TRY(add_target(s, line + begin, at - begin));
        else
            BT_TRY(add_entry(s, line + begin, at - begin, &before));
        first = false;
    }
}

static bt_status read_all(libsvm *s)
{
    const char *line;
    int64_t length;
    for (;;) {
        BT_TRY(bt_source_line(s->source, &line, &length));
        if (!line)
            break;
        s->line++;
        BT_TRY(read_line(s, line, length));
    }
    if (!s->rows || !s->features)
        return bt_fail(BT_ERROR_DATA, "%s: %s; expected lines such as \"+1 3:0.5 7:1\"", s->path,
                       s->rows ? "no line has a feature" : "no rows");
    return BT_OK;
}

static bt_status make_dense(const libsvm *s, double **x)
{
    BT_TRY(bt_check_dense(s->path, s->rows, s->features, sizeof **x));
    *x = bt_alloc_array((size_t)(s->rows * s->features), sizeof **x);
    if (!*x)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < s->count; i++)
        (*x)[s->entries[i].row * s->features + s->entries[i].feature] = s->entries[i].value;
    return BT_OK;
}

/* Stores the entries of each row in order, padded to the length of the longest row. */
static void lay_rows(const libsvm *s, int64_t width, double *values, int32_t *columns)
{
    int64_t at = 0;
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t k = 0; at < s->count && s->entries[at].row == row; at++, k++) {
            values[row * width + k] = s->entries[at].value;
            columns[row * width + k] = s->entries[at].feature;
        }
}

static int64_t longest_row(const libsvm *s)
{
    int64_t longest = 1, length = 0;
    for (int64_t i = 0; i < s->count; i++) {
        length = i && s->entries[i].row == s->entries[i - 1].row ? length + 1 : 1;
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Takes the targets over, also on failure. */
static bt_dataset *make_sparse(const libsvm *s, bt_store *targets)
{
    const int64_t width = longest_row(s), dims[] = {s->rows, width};
    bt_array array = {.dtype = BT_I32, .rank = 2, .dims = {s->rows, width}};
    double *values = NULL;
    if (bt_check_dense(s->path, s->rows, width, sizeof *values) == BT_OK) {
        values = bt_alloc_array((size_t)(s->rows * width), sizeof *values);
        array.data = bt_alloc_array((size_t)(s->rows * width), sizeof(int32_t));
    }
    if (!values || !array.data) {
        bt_free(values);
        bt_free(array.data);
        bt_store_release(targets);
        return NULL;
    }
    lay_rows(s, width, values, array.data);
    bt_store *columns = bt_store_new(array, false);
    if (columns)
        columns->below = s->features;
    return bt_dataset_of(bt_dataset_new(s->rows), bt_sparse_fields,
                         (bt_store *[]){bt_store_numbers(values, 2, dims), columns, targets}, BT_SPARSE_FIELDS);
}

static bt_status scan(libsvm *s)
{
    s->source = bt_source_open(s->path);
    bt_status status = s->source ? read_all(s) : bt_error_status();
    bt_source_close(s->source);
    bt_free(s->seen);
    return status;
}

bt_status bt_libsvm_form_of(const char *path, const char *words, bt_libsvm_form *form)
{
    *form = (bt_libsvm_form){0};
    size_t length;
    for (const char *word; words && (word = bt_word_next(&words, ',', &length)) != NULL;) {
        bool zero = length == strlen("from_zero") && strncmp(word, "from_zero", length) == 0;
        bool any = length == strlen("any_order") && strncmp(word, "any_order", length) == 0;
        bool sparse = length == strlen("sparse") && strncmp(word, "sparse", length) == 0;
        if (!zero && !any && !sparse)
            return bt_fail(
                BT_ERROR_DATA,
                "%s: the target column is given as \"%s\", but in a libsvm file the target is always first; here you "
                "can give from_zero, any_order and sparse, one or more: FILE:from_zero,any_order",
                path, bt_show(word, (int64_t)length).text);
        form->from_zero |= zero;
        form->any_order |= any;
        form->sparse |= sparse;
    }
    return BT_OK;
}

bt_status bt_libsvm_width(const char *path, bt_libsvm_form form, int64_t *features)
{
    libsvm s = {.path = path, .only_width = true, .form = form};
    bt_status status = scan(&s);
    bt_free(s.y);
    *features = s.features;
    return status;
}

bt_dataset *bt_read_libsvm(const char *path, bt_libsvm_form form, int64_t features)
{
    libsvm s = {.path = path, .features = features, .form = form};
    double *x = NULL;
    bt_status status = scan(&s);
    if (status == BT_OK && !form.sparse)
        status = make_dense(&s, &x);
    if (status != BT_OK) {
        bt_free(s.entries);
        bt_free(s.y);
        return NULL;
    }
    bt_store *targets = bt_store_numbers(s.y, 1, (int64_t[]){s.rows});
    bt_dataset *data = form.sparse ? make_sparse(&s, targets) : NULL;
    bt_free(s.entries);
    if (form.sparse)
        return data;
    bt_store *values = bt_store_numbers(x, 2, (int64_t[]){s.rows, s.features});
    return bt_dataset_of(bt_dataset_new(s.rows), (const char *const[]){"x", "y"}, (bt_store *[]){values, targets}, 2);
}
