/* data/tokenizer_models.c: reads `model` and `post_processor` of a tokenizer.json. */
#include "data/tokenizer_json.h"

#include <limits.h>
#include <string.h>

/* ---- vocabularies and merges ---- */

bt_status bt_json_vocabulary(const bt_json_reader *r, const json_t *vocabulary)
{
    const char *token;
    json_t *id;
    if (!json_is_object(vocabulary))
        return bt_json_bad(r, "vocab", "expected an object: \"TOKEN\": ID");
    json_object_foreach((json_t *)(uintptr_t)vocabulary, token, id)
    {
        if (!json_is_integer(id))
            return bt_json_bad(r, "vocab", "the id of \"%.80s\" is not a whole number", token);
        BT_TRY(bt_tokenizer_put(r->t, r->path, token, (int64_t)strlen(token), json_integer_value(id)));
    }
    return BT_OK;
}

bt_status bt_json_merge(const bt_json_reader *r, const char *left, int64_t left_size, const char *right,
                        int64_t right_size)
{
    const int64_t prefix = (int64_t)strlen(r->t->model.prefix);
    const int32_t a = bt_tokenizer_find(r->t, left, left_size), b = bt_tokenizer_find(r->t, right, right_size);
    bt_text joined = {0};
    if (a < 0 || b < 0)
        return bt_json_bad(r, "merges", "merge %lld: \"%.*s\" is not in the vocabulary",
                           (long long)r->t->model.merge_count + 1, (int)(a < 0 ? left_size : right_size),
                           a < 0 ? left : right);
    if (right_size < prefix)
        return bt_json_bad(r, "merges", "merge %lld: \"%.*s\" does not continue a word",
                           (long long)r->t->model.merge_count + 1, (int)right_size, right);
    bt_text_add(&joined, "%.*s%.*s", (int)left_size, left, (int)(right_size - prefix), right + prefix);
    const int32_t made = joined.failed ? -1 : bt_tokenizer_find(r->t, bt_text_get(&joined), joined.size);
    bt_status status = joined.failed ? BT_ERROR_MEMORY : BT_OK;
    if (status == BT_OK && made < 0)
        status = bt_json_bad(r, "merges", "merge %lld makes \"%s\", which is not in the vocabulary",
                             (long long)r->t->model.merge_count + 1, bt_text_get(&joined));
    if (status == BT_OK)
        bt_merges_add(&r->t->model, a, b, made);
    bt_text_free(&joined);
    return status;
}

/* "LEFT RIGHT" or ["LEFT", "RIGHT"]. */
static bt_status read_merge(const bt_json_reader *r, const json_t *merge)
{
    const char *text = json_string_value(merge), *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1)), *blank = text ? strchr(text, ' ') : NULL;
    if (blank && !strchr(blank + 1, ' '))
        return bt_json_merge(r, text, blank - text, blank + 1, (int64_t)strlen(blank + 1));
    if (left && right && json_array_size(merge) == 2)
        return bt_json_merge(r, left, (int64_t)strlen(left), right, (int64_t)strlen(right));
    return bt_json_bad(r, "merges", "merge %lld: expected two tokens, as \"LEFT RIGHT\" or [\"LEFT\", \"RIGHT\"]",
                       (long long)r->t->model.merge_count + 1);
}

static bt_status read_merges(const bt_json_reader *r, const json_t *merges)
{
    const size_t count = json_array_size(merges);
    if (!json_is_array(merges) || count >= INT32_MAX)
        return bt_json_bad(r, "merges", "expected a list of merges");
    BT_TRY(bt_merges_begin(&r->t->model, (int64_t)count));
    for (size_t i = 0; i < count; i++)
        BT_TRY(read_merge(r, json_array_get(merges, i)));
    return BT_OK;
}

/* ---- models ---- */

/* Reads the token for unknown pieces; `needed`: it must be in the vocabulary if it is named. */
static bt_status read_unknown(const bt_json_reader *r, const json_t *model, const char *usual, bool needed)
{
    const char *name = usual;
    BT_TRY(bt_json_name(r, "model", model, "unk_token", &name));
    r->t->model.unknown = name ? bt_tokenizer_find(r->t, name, (int64_t)strlen(name)) : -1;
    return !needed || !name || r->t->model.unknown >= 0
               ? BT_OK
               : bt_json_bad(r, "model", "the unk_token \"%s\" is not in the vocabulary", name);
}

