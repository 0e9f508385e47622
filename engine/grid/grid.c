/* engine/grid/grid.c: the runs, one after the other or several at once. */
#include "engine/grid/grid_inside.h"
#include "engine/process/process.h"

#include "base/version.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct gridding {
    const bt_grid *grid;
    json_t *all, *runs;    /* what grid.json has; its runs, not owned */
    char *file;            /* the INI file; NULL: none */
    bt_output *output;     /* the folder; NULL: of a plan */
    int64_t jobs, threads; /* at once; of each, 0: as configured */
    size_t next, ended;    /* the run that comes next; those that have ended, or are not to be run */
    bool set_up;           /* one has got through its set-up */
    bool stopping;
    json_t *warnings; /* that have been said */
    bt_ticker ticker;
    struct slot *slots;
    bt_process **processes; /* of the slots */
} gridding;

typedef struct slot { /* a run that goes on */
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

/* ---- what is left ---- */

static bt_status write_text(const gridding *g, const char *name, const bt_text *text)
{
    return text->failed ? BT_ERROR_MEMORY
                        : bt_output_write(g->output->path, name, bt_text_get(text), (size_t)text->size);
}

static bt_status write_files(const gridding *g)
{
    bt_text table = {0}, picture = {0};
    if (!g->output)
        return BT_OK;
    BT_TRY(bt_grid_rows(g->all));
    bt_status status = bt_json_write(g->output->path, BT_OUTPUT_GRID, g->all, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
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

static void show(gridding *g)
{
    bt_text line = {0};
    const int64_t failed = count_of(g, "failed");
    bt_text_add(&line, "%zu/%zu done", g->ended, json_array_size(g->runs));
    if (failed)
        bt_text_add(&line, ", %lld failed", (long long)failed);
    for (int64_t i = 0; i < g->jobs; i++)
        if (g->slots[i].process.id)
            bt_text_add(&line, "  |  %s: %s", name_of(g->slots[i].run),
                        g->slots[i].follow.last.size ? bt_text_get(&g->slots[i].follow.last) : "setting up");
    bt_ticker_show(&g->ticker, bt_text_get(&line));
    bt_text_free(&line);
}

/* The same warning of another run is not said again. */
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
    s->g->set_up = true;
    return out_of_memory(!bytes || json_object_set(s->run, "planned_bytes", bytes) == 0);
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
    json_object_del(run, "failed");
    BT_TRY(set_state(run, "running"));
    s->job = (bt_grid_job){
        .grid = g->grid, .all = g->all, .run = run, .file = g->file, .folder = s->folder, .threads = g->threads};
    s->process = (bt_process){.run = run_child, .hear = hear, .user = s, .prints = s->log};
    return bt_process_start(&s->process);
}

/* Nothing of a grid whose first run cannot be set up stays. */
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
    else if (!g->output || (status = bt_grid_take(s->run, g->output->path)) == BT_OK)
        status = set_state(s->run, "finished");
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

/* Of those that have run before, and are finished. */
static bt_status see_finished(gridding *g)
{
    for (size_t i = 0; i < json_array_size(g->runs); i++) {
        json_t *run = json_array_get(g->runs, i);
        if (g->output && bt_grid_is_finished(run, g->output->path)) {
            BT_TRY(bt_grid_take(run, g->output->path));
            g->ended++;
        } else if (json_object_get(run, "state")) {
            BT_TRY(set_state(run, "waiting"));
        }
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
    BT_TRY(write_files(g)); /* to go on with, however this process ends */
    bt_status status = run_all(g);
    if (status != BT_OK && status != BT_ERROR_INTERRUPTED)
        return status;
    BT_TRY(print(g));
    if (status == BT_OK)
        return say_failures(g);
    if (g->output)
        bt_ticker_say(&g->ticker, "betty-run --resume %s goes on", g->output->path);
    return bt_fail(status, "interrupted");
}

/* ---- how it begins ---- */

static bool is_text_object(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return false;
    }
    return json_is_object(object);
}

static bool is_list_of(json_t *list, json_type type)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_typeof(json_array_get(list, i)) != type)
            return false;
    return json_is_array(list);
}

/* Nobody else writes it, but it is a file that anybody can change. */
static bool is_grid(const json_t *all)
{
    json_t *vary = json_object_get(all, "vary"), *runs = json_object_get(all, "runs"), *values;
    const char *key;
    bool good = is_text_object(json_object_get(all, "settings")) && json_is_object(vary) &&
                is_list_of(json_object_get(all, "seeds"), JSON_INTEGER) && is_list_of(runs, JSON_OBJECT);
    json_object_foreach(vary, key, values)
    {
        good = good && is_list_of(values, JSON_STRING) && json_array_size(values) > 0;
    }
    for (size_t i = 0; i < json_array_size(runs); i++)
        good = good && is_text_object(json_object_get(json_array_get(runs, i), "settings"));
    return good;
}

