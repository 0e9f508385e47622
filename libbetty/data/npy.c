/* data/npy.c: reads the header of a .npy file (NumPy's format, versions 1 to 3): the magic, the version, the length of
 * a Python dictionary, and the dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }. The
 * numbers follow, as they are in memory. */
#include "data/read.h"

#include <string.h>

enum { MOST_HEADER = 1 << 16 };

typedef struct dictionary { /* the dictionary being read */
    const char *path;
    char *text;
    int64_t at, size, first; /* first: its offset in the file */
} dictionary;

static bt_status wrong(const dictionary *d, const char *expected)
{
    return bt_fail(BT_ERROR_DATA, "%s, byte %lld: found \"%s\" in the header; expected %s", d->path,
                   (long long)(d->first + d->at), bt_show(d->text + d->at, d->size - d->at).text, expected);
}

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The next character that is not blank; 0: the end. */
static char next(dictionary *d)
{
    while (d->at < d->size && is_blank(d->text[d->at]))
        d->at++;
    return d->at < d->size ? d->text[d->at] : 0;
}

static bool skip(dictionary *d, char c)
{
    const bool here = next(d) == c;
    d->at += here;
    return here;
}

/* 'TEXT' or "TEXT"; a 0 replaces its closing quote. */
static bt_status read_string(dictionary *d, char **text)
{
    const char quote = next(d);
    if (quote != '\'' && quote != '"')
        return wrong(d, "a name in quotes");
    char *begin = d->text + d->at + 1, *end = memchr(begin, quote, (size_t)(d->size - d->at - 1));
    if (!end)
        return wrong(d, "a name with a closing quote");
    *end = 0;
    *text = begin;
    d->at = end + 1 - d->text;
    return BT_OK;
}

static bt_status read_dtype(dictionary *d, bt_npy *npy)
{
    static const struct {
        const char *text;
        bt_dtype dtype;
    } read[] = {{"<f4", BT_F32}, {"<f8", BT_F64}, {"<i4", BT_I32}, {"<i8", BT_I64}, {"|u1", BT_U8}, {"|b1", BT_U8}};
    const int64_t before = d->at;
    char *text;
    if (next(d) == '[')
        return wrong(d, "one type of number: records with several fields cannot be read; save each field as a file");
    BT_TRY(read_string(d, &text));
    for (int i = 0; i < BT_COUNT_OF(read); i++)
        if (strcmp(text, read[i].text) == 0) {
            npy->array.dtype = read[i].dtype;
            return BT_OK;
        }
    return bt_fail(BT_ERROR_UNSUPPORTED,
                   "%s, byte %lld: found numbers of type '%s'; expected <f4, <f8, <i4, <i8, |u1 or |b1: convert them, "
                   "with numpy.save(FILE, array.astype('<f4')) or '<i4'",
                   d->path, (long long)(d->first + before), bt_show(text, (int64_t)strlen(text)).text);
}

static bt_status read_order(dictionary *d, bool *fortran)
{
    next(d);
    const int64_t left = d->size - d->at;
    *fortran = left >= 4 && memcmp(d->text + d->at, "True", 4) == 0;
    if (!*fortran && (left < 5 || memcmp(d->text + d->at, "False", 5) != 0))
        return wrong(d, "True or False");
    d->at += *fortran ? 4 : 5;
    return BT_OK;
}

static bt_status read_shape(dictionary *d, bt_npy *npy)
{
    bt_array *a = &npy->array;
    if (!skip(d, '('))
        return wrong(d, "the sizes of the array in parentheses");
    for (a->rank = 0; !skip(d, ')');) {
        int64_t size = -1;
        for (char c = next(d); c >= '0' && c <= '9' && size <= (int64_t)1 << 48; c = d->text[++d->at])
            size = (size < 0 ? 0 : size) * 10 + (c - '0');
        if (size < 1 || size > (int64_t)1 << 48)
            return wrong(d, "a size of at least 1");
        if (a->rank == BT_MAX_RANK)
            return wrong(d, "at most 8 sizes");
        a->dims[a->rank++] = size;
        if (!skip(d, ',') && next(d) != ')')
            return wrong(d, "a comma or the closing parenthesis");
    }
    return BT_OK;
}

static bt_status read_entry(dictionary *d, bt_npy *npy, bool *fortran, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const int64_t before = d->at;
    char *key;
    int which = 0;
    BT_TRY(read_string(d, &key));
    while (which < BT_COUNT_OF(keys) && strcmp(key, keys[which]) != 0)
        which++;
    if (which == BT_COUNT_OF(keys) || *seen & 1U << which)
        return bt_fail(BT_ERROR_DATA,
                       "%s, byte %lld: found the entry \"%s\"%s; expected descr, fortran_order and shape", d->path,
                       (long long)(d->first + before), bt_show(key, (int64_t)strlen(key)).text,
                       which == BT_COUNT_OF(keys) ? "" : " once more");
    *seen |= 1U << which;
    if (!skip(d, ':'))
        return wrong(d, "a colon");
    return which == 0 ? read_dtype(d, npy) : which == 1 ? read_order(d, fortran) : read_shape(d, npy);
}

