/* data/tokenizer_json.h: reads the parts of a tokenizer.json; only for the files tokenizer_*.c. */
#ifndef BT_TOKENIZER_JSON_H
#define BT_TOKENIZER_JSON_H

#include "data/tokenizer.h"
#include <jansson.h>

typedef struct bt_json_reader {
    const char *path;
    bt_tokenizer *t;
} bt_json_reader;

/* Fails with BT_ERROR_DATA: "PATH: WHAT: ..." (format). */
bt_status bt_json_bad(const bt_json_reader *r, const char *what, const char *format, ...) BT_FORMAT(3, 4);

/* Checks that the object has no keys but `type` and these, "a|b|c". */
bt_status bt_json_only(const bt_json_reader *r, const char *what, const json_t *object, const char *keys);

/* Reads the value of a key; if it is missing or null, *value is unchanged. Texts are copied to the tokeniser's region;
 * an empty text counts as missing. */
bt_status bt_json_bool(const bt_json_reader *r, const char *what, const json_t *object, const char *key, bool *value);
bt_status bt_json_count(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                        int64_t *value);
bt_status bt_json_name(const bt_json_reader *r, const char *what, const json_t *object, const char *key,
                       const char **value);

/* tokenizer_parts.c: turns normalizer, pre_tokenizer and decoder into steps. */
bt_status bt_json_steps(const bt_json_reader *r, const json_t *root);

/* tokenizer_models.c */
bt_status bt_json_model(const bt_json_reader *r, const json_t *model);
bt_status bt_json_vocabulary(const bt_json_reader *r, const json_t *vocabulary);
bt_status bt_json_merge(const bt_json_reader *r, const char *left, int64_t left_size, const char *right,
                        int64_t right_size); /* adds the next merge */
bt_status bt_json_post_processor(const bt_json_reader *r, const json_t *part);

#endif