static bt_status check_affixes(const bt_json_reader *r)
{
    enum { MOST = 100 };
    const bool fits = strlen(r->t->model.prefix) <= MOST && strlen(r->t->model.suffix) <= MOST;
    return fits ? BT_OK
                : bt_json_bad(r, "model",
                              "the text that continues or ends a word has more than %d bytes, which is not supported",
                              MOST);
}

static bt_status read_bpe(const bt_json_reader *r, const json_t *model)
{
    bt_model *m = &r->t->model;
    const json_t *dropout = json_object_get(model, "dropout");
    BT_TRY(bt_json_only(r, "model", model,
                        "dropout|unk_token|continuing_subword_prefix|end_of_word_suffix|fuse_unk|byte_fallback|"
                        "ignore_merges|vocab|merges"));
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return bt_json_bad(r, "model", "`dropout` is not supported: tokens would be drawn at random");
    BT_TRY(bt_json_name(r, "model", model, "continuing_subword_prefix", &m->prefix));
    BT_TRY(bt_json_name(r, "model", model, "end_of_word_suffix", &m->suffix));
    BT_TRY(check_affixes(r));
    BT_TRY(bt_json_bool(r, "model", model, "fuse_unk", &m->fuse));
    BT_TRY(bt_json_bool(r, "model", model, "byte_fallback", &m->fallback));
    BT_TRY(bt_json_bool(r, "model", model, "ignore_merges", &m->whole));
    BT_TRY(bt_json_vocabulary(r, json_object_get(model, "vocab")));
    BT_TRY(read_unknown(r, model, NULL, true));
    m->tokenize = bt_bpe_tokenize;
    return read_merges(r, json_object_get(model, "merges"));
}

static bt_status read_wordpiece(const bt_json_reader *r, const json_t *model)
{
    bt_model *m = &r->t->model;
    m->prefix = "##";
    m->longest = 100;
    BT_TRY(bt_json_only(r, "model", model, "unk_token|continuing_subword_prefix|max_input_chars_per_word|vocab"));
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    if (prefix && !*prefix)
        m->prefix = "";
    BT_TRY(bt_json_name(r, "model", model, "continuing_subword_prefix", &m->prefix));
    BT_TRY(check_affixes(r));
    BT_TRY(bt_json_count(r, "model", model, "max_input_chars_per_word", &m->longest));
    BT_TRY(bt_json_vocabulary(r, json_object_get(model, "vocab")));
    BT_TRY(read_unknown(r, model, "[UNK]", false));
    m->tokenize = bt_wordpiece_tokenize;
    return BT_OK;
}

static bt_status read_words(const bt_json_reader *r, const json_t *model)
{
    BT_TRY(bt_json_only(r, "model", model, "unk_token|vocab"));
    BT_TRY(bt_json_vocabulary(r, json_object_get(model, "vocab")));
    BT_TRY(read_unknown(r, model, "<unk>", false));
    r->t->model.tokenize = bt_words_tokenize;
    return BT_OK;
}

bt_status bt_json_model(const bt_json_reader *r, const json_t *model)
{
    static const struct {
        const char *type, *key; /* older files lack the type: they are recognised by a key that only this model has */
        bt_status (*read)(const bt_json_reader *r, const json_t *model);
    } models[] = {{"BPE", "merges", read_bpe},
                  {"WordPiece", "max_input_chars_per_word", read_wordpiece},
                  {"WordLevel", NULL, read_words}};
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!json_is_object(model))
        return bt_json_bad(r, "model", "expected an object");
    for (int i = 0; i < BT_COUNT_OF(models); i++)
        if (type ? strcmp(type, models[i].type) == 0 : models[i].key && json_object_get(model, models[i].key))
            return models[i].read(r, model);
    return bt_json_bad(r, "model", "the type \"%s\" is not supported; expected BPE, WordPiece or WordLevel",
                       type ? type : "(none)");
}

/* ---- post-processors: tokens around a text ---- */

static bt_status put_id(const bt_json_reader *r, bt_ids *ids, const json_t *id)
{
    const int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= r->t->size)
        return bt_json_bad(r, "post_processor", "an id is missing, or no token has it");
    bt_ids_put(ids, (int32_t)value);
    return ids->failed ? BT_ERROR_MEMORY : BT_OK;
}

