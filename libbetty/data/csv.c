/* data/csv.c: reads tables of numbers as CSV (RFC 4180): quoted fields may contain delimiters, line ends and doubled
 * quotes. */
#include "data/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_RECORD = 1 << 26 };

typedef struct record { /* the fields of a record, each null-terminated */
    char *text;
    int64_t size, capacity;
    int64_t *starts; /* of the fields in text; plus one for the end */
    int64_t fields, room;
    int64_t line; /* where it begins, from 1 */
} record;

typedef struct csv {
    bt_source *source;
    const char *path, *wanted; /* wanted: the requested target */
    int delimiter;             /* 0: not yet known */
    int64_t line;              /* of the next byte */
    int held;                  /* a byte read ahead; -2: none */
    record now, header;
    bool has_header;
    int64_t target, columns;
    double *x, *y;
    int64_t x_room, y_room, rows;
} csv;

static int next_byte(csv *c)
{
    int byte = c->held != -2 ? c->held : bt_source_byte(c->source);
    c->held = -2;
    if (byte == '\r') { /* a line ends with \n, \r\n or \r */
        int after = bt_source_byte(c->source);
        if (after != '\n')
            c->held = after;
        byte = '\n';
    }
    if (byte == '\n')
        c->line++;
    return byte;
}

static bt_status put(csv *c, int byte)
{
    record *r = &c->now;
    if (r->size >= LONGEST_RECORD)
        return bt_fail(BT_ERROR_DATA, "%s, line %lld: a record of more than %d MiB; is a quote not closed?", c->path,
                       (long long)r->line, LONGEST_RECORD >> 20);
    char *text = bt_grow(r->text, &r->capacity, r->size + 1, 1);
    if (!text)
        return BT_ERROR_MEMORY;
    r->text = text;
    r->text[r->size++] = (char)byte;
    return BT_OK;
}

static bt_status begin_field(csv *c)
{
    record *r = &c->now;
    int64_t *starts = bt_grow(r->starts, &r->room, r->fields + 2, sizeof *starts);
    if (!starts)
        return BT_ERROR_MEMORY;
    r->starts = starts;
    r->starts[r->fields++] = r->size;
    return BT_OK;
}

/* Reads on after the opening quote. *after is what follows the closing one. */
static bt_status read_quoted(csv *c, int *after)
{
    int64_t line = c->line;
    for (;;) {
        int byte = next_byte(c);
        if (byte < 0) {
            BT_TRY(bt_source_status(c->source));
            return bt_fail(BT_ERROR_DATA, "%s, line %lld: the quote that opens here is not closed", c->path,
                           (long long)line);
        }
        if (byte == '"') {
            *after = next_byte(c);
            if (*after != '"')
                break;
        }
        BT_TRY(put(c, byte));
    }
    if (*after >= 0 && *after != '\n' && *after != c->delimiter)
        return bt_fail(BT_ERROR_DATA,
                       "%s, line %lld, column %lld: found %s after a closing quote; expected the delimiter", c->path,
                       (long long)c->line, (long long)c->now.fields, bt_show(&(char){(char)*after}, 1).text);
    return BT_OK;
}

/* Reads a field. *end is what ended it: a delimiter, a line end or the end of the file. */
static bt_status read_field(csv *c, int first, int *end)
{
    BT_TRY(begin_field(c));
    int byte = first;
    if (byte == '"') {
        BT_TRY(read_quoted(c, &byte));
    } else {
        for (; byte >= 0 && byte != '\n' && byte != c->delimiter; byte = next_byte(c))
            BT_TRY(put(c, byte));
    }
    *end = byte;
    return put(c, 0);
}

static bt_status read_fields(csv *c, int byte)
{
    c->now.size = c->now.fields = 0;
    BT_TRY(read_field(c, byte, &byte));
    while (byte == c->delimiter)
        BT_TRY(read_field(c, next_byte(c), &byte));
    BT_TRY(bt_source_status(c->source));
    c->now.starts[c->now.fields] = c->now.size;
    return BT_OK;
}

