/* nn/load.c: parameters and buffers from a safetensors file, by name. */
#include "nn/module.h"

#include "io/safetensors.h"
#include "runtime/store.h"
#include <math.h>
#include <string.h>

/* ---- names ---- */

enum { MAX_STARS = 8, MAX_NAME = 1024 };

static bool append(char to[MAX_NAME], size_t *at, const char *text, size_t length)
{
    if (*at + length >= MAX_NAME)
        return false;
    memcpy(to + *at, text, length);
    *at += length;
    to[*at] = 0;
    return true;
}

/* The pattern with the parts in the places of its stars. */
static bool substitute(const char *pattern, size_t length, const bt_star *parts, int count, char to[MAX_NAME])
{
    size_t at = 0;
    int star = 0;
    to[0] = 0;
    for (size_t i = 0; i < length; i++) {
        bt_star part = {pattern + i, 1};
        if (pattern[i] == '*' && star == count)
            return false;
        if (pattern[i] == '*')
            part = parts[star++];
        if (!append(to, &at, part.text, part.length))
            return false;
    }
    return true;
}

/* What the file's name is called here, by the first rule that fits; "": it is left out. */
static bt_status renamed(const char *rules, const char *name, char to[MAX_NAME])
{
    const char *rule;
    size_t length;
    while (rules && (rule = bt_word_next(&rules, ',', &length)) != NULL) {
        const char *arrow = memchr(rule, '>', length), *target = arrow ? arrow + 1 : NULL;
        size_t from = arrow ? (size_t)(arrow - rule) : 0, rest = arrow ? length - from - 1 : 0;
        bt_star parts[MAX_STARS];
        int count;
        while (from && rule[from - 1] == ' ')
            from--;
        while (rest && *target == ' ')
            target++, rest--;
        if (!from)
            return bt_fail(BT_ERROR_ARGUMENT, "\"%.*s\" is no rule for names: \"FROM > TO\" is expected", (int)length,
                           rule);
        if (!bt_match(rule, from, name, parts, MAX_STARS, &count))
            continue;
        if (!substitute(target, rest, parts, count < MAX_STARS ? count : MAX_STARS, to))
            return bt_fail(BT_ERROR_ARGUMENT,
                           "the rule \"%.*s\" has more * at its end than \"%s\" has, or gives too "
                           "long a name",
                           (int)length, rule, name);
        return BT_OK;
    }
    size_t at = 0;
    return append(to, &at, name, strlen(name)) ? BT_OK
                                               : bt_fail(BT_ERROR_FILE, "the name \"%.40s...\" is too long", name);
}

/* ---- values ---- */

/* Axis k of ours is axis axes[k] of the file's; false: it is the same. PyTorch has a convolution's channels first. */
static bool turned(const bt_slate *slate, bool plain, int axes[BT_MAX_RANK])
{
    int rank = slate->shape.rank;
    if (plain || !slate->window || rank < 3)
        return false;
    for (int k = 0; k < rank - 2; k++)
        axes[k] = k + 2;
    axes[rank - 2] = 1;
    axes[rank - 1] = 0;
    return true;
}

static void copy_turned(bt_array to, bt_array from, const int axes[BT_MAX_RANK])
{
    int64_t stride[BT_MAX_RANK], index[BT_MAX_RANK] = {0}, count = bt_array_count(to), at = 0;
    for (int a = from.rank - 1; a >= 0; a--)
        stride[a] = a == from.rank - 1 ? 1 : stride[a + 1] * from.dims[a + 1];
    for (int64_t i = 0; i < count; i++) {
        bt_put(to.dtype, to.data, i, bt_get(from.dtype, from.data, at));
        for (int k = to.rank - 1; k >= 0; k--) {
            at += stride[axes[k]];
            if (++index[k] < to.dims[k])
                break;
            at -= index[k] * stride[axes[k]];
            index[k] = 0;
        }
    }
}

/* What training could only pass on. */
static bt_status check_finite(const char *name, bt_array values)
{
    const int64_t count = bt_array_count(values);
    int64_t wrong = 0, first = 0;
    for (int64_t i = count - 1; i >= 0; i--)
        if (!isfinite(bt_get(values.dtype, values.data, i))) {
            first = i;
            wrong++;
        }
    return wrong ? bt_fail(
                       BT_ERROR_FILE,
                       "\"%s\": %lld of its %lld values are NaN or infinite in %s, the first at place %lld: were these "
                       "weights saved after a run had diverged?",
                       name, (long long)wrong, (long long)count, bt_dtype_name(values.dtype), (long long)first)
                 : BT_OK;
}

