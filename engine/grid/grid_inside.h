/* engine/grid/grid_inside.h: shared by the files of this room. */
#ifndef BT_GRID_INSIDE_H
#define BT_GRID_INSIDE_H

#include "engine/grid/grid.h"
#include "engine/output/ticker.h"

/* ---- asked.c ---- */

/* Adds to what a folder's runs were asked for: values and seeds are added, settings are replaced. */
bt_status bt_grid_join(json_t *asked, const json_t *more);

/* ---- runs.c ---- */

/* "runs" of all: {"run", "settings", "seed", "fingerprint"}, in order. A run whose name exists already keeps what it
 * has. combinations: only the first seed of each combination. */
bt_status bt_grid_list(json_t *all, const char *file, bool combinations);
/* "model.lr=0.1, model.size=3"; "as configured" if only the seed varies. */
void bt_grid_label(const json_t *settings, bt_text *text);

/* *ended: whether the run has finished; adds its results, "metrics", from its summary.json. */
bt_status bt_grid_take(json_t *run, const char *folder, bool *ended);

/* ---- begin.c ---- */

typedef struct bt_grid_begun {
    json_t *all;       /* the contents of grid.json */
    char *file;        /* the INI file; NULL: none */
    bt_output *output; /* the folder; NULL: only a plan */
    int64_t threads;   /* as configured; 0: not configured */
} bt_grid_begun;
bt_status bt_grid_begin(const bt_grid *grid, bt_grid_begun *begun); /* bt_grid_end in any case */
void bt_grid_end(bt_grid_begun *begun);

/* ---- train.c ---- */

typedef struct bt_grid_job {
    const bt_grid *grid;
    const json_t *all, *run;
    const char *file;   /* NULL: none */
    const char *folder; /* of the run; NULL: only a plan */
    int64_t threads;    /* 0: as configured */
} bt_grid_job;

/* Sends {"ready"} when it is set up; for a plan, {"planned_bytes"}. */
bt_status bt_grid_train(const bt_grid_job *job, FILE *tell);

/* ---- follow.c ---- */

typedef struct bt_follow {
    char *path;
    int64_t at;   /* bytes read so far */
    bt_text part; /* of a line */
    bt_text last; /* line of metrics */
} bt_follow;

bt_status bt_follow_open(bt_follow *follow, const char *path); /* from the end of the file on */
/* Reads what is new; passes each warning to hear. */
void bt_follow_read(bt_follow *follow, void (*hear)(void *user, const char *warning), void *user);
void bt_follow_close(bt_follow *follow);

/* ---- statistics.c ---- */

/* "rows" of all: {"row", "settings", "runs", "finished", "metrics": {NAME: {"n", "mean", "deviation", "least",
 * "greatest"}}}, over runs that have finished. */
bt_status bt_grid_rows(json_t *all);
bool bt_grid_in_row(const json_t *run, const json_t *row);

/* ---- table.c, picture.c: from the object in grid.json ---- */

void bt_grid_table(const json_t *all, bool markdown, bt_text *text);
void bt_grid_plan_table(const json_t *all, bt_text *text);
bt_status bt_grid_picture(const json_t *all, bt_text *text);
/* The names of all metrics, in order; a new list. */
json_t *bt_grid_metrics(const json_t *rows);
/* Why the row has no results: the reason why the first of its failed runs failed; "": it has some. */
void bt_grid_why(const json_t *all, const json_t *row, bt_text *text);

#endif