static bt_status read_dictionary(dictionary *d, bt_npy *npy, bool *fortran)
{
    unsigned seen = 0;
    if (!skip(d, '{'))
        return wrong(d, "a dictionary: {'descr': ...");
    while (!skip(d, '}')) {
        BT_TRY(read_entry(d, npy, fortran, &seen));
        if (!skip(d, ',') && next(d) != '}')
            return wrong(d, "a comma or the closing brace");
    }
    if (next(d))
        return wrong(d, "nothing after the dictionary");
    if (seen != 7)
        return bt_fail(BT_ERROR_DATA, "%s, byte %lld: the header lacks %s", d->path, (long long)d->first,
                       !(seen & 1)   ? "'descr'"
                       : !(seen & 2) ? "'fortran_order'"
                                     : "'shape'");
    return BT_OK;
}

/* Checks that the file has the size that the header says, and that the numbers are aligned for use in place. */
static bt_status check(const dictionary *d, const bt_npy *npy, bool fortran, int64_t size)
{
    const bt_array *a = &npy->array;
    char shape[256];
    size_t bytes = bt_dtype_size(a->dtype);
    bool fits = true;
    for (int i = 0; i < a->rank; i++)
        fits = fits && bt_mul_size(bytes, (size_t)a->dims[i], &bytes);
    bt_shape_text(shape, a->rank, a->dims);
    if (a->rank < 1)
        return bt_fail(BT_ERROR_SHAPE,
                       "%s: found a single number; expected an array whose first axis counts the examples", d->path);
    if (a->dims[0] > BT_MAX_EXAMPLES)
        return bt_fail(BT_ERROR_DATA, "%s: the array is of shape %s; expected at most %d examples", d->path, shape,
                       BT_MAX_EXAMPLES);
    if (fortran && a->rank > 1)
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "%s: the array is stored by columns (fortran_order); save it by rows, with numpy.save(FILE, "
                       "numpy.ascontiguousarray(array))",
                       d->path);
    if (!fits || bytes > INT64_MAX / 4 || (int64_t)bytes != size - npy->offset)
        return bt_fail(BT_ERROR_DATA,
                       "%s: its header promises %s numbers of %zu bytes; found %lld bytes after the header", d->path,
                       shape, bt_dtype_size(a->dtype), (long long)(size - npy->offset));
    if (npy->offset % (int64_t)bt_dtype_size(a->dtype))
        return bt_fail(BT_ERROR_UNSUPPORTED,
                       "%s: the numbers begin at byte %lld, which is not a multiple of their size; save the file again "
                       "with numpy.save",
                       d->path, (long long)npy->offset);
    return BT_OK;
}

static bt_status read_header(bt_source *source, dictionary *d, bt_npy *npy)
{
    unsigned char head[12] = {0};
    int64_t got;
    BT_TRY(bt_source_read(source, head, 10, &got));
    if (got < 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return bt_fail(BT_ERROR_DATA, "%s, byte 0: not a .npy file: it does not begin with \\x93NUMPY", d->path);
    if (head[6] < 1 || head[6] > 3 || head[7])
        return bt_fail(BT_ERROR_UNSUPPORTED, "%s, byte 6: found version %d.%d of the format; expected 1.0, 2.0 or 3.0",
                       d->path, head[6], head[7]);
    if (head[6] > 1) {
        BT_TRY(bt_source_read(source, head + 10, 2, &got));
        if (got < 2)
            return bt_fail(BT_ERROR_DATA, "%s: the file ends within its header", d->path);
    }
    d->first = head[6] > 1 ? 12 : 10;
    d->size = head[8] | head[9] << 8 | head[10] << 16 | (int64_t)head[11] << 24;
    if (d->size < 1 || d->size > MOST_HEADER)
        return bt_fail(BT_ERROR_DATA, "%s, byte 8: found a header of %lld bytes; expected 1 to %d", d->path,
                       (long long)d->size, MOST_HEADER);
    npy->offset = d->first + d->size;
    d->text = bt_alloc((size_t)d->size + 1);
    if (!d->text)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_source_read(source, d->text, d->size, &got));
    return got == d->size ? BT_OK : bt_fail(BT_ERROR_DATA, "%s: the file ends within its header", d->path);
}

bt_status bt_read_npy(const char *path, bt_npy *npy)
{
    bt_source *source = bt_source_open(path);
    dictionary d = {.path = path};
    bool fortran = false;
    *npy = (bt_npy){0};
    if (!source)
        return bt_error_status();
    const int64_t size = bt_source_size(source);
    bt_status status = read_header(source, &d, npy);
    bt_source_close(source);
    if (status == BT_OK && size < 0)
        status = bt_fail(BT_ERROR_UNSUPPORTED,
                         "%s: the file is compressed by gzip and cannot be mapped into memory; unpack it", path);
    if (status == BT_OK)
        status = read_dictionary(&d, npy, &fortran);
    if (status == BT_OK)
        status = check(&d, npy, fortran, size);
    bt_free(d.text);
    return status;
}
