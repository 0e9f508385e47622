/* data/tokenizer_json.h: reading the parts of a tokenizer.json; for the files tokenizer_*.c only. */
#ifndef BT_TOKENIZER_JSON_H
#define BT_TOKENIZER_JSON_H

#include "data/tokenizer.h"
#include <jansson.h>

typedef struct bt_json_reader {
    const char *path;
    bt_tokenizer *t;
} bt_json_reader;

/* BT_ERROR_DATA: "PATH: WHAT: ..." (format). */
bt_status bt_json_bad(const bt_json_reader *r, const char *what, const char *format, ...) BT_FORMAT(3, 4);

/* Only these keys, "a|b|c", are in the object, beside `type`. */
bt_status bt_json_only(const bt_json_reader *r, const char *what, const json_t *object, const char *keys);

/* What a key says; what is missing or null leaves the value as it is. Texts are copied to the tokeniser's region, and
 * never empty. */
bt_status bt_json_bool(const bt_json_reader *r, const char *what, const json_t *object, const char *key, bool *value);
bt_status bt_json_count(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                        int64_t *value);
bt_status bt_json_name(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                       const char **value);

/* tokenizer_parts.c: normalizer, pre_tokenizer and decoder as steps. */
bt_status bt_json_steps(const bt_json_reader *r, const json_t *root);

/* tokenizer_models.c */
bt_status bt_json_model(const bt_json_reader *r, const json_t *model);
bt_status bt_json_vocabulary(const bt_json_reader *r, const json_t *vocabulary);
bt_status bt_json_merge(const bt_json_reader *r, const char *left, int64_t left_size, const char *right,
                        int64_t right_size); /* the next one */
bt_status bt_json_post_processor(const bt_json_reader *r, const json_t *part);

#endif
