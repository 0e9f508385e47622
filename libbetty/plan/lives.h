/* plan/lives.h: which values live when, if several programs share one arena. */
#ifndef BT_LIVES_H
#define BT_LIVES_H

#include "plan/place.h"

typedef struct bt_touch { /* bytes that a program reads or writes */
    int64_t var;          /* they are part of this variable; -1: a value of the program's own */
    size_t start, bytes;
    int64_t first, last; /* steps of the program */
    int64_t row;         /* the result: the row in which they begin */
} bt_touch;

typedef struct bt_lives_entry { /* a program; they run one after the other */
    bt_touch *touches;
    int64_t touch_count, steps;
    int loop; /* entries with the same number repeat together; 0: once */
} bt_lives_entry;

typedef struct bt_lives_var {
    size_t bytes;
    bool clear;   /* it is cleared before the first program that touches it */
    bool lasting; /* lives from the first step of all programs to the last */
} bt_lives_var;

typedef struct bt_row {
    int entry;     /* the first one that touches it */
    int64_t touch; /* of this entry: a value of its own; -1: a part of `var` */
    int64_t var;   /* the part of this variable from byte `start` on */
    size_t start;
    size_t used; /* bytes, before rounding */
} bt_row;

typedef struct bt_lives {
    bt_lives_entry *entries;
    const bt_lives_var *vars;
    int entry_count;
    int64_t var_count;
    /* the result */
    bt_interval *intervals;
    bt_row *rows; /* one for each interval */
    int64_t count, capacity;
} bt_lives;

/* The caller frees `intervals` and `rows`, also after an error. */
bt_status bt_lives_list(bt_lives *lives);

#endif
