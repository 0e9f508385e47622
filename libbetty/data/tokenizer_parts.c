/* data/tokenizer_parts.c: turns `normalizer`, `pre_tokenizer` and `decoder` of a tokenizer.json into steps. */
#include "data/tokenizer_json.h"
#include "data/unicode.h"

#include <string.h>

typedef struct part part;
typedef bt_status part_fn(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps);
struct part {
    const char *type;
    const char *keys; /* keys allowed */
    part_fn *read;    /* adds steps according to the keys; NULL: none */
    bt_step steps[2]; /* added always */
};

#define TRY_STEP(...) BT_TRY(bt_tokenizer_add_step(steps, (bt_step){__VA_ARGS__}))

/* ---- normalizers ---- */

static bt_status read_bert(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    bool clean = true, spread = true, lower = true;
    BT_TRY(bt_json_bool(r, p->type, object, "clean_text", &clean));
    BT_TRY(bt_json_bool(r, p->type, object, "handle_chinese_chars", &spread));
    BT_TRY(bt_json_bool(r, p->type, object, "lowercase", &lower));
    bool strip = lower;
    BT_TRY(bt_json_bool(r, p->type, object, "strip_accents", &strip));
    if (clean)
        TRY_STEP(.run = bt_step_map, .map = bt_map_clean);
    if (spread)
        TRY_STEP(.run = bt_step_map, .map = bt_map_spread);
    if (strip)
        TRY_STEP(.run = bt_step_form, .setting = BT_NFD);
    if (strip)
        TRY_STEP(.run = bt_step_map, .map = bt_map_nonspacing);
    if (lower)
        TRY_STEP(.run = bt_step_map, .map = bt_map_lower);
    return BT_OK;
}

static bt_status read_trim(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    bool left = true, right = true;
    BT_TRY(bt_json_bool(r, p->type, object, "strip_left", &left));
    BT_TRY(bt_json_bool(r, p->type, object, "strip_right", &right));
    TRY_STEP(.run = bt_step_trim, .left = left, .right = right);
    return BT_OK;
}

/* {"String": "..."}; *regex: from {"Regex": "..."}, else NULL. */
static bt_status read_pattern(const bt_json_reader *r, const part *p, const json_t *object, const char **text,
                              const char **regex)
{
    const json_t *pattern = json_object_get(object, "pattern");
    *text = *regex = NULL;
    BT_TRY(bt_json_name(r, p->type, pattern, "String", text));
    BT_TRY(bt_json_name(r, p->type, pattern, "Regex", regex));
    return *text || *regex ? BT_OK : bt_json_bad(r, p->type, "`pattern` must be {\"String\": \"...\"}");
}

static bt_status read_replace(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text, *regex, *other = "";
    BT_TRY(read_pattern(r, p, object, &text, &regex));
    if (!text)
        return bt_json_bad(r, p->type,
                           "the regular expression \"%s\" is not supported; only plain texts can be replaced", regex);
    const char *content = json_string_value(json_object_get(object, "content"));
    if (!content)
        return bt_json_bad(r, p->type, "`content` must be a text");
    if (*content)
        BT_TRY(bt_json_name(r, p->type, object, "content", &other));
    TRY_STEP(.run = bt_step_replace, .text = text, .other = other);
    return BT_OK;
}

static bt_status read_prepend(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text = NULL;
    BT_TRY(bt_json_name(r, p->type, object, "prepend", &text));
    if (text)
        TRY_STEP(.run = bt_step_prepend, .text = text);
    return BT_OK;
}

static const part normalizers[] = {
    {"BertNormalizer", "clean_text|handle_chinese_chars|strip_accents|lowercase", read_bert, {{0}}},
    {"NFD", "", NULL, {{.run = bt_step_form, .setting = BT_NFD}}},
    {"NFC", "", NULL, {{.run = bt_step_form, .setting = BT_NFC}}},
    {"NFKD", "", NULL, {{.run = bt_step_form, .setting = BT_NFKD}}},
    {"NFKC", "", NULL, {{.run = bt_step_form, .setting = BT_NFKC}}},
    {"Lowercase", "", NULL, {{.run = bt_step_map, .map = bt_map_lower}}},
    {"StripAccents", "", NULL, {{.run = bt_step_map, .map = bt_map_marks}}},
    {"Strip", "strip_left|strip_right", read_trim, {{0}}},
    {"Replace", "pattern|content", read_replace, {{0}}},
    {"Prepend", "prepend", read_prepend, {{0}}},
};

/* ---- pre-tokenizers ---- */

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static bt_status read_bytes(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    bool space = true, regex = true, offsets = true;
    BT_TRY(bt_json_bool(r, p->type, object, "add_prefix_space", &space));
    BT_TRY(bt_json_bool(r, p->type, object, "use_regex", &regex));
    BT_TRY(bt_json_bool(r, p->type, object, "trim_offsets", &offsets)); /* not used here */
    if (space)
        TRY_STEP(.run = bt_step_prepend, .text = " ", .setting = true);
    if (regex)
        TRY_STEP(.run = bt_step_gpt2);
    TRY_STEP(.run = bt_step_bytes);
    return BT_OK;
}

