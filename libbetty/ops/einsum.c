/* ops/einsum.c: einsum: built from sums, transposes and matrix products, one operand after another. */
#include "ops/define.h"

#include <string.h>

enum { LETTERS = 64 }; /* room for each letter once */

/* A tensor with one letter per axis; no letter occurs twice. */
typedef struct term {
    bt_tensor *x;
    char letters[BT_MAX_RANK + 1];
} term;

typedef struct equation {
    const char *text;
    term terms[BT_MAX_ITEMS];
    int count;
    char result[LETTERS];
    int64_t sizes[128];
} equation;

static bt_tensor *mistake(const equation *e, const char *what)
{
    return bt_trace_poison(BT_ERROR_SHAPE, "einsum \"%s\": %s", e->text, what);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool has(const char *letters, char c) { return c && strchr(letters, c); }

static void add(char *letters, char c)
{
    size_t length = strlen(letters);
    letters[length] = c;
    letters[length + 1] = '\0';
}

static void include(char *letters, const char *more)
{
    for (; *more; more++)
        if (!has(letters, *more))
            add(letters, *more);
}

/* ---- reading ---- */

/* The diagonal of two axes that have the same letter: masks all other elements to 0 and sums over one axis. */
static bt_tensor *diagonal(bt_tensor *x, int first, int second)
{
    int64_t size = x->dims[first];
    bt_array numbers = {.dtype = BT_I64, .rank = 1, .dims = {size}};
    numbers.data = bt_region_alloc(bt_trace_now()->graph->region, bt_array_bytes(numbers));
    for (int64_t i = 0; i < size && numbers.data; i++)
        bt_put(BT_I64, numbers.data, i, (double)i);
    bt_tensor *places = bt_constant(numbers);
    if (bt_poisoned(places))
        return places;
    bt_tensor *row = bt_broadcast(places, x->rank, x->dims, &first);
    bt_tensor *column = bt_broadcast(places, x->rank, x->dims, &second);
    return bt_sum_axis(bt_where(bt_equal(row, column), x, 0), second, false);
}

/* Reads the letters of one operand, up to a comma, an arrow or the end. Returns NULL or a poison. */
static bt_tensor *read_term(equation *e, term *t, const char *from, size_t length)
{
    char shape[256], letters[BT_MAX_RANK + 1] = "";
    bt_tensor *x = t->x;
    int count = 0;
    bt_shape_text(shape, x->rank, x->dims);
    for (size_t i = 0; i < length; i++) {
        if (from[i] == ' ')
            continue;
        if (!is_letter(from[i]))
            return mistake(e, from[i] == '.' ? "\"...\" is not supported; name each axis by a letter"
                                             : "axes are named by letters, and operands separated by commas");
        if (count < BT_MAX_RANK)
            letters[count] = from[i];
        count++;
    }
    if (count != x->rank)
        return bt_trace_poison(BT_ERROR_SHAPE, "einsum \"%s\": %d letters for operand %d, which is %s", e->text, count,
                               (int)(t - e->terms) + 1, shape);
    for (int i = 0; i < count; i++) {
        int64_t *size = &e->sizes[(unsigned char)letters[i]];
        if (*size >= 0 && *size != x->dims[i])
            return bt_trace_poison(
                BT_ERROR_SHAPE, "einsum \"%s\": the letter %c has size %lld, but size %lld in operand %d, %s", e->text,
                letters[i], (long long)*size, (long long)x->dims[i], (int)(t - e->terms) + 1, shape);
        *size = x->dims[i];
    }
    for (int i = 0, axis = 0; i < count; i++) {
        const char *before = strchr(t->letters, letters[i]);
        if (before)
            t->x = diagonal(t->x, (int)(before - t->letters), axis);
        else {
            add(t->letters, letters[i]);
            axis++;
        }
        if (bt_poisoned(t->x))
            return t->x;
    }
    return NULL;
}

/* Reads the letters of the result; without an arrow, they are those that occur once. */
static bt_tensor *read_result(equation *e, const char *from)
{
    for (; from && *from; from++) {
        if (*from == ' ')
            continue;
        if (!is_letter(*from))
            return mistake(e, "only letters may follow \"->\"");
        if (e->sizes[(unsigned char)*from] < 0 || has(e->result, *from))
            return bt_trace_poison(BT_ERROR_SHAPE, "einsum \"%s\": the result has the letter %c, which %s", e->text,
                                   *from, has(e->result, *from) ? "occurs twice" : "no operand has");
        add(e->result, *from);
    }
    return NULL;
}

static void usual_result(equation *e, const char *operands)
{
    for (char c = 'A'; c <= 'z'; c++) {
        const char *at = is_letter(c) ? strchr(operands, c) : NULL;
        if (at && !strchr(at + 1, c))
            add(e->result, c);
    }
}

static bt_tensor *read_equation(equation *e, bt_tensor **operands)
{
    const char *arrow = strstr(e->text, "->"), *from = e->text, *end = arrow ? arrow : from + strlen(from);
    for (int i = 0; i < BT_COUNT_OF(e->sizes); i++)
        e->sizes[i] = -1;
    for (int k = 0; k < e->count; k++) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *stop = comma ? comma : end;
        if (!comma != (k + 1 == e->count))
            return bt_trace_poison(BT_ERROR_ARGUMENT,
                                   "einsum \"%s\": the equation has %s operands than the call, which has %d", e->text,
                                   comma ? "more" : "fewer", e->count);
        e->terms[k].x = operands[k];
        bt_tensor *poison = read_term(e, &e->terms[k], from, (size_t)(stop - from));
        if (poison)
            return poison;
        from = comma ? comma + 1 : end;
    }
    if (arrow)
        return read_result(e, arrow + 2);
    usual_result(e, e->text);
    return NULL;
}

