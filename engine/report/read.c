/* engine/report/read.c: reads the folders of a report, and finds the runs that differ only in their seed. */
#include "engine/report/report_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

enum { EQUATION = 100000 }; /* bytes to read, at most */

static bt_status load_equation(const char *folder, json_t **value)
{
    char *path = bt_string("%s/equation.txt", folder), *text = bt_alloc(EQUATION + 1);
    FILE *file = path && text ? fopen(path, "re") : NULL;
    bt_status status = !path || !text            ? BT_ERROR_MEMORY
                       : file || errno == ENOENT ? BT_OK
                                                 : bt_fail(BT_ERROR_FILE, "%s: %s", path, strerror(errno));
    if (file) {
        text[fread(text, 1, EQUATION, file)] = 0;
        *value = *text ? bt_json_string(text) : NULL;
        status = *value || !*text ? BT_OK : BT_ERROR_MEMORY;
        fclose(file);
    }
    bt_free(path);
    bt_free(text);
    return status;
}

/* "reweight-1" for "runs/reweight-1/"; for ".", its real name. */
static char *name_of(const char *folder)
{
    char real[PATH_MAX];
    const char *path = realpath(folder, real) ? real : folder, *slash = strrchr(path, '/');
    json_t *name = bt_json_string(slash && slash[1] ? slash + 1 : path); /* as UTF-8 */
    char *copy = name ? bt_strdup(json_string_value(name)) : NULL;
    json_decref(name);
    return copy;
}

/* ---- a run ---- */

bool bt_report_own(const char *setting)
{
    static const char *const own[] = {"engine.seed", "engine.threads", "engine.folder"};
    for (int i = 0; i < BT_COUNT_OF(own); i++)
        if (strcmp(setting, own[i]) == 0)
            return true;
    return false;
}

/* What the runs of one configuration have in common. */
static bt_status find_common(bt_report_run *run)
{
    const char *name;
    json_t *value;
    run->settings = json_object();
    run->code = json_object();
    json_object_foreach(run->compared.settings, name, value)
    {
        if (!bt_report_own(name))
            run->settings = bt_json_with(run->settings, name, json_incref(value));
    }
    json_object_foreach(run->compared.code, name, value)
    {
        if (!strstr(name, ".data ")) /* label noise may depend on the seed */
            run->code = bt_json_with(run->code, name, json_incref(value));
    }
    return run->settings && run->code ? BT_OK : bt_fail(BT_ERROR_MEMORY, "%s: no memory for its settings", run->folder);
}

/* A run without a checkpoint has no record of its code. */
static bool is_same(const bt_report_run *one, const bt_report_run *other)
{
    return json_equal(one->settings, other->settings) &&
           (!one->compared.code || !other->compared.code || json_equal(one->code, other->code));
}

static bt_status read_run(const char *folder, bt_report_all *all)
{
    if (all->run_count >= BT_REPORT_MOST)
        return bt_fail(BT_ERROR_CONFIG, "%s: too many runs; a report shows at most %d", folder, BT_REPORT_MOST);
    bt_report_run *grown = bt_grow(all->runs, &all->run_room, all->run_count + 1, sizeof *all->runs);
    if (!grown)
        return BT_ERROR_MEMORY;
    all->runs = grown;
    bt_report_run *run = &grown[all->run_count++];
    *run = (bt_report_run){.folder = bt_strdup(folder), .name = name_of(folder), .group = -1};
    if (!run->folder || !run->name)
        return BT_ERROR_MEMORY;
    BT_TRY(bt_left_json(folder, "plan.json", &run->plan));
    BT_TRY(bt_left_json(folder, "check.json", &run->check));
    BT_TRY(bt_left_json(folder, "profile.json", &run->profile));
    BT_TRY(load_equation(folder, &run->equation));
    BT_TRY(bt_compared_read(folder, bt_series_take, &run->series, &run->compared));
    return find_common(run);
}

/* Those of the grid's runs that have begun. */
static bt_status read_grid(const char *folder, bt_report_all *all)
{
    json_t *grid;
    const int64_t before = all->run_count;
    BT_TRY(bt_left_json(folder, BT_OUTPUT_GRID, &grid));
    const json_t *runs = json_object_get(grid, "runs");
    bt_status status = BT_OK;
    for (size_t i = 0; i < json_array_size(runs) && status == BT_OK; i++) {
        const char *name = bt_json_read_text(json_array_get(runs, i), "run");
        char *path = bt_string("%s/%s", folder, name);
        if (path && *name && *name != '.' && !strchr(name, '/') && bt_left_has(path, "config.ini"))
            status = read_run(path, all);
        status = path ? status : BT_ERROR_MEMORY;
        bt_free(path);
    }
    json_decref(grid);
    if (status == BT_OK && all->run_count == before)
        return bt_fail(BT_ERROR_CONFIG, "--report: no run in %s has started", folder);
    return status;
}

