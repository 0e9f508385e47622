/* data/tokenizer_read.c: reads a tokenizer.json, or GPT-2's two files. */
#include "data/places.h"
#include "data/read.h"
#include "data/tokenizer_json.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* ---- JSON ---- */

bt_status bt_json_bad(const bt_json_reader *r, const char *what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = bt_format(format, args);
    va_end(args);
    bt_status status = text ? bt_fail(BT_ERROR_DATA, "%s: %s: %s", r->path, what, text) : BT_ERROR_MEMORY;
    bt_free(text);
    return status;
}

bt_status bt_json_only(const bt_json_reader *r, const char *what, const json_t *object, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *list = keys, *word;
        size_t length;
        bool known = strcmp(key, "type") == 0;
        while (!known && (word = bt_word_next(&list, '|', &length)))
            known = strlen(key) == length && memcmp(key, word, length) == 0;
        if (!known)
            return bt_json_bad(r, what, "`%s` is not supported%s%s", key, *keys ? "; known are: " : "", keys);
    }
    return BT_OK;
}

static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

bt_status bt_json_bool(const bt_json_reader *r, const char *what, const json_t *object, const char *key, bool *value)
{
    const json_t *found = get(object, key);
    if (found && !json_is_boolean(found))
        return bt_json_bad(r, what, "`%s` must be true or false", key);
    *value = found ? json_is_true(found) : *value;
    return BT_OK;
}

bt_status bt_json_count(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                        int64_t *value)
{
    const json_t *found = get(object, key);
    if (found && (!json_is_integer(found) || json_integer_value(found) < 0))
        return bt_json_bad(r, what, "`%s` must be a whole number of at least 0", key);
    *value = found ? json_integer_value(found) : *value;
    return BT_OK;
}

bt_status bt_json_name(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                       const char **value)
{
    const json_t *found = get(object, key);
    const char *text = json_string_value(found);
    if (found && !text)
        return bt_json_bad(r, what, "`%s` must be a text", key);
    if (!text || !*text)
        return BT_OK;
    *value = bt_region_copy(r->t->region, text, strlen(text) + 1);
    return *value ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status parse(const bt_json_reader *r, json_t **root)
{
    json_error_t error;
    int64_t size;
    char *text;
    BT_TRY(bt_source_all(r->path, &text, &size));
    r->t->hash = bt_hash(r->t->hash, text, (size_t)size);
    *root = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &error);
    bt_free(text);
    if (*root)
        return BT_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return bt_fail(BT_ERROR_MEMORY, "%s: out of memory", r->path);
    return bt_fail(BT_ERROR_DATA, "%s: not JSON: %s, line %d, column %d", r->path, error.text, error.line,
                   error.column);
}

/* ---- tokenizer.json ---- */

static bt_status read_added(const bt_json_reader *r, const json_t *entry)
{
    const char *what = "added_tokens", *text = NULL;
    bt_added added = {.id = -1};
    int64_t id = -1;
    BT_TRY(bt_json_only(r, what, entry, "id|content|single_word|lstrip|rstrip|normalized|special"));
    BT_TRY(bt_json_name(r, what, entry, "content", &text));
    BT_TRY(bt_json_count(r, what, entry, "id", &id));
    BT_TRY(bt_json_bool(r, what, entry, "special", &added.special));
    added.normalized = !added.special;
    BT_TRY(bt_json_bool(r, what, entry, "normalized", &added.normalized));
    BT_TRY(bt_json_bool(r, what, entry, "single_word", &added.alone));
    BT_TRY(bt_json_bool(r, what, entry, "lstrip", &added.left));
    BT_TRY(bt_json_bool(r, what, entry, "rstrip", &added.right));
    if (!text)
        return BT_OK;
    BT_TRY(bt_tokenizer_put(r->t, r->path, text, (int64_t)strlen(text), id));
    added.text = text;
    added.id = (int32_t)id;
    return bt_tokenizer_add_special(r->t, added);
}