static bool is_blank(const record *r) { return r->fields == 1 && r->text[strspn(r->text, " \t")] == 0; }

/* The next record that is not a blank line; *got is false at the end. */
static bt_status read_record(csv *c, bool *got)
{
    do {
        c->now.line = c->line;
        int byte = next_byte(c);
        *got = byte >= 0;
        if (byte < 0)
            return bt_source_status(c->source);
        BT_TRY(read_fields(c, byte));
    } while (is_blank(&c->now));
    return BT_OK;
}

static const char *field(const record *r, int64_t column, int64_t *length)
{
    *length = r->starts[column + 1] - r->starts[column] - 1;
    return r->text + r->starts[column];
}

/* ---- header and target ---- */

/* The first record is a header if at least half of its fields are text. */
static bool is_header(const record *r)
{
    int64_t text = 0;
    for (int64_t i = 0; i < r->fields; i++) {
        int64_t length;
        double value;
        const char *at = field(r, i, &length);
        text += bt_read_number(at, length, &value) == BT_NUMERAL_TEXT;
    }
    return 2 * text >= r->fields;
}

/* The name of a column without surrounding blanks; to be freed. */
static char *name_of(const csv *c, int64_t column)
{
    int64_t length;
    const char *name = field(&c->header, column, &length);
    for (; length && (*name == ' ' || *name == '\t'); name++)
        length--;
    while (length && (name[length - 1] == ' ' || name[length - 1] == '\t'))
        length--;
    return bt_string("%.*s", (int)length, name);
}

typedef struct title {
    char *name;
    int64_t column;
} title;

static int by_name(const void *a, const void *b)
{
    const title *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->column > y->column) - (x->column < y->column);
}

/* Refuses two columns of the same name, because a target could mean either. Several columns may have no name. */
static bt_status check_names(const csv *c)
{
    bt_status status = BT_OK;
    title *titles = bt_alloc_array((size_t)c->columns, sizeof *titles);
    bool made = titles != NULL;
    for (int64_t i = 0; made && i < c->columns; i++) {
        titles[i] = (title){name_of(c, i), i};
        made = titles[i].name != NULL;
    }
    if (made)
        qsort(titles, (size_t)c->columns, sizeof *titles, by_name);
    for (int64_t i = 1; made && status == BT_OK && i < c->columns; i++)
        if (*titles[i].name && strcmp(titles[i - 1].name, titles[i].name) == 0)
            status = bt_fail(
                BT_ERROR_DATA, "%s, line %lld: columns %lld and %lld are both called \"%s\"; expected each name once",
                c->path, (long long)c->header.line, (long long)titles[i - 1].column + 1,
                (long long)titles[i].column + 1, bt_show(titles[i].name, (int64_t)strlen(titles[i].name)).text);
    for (int64_t i = 0; titles && i < c->columns; i++)
        bt_free(titles[i].name);
    bt_free(titles);
    return made ? status : BT_ERROR_MEMORY;
}

static bool is_called(const csv *c, int64_t column, const char *wanted)
{
    int64_t length;
    const char *name = field(&c->header, column, &length);
    size_t size = strlen(wanted), blank = strspn(name, " \t");
    return strncmp(name + blank, wanted, size) == 0 && !name[blank + size + strspn(name + blank + size, " \t")];
}

static bt_status find_target(csv *c)
{
    c->target = c->columns - 1;
    if (!c->wanted)
        return BT_OK;
    for (int64_t i = 0; c->has_header && i < c->columns; i++)
        if (is_called(c, i, c->wanted)) {
            c->target = i;
            return BT_OK;
        }
    char *end;
    long long number = strtoll(c->wanted, &end, 10);
    if (*c->wanted >= '0' && *c->wanted <= '9' && !*end && number >= 1 && number <= c->columns) {
        c->target = number - 1;
        return BT_OK;
    }
    bt_text names = {0};
    for (int64_t i = 0; c->has_header && i < c->columns && i < 40; i++) {
        int64_t length;
        const char *at = field(&c->header, i, &length);
        bt_text_add(&names, "%s\"%s\"", i ? ", " : "; its columns: ", bt_show(at, length).text);
    }
    bt_status status =
        bt_fail(BT_ERROR_DATA, "%s: there is no target column \"%s\"; expected a number from 1 to %lld%s%s", c->path,
                bt_show(c->wanted, (int64_t)strlen(c->wanted)).text, (long long)c->columns,
                c->has_header ? " or a name" : " (the file has no header line)", bt_text_get(&names));
    bt_text_free(&names);
    return status;
}

