/* data/pieces.h: a list of texts in one block of memory, and steps that turn one list into another. */
#ifndef BT_PIECES_H
#define BT_PIECES_H

#include "base/base.h"

typedef struct bt_pieces { /* starts as {0} */
    char *bytes;
    int64_t size, room;
    int64_t *ends; /* [count]: end of each piece */
    int64_t count, end_room;
    bool begins; /* the first piece is the beginning of the whole text */
    bool failed; /* out of memory: what follows is dropped */
} bt_pieces;

void bt_pieces_put(bt_pieces *pieces, const char *text, int64_t size); /* extends the last piece, which is open */
void bt_pieces_end(bt_pieces *pieces); /* closes the open piece; an empty one is dropped */
void bt_pieces_add(bt_pieces *pieces, const char *text, int64_t size); /* put and end */
void bt_pieces_clear(bt_pieces *pieces);                               /* removes all pieces; keeps the memory */
void bt_pieces_free(bt_pieces *pieces);
const char *bt_pieces_get(const bt_pieces *pieces, int64_t i, int64_t *size);

/* What happens to a matched separator when a text is cut. */
typedef enum bt_cut {
    BT_CUT_REMOVED,
    BT_CUT_ISOLATED,
    BT_CUT_MERGED_WITH_PREVIOUS,
    BT_CUT_MERGED_WITH_NEXT,
    BT_CUT_CONTIGUOUS
} bt_cut;

/* A step of a tokeniser with its settings: a normaliser, a splitter or a decoder. Each step's function says which
 * settings it uses. */
typedef struct bt_step bt_step;
struct bt_step {
    void (*run)(const bt_step *step, const bt_pieces *from, bt_pieces *to);
    int (*map)(int32_t c, int32_t to[3]); /* replaces a character by none to three */
    unsigned classes;                     /* matches characters of these classes, */
    int32_t character;                    /* or this character; 0: none */
    int setting;
    const char *text, *other; /* null-terminated, in the tokeniser's region */
    int64_t left, right;
};

/* Runs the steps in order. `a` holds the text, and the result at the end. */
void bt_steps_run(const bt_step *steps, int64_t count, bt_pieces *a, bt_pieces *b);

/* ---- step functions ---- */

/* normalizers.c */
void bt_step_map(const bt_step *step, const bt_pieces *from, bt_pieces *to);     /* applies `map` to each character */
void bt_step_form(const bt_step *step, const bt_pieces *from, bt_pieces *to);    /* setting: bt_unicode_form */
void bt_step_replace(const bt_step *step, const bt_pieces *from, bt_pieces *to); /* replaces each `text` by `other` */
void bt_step_prepend(const bt_step *step, const bt_pieces *from,
                     bt_pieces *to); /* puts `text` before each piece; if setting: unless it is there */
void bt_step_trim(const bt_step *step, const bt_pieces *from, bt_pieces *to); /* removes blanks at the left, right */
int bt_map_clean(int32_t c, int32_t to[3]);      /* drops control characters; makes all blanks alike */
int bt_map_spread(int32_t c, int32_t to[3]);     /* puts blanks around ideographs */
int bt_map_nonspacing(int32_t c, int32_t to[3]); /* drops nonspacing marks */
int bt_map_marks(int32_t c, int32_t to[3]);      /* drops all marks */
int bt_map_lower(int32_t c, int32_t to[3]);

/* splitters.c */
void bt_step_split(const bt_step *step, const bt_pieces *from,
                   bt_pieces *to); /* at `classes`, `character`; setting: bt_cut */
void bt_step_split_text(const bt_step *step, const bt_pieces *from, bt_pieces *to); /* at `text`; setting: bt_cut */
void bt_step_words(const bt_step *step, const bt_pieces *from, bt_pieces *to);      /* \w+ or [^\w\s]+ */
void bt_step_gpt2(const bt_step *step, const bt_pieces *from, bt_pieces *to);       /* GPT-2's regular expression */
void bt_step_bytes(const bt_step *step, const bt_pieces *from, bt_pieces *to);      /* a visible character per byte */
void bt_step_metaspace(const bt_step *step, const bt_pieces *from,
                       bt_pieces *to); /* `text` for a blank, and before the piece, by setting */
int bt_byte_of_character(int32_t c);   /* the inverse of bt_step_bytes; -1: none */

typedef enum bt_prepend { BT_PREPEND_NEVER, BT_PREPEND_FIRST, BT_PREPEND_ALWAYS } bt_prepend;

/* decoders.c */
void bt_step_join(const bt_step *step, const bt_pieces *from, bt_pieces *to);   /* one piece, with `text` between */
void bt_step_unbyte(const bt_step *step, const bt_pieces *from, bt_pieces *to); /* the inverse of bt_step_bytes */
void bt_step_wordpiece(const bt_step *step, const bt_pieces *from,
                       bt_pieces *to); /* `text`: marks a continued word; setting: tidies blanks */
void bt_step_suffix(const bt_step *step, const bt_pieces *from, bt_pieces *to);   /* `text`: marks a word's end */
void bt_step_fallback(const bt_step *step, const bt_pieces *from, bt_pieces *to); /* turns tokens <0xNN> into bytes */
void bt_step_unmeta(const bt_step *step, const bt_pieces *from, bt_pieces *to);   /* the inverse of bt_step_metaspace */
void bt_step_strip(const bt_step *step, const bt_pieces *from, bt_pieces *to);    /* up to left, right times `text` */

#endif
