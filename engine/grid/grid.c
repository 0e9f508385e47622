/* engine/grid/grid.c: runs everything, one after the other or several at once. */
#include "engine/grid/grid_inside.h"
#include "engine/process/process.h"

#include <string.h>
#include <unistd.h>

typedef struct gridding {
    const bt_grid *grid;
    json_t *all, *runs;    /* the content of grid.json; its runs */
    const char *file;      /* the INI file; NULL: none */
    bt_output *output;     /* the folder; NULL: only a plan */
    int64_t jobs, threads; /* runs at once; threads of each, 0: as configured */
    size_t next, ended;    /* the index of the next run; runs that have ended or are not to be run */
    bool set_up;           /* some run has completed its set-up */
    bool stopping;
    json_t *warnings; /* those already printed */
    bt_ticker ticker;
    struct slot *slots;
    bt_process **processes; /* one for each slot */
} gridding;

typedef struct slot { /* a run in progress */
    gridding *g;
    bt_process process;
    bt_grid_job job;
    json_t *run;
    char *folder, *log;
    bt_follow follow;
    double begun;
} slot;

static const char *name_of(const json_t *run) { return bt_json_read_text(run, "run"); }

static bt_status out_of_memory(bool good) { return good ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory"); }

static bt_status set_state(json_t *run, const char *state)
{
    return out_of_memory(json_object_set_new(run, "state", json_string(state)) == 0);
}

static int64_t count_of(const gridding *g, const char *state)
{
    int64_t count = 0;
    for (size_t i = 0; i < json_array_size(g->runs); i++)
        count += strcmp(bt_json_read_text(json_array_get(g->runs, i), "state"), state) == 0;
    return count;
}

/* ---- output ---- */

static bt_status write_text(const gridding *g, const char *name, const bt_text *text)
{
    return text->failed ? BT_ERROR_MEMORY
                        : bt_output_write(g->output->path, name, bt_text_get(text), (size_t)text->size);
}

static bt_status write_files(const gridding *g)
{
    bt_text table = {0}, picture = {0};
    if (!g->output || (g->grid->resume && !g->set_up)) /* an added request may still be refused */
        return BT_OK;
    BT_TRY(bt_grid_rows(g->all));
    bt_status status = bt_json_write(g->output->path, BT_OUTPUT_GRID, g->all, JSON_INDENT(2));
    bt_grid_table(g->all, true, &table);
    if (status == BT_OK)
        status = write_text(g, "grid.md", &table);
    if (status == BT_OK)
        status = bt_grid_picture(g->all, &picture);
    if (status == BT_OK)
        status = write_text(g, "grid.svg", &picture);
    bt_text_free(&table);
    bt_text_free(&picture);
    return status;
}

static bt_status print(const gridding *g)
{
    bt_text text = {0};
    if (g->grid->json)
        return bt_json_print(g->all, g->grid->out);
    if (g->grid->plan)
        bt_grid_plan_table(g->all, &text);
    else
        bt_grid_table(g->all, false, &text);
    fprintf(g->grid->out, "%s", bt_text_get(&text));
    if (g->output)
        fprintf(g->grid->out, "\n%s: grid.json, grid.md, grid.svg, and a folder for each run\n", g->output->path);
    bt_status status = out_of_memory(!text.failed);
    bt_text_free(&text);
    return status;
}

/* ---- progress ---- */

/* For one run its whole line of metrics; for several the progress of each: "step 10/6000". */
static void add_state(bt_text *line, const slot *s, bool whole)
{
    const char *last = bt_text_get(&s->follow.last), *end = strstr(last, "  ");
    bt_text_add(line, "  |  %s: %.*s", name_of(s->run), (int)(end && !whole ? end - last : (ptrdiff_t)strlen(last)),
                last);
    bt_text_add(line, "%s", *last ? "" : "begun");
}

static void show(gridding *g)
{
    bt_text line = {0};
    const int64_t failed = count_of(g, "failed");
    bt_text_add(&line, "%zu/%zu done", g->ended, json_array_size(g->runs));
    if (failed)
        bt_text_add(&line, ", %lld failed", (long long)failed);
    for (int64_t i = 0; i < g->jobs; i++)
        if (g->slots[i].process.id)
            add_state(&line, &g->slots[i], g->jobs == 1);
    bt_ticker_show(&g->ticker, bt_text_get(&line));
    bt_text_free(&line);
}

/* Prints each warning only for the first run that gives it. */
static void hear_warning(void *user, const char *warning)
{
    slot *s = user;
    if (json_object_get(s->g->warnings, warning))
        return;
    json_object_set_new(s->g->warnings, warning, json_true());
    bt_ticker_say(&s->g->ticker, "%s: warning: %s", name_of(s->run), warning);
}

static void say_end(gridding *g, const slot *s, const char *state, const char *why)
{
    bt_ticker_say(&g->ticker, "%zu/%zu  %s: %s%s%s, %.3g s", g->ended, json_array_size(g->runs), name_of(s->run), state,
                  *why ? ": " : "", why, bt_seconds() - s->begun);
}

/* ---- one run ---- */

static bt_status run_child(void *user, FILE *tell)
{
    const slot *s = user;
    return bt_grid_train(&s->job, tell);
}

static bt_status hear(void *user, json_t *line)
{
    slot *s = user;
    json_t *bytes = json_object_get(line, "planned_bytes");
    const bool first = !s->g->set_up;
    s->g->set_up = true;
    BT_TRY(out_of_memory(!bytes || json_object_set(s->run, "planned_bytes", bytes) == 0));
    return first ? write_files(s->g) : BT_OK;
}

static void close_slot(slot *s)
{
    bt_process_free(&s->process);
    bt_follow_close(&s->follow);
    bt_free(s->folder);
    bt_free(s->log);
    *s = (slot){.g = s->g};
}

static bt_status open_folder(slot *s)
{
    bt_output *output;
    s->folder = bt_string("%s/%s", s->g->output->path, name_of(s->run));
    s->log = bt_string("%s/%s/%s", s->g->output->path, name_of(s->run), BT_OUTPUT_LOG);
    BT_TRY(out_of_memory(s->folder && s->log));
    BT_TRY(bt_output_open(s->folder, true, &output));
    bt_output_free(output);
    return bt_follow_open(&s->follow, s->log);
}

static bt_status start(slot *s, json_t *run)
{
    gridding *g = s->g;
    s->run = run;
    s->begun = bt_seconds();
    if (g->output)
        BT_TRY(open_folder(s));
    json_object_del(run, "failed"); /* left from an earlier attempt */
    json_object_del(run, "metrics");
    BT_TRY(set_state(run, "running"));
    s->job = (bt_grid_job){
        .grid = g->grid, .all = g->all, .run = run, .file = g->file, .folder = s->folder, .threads = g->threads};
    s->process = (bt_process){.run = run_child, .hear = hear, .user = s, .prints = s->log};
    return bt_process_start(&s->process);
}

/* If the first run cannot be set up, removes everything. */
static void remove_all(const gridding *g)
{
    if (g->grid->resume || !g->output)
        return;
    for (int64_t i = 0; i < g->jobs; i++)
        if (g->slots[i].folder) {
            bt_process_free(&g->slots[i].process);
            bt_output_clear(g->slots[i].folder);
            rmdir(g->slots[i].folder);
        }
    bt_output_remove(g->output->path, BT_OUTPUT_GRID);
    bt_output_remove(g->output->path, "grid.md");
    bt_output_remove(g->output->path, "grid.svg");
    rmdir(g->output->path);
}

static bt_status note_failure(const gridding *g, const slot *s)
{
    const char *why = bt_text_get(&s->process.why);
    if (!g->set_up) {
        const bt_status failed = s->process.failed;
        char *text = bt_strdup(why);
        remove_all(g);
        bt_status status = bt_fail(failed, "%s", text ? text : "");
        bt_free(text);
        return status;
    }
    BT_TRY(out_of_memory(json_object_set_new(s->run, "failed", bt_json_string(why)) == 0));
    return set_state(s->run, "failed");
}

/* A run has reported that it has reached its end. */
static bt_status take_end(const gridding *g, json_t *run)
{
    bool ended = true;
    if (g->output)
        BT_TRY(bt_grid_take(run, g->output->path, &ended));
    if (!ended)
        return bt_fail(BT_ERROR_FILE, "%s/%s/summary.json is not there", g->output->path, name_of(run));
    return set_state(run, "finished");
}

static bt_status finish(slot *s)
{
    gridding *g = s->g;
    const bool stopped = s->process.failed == BT_ERROR_INTERRUPTED || (g->stopping && s->process.failed != BT_OK);
    bt_status status = BT_OK;
    bt_follow_read(&s->follow, hear_warning, s);
    g->ended += !stopped;
    if (stopped)
        status = set_state(s->run, "interrupted");
    else if (s->process.failed != BT_OK)
        status = note_failure(g, s);
    else
        status = take_end(g, s->run);
    if (status != BT_OK)
        return status;
    if (g->output)
        say_end(g, s, bt_json_read_text(s->run, "state"), bt_json_read_text(s->run, "failed"));
    close_slot(s);
    return write_files(g);
}

/* ---- all of them ---- */

static bool is_done(const gridding *g, const json_t *run)
{
    return g->output && strcmp(bt_json_read_text(run, "state"), "finished") == 0;
}

static bt_status start_more(gridding *g)
{
    for (int64_t i = 0; i < g->jobs && !g->stopping; i++) {
        if (g->slots[i].process.id)
            continue;
        while (g->next < json_array_size(g->runs) && is_done(g, json_array_get(g->runs, g->next)))
            g->next++;
        if (g->next == json_array_size(g->runs))
            return BT_OK;
        BT_TRY(start(&g->slots[i], json_array_get(g->runs, g->next++)));
    }
    return BT_OK;
}

static bool any_runs(const gridding *g)
{
    for (int64_t i = 0; i < g->jobs; i++)
        if (g->slots[i].process.id)
            return true;
    return false;
}

static void stop_all(gridding *g)
{
    if (g->stopping || !g->grid->stop || !*g->grid->stop)
        return;
    g->stopping = true;
    for (int64_t i = 0; i < g->jobs; i++)
        bt_process_ask(&g->slots[i].process);
}

static bt_status run_all(gridding *g)
{
    bt_process *ended;
    BT_TRY(start_more(g));
    while (any_runs(g)) {
        BT_TRY(bt_process_listen(g->processes, g->jobs, &ended));
        stop_all(g);
        for (int64_t i = 0; i < g->jobs; i++) {
            if (ended == g->processes[i])
                BT_TRY(finish(&g->slots[i]));
            else if (g->slots[i].process.id)
                bt_follow_read(&g->slots[i].follow, hear_warning, &g->slots[i]);
        }
        BT_TRY(start_more(g));
        show(g);
    }
    bt_ticker_erase(&g->ticker);
    return g->stopping ? BT_ERROR_INTERRUPTED : BT_OK;
}

static bt_status open_slots(gridding *g)
{
    g->slots = bt_alloc_array((size_t)g->jobs, sizeof *g->slots);
    g->processes = bt_alloc_array((size_t)g->jobs, sizeof *g->processes);
    for (int64_t i = 0; g->slots && g->processes && i < g->jobs; i++) {
        g->slots[i].g = g;
        g->processes[i] = &g->slots[i].process;
    }
    return out_of_memory(g->slots && g->processes && g->warnings);
}

/* Counts the runs that finished earlier. */
static bt_status see_finished(gridding *g)
{
    for (size_t i = 0; i < json_array_size(g->runs); i++) {
        json_t *run = json_array_get(g->runs, i);
        bool ended = false;
        if (is_done(g, run))
            BT_TRY(bt_grid_take(run, g->output->path, &ended));
        g->ended += ended;
        if (!ended)
            BT_TRY(set_state(run, "waiting"));
    }
    return BT_OK;
}

static void say_begin(gridding *g)
{
    const size_t count = json_array_size(g->runs);
    bt_text line = {0};
    bt_text_add(&line, "%s: %zu run%s", g->output->path, count, count == 1 ? "" : "s");
    if (g->ended)
        bt_text_add(&line, ", %zu of them finished", g->ended);
    if (g->jobs > 1)
        bt_text_add(&line, ", %lld at once", (long long)g->jobs);
    if (g->threads)
        bt_text_add(&line, ", each with %lld thread%s", (long long)g->threads, g->threads == 1 ? "" : "s");
    bt_ticker_say(&g->ticker, "%s", bt_text_get(&line));
    bt_text_free(&line);
}

static bt_status say_failures(const gridding *g)
{
    const int64_t failed = count_of(g, "failed");
    if (!failed)
        return BT_OK;
    if (!g->output)
        return bt_fail(BT_ERROR_NUMERIC, "%lld of %zu combinations cannot be set up", (long long)failed,
                       json_array_size(g->runs));
    return bt_fail(BT_ERROR_NUMERIC, "%lld of %zu runs failed; betty-run --resume %s tries them again",
                   (long long)failed, json_array_size(g->runs), g->output->path);
}

static bt_status grid_run(gridding *g)
{
    if (g->output)
        say_begin(g);
    g->set_up = g->ended == json_array_size(g->runs);
    BT_TRY(write_files(g)); /* so that it can be continued, however this process ends */
    bt_status status = run_all(g);
    if (status != BT_OK && status != BT_ERROR_INTERRUPTED)
        return status;
    BT_TRY(print(g));
    if (status == BT_OK)
        return say_failures(g);
    if (g->output)
        bt_ticker_say(&g->ticker, "continue with: betty-run --resume %s", g->output->path);
    return bt_fail(status, "interrupted");
}

/* Runs as many at once as requested, but no more than are left. Unless configured otherwise, together they have as many
 * threads as there are cores. */
static void share_cores(gridding *g, int64_t configured)
{
    const int64_t cores = bt_cores(), left = (int64_t)(json_array_size(g->runs) - g->ended);
    g->jobs = g->grid->jobs ? g->grid->jobs : configured ? cores / configured : cores;
    g->jobs = g->jobs > left ? left : g->jobs;
    g->jobs = g->jobs < 1 ? 1 : g->jobs;
    if (!configured && g->jobs > 1)
        g->threads = cores / g->jobs < 1 ? 1 : cores / g->jobs;
}

static bt_status all_runs(gridding *g, int64_t threads)
{
    BT_TRY(see_finished(g));
    share_cores(g, threads);
    BT_TRY(open_slots(g));
    return grid_run(g);
}

bt_status bt_grid_run(const bt_grid *grid)
{
    if (!grid || !grid->asked || !grid->out)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_grid_run: an argument is NULL");
    gridding g = {.grid = grid, .warnings = json_object(), .ticker = bt_ticker_on(grid->progress)};
    bt_grid_begun begun;
    bt_status status = bt_grid_begin(grid, &begun);
    g.all = begun.all;
    g.runs = json_object_get(begun.all, "runs");
    g.file = begun.file;
    g.output = begun.output;
    if (status == BT_OK)
        status = all_runs(&g, begun.threads);
    bt_ticker_erase(&g.ticker);
    for (int64_t i = 0; g.slots && i < g.jobs; i++)
        close_slot(&g.slots[i]);
    bt_free(g.slots);
    bt_free(g.processes);
    json_decref(g.warnings);
    bt_grid_end(&begun);
    return status;
}
