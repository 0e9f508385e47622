/* engine/config/keys.h: the table of INI keys.
 *
 * One row of the table says everything about a key: it parses the value, checks its range, prints --help and
 * --print-config, and writes docs/ini-reference.md. To add a key: one row in keys.c, one field in settings.h. */
#ifndef BT_KEYS_H
#define BT_KEYS_H

#include "engine/config/settings.h"

typedef enum bt_section_kind {
    BT_SECTION_ENGINE,
    BT_SECTION_DEPENDENCIES,
    BT_SECTION_PROBLEM,
    BT_SECTION_GROUP,
    BT_SECTION_KINDS
} bt_section_kind;

typedef enum bt_key_kind {
    BT_KEY_INT,    /* int64_t */
    BT_KEY_DOUBLE, /* double */
    BT_KEY_BOOL,   /* bool: true | false */
    BT_KEY_TEXT,   /* const char * */
    BT_KEY_CHOICE, /* int: the place of the word in `words` */
    BT_KEY_WORDS,  /* unsigned: several of `words`, by commas, bit i for word i; the first stands alone and means 0 */
    BT_KEY_SIZE,   /* int64_t, at least `low`, or one of `words`, which stand for 0, -1, ... */
    BT_KEY_INTS,   /* bt_int_list */
    BT_KEY_BYTES,  /* int64_t: 64MiB, 1.5GB, plain bytes; `words`: "0" if that is a value; else 0 means not set */
    BT_KEY_CHECKPOINTING, /* bt_checkpointing */
    BT_KEY_METHOD,        /* const bt_method_def *, by name */
    BT_KEY_OPTIMIZER      /* const bt_optimizer_def *, by name */
} bt_key_kind;

typedef struct bt_key {
    const char *name;
    bt_section_kind section;
    bt_key_kind kind;
    size_t offset;       /* of the field in the section's struct */
    const char *value;   /* the default as text; NULL: not set, the field stays NULL (text) or 0 */
    const char *like;    /* another key whose value is the default: "batch_size", "engine.precision"; or NULL */
    double low, high;    /* ends included, for numbers */
    const char *words;   /* "min | max" */
    const char *refused; /* words from other tools that are not supported: "zero | fsdp"; or NULL */
    const char *advice;  /* what to use instead; required if `refused` is set */
    bool list;           /* text by commas, which may continue in KEY_2, KEY_3, ... */
    bool live;           /* may change between two training calls */
    bool resumable;      /* may differ in a resumed run */
    const char *ablate;  /* a memory technique: the values that --ablate tries, "2 | 4", the strongest last; or NULL */
    bool exact;          /* of a technique: no value changes the training in any bit */
    const char *instead; /* of a technique: the key that it replaces, as the two exclude each other; or NULL */
    const char *planned; /* of a technique: the value that lets a budget choose it; "": not set; or NULL */
    unsigned saves;      /* of a technique: a bit for each bt_category whose bytes it reduces; 0: any */
    const char *help;
} bt_key;

/* The table; ends with a row without a name. */
extern const bt_key bt_keys[];
const bt_key *bt_key_find(bt_section_kind section, const char *name); /* NULL if missing */
/* What --ablate tries for a key, also of a method: name, ablate, exact; NULL: nothing. */
const bt_key *bt_key_technique(bt_section_kind section, const char *name);

/* ---- values.c: between text and fields ---- */

/* Strict: the whole text, finite, within the range. `where` begins the message: "reweight.ini:14: [classifier] lr"
 * gives "reweight.ini:14: [classifier] lr = fast: expected a number, at least 0". Text is not copied. METHOD and
 * OPTIMIZER are looked up by the configuration, not here. */
bt_status bt_key_parse(const bt_key *key, const char *where, const char *text, void *field);
/* The inverse: `field` as text from which bt_key_parse restores it. False: there is nothing to print. */
bool bt_key_print(const bt_key *key, const void *field, bt_text *text);
/* "a number, at least 0", "min | max": what bt_key_parse takes. */
void bt_key_expected(const bt_key *key, bt_text *text);

/* ---- memory.c: the same for bytes and checkpointing; text is not copied ---- */

bool bt_bytes_read(const char *text, int64_t *bytes); /* at least 1 */
void bt_bytes_print(int64_t bytes, bt_text *text);    /* 64MiB, if the units are whole */
bool bt_checkpointing_read(const char *text, bt_checkpointing *how);
bool bt_checkpointing_print(const bt_checkpointing *how, bt_text *text); /* false: it is not set */
extern const char bt_checkpointing_words[];

bool bt_word_is(const char *word, size_t length, const char *text);

#endif