/* ---- computing ---- */

/* Sums over the letters that are not needed. */
static void drop(term *t, const char *needed)
{
    uint32_t axes = 0;
    char left[BT_MAX_RANK + 1] = "";
    for (int i = 0; t->letters[i]; i++) {
        if (has(needed, t->letters[i]))
            add(left, t->letters[i]);
        else
            axes |= UINT32_C(1) << i;
    }
    t->x = bt_reduce(&bt_op_sum, t->x, axes, false);
    strcpy(t->letters, left);
}

/* Permutes the axes into the order of these letters, which are the term's own. */
static bt_tensor *ordered(const term *t, const char *letters)
{
    int64_t axes[BT_MAX_RANK + 1];
    int count = 0;
    for (; letters[count]; count++)
        axes[count] = strchr(t->letters, letters[count]) - t->letters;
    axes[count] = BT_END;
    return strcmp(letters, t->letters) == 0 ? t->x : (bt_permute)(t->x, axes);
}

static int64_t size_of(const equation *e, const char *letters)
{
    int64_t size = 1;
    for (; *letters; letters++)
        size *= e->sizes[(unsigned char)*letters];
    return size;
}

/* Letters by where they occur: in both terms and needed later; in both and not needed; in one only (always needed). */
typedef struct parts {
    char shared[BT_MAX_RANK + 1], inner[BT_MAX_RANK + 1], first[BT_MAX_RANK + 1], second[BT_MAX_RANK + 1];
} parts;

static parts part(const term *a, const term *b, const char *needed)
{
    parts p = {"", "", "", ""};
    for (const char *c = a->letters; *c; c++)
        add(!has(b->letters, *c) ? p.first : has(needed, *c) ? p.shared : p.inner, *c);
    for (const char *c = b->letters; *c; c++)
        if (!has(a->letters, *c))
            add(p.second, *c);
    return p;
}

static bt_tensor *as_matrices(const equation *e, const term *t, const char *shared, const char *rows,
                              const char *columns)
{
    char letters[3 * BT_MAX_RANK + 1] = "";
    strcat(strcat(strcat(letters, shared), rows), columns);
    bt_tensor *x = ordered(t, letters);
    const int64_t dims[] = {size_of(e, shared), size_of(e, rows), size_of(e, columns)};
    return bt_poisoned(x) ? x : *shared ? bt_reshape_to(x, 3, dims) : bt_reshape_to(x, 2, dims + 1);
}

/* Multiplies the two and sums over the letters that are not needed. */
static bt_tensor *multiply(const equation *e, term *a, term *b, const char *needed)
{
    char kept[LETTERS] = "";
    include(kept, needed);
    include(kept, b->letters);
    drop(a, kept);
    strcpy(kept, "");
    include(kept, needed);
    include(kept, a->letters);
    drop(b, kept);
    parts p = part(a, b, needed);
    int64_t dims[BT_MAX_RANK];
    char letters[3 * BT_MAX_RANK + 1] = "";
    strcat(strcat(strcat(letters, p.shared), p.first), p.second);
    if (strlen(letters) > BT_MAX_RANK)
        return mistake(e, "an intermediate product has more axes than a tensor may have");
    bt_tensor *x = as_matrices(e, a, p.shared, p.first, p.inner), *y = as_matrices(e, b, p.shared, p.inner, p.second);
    bt_tensor *product = bt_poisoned(x) ? x : bt_poisoned(y) ? y : *p.inner ? bt_dot(x, y) : bt_mul(x, y);
    for (int i = 0; letters[i]; i++)
        dims[i] = e->sizes[(unsigned char)letters[i]];
    strcpy(a->letters, letters);
    return bt_poisoned(product) ? product : bt_reshape_to(product, (int)strlen(letters), dims);
}

bt_tensor *(bt_einsum)(const char *text, bt_tensor *const *operands)
{
    equation e = {.text = text};
    bt_tensor *x[BT_MAX_ITEMS];
    while (operands && operands[e.count]) {
        if (e.count == BT_MAX_ITEMS)
            return bt_trace_poison(BT_ERROR_ARGUMENT, "einsum: there are more than %d operands", BT_MAX_ITEMS);
        x[e.count] = operands[e.count];
        e.count++;
    }
    if (!text || e.count == 0)
        return bt_trace_poison(BT_ERROR_ARGUMENT, "einsum: %s", text ? "an operand is NULL" : "the equation is NULL");
    bt_tensor *poison = bt_operands_promote("einsum", x, e.count, BT_PROMOTE_FLOAT);
    if (!poison)
        poison = read_equation(&e, x);
    if (poison)
        return poison;
    term *all = &e.terms[0];
    for (int k = 1; k < e.count; k++) {
        char needed[LETTERS] = "";
        include(needed, e.result);
        for (int later = k + 1; later < e.count; later++)
            include(needed, e.terms[later].letters);
        all->x = multiply(&e, all, &e.terms[k], needed);
        if (bt_poisoned(all->x))
            return all->x;
    }
    drop(all, e.result);
    return bt_poisoned(all->x) ? all->x : ordered(all, e.result);
}