/* Reads `behavior`; BT_CUT_ISOLATED if it is missing. */
static bt_status read_cut(const bt_json_reader *r, const part *p, const json_t *object, int *cut)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = names[BT_CUT_ISOLATED];
    BT_TRY(bt_json_name(r, p->type, object, "behavior", &name));
    for (*cut = 0; *cut < BT_COUNT_OF(names); ++*cut)
        if (strcmp(names[*cut], name) == 0)
            return BT_OK;
    return bt_json_bad(r, p->type, "the behavior \"%s\" is not supported", name);
}

static bt_status read_punctuation(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    int cut;
    BT_TRY(read_cut(r, p, object, &cut));
    TRY_STEP(.run = bt_step_split, .classes = BT_PUNCTUATION, .setting = cut);
    return BT_OK;
}

static bt_status read_digits(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    bool single = false;
    BT_TRY(bt_json_bool(r, p->type, object, "individual_digits", &single));
    TRY_STEP(.run = bt_step_split, .classes = BT_NUMBER, .setting = single ? BT_CUT_ISOLATED : BT_CUT_CONTIGUOUS);
    return BT_OK;
}

static bt_status read_delimiter(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text = NULL;
    int32_t c = 0;
    BT_TRY(bt_json_name(r, p->type, object, "delimiter", &text));
    const int64_t size = text ? (int64_t)strlen(text) : 0;
    if (!size || bt_char_read(text, size, &c) != size)
        return bt_json_bad(r, p->type, "`delimiter` must be one character");
    TRY_STEP(.run = bt_step_split, .character = c, .setting = BT_CUT_REMOVED);
    return BT_OK;
}

static bt_status read_split(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text, *regex;
    bool invert = false;
    int cut;
    BT_TRY(read_pattern(r, p, object, &text, &regex));
    BT_TRY(bt_json_bool(r, p->type, object, "invert", &invert));
    BT_TRY(read_cut(r, p, object, &cut));
    if (invert)
        return bt_json_bad(r, p->type, "`invert` is not supported");
    if (regex && (strcmp(regex, GPT2) != 0 || cut != BT_CUT_ISOLATED))
        return bt_json_bad(r, p->type, "the regular expression \"%s\" is not supported; only GPT-2's is, isolated",
                           regex);
    if (regex)
        TRY_STEP(.run = bt_step_gpt2);
    else
        TRY_STEP(.run = bt_step_split_text, .text = text, .setting = cut);
    return BT_OK;
}

/* Reads the replacement of a splitter or decoder, and when it is prepended. */
static bt_status read_meta(const bt_json_reader *r, const part *p, const json_t *object, const char **text,
                           int *prepend)
{
    static const char *const names[] = {"never", "first", "always"};
    const char *name = "always";
    bool space = true; /* the key of older files */
    *text = "\xE2\x96\x81";
    BT_TRY(bt_json_name(r, p->type, object, "replacement", text));
    BT_TRY(bt_json_bool(r, p->type, object, "add_prefix_space", &space));
    name = space ? name : names[BT_PREPEND_NEVER];
    BT_TRY(bt_json_name(r, p->type, object, "prepend_scheme", &name));
    for (*prepend = 0; *prepend < BT_COUNT_OF(names); ++*prepend)
        if (strcmp(names[*prepend], name) == 0)
            return BT_OK;
    return bt_json_bad(r, p->type, "the prepend_scheme \"%s\" is not supported", name);
}

static bt_status read_metaspace(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text;
    bool split = true;
    int prepend;
    BT_TRY(read_meta(r, p, object, &text, &prepend));
    BT_TRY(bt_json_bool(r, p->type, object, "split", &split));
    TRY_STEP(.run = bt_step_metaspace, .text = text, .setting = prepend);
    if (split)
        TRY_STEP(.run = bt_step_split_text, .text = text, .setting = BT_CUT_MERGED_WITH_NEXT);
    return BT_OK;
}

#define AT_SPACES                                                                                                      \
    {                                                                                                                  \
        .run = bt_step_split, .classes = BT_SPACE, .setting = BT_CUT_REMOVED                                           \
    }
#define AT_MARKS                                                                                                       \
    {                                                                                                                  \
        .run = bt_step_split, .classes = BT_PUNCTUATION, .setting = BT_CUT_ISOLATED                                    \
    }

static const part splitters[] = {
    {"ByteLevel", "add_prefix_space|trim_offsets|use_regex", read_bytes, {{0}}},
    {"BertPreTokenizer", "", NULL, {AT_SPACES, AT_MARKS}},
    {"Whitespace", "", NULL, {{.run = bt_step_words}}},
    {"WhitespaceSplit", "", NULL, {AT_SPACES}},
    {"Punctuation", "behavior", read_punctuation, {{0}}},
    {"Digits", "individual_digits", read_digits, {{0}}},
    {"CharDelimiterSplit", "delimiter", read_delimiter, {{0}}},
    {"Split", "pattern|behavior|invert", read_split, {{0}}},
    {"Metaspace", "replacement|prepend_scheme|split|add_prefix_space", read_metaspace, {{0}}},
};