static bt_status read_extra(const char *folder, bt_report_all *all)
{
    bt_report_extra *grown = bt_grow(all->extras, &all->extra_room, all->extra_count + 1, sizeof *all->extras);
    if (!grown)
        return BT_ERROR_MEMORY;
    all->extras = grown;
    bt_report_extra *extra = &grown[all->extra_count++];
    *extra = (bt_report_extra){.name = name_of(folder)};
    BT_TRY(bt_left_json(folder, "ablation.json", &extra->ablation));
    BT_TRY(bt_left_json(folder, "check.json", &extra->check));
    return extra->name ? BT_OK : BT_ERROR_MEMORY;
}

static bt_status read_folder(const char *folder, bt_report_all *all)
{
    BT_TRY(bt_left_folder(folder));
    if (bt_left_has(folder, "config.ini"))
        return read_run(folder, all);
    if (bt_left_has(folder, BT_OUTPUT_GRID))
        return read_grid(folder, all);
    if (bt_left_has(folder, "ablation.json") || bt_left_has(folder, "check.json"))
        return read_extra(folder, all);
    return bt_fail(BT_ERROR_CONFIG,
                   "--report: %s holds nothing to report: expected the folder of a run (config.ini), of several "
                   "(grid.json), of an ablation (ablation.json) or of a check (check.json)",
                   folder);
}

/* ---- which runs differ only in their seed ---- */

/* A to Z, then AA, AB, ... */
static void letters_of(int64_t group, char letters[8])
{
    if (group < 26)
        snprintf(letters, 8, "%c", (char)('A' + group));
    else
        snprintf(letters, 8, "%c%c", (char)('A' + (group / 26 - 1) % 26), (char)('A' + group % 26));
}

static bt_status form_groups(bt_report_all *all)
{
    all->groups = bt_alloc_array((size_t)all->run_count + 1, sizeof *all->groups);
    if (!all->groups)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < all->run_count; i++) {
        bt_report_run *run = &all->runs[i];
        for (int64_t g = 0; g < all->group_count && run->group < 0; g++)
            if (is_same(&all->runs[all->groups[g].first], run))
                run->group = g;
        if (run->group < 0) {
            run->group = all->group_count++;
            all->groups[run->group].first = i;
            letters_of(run->group, all->groups[run->group].letters);
        }
        run->place = all->groups[run->group].count++;
    }
    return BT_OK;
}

const char *bt_report_label(const bt_report_all *all, const bt_report_run *run, char label[32])
{
    const bt_report_group *group = &all->groups[run->group];
    *label = 0;
    if (all->run_count > 1 && group->count > 1)
        snprintf(label, 32, "%s%lld", group->letters, (long long)run->place + 1);
    else if (all->run_count > 1)
        snprintf(label, 32, "%s", group->letters);
    return label;
}

const bt_report_run *bt_report_next(const bt_report_all *all, int64_t group, const bt_report_run *run)
{
    for (run = run ? run + 1 : all->runs; run < all->runs + all->run_count; run++)
        if (run->group == group)
            return run;
    return NULL;
}

bool bt_report_sharers(const bt_report_all *all, int64_t group, bt_report_of *of, bt_text *letters)
{
    const json_t *own = of(&all->runs[all->groups[group].first]);
    for (int64_t g = 0; g < all->group_count; g++) {
        if (!json_equal(of(&all->runs[all->groups[g].first]), own))
            continue;
        if (g < group)
            return false;
        bt_text_add(letters, "%s%s", letters->size ? ", " : "", all->group_count > 1 ? all->groups[g].letters : "");
    }
    return true;
}

/* ---- all ---- */

bt_status bt_report_read(const char *const *folders, int64_t count, bt_report_all *all)
{
    *all = (bt_report_all){0};
    for (int64_t i = 0; i < count; i++)
        BT_TRY(read_folder(folders[i], all));
    char *name = name_of(folders[0]);
    all->title = name && count > 1 ? bt_string("%s and %lld more", name, (long long)count - 1) : name;
    if (all->title != name)
        bt_free(name);
    return all->title ? form_groups(all) : BT_ERROR_MEMORY;
}

void bt_report_free(bt_report_all *all)
{
    for (int64_t i = 0; i < all->run_count; i++) {
        bt_report_run *run = &all->runs[i];
        json_t *const objects[] = {run->plan, run->check, run->profile, run->equation, run->settings, run->code};
        for (int k = 0; k < BT_COUNT_OF(objects); k++)
            json_decref(objects[k]);
        bt_compared_free(&run->compared);
        bt_series_free(&run->series);
        bt_free(run->folder);
        bt_free(run->name);
    }
    for (int64_t i = 0; i < all->extra_count; i++) {
        json_decref(all->extras[i].ablation);
        json_decref(all->extras[i].check);
        bt_free(all->extras[i].name);
    }
    bt_free(all->runs);
    bt_free(all->extras);
    bt_free(all->groups);
    bt_free(all->title);
    *all = (bt_report_all){0};
}
