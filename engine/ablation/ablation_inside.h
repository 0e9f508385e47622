/* engine/ablation/ablation_inside.h: what the files of this room share. */
#ifndef BT_ABLATION_INSIDE_H
#define BT_ABLATION_INSIDE_H

#include "engine/ablation/ablation.h"
#include "engine/process/process.h"

/* ---- choices.c ---- */

typedef struct bt_choice { /* a key of a level with another value than it has */
    const char *level;     /* "engine": of the whole run */
    const char *key, *value;
    /* What is set with it: batch_size, so that a step sees the same examples; keys that exclude it, to "", their
     * default. with "": nothing. */
    const char *with, *with_value;
    bool exact;     /* changes no bit */
    int stronger;   /* how many stronger values of the key there are */
    unsigned saves; /* as in bt_key */
} bt_choice;

/* For an engine whose levels are planned: a list of such objects; level NULL: all. within: only what may help to meet a
 * budget: if a budget can choose a value by itself, the value that lets it. NULL after an error. */
json_t *bt_choices_list(bt_engine *engine, const char *level, bool within);
/* Of a whole step, however many micro-batches that is and whether batch_size says so; 0: not from a data set. */
int64_t bt_ablation_examples(const bt_problem *problem);
bool bt_choice_same(const bt_choice *a, const bt_choice *b); /* the same key and value, perhaps of different levels */
/* Their structs, in the region, whose text is the list's; NULL: out of memory. */
const bt_choice *bt_choices_read(bt_region *region, const json_t *list);

/* ---- rows.c ---- */

typedef struct bt_ablation_row {
    const char *name;          /* "classifier: prefetch = false" */
    const bt_choice **choices; /* what it changes */
    int64_t count;
} bt_ablation_row;

typedef struct bt_ablation_rows {
    bt_region *region; /* of all of it */
    bt_ablation_row *list;
    int64_t count, room;
} bt_ablation_rows;

/* As configured; each technique on each level alone, and on all of them; all that change no bit; everything. Of equal
 * rows only one is kept. choices must outlive them. */
bt_status bt_rows_make(const bt_choice *choices, int64_t count, bt_ablation_rows *rows);
void bt_rows_free(bt_ablation_rows *rows);

/* ---- turn.c ---- */

typedef struct bt_turn {
    const bt_ablation *ablation;
    const bt_ablation_row *row; /* NULL: as configured */
    int64_t steps;
    bool first;    /* of all: makes as many more steps as are needed until each upper level has stepped, and leaves its
                    * hypergradients in the file */
    int reference; /* the file of the first hypergradients of the run as configured */
} bt_turn;

/* Sends {"choices", "stem", "plan"} when it is set up, {"step"} now and then, {"result"} at the end. */
bt_status bt_turn_take(const bt_turn *turn, FILE *tell);

/* ---- table.c, picture.c: from the object in ablation.json ---- */

void bt_ablation_table(const json_t *all, bool markdown, bt_text *text);
bt_status bt_ablation_picture(const json_t *all, bt_text *text);

#endif
