/* engine/grid/grid.h: several runs in one command: every combination of values, with every seed. Each is an ordinary
 * run, with its own process and its own folder inside the grid's.
 *
 *   asked.c       which runs: "0.1|0.01", "1..5"; adds them to those of a folder
 *   runs.c        each run: its name, its settings, a fingerprint of everything it depends on
 *   begin.c       what a folder already has, and where the runs go
 *   train.c       in a child: begins or continues one run
 *   follow.c      reads what a run prints in the meantime
 *   grid.c        the runs, one after another or several at once
 *   statistics.c  mean and deviation of the results
 *   table.c       the results as text and as Markdown
 *   picture.c     the results as dots */
#ifndef BT_GRID_H
#define BT_GRID_H

#include "engine/output/json.h"
#include "engine/session/front.h"

enum { BT_GRID_MOST = 1000 }; /* runs */

/* ---- asked.c: what the user asks for: {"settings": {KEY: VALUE}, "vary": {KEY: [VALUE, ...]}, "seeds": [N, ...]}
 * ---- */

json_t *bt_grid_asked(void); /* empty; NULL: out of memory */

/* The values in a text, separated by |; \| is an ordinary |. One value also gives a list. where: the beginning of
 * messages. */
bt_status bt_grid_values(const char *where, const char *text, json_t **values);
bt_status bt_grid_ask_seeds(json_t *asked, const char *text);               /* "1..5", "1,2,7..9" */
bt_status bt_grid_ask(json_t *asked, const char *key, const char *value);   /* for all runs */
bt_status bt_grid_ask_each(json_t *asked, const char *key, json_t *values); /* takes over values */
bool bt_grid_asks_several(const json_t *asked);

/* ---- grid.c ---- */

typedef struct bt_grid {
    const json_t *asked;
    const char *file; /* the INI file; NULL: none, or that of the folder that is resumed */
    bt_status (*load)(void *user,
                      bt_engine *engine); /* gives an engine its problems, in a child; NULL: the file does */
    void *user;
    const char *resume; /* the folder of a grid to resume or to add runs to; NULL: a new one */
    int64_t jobs;       /* runs at once; 0: as many as there are cores for */
    bool plan;          /* only plan each combination; run and write nothing */
    bool json;          /* print grid.json instead of the table */
    FILE *out;
    FILE *progress;                    /* NULL: nowhere */
    const volatile sig_atomic_t *stop; /* not 0: children finish their steps, and their results are reported; or NULL */
} bt_grid;

/* A run that fails is reported, and the others continue: BT_ERROR_NUMERIC at the end. But if the first run cannot even
 * be set up, its error is returned. BT_ERROR_INTERRUPTED: stopped. The calling process must have no threads. */
bt_status bt_grid_run(const bt_grid *grid);

#endif