/* ---- decoders ---- */

static bt_status read_wordpiece(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *prefix = "##";
    bool tidy = true;
    BT_TRY(bt_json_name(r, p->type, object, "prefix", &prefix));
    BT_TRY(bt_json_bool(r, p->type, object, "cleanup", &tidy));
    TRY_STEP(.run = bt_step_wordpiece, .text = prefix, .setting = tidy);
    return BT_OK;
}

static bt_status read_suffix(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *suffix = "</w>";
    BT_TRY(bt_json_name(r, p->type, object, "suffix", &suffix));
    TRY_STEP(.run = bt_step_suffix, .text = suffix);
    return BT_OK;
}

static bt_status read_unmeta(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *text;
    int prepend;
    BT_TRY(read_meta(r, p, object, &text, &prepend));
    TRY_STEP(.run = bt_step_unmeta, .text = text, .setting = prepend);
    return BT_OK;
}

static bt_status read_strip(const bt_json_reader *r, const part *p, const json_t *object, bt_steps *steps)
{
    const char *content = NULL;
    int64_t left = 0, right = 0;
    BT_TRY(bt_json_name(r, p->type, object, "content", &content));
    BT_TRY(bt_json_count(r, p->type, object, "start", &left));
    BT_TRY(bt_json_count(r, p->type, object, "stop", &right));
    if (!content)
        return bt_json_bad(r, p->type, "`content` is missing");
    TRY_STEP(.run = bt_step_strip, .text = content, .left = left, .right = right);
    return BT_OK;
}

static const part decoders[] = {
    {"ByteLevel", "add_prefix_space|trim_offsets|use_regex", NULL, {{.run = bt_step_unbyte}}},
    {"WordPiece", "prefix|cleanup", read_wordpiece, {{0}}},
    {"BPEDecoder", "suffix", read_suffix, {{0}}},
    {"ByteFallback", "", NULL, {{.run = bt_step_fallback}}},
    {"Fuse", "", NULL, {{.run = bt_step_join, .text = ""}}},
    {"Replace", "pattern|content", read_replace, {{0}}},
    {"Strip", "content|start|stop", read_strip, {{0}}},
    {"Metaspace", "replacement|prepend_scheme|split|add_prefix_space", read_unmeta, {{0}}},
};

/* ---- one part, or a sequence of parts ---- */

typedef struct family {
    const char *what, *list; /* the key of the part, and the key of the list in a Sequence */
    const part *parts;
    int count;
} family;

static bt_status unknown(const bt_json_reader *r, const family *f, const char *type)
{
    bt_text text = {0};
    for (int i = 0; i < f->count; i++)
        bt_text_add(&text, "%s, ", f->parts[i].type);
    bt_status status = bt_json_bad(r, f->what, "the type \"%s\" is not supported; expected one of %sSequence", type,
                                   bt_text_get(&text));
    bt_text_free(&text);
    return status;
}

static bt_status read_part(const bt_json_reader *r, const family *f, const json_t *object, bt_steps *steps)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!object || json_is_null(object))
        return BT_OK;
    if (!type)
        return bt_json_bad(r, f->what, "expected an object with a `type`, or null");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(object, f->list);
        if (!json_is_array(list))
            return bt_json_bad(r, f->what, "a Sequence must have a list `%s`", f->list);
        BT_TRY(bt_json_only(r, "Sequence", object, f->list));
        for (size_t i = 0; i < json_array_size(list); i++)
            BT_TRY(read_part(r, f, json_array_get(list, i), steps));
        return BT_OK;
    }
    for (int i = 0; i < f->count; i++)
        if (strcmp(type, f->parts[i].type) == 0) {
            const part *p = &f->parts[i];
            BT_TRY(bt_json_only(r, type, object, p->keys));
            for (int k = 0; k < BT_COUNT_OF(p->steps) && p->steps[k].run; k++)
                BT_TRY(bt_tokenizer_add_step(steps, p->steps[k]));
            return p->read ? p->read(r, p, object, steps) : BT_OK;
        }
    return unknown(r, f, type);
}

bt_status bt_json_steps(const bt_json_reader *r, const json_t *root)
{
    static const family families[] = {
        {"normalizer", "normalizers", normalizers, BT_COUNT_OF(normalizers)},
        {"pre_tokenizer", "pretokenizers", splitters, BT_COUNT_OF(splitters)},
        {"decoder", "decoders", decoders, BT_COUNT_OF(decoders)},
    };
    bt_steps *const steps[] = {&r->t->normalizers, &r->t->splitters, &r->t->decoders};
    for (int i = 0; i < BT_COUNT_OF(families); i++)
        BT_TRY(read_part(r, &families[i], json_object_get(root, families[i].what), steps[i]));
    if (r->t->decoders.count)
        return BT_OK;
    return bt_tokenizer_add_step(&r->t->decoders, (bt_step){.run = bt_step_join, .text = " "});
}