/* Tokens of an inner post-processor are closer to the text. */
static bt_status surround(const bt_json_reader *r, bt_ids *before, const bt_ids *behind)
{
    bt_tokenizer *t = r->t;
    for (int64_t i = 0; i < t->before.count; i++)
        bt_ids_put(before, t->before.at[i]);
    for (int64_t i = 0; i < behind->count; i++)
        bt_ids_put(&t->behind, behind->at[i]);
    const bt_ids inner = t->before;
    t->before = *before;
    *before = inner;
    return t->before.failed || t->behind.failed ? BT_ERROR_MEMORY : BT_OK;
}

static bt_status read_pair(const bt_json_reader *r, const json_t *part, bt_ids *before, bt_ids *behind)
{
    BT_TRY(bt_json_only(r, "post_processor", part, "sep|cls|trim_offsets|add_prefix_space"));
    BT_TRY(put_id(r, before, json_array_get(json_object_get(part, "cls"), 1)));
    return put_id(r, behind, json_array_get(json_object_get(part, "sep"), 1));
}

/* Looks up the ids of {"id": NAME} in `special_tokens`. */
static bt_status put_special(const bt_json_reader *r, const json_t *part, const json_t *token, bt_ids *ids)
{
    const char *name = json_string_value(json_object_get(token, "id"));
    const json_t *entry = name ? json_object_get(json_object_get(part, "special_tokens"), name) : NULL;
    const json_t *list = json_object_get(entry, "ids");
    if (!json_is_array(list))
        return bt_json_bad(r, "post_processor", "the ids of \"%s\" are missing in `special_tokens`", name ? name : "");
    for (size_t i = 0; i < json_array_size(list); i++)
        BT_TRY(put_id(r, ids, json_array_get(list, i)));
    return BT_OK;
}

static bt_status read_template(const bt_json_reader *r, const json_t *part, bt_ids *before, bt_ids *behind)
{
    const json_t *single = json_object_get(part, "single");
    int texts = 0;
    BT_TRY(bt_json_only(r, "post_processor", part, "single|pair|special_tokens"));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i), *token = json_object_get(item, "SpecialToken");
        const json_t *sequence = json_object_get(item, "Sequence");
        if (!token && !sequence)
            return bt_json_bad(r, "post_processor", "`single` must be a list of SpecialToken and Sequence");
        texts += sequence != NULL;
        if (token)
            BT_TRY(put_special(r, part, token, texts ? behind : before));
    }
    return texts == 1
               ? BT_OK
               : bt_json_bad(r, "post_processor", "`single` must contain the text once; found it %d times", texts);
}

static bt_status read_offsets(const bt_json_reader *r, const json_t *part, bt_ids *before, bt_ids *behind)
{
    (void)before;
    (void)behind;
    return bt_json_only(r, "post_processor", part, "add_prefix_space|trim_offsets|use_regex");
}

bt_status bt_json_post_processor(const bt_json_reader *r, const json_t *part)
{
    static const struct {
        const char *type;
        bt_status (*read)(const bt_json_reader *r, const json_t *part, bt_ids *before, bt_ids *behind);
    } kinds[] = {{"TemplateProcessing", read_template},
                 {"BertProcessing", read_pair},
                 {"RobertaProcessing", read_pair},
                 {"ByteLevel", read_offsets}};
    if (!part || json_is_null(part))
        return BT_OK;
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *list = json_object_get(part, "processors");
    if (type && strcmp(type, "Sequence") == 0 && json_is_array(list)) {
        for (size_t i = 0; i < json_array_size(list); i++)
            BT_TRY(bt_json_post_processor(r, json_array_get(list, i)));
        return BT_OK;
    }
    for (int i = 0; type && i < BT_COUNT_OF(kinds); i++)
        if (strcmp(type, kinds[i].type) == 0) {
            bt_ids before = {0}, behind = {0};
            bt_status status = kinds[i].read(r, part, &before, &behind);
            if (status == BT_OK)
                status = surround(r, &before, &behind);
            bt_free(before.at);
            bt_free(behind.at);
            return status;
        }
    return bt_json_bad(r, "post_processor",
                       "the type \"%s\" is not supported; expected TemplateProcessing, BertProcessing, "
                       "RobertaProcessing, ByteLevel or Sequence",
                       type ? type : "(none)");
}