static bt_status fill(const bt_slate *slate, const bt_stored *stored, bool plain)
{
    int axes[BT_MAX_RANK];
    bool turn = turned(slate, plain, axes);
    bt_array to = bt_var_array(slate->var), from = stored->array, expected = to;
    char found[256], wanted[256];
    for (int k = 0; turn && k < to.rank; k++)
        expected.dims[axes[k]] = to.dims[k];
    if (!stored->opaque && !bt_shape_same(from, expected))
        return bt_fail(BT_ERROR_FILE, "\"%s\" is %s, the module's \"%s\" needs %s%s", stored->name,
                       bt_shape_text(found, from.rank, from.dims), slate->path,
                       bt_shape_text(wanted, expected.rank, expected.dims),
                       turn ? " there, a convolution's weight in PyTorch's order" : "");
    from.dtype = to.dtype;
    from.data = bt_alloc(slate->var->bytes);
    to.data = turn ? bt_alloc(slate->var->bytes) : from.data;
    bt_status status = from.data && to.data ? bt_stored_values(stored, from) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = check_finite(stored->name, from);
    if (status == BT_OK && turn)
        copy_turned(to, from, axes);
    if (status == BT_OK)
        status = bt_store_write(NULL, slate->var, 0, to.data, slate->var->bytes);
    if (turn)
        bt_free(to.data);
    bt_free(from.data);
    return status;
}

/* ---- all of them ---- */

typedef struct loading {
    bt_module *module;
    const bt_load_options *options;
    bool *filled; /* parameters, then buffers */
    int64_t filled_count, unused_count;
    bt_text unused;
} loading;

static bt_slate *slate_of(const bt_module *root, int64_t i)
{
    return i < root->param_count ? root->params[i] : root->buffers[i - root->param_count];
}

static bt_status take(loading *l, const bt_stored *stored)
{
    char name[MAX_NAME];
    int64_t total = l->module->param_count + l->module->buffer_count;
    BT_TRY(renamed(l->options->names, stored->name, name));
    for (int64_t i = 0; *name && i < total; i++) {
        const bt_slate *slate = slate_of(l->module, i);
        if (strcmp(slate->path, name) != 0)
            continue;
        if (l->filled[i])
            return bt_fail(BT_ERROR_FILE, "\"%s\" is the second one that is called \"%s\" here", stored->name, name);
        l->filled[i] = true;
        l->filled_count++;
        return fill(slate, stored, l->options->plain);
    }
    enum { SHOWN = 8 };
    if (l->unused_count++ < SHOWN)
        bt_text_add(&l->unused, l->unused.data ? ", %s" : "%s", stored->name);
    return BT_OK;
}

static bt_status tell(const loading *l, bt_text *report)
{
    int64_t total = l->module->param_count + l->module->buffer_count, missing = total - l->filled_count, shown = 0;
    bt_text list = {0};
    for (int64_t i = 0; i < total; i++)
        if (!l->filled[i] && shown++ < 8)
            bt_text_add(&list, list.data ? ", %s" : "%s", slate_of(l->module, i)->path);
    bt_text_add(report, "%lld of %lld parameters and buffers are taken from the file", (long long)l->filled_count,
                (long long)total);
    if (missing)
        bt_text_add(report, "; %lld are not in it and stay: %s%s", (long long)missing, bt_text_get(&list),
                    missing > 8 ? ", ..." : "");
    if (l->unused_count)
        bt_text_add(report, "; %lld of its arrays are not used: %s%s", (long long)l->unused_count,
                    bt_text_get(&l->unused), l->unused_count > 8 ? ", ..." : "");
    bt_status status = BT_OK;
    if (missing && !l->options->partial)
        status = bt_fail(BT_ERROR_FILE,
                         "%lld of %lld parameters and buffers are not in the file: %s%s; of its arrays, "
                         "%lld are not used%s%s",
                         (long long)missing, (long long)total, bt_text_get(&list), missing > 8 ? ", ..." : "",
                         (long long)l->unused_count, l->unused_count ? ": " : "", bt_text_get(&l->unused));
    bt_text_free(&list);
    return status;
}

bt_status bt_module_fill(bt_module *module, const char *path, const bt_load_options *options, bt_text *report)
{
    if (!module || !path)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_load: the %s is NULL", module ? "path" : "module");
    if (!module->adopted)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_module_load: the module has no storage yet: call bt_module_init first");
    bt_load_options defaults = {0};
    loading l = {.module = module, .options = options ? options : &defaults};
    char *data = NULL;
    size_t size = 0;
    bt_safetensors file = {0};
    BT_TRY(bt_file_read(path, &data, &size));
    bt_status status = bt_safetensors_parse(path, data, size, &file);
    if (status == BT_OK && !(l.filled = bt_alloc((size_t)(module->param_count + module->buffer_count) + 1)))
        status = BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < file.count; i++)
        status = take(&l, &file.items[i]);
    if (status == BT_OK)
        status = tell(&l, report);
    if (status != BT_OK && l.filled)
        bt_error_context("%s", path);
    bt_text_free(&l.unused);
    bt_free(l.filled);
    bt_safetensors_free(&file);
    bt_free(data);
    return status;
}

bt_status bt_module_load(bt_module *module, const char *path, const bt_load_options *options, FILE *report)
{
    bt_text text = {0};
    bt_status status = bt_module_fill(module, path, options, &text);
    if (status == BT_OK && report && fprintf(report, "%s: %s\n", path, bt_text_get(&text)) < 0)
        status = bt_fail(BT_ERROR_FILE, "the report about %s cannot be written", path);
    bt_text_free(&text);
    return status;
}