/* ---- rows ---- */

static bt_status wrong_cell(const csv *c, int64_t column, bt_numeral kind)
{
    int64_t length, name_length;
    char found[80], name[64] = "";
    const char *text = field(&c->now, column, &length);
    if (c->has_header) {
        const char *at = field(&c->header, column, &name_length);
        snprintf(name, sizeof name, " (%s)", bt_show(at, name_length).text);
    }
    return bt_fail(BT_ERROR_DATA, "%s, line %lld, column %lld%s: found %s; expected a number%s", c->path,
                   (long long)c->now.line, (long long)column + 1, name, bt_numeral_text(found, kind, text, length),
                   c->rows == 0 && !c->has_header
                       ? " (the first line is not taken as a header, because more than half of its fields are numbers)"
                   : kind == BT_NUMERAL_MISSING ? ": fill it in, or remove the row"
                   : kind == BT_NUMERAL_TEXT    ? ": encode text as numbers, or remove the column"
                                                : "");
}

static bt_status add_row(csv *c)
{
    if (c->now.fields != c->columns)
        return bt_fail(BT_ERROR_DATA, "%s, line %lld: found %lld field%s; expected %lld, as in the %s", c->path,
                       (long long)c->now.line, (long long)c->now.fields, c->now.fields == 1 ? "" : "s",
                       (long long)c->columns, c->has_header ? "header line" : "lines before");
    if (c->rows == BT_MAX_EXAMPLES)
        return bt_fail(BT_ERROR_DATA, "%s, line %lld: more than %lld rows", c->path, (long long)c->now.line,
                       (long long)BT_MAX_EXAMPLES);
    int64_t features = c->columns - 1;
    double *x = bt_grow(c->x, &c->x_room, (c->rows + 1) * features, sizeof *x);
    c->x = x ? x : c->x;
    double *y = x ? bt_grow(c->y, &c->y_room, c->rows + 1, sizeof *y) : NULL;
    c->y = y ? y : c->y;
    if (!y)
        return BT_ERROR_MEMORY;
    double *to = c->x + c->rows * features;
    for (int64_t i = 0; i < c->columns; i++) {
        int64_t length;
        double value;
        const char *text = field(&c->now, i, &length);
        bt_numeral kind = bt_read_number(text, length, &value);
        if (kind != BT_NUMERAL)
            return wrong_cell(c, i, kind);
        if (i == c->target)
            c->y[c->rows] = value;
        else
            *to++ = value;
    }
    c->rows++;
    return BT_OK;
}

/* Reads the first record, which gives the number of columns and, if it is a header, their names. */
static bt_status read_first(csv *c)
{
    bool got;
    BT_TRY(read_record(c, &got));
    if (!got)
        return bt_fail(BT_ERROR_DATA, "%s: the file is empty; expected rows of numbers", c->path);
    c->columns = c->now.fields;
    if (c->columns < 2)
        return bt_fail(BT_ERROR_DATA,
                       "%s, line %lld: found one column; expected at least two, separated by commas: features and the "
                       "target",
                       c->path, (long long)c->now.line);
    c->has_header = is_header(&c->now);
    if (c->has_header) {
        c->header = c->now;
        c->now = (record){0};
        BT_TRY(check_names(c));
    }
    BT_TRY(find_target(c));
    return c->has_header ? BT_OK : add_row(c);
}