static bt_status read_padding(const bt_json_reader *r, const json_t *padding)
{
    int64_t id = -1;
    BT_TRY(bt_json_count(r, "padding", padding, "pad_id", &id));
    if (id >= r->t->size)
        return bt_json_bad(r, "padding", "no token has the pad_id %lld", (long long)id);
    r->t->special[BT_PADDING] = (int32_t)id;
    return BT_OK;
}

static bt_status read_root(const bt_json_reader *r, const json_t *root)
{
    const char *version = "1.0";
    const json_t *added = json_object_get(root, "added_tokens");
    if (!json_is_object(root))
        return bt_fail(BT_ERROR_DATA, "%s: expected an object, as `tokenizers` writes a tokenizer.json", r->path);
    BT_TRY(bt_json_only(r, "the file", root,
                        "version|truncation|padding|added_tokens|normalizer|pre_tokenizer|post_processor|decoder|"
                        "model"));
    BT_TRY(bt_json_name(r, "the file", root, "version", &version));
    if (strcmp(version, "1.0") != 0)
        return bt_json_bad(r, "version", "found \"%s\"; expected \"1.0\"", version);
    BT_TRY(bt_json_model(r, json_object_get(root, "model")));
    BT_TRY(bt_json_steps(r, root));
    for (size_t i = 0; i < json_array_size(added); i++)
        BT_TRY(read_added(r, json_array_get(added, i)));
    BT_TRY(bt_json_post_processor(r, json_object_get(root, "post_processor")));
    BT_TRY(read_padding(r, json_object_get(root, "padding")));
    return bt_tokenizer_finish(r->t, r->path);
}

static bt_tokenizer *done(bt_tokenizer *t, bt_status status)
{
    if (status == BT_OK)
        return t;
    bt_tokenizer_free(t);
    return NULL;
}

bt_tokenizer *bt_read_tokenizer(const char *path)
{
    const bt_json_reader r = {path, bt_tokenizer_begin()};
    json_t *root = NULL;
    bt_status status = r.t ? parse(&r, &root) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = read_root(&r, root);
    json_decref(root);
    return done(r.t, status);
}

/* ---- GPT-2: vocab.json and merges.txt ---- */

/* Each line is LEFT RIGHT; the first one may give a version. */
static bt_status read_merge_lines(const bt_json_reader *r, const char *text)
{
    const char *next;
    int64_t count = 1;
    for (next = text; (next = strchr(next, '\n')); next++)
        count++;
    if (count >= INT32_MAX)
        return bt_fail(BT_ERROR_DATA, "%s: too many merges", r->path);
    BT_TRY(bt_merges_begin(&r->t->model, count));
    for (int64_t line = 1; *text; line++, text = next) {
        size_t length = strcspn(text, "\n");
        next = text + length + (text[length] == '\n');
        length -= length && text[length - 1] == '\r';
        const char *blank = memchr(text, ' ', length);
        if (!length || strncmp(text, "#version", 8) == 0)
            continue;
        if (!blank || memchr(blank + 1, ' ', (size_t)(text + length - blank) - 1))
            return bt_fail(BT_ERROR_DATA, "%s, line %lld: found \"%s\"; expected two tokens separated by a space",
                           r->path, (long long)line, bt_show(text, (int64_t)length).text);
        BT_TRY(bt_json_merge(r, text, blank - text, blank + 1, text + length - blank - 1));
    }
    return BT_OK;
}

static bt_status read_gpt2(const bt_json_reader *vocabulary, const bt_json_reader *merges, const json_t *root)
{
    static const char end[] = "<|endoftext|>";
    bt_tokenizer *t = vocabulary->t;
    int64_t size;
    char *text;
    BT_TRY(bt_json_vocabulary(vocabulary, root));
    BT_TRY(bt_source_all(merges->path, &text, &size));
    t->hash = bt_hash(t->hash, text, (size_t)size);
    bt_status status = read_merge_lines(merges, text);
    bt_free(text);
    BT_TRY(status);
    t->model.tokenize = bt_bpe_tokenize;
    BT_TRY(bt_tokenizer_add_step(&t->splitters, (bt_step){.run = bt_step_gpt2}));
    BT_TRY(bt_tokenizer_add_step(&t->splitters, (bt_step){.run = bt_step_bytes}));
    BT_TRY(bt_tokenizer_add_step(&t->decoders, (bt_step){.run = bt_step_unbyte}));
    const int32_t id = bt_tokenizer_find(t, end, (int64_t)strlen(end));
    if (id >= 0)
        BT_TRY(bt_tokenizer_add_special(t, (bt_added){.text = end, .id = id, .special = true}));
    return bt_tokenizer_finish(t, vocabulary->path);
}