static bt_status read_grid(gridding *g)
{
    json_error_t error = {.text = "it is none that this program has written"};
    BT_TRY(bt_output_open(g->grid->resume, false, &g->output));
    char *path = bt_string("%s/%s", g->grid->resume, BT_OUTPUT_GRID);
    g->all = path ? json_load_file(path, 0, &error) : NULL;
    bt_free(path);
    if (!g->all || !is_grid(g->all))
        return bt_fail(BT_ERROR_CONFIG, "%s/%s cannot be read: %s", g->grid->resume, BT_OUTPUT_GRID, error.text);
    return bt_grid_join(g->all, g->grid->asked);
}

static bt_status find_file(gridding *g)
{
    const char *old = json_string_value(json_object_get(g->all, "file"));
    const char *wanted = g->grid->file ? g->grid->file : old;
    char path[PATH_MAX];
    if (!wanted)
        return BT_OK;
    if (!g->grid->file && access(wanted, R_OK) != 0)
        return bt_fail(BT_ERROR_CONFIG,
                       "%s was begun with %s, which is not there; name the file: betty-run FILE "
                       "--resume %s",
                       g->grid->resume, wanted, g->grid->resume);
    g->file = bt_strdup(wanted);
    BT_TRY(out_of_memory(g->file != NULL));
    return out_of_memory(json_object_set_new(g->all, "file", bt_json_string(realpath(wanted, path) ? path : wanted)) ==
                         0);
}

/* What [engine] says, as far as it can be known here. */
static bt_status read_settings(const gridding *g, bt_config *config)
{
    json_t *value;
    const char *key;
    if (!config)
        return BT_ERROR_MEMORY;
    if (g->file)
        BT_TRY(bt_config_read(config, g->file));
    json_object_foreach(json_object_get(g->all, "settings"), key, value)
    {
        BT_TRY(bt_config_set(config, key, json_string_value(value), key));
    }
    return bt_config_engine(config) ? BT_OK : bt_error_status();
}

/* As many at once as was asked for, and no more than there are to run; together they have as many threads as there are
 * cores, where nothing else is configured. */
static void share_cores(gridding *g, int64_t configured)
{
    const int64_t cores = bt_cores(), left = (int64_t)(json_array_size(g->runs) - g->ended);
    g->jobs = g->grid->jobs ? g->grid->jobs : configured ? cores / configured : cores;
    g->jobs = g->jobs > left ? left : g->jobs;
    g->jobs = g->jobs < 1 ? 1 : g->jobs;
    if (!configured && g->jobs > 1)
        g->threads = cores / g->jobs < 1 ? 1 : cores / g->jobs;
}

static bt_status open_output(gridding *g, const bt_config *config, const char *wanted)
{
    char *name = bt_string("%s-grid", bt_config_stem(config));
    bt_status status =
        out_of_memory(name && json_object_set_new(g->all, "name", bt_json_string(bt_config_stem(config))) == 0);
    if (status == BT_OK && !g->output && !g->grid->plan)
        status = bt_output_make(wanted, name, &g->output);
    bt_free(name);
    json_object_del(json_object_get(g->all, "settings"), "engine.output"); /* each run has its own */
    return status == BT_ERROR_FILE ? BT_ERROR_CONFIG : status;
}

static bt_status prepare(gridding *g, bt_config *config)
{
    if (g->grid->resume)
        BT_TRY(read_grid(g));
    else
        g->all = bt_json_with(json_deep_copy(g->grid->asked), "runs", json_array());
    BT_TRY(out_of_memory(g->all && json_object_set_new(g->all, "version", json_string(BT_VERSION)) == 0));
    if (json_array_size(json_object_get(g->all, "seeds")) &&
        json_object_get(json_object_get(g->all, "settings"), "engine.seed"))
        return bt_fail(BT_ERROR_CONFIG, "--seeds says which seeds there are: it does not go with --seed");
    BT_TRY(find_file(g));
    BT_TRY(read_settings(g, config));
    BT_TRY(bt_grid_list(g->all, g->file, g->grid->plan));
    g->runs = json_object_get(g->all, "runs");
    const bt_engine_settings *settings = bt_config_engine(config);
    BT_TRY(open_output(g, config, settings->output));
    BT_TRY(see_finished(g));
    share_cores(g, settings->threads);
    return open_slots(g);
}

bt_status bt_grid_run(const bt_grid *grid)
{
    if (!grid || !grid->asked || !grid->out)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_grid_run: an argument is NULL");
    gridding g = {.grid = grid, .warnings = json_object(), .ticker = bt_ticker_on(grid->progress)};
    bt_config *config = bt_config_new();
    bt_status status = prepare(&g, config);
    if (status == BT_OK)
        status = grid_run(&g);
    bt_ticker_erase(&g.ticker);
    for (int64_t i = 0; g.slots && i < g.jobs; i++)
        close_slot(&g.slots[i]);
    bt_free(g.slots);
    bt_free(g.processes);
    json_decref(g.warnings);
    json_decref(g.all);
    bt_config_free(config);
    bt_output_free(g.output);
    bt_free(g.file);
    return status;
}