static bt_status read_rows(csv *c)
{
    bool got = true;
    BT_TRY(read_first(c));
    while (got) {
        BT_TRY(read_record(c, &got));
        if (got)
            BT_TRY(add_row(c));
    }
    return c->rows ? BT_OK
                   : bt_fail(BT_ERROR_DATA, "%s: there are no rows of numbers%s", c->path,
                             c->has_header ? " after the header" : "");
}

/* Finds the delimiter: the first of comma, semicolon and tab, in this order, that occurs in the first line outside
 * quotes. *marked: the line starts with a byte order mark. */
static bt_status look_at_first_line(const char *path, int *delimiter, bool *marked)
{
    bt_source *source = bt_source_open(path);
    const char *line = NULL;
    int64_t length = 0, commas = 0, semicolons = 0, tabs = 0;
    if (!source)
        return bt_error_status();
    bt_status status = bt_source_line(source, &line, &length);
    bool quoted = false;
    for (int64_t i = 0; status == BT_OK && line && i < length; i++) {
        quoted ^= line[i] == '"';
        commas += !quoted && line[i] == ',';
        semicolons += !quoted && line[i] == ';';
        tabs += !quoted && line[i] == '\t';
    }
    *marked = status == BT_OK && line && length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0;
    *delimiter = commas ? ',' : semicolons ? ';' : tabs ? '\t' : ',';
    bt_source_close(source);
    return status;
}

/* Whether the first column has no name and numbers the rows from 0 (pandas) or 1 (R). */
static bool has_index(const csv *c)
{
    if (!c->has_header || c->target == 0 || !(is_called(c, 0, "") || is_called(c, 0, "Unnamed: 0")))
        return false;
    const double first = c->x[0];
    for (int64_t i = 0; i < c->rows; i++)
        if (c->x[i * (c->columns - 1)] != first + (double)i)
            return false;
    return first == 0 || first == 1;
}

/* Stores the names of x's columns, and a note if something is odd about them. */
static bt_status describe(const csv *c, bool index, bt_store *x)
{
    if (!c->has_header)
        return BT_OK;
    x->names = bt_alloc_array((size_t)c->columns - 1, sizeof *x->names);
    x->name_count = x->names ? c->columns - 1 : 0;
    for (int64_t i = 0, k = 0; x->names && i < c->columns; i++)
        if (i != c->target && !(x->names[k++] = name_of(c, i)))
            return BT_ERROR_MEMORY;
    if (index)
        x->note = bt_string("%s: column 1 has no name and counts the rows, as an index written by pandas or R does; it "
                            "is now a feature; bt_dataset_drop(data, \"1\") removes it",
                            c->path);
    return x->names && (x->note || !index) ? BT_OK : BT_ERROR_MEMORY;
}

static bt_dataset *take_table(csv *c)
{
    const bool index = has_index(c);
    bt_dataset *data = bt_dataset_new(c->rows);
    bt_store *x = bt_store_numbers(c->x, 2, (int64_t[]){c->rows, c->columns - 1});
    bt_store *y = bt_store_numbers(c->y, 1, (int64_t[]){c->rows});
    c->x = c->y = NULL;
    if (x && describe(c, index, x) != BT_OK) {
        bt_store_release(x);
        x = NULL;
    }
    return bt_dataset_of(data, (const char *const[]){"x", "y"}, (bt_store *[]){x, y}, 2);
}

bt_dataset *bt_read_csv(const char *path, const char *target)
{
    csv c = {.path = path, .wanted = target, .line = 1, .held = -2};
    bool marked = false;
    if (look_at_first_line(path, &c.delimiter, &marked) != BT_OK)
        return NULL;
    c.source = bt_source_open(path);
    if (!c.source)
        return NULL;
    for (int i = 0; marked && i < 3; i++)
        bt_source_byte(c.source);
    bt_status status = read_rows(&c);
    bt_source_close(c.source);
    bt_dataset *data = status == BT_OK ? take_table(&c) : NULL;
    bt_free(c.x);
    bt_free(c.y);
    bt_free(c.now.text);
    bt_free(c.now.starts);
    bt_free(c.header.text);
    bt_free(c.header.starts);
    return data;
}