bt_tokenizer *bt_read_gpt2(const char *vocabulary, const char *merges)
{
    const bt_json_reader r = {vocabulary, bt_tokenizer_begin()}, other = {merges, r.t};
    json_t *root = NULL;
    bt_status status = r.t ? parse(&r, &root) : BT_ERROR_MEMORY;
    if (status == BT_OK)
        status = read_gpt2(&r, &other, root);
    json_decref(root);
    return done(r.t, status);
}

/* ---- by path ---- */

static bool has_end(const char *path, const char *end)
{
    const size_t length = strlen(path), tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}

/* FOLDER/NAME or FOLDER/NAME.gz, whichever exists; if out of memory, NULL and *status. */
static char *inside(const char *folder, const char *name, bt_status *status)
{
    static const char *const ends[] = {"", ".gz"};
    struct stat info;
    for (int i = 0; i < BT_COUNT_OF(ends) && *status == BT_OK; i++) {
        char *path = bt_string("%s/%s%s", folder, name, ends[i]);
        *status = path ? BT_OK : BT_ERROR_MEMORY;
        if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode))
            return path;
        bt_free(path);
    }
    return NULL;
}

static bt_tokenizer *open_folder(const char *folder)
{
    bt_status status = BT_OK;
    char *all = inside(folder, "tokenizer.json", &status), *vocabulary = inside(folder, "vocab.json", &status),
         *merges = inside(folder, "merges.txt", &status);
    bt_tokenizer *t = NULL;
    if (status == BT_OK && all)
        t = bt_read_tokenizer(all);
    else if (status == BT_OK && vocabulary && merges)
        t = bt_read_gpt2(vocabulary, merges);
    else if (status == BT_OK)
        bt_fail(BT_ERROR_FILE,
                "%s: nothing to read; expected a tokenizer.json, or vocab.json and merges.txt, in this folder", folder);
    bt_free(all);
    bt_free(vocabulary);
    bt_free(merges);
    return t;
}

/* A vocab.json stands for its folder, which must contain merges.txt; but this very file is read. */
static bt_tokenizer *open_at(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return open_folder(path);
    if (!has_end(path, "vocab.json") && !has_end(path, "vocab.json.gz"))
        return bt_read_tokenizer(path);
    const char *slash = strrchr(path, '/');
    bt_status status = BT_OK;
    char *folder = slash ? bt_string("%.*s", (int)(slash - path), path) : bt_strdup(".");
    char *merges = folder ? inside(folder, "merges.txt", &status) : NULL;
    bt_tokenizer *t = merges ? bt_read_gpt2(path, merges) : NULL;
    if (folder && !merges && status == BT_OK)
        bt_fail(BT_ERROR_FILE, "%s: expected merges.txt beside it", path);
    bt_free(folder);
    bt_free(merges);
    return t;
}

bt_tokenizer *bt_tokenizer_open(const char *path)
{
    char *found;
    if (!path || !*path) {
        bt_fail(BT_ERROR_ARGUMENT, "bt_tokenizer_open: the path is missing");
        return NULL;
    }
    bt_tokenizer *t = NULL;
    if (bt_places_find(path, &found) != BT_OK)
        return NULL;
    if (found)
        t = open_at(found);
    else
        bt_places_lack("tokenizer", path, "; expected a tokenizer.json, or a folder with it or with GPT-2's two files");
    bt_free(found);
    return t;
}
