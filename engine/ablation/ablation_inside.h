/* engine/ablation/ablation_inside.h: shared by the files of this room. */
#ifndef BT_ABLATION_INSIDE_H
#define BT_ABLATION_INSIDE_H

#include "engine/ablation/ablation.h"
#include "engine/process/process.h"

/* ---- choices.c ---- */

typedef struct bt_choice { /* a different value for a key of a level */
    const char *level;     /* "engine": the whole run */
    const char *key, *value;
    /* What is set with it: batch_size, so that a step sees the same examples; keys that exclude it, to "", their
     * default. with "": nothing. */
    const char *with, *with_value;
    bool exact;     /* does not change the training in any bit */
    int stronger;   /* number of stronger values of the key */
    unsigned saves; /* as in bt_key */
} bt_choice;

/* For an engine whose levels are planned: a list of such objects; level NULL: all. within: only what may help to meet a
 * budget; if a budget can choose a value itself, the value that allows it. NULL after an error. */
json_t *bt_choices_list(bt_engine *engine, const char *level, bool within);
/* The examples of a whole step, of all its micro-batches, even if batch_size is not set; 0: not from a data set. */
int64_t bt_ablation_examples(const bt_problem *problem);
bool bt_choice_same(const bt_choice *a, const bt_choice *b); /* the same key and value, perhaps on different levels */
/* Their structs, allocated in the region; the text belongs to the list. NULL: out of memory. */
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

/* The rows: as configured; each technique on each level alone, and on all levels; all exact techniques together; all
 * techniques. Equal rows are merged. choices must outlive them. */
bt_status bt_rows_make(const bt_choice *choices, int64_t count, bt_ablation_rows *rows);
void bt_rows_free(bt_ablation_rows *rows);

/* ---- turn.c ---- */

typedef struct bt_turn {
    const bt_ablation *ablation;
    const bt_ablation_row *row; /* NULL: as configured */
    int64_t steps;
    bool first;    /* the first turn of all: continues until each upper level has stepped, and writes their
                      hypergradients to the file */
    int reference; /* the file with the first hypergradients of the configured run */
} bt_turn;

/* Sends {"choices", "stem", "plan"} when it is set up, {"step"} now and then, {"result"} at the end. */
bt_status bt_turn_take(const bt_turn *turn, FILE *tell);

/* ---- table.c, picture.c: from the object in ablation.json ---- */

void bt_ablation_table(const json_t *all, bool markdown, bt_text *text);
bt_status bt_ablation_picture(const json_t *all, bt_text *text);

#endif
