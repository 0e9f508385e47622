/* engine/config/edges.c: [dependencies]: which problem's loss uses which problem. */
#include "engine/config/config_inside.h"

#include <string.h>

static const char *const line_names[] = {[BT_U2L] = "u2l", [BT_L2U] = "l2u"};

typedef struct wiring {
    bt_config *config;
    bt_direction direction;
    const char *origin;
} wiring;

static bt_problem_settings *find_problem(const wiring *w, const char *word, size_t length)
{
    bt_problem_settings *problem = bt_config_problem_find(w->config, word, length);
    if (problem)
        return problem;
    const char *name = bt_config_copy(w->config, word, length);
    bt_text text = {0};
    bt_config_suggest_problem(w->config, name ? name : "", &text);
    bt_fail(BT_ERROR_CONFIG, "%s: %s: there is no problem `%s`%s", w->origin, line_names[w->direction],
            name ? name : "", bt_text_get(&text));
    bt_text_free(&text);
    return NULL;
}

static bt_status add_edge(const wiring *w, const bt_problem_settings *from, const bt_problem_settings *to)
{
    bt_config *config = w->config;
    if (from == to)
        return bt_fail(BT_ERROR_CONFIG, "%s: %s: %s > %s: a problem cannot depend on itself", w->origin,
                       line_names[w->direction], from->name, to->name);
    for (int64_t i = 0; i < config->edges.count; i++)
        if (config->edges.list[i].direction == w->direction && config->edges.list[i].from == from->name &&
            config->edges.list[i].to == to->name)
            return bt_fail(BT_ERROR_CONFIG, "%s: %s: %s > %s is given twice", w->origin, line_names[w->direction],
                           from->name, to->name);
    if (!from->active || !to->active)
        return BT_OK;
    bt_dependency *grown = bt_grow(config->edges.list, &config->edges.room, config->edges.count + 1, sizeof *grown);
    if (!grown)
        return BT_ERROR_MEMORY;
    config->edges.list = grown;
    config->edges.list[config->edges.count++] =
        (bt_dependency){w->direction, from->name, to->name, w->origin, {w->direction, from->place, to->place}};
    return BT_OK;
}

/* "a > b", or "c" after it: another target of a. */
static bt_status add_item(const wiring *w, const char *item, size_t length, const bt_problem_settings **from)
{
    const char *text = bt_config_copy(w->config, item, length), *rest = text, *words[3] = {NULL};
    if (!text)
        return BT_ERROR_MEMORY;
    size_t lengths[3] = {0};
    int count = 0;
    const char *word;
    while (count < 3 && (word = bt_word_next(&rest, '>', &lengths[count])) != NULL)
        words[count++] = word;
    bool complete = count == 1 || (count == 2 && lengths[1] > 0);
    if (!complete || lengths[0] == 0 || (count == 1 && !*from))
        return bt_fail(BT_ERROR_CONFIG, "%s: %s: expected %s, with commas between several, found `%s`", w->origin,
                       line_names[w->direction], w->direction == BT_U2L ? "upper > lower" : "lower > upper", text);
    if (count == 2 && !(*from = find_problem(w, words[0], lengths[0])))
        return BT_ERROR_CONFIG;
    const bt_problem_settings *to = find_problem(w, words[count - 1], lengths[count - 1]);
    return to ? add_edge(w, *from, to) : BT_ERROR_CONFIG;
}

static bt_status add_line(bt_config *config, bt_direction direction, const char *line, const char *origin)
{
    wiring w = {config, direction, origin ? origin : "dependencies"};
    const bt_problem_settings *from = NULL;
    const char *item;
    size_t length;
    line = line && *line ? line : NULL;
    while ((item = bt_word_next(&line, ',', &length)) != NULL)
        BT_TRY(add_item(&w, item, length, &from));
    return BT_OK;
}

/* ---- checks ---- */

bt_status bt_config_hierarchy(const bt_config *config, bt_hierarchy *hierarchy)
{
    bt_edge *edges = bt_alloc_array((size_t)config->edges.count, sizeof *edges);
    *hierarchy = (bt_hierarchy){0};
    if (!edges)
        return BT_ERROR_MEMORY;
    for (int64_t i = 0; i < config->edges.count; i++)
        edges[i] = config->edges.list[i].edge;
    bt_status status = bt_hierarchy_new(hierarchy, (int)config->problem_count, edges, config->edges.count);
    bt_free(edges);
    return status;
}

static bt_status fail_cycle(const bt_config *config, const bt_dependency *edge, const int *way, int length)
{
    bt_text text = {0};
    bt_text_add(&text, "%s", edge->from);
    for (int i = 0; i < length; i++)
        bt_text_add(&text, " > %s", config->problems[way[i]]->name);
    bt_status status =
        bt_fail(BT_ERROR_CONFIG, "%s: %s has a cycle: %s; a level can be above another one or below it, not both",
                edge->origin, line_names[edge->direction], bt_text_get(&text));
    bt_text_free(&text);
    return status;
}

static bt_status check_cycles(const bt_config *config, const bt_hierarchy *h)
{
    const bool cycle[] = {bt_hierarchy_has_cycle(h, BT_U2L), bt_hierarchy_has_cycle(h, BT_L2U)};
    int *way = bt_alloc_array((size_t)config->problem_count + 1, sizeof *way);
    bt_status status = way ? BT_OK : BT_ERROR_MEMORY;
    for (int64_t i = 0; status == BT_OK && i < config->edges.count; i++) {
        const bt_edge *edge = &config->edges.list[i].edge;
        int length = cycle[edge->direction] ? bt_hierarchy_way(h, edge->direction, edge->from, edge->from, way) : 0;
        if (length)
            status = fail_cycle(config, &config->edges.list[i], way, length);
    }
    bt_free(way);
    return status;
}

/* Moves one link that is not followed to u2l, where it belongs; false: there is none. *complete: every other edge is
 * followed, too. */
static bool move_link(bt_config *config, const bt_hierarchy *h, bool *complete)
{
    *complete = true;
    for (int64_t i = 0; i < config->edges.count; i++) {
        bt_dependency *edge = &config->edges.list[i];
        if (bt_hierarchy_follows(h, &edge->edge))
            continue;
        *complete = false;
        if (bt_hierarchy_links(h, &edge->edge)) {
            edge->direction = edge->edge.direction = BT_U2L;
            return true;
        }
    }
    return false;
}

/* Moves all such links; returns whether that makes the wiring complete. */
static bool move_links(bt_config *config)
{
    bool complete = false;
    for (bool moved = true; moved;) {
        bt_hierarchy h;
        if (bt_config_hierarchy(config, &h) != BT_OK)
            return false;
        moved = move_link(config, &h, &complete);
        bt_hierarchy_free(&h);
    }
    return complete;
}

/* After an error the edges are no longer used, so they can be changed into the advice. */
static bt_status fail_ways(bt_config *config, const bt_dependency *edge)
{
    const char *origin = edge->origin, *lower = edge->from, *upper = edge->to;
    bt_text u2l = {0}, l2u = {0}, advice = {0};
    if (move_links(config)) {
        bt_config_print_edges(config, BT_U2L, &u2l);
        bt_config_print_edges(config, BT_L2U, &l2u);
        bt_text_add(&advice, "a chain is written as u2l = %s and l2u = %s", bt_text_get(&u2l), bt_text_get(&l2u));
    } else {
        bt_text_add(&advice, "add %s > %s to u2l", upper, lower);
    }
    bt_status s = bt_fail(BT_ERROR_CONFIG,
                          "%s: l2u: %s > %s: %s does not reach %s through u2l, so its hypergradient would be zero; %s",
                          origin, lower, upper, upper, lower, bt_text_get(&advice));
    bt_text_free(&u2l);
    bt_text_free(&l2u);
    bt_text_free(&advice);
    return s;
}

static bt_status check_ways(bt_config *config, const bt_hierarchy *h)
{
    for (int64_t i = 0; i < config->edges.count; i++)
        if (!bt_hierarchy_follows(h, &config->edges.list[i].edge))
            return fail_ways(config, &config->edges.list[i]);
    return BT_OK;
}

static bt_status add_all(bt_config *config, const char *const lines[2], const char *const origins[2])
{
    bt_hierarchy h;
    BT_TRY(add_line(config, BT_U2L, lines[BT_U2L], origins[BT_U2L]));
    BT_TRY(add_line(config, BT_L2U, lines[BT_L2U], origins[BT_L2U]));
    BT_TRY(bt_config_hierarchy(config, &h));
    bt_status status = check_cycles(config, &h);
    if (status == BT_OK)
        status = check_ways(config, &h);
    bt_hierarchy_free(&h);
    return status;
}

bt_status bt_config_resolve_dependencies(bt_config *config)
{
    const char *const lines[] = {config->dependencies.u2l, config->dependencies.l2u};
    const char *const origins[] = {bt_config_origin(config, "dependencies", line_names[BT_U2L]),
                                   bt_config_origin(config, "dependencies", line_names[BT_L2U])};
    return add_all(config, lines, origins);
}

const bt_dependency *bt_config_dependencies(const bt_config *config, int *count)
{
    if (count)
        *count = config && config->resolved ? (int)config->edges.count : 0;
    return config && config->resolved ? config->edges.list : NULL;
}

/* ---- during a run ---- */

void bt_config_swap_edges(bt_config *config, bt_edges *edges)
{
    bt_edges before = config->edges;
    config->edges = *edges;
    *edges = before;
}

void bt_config_print_edges(const bt_config *config, bt_direction direction, bt_text *text)
{
    const char *comma = "";
    for (int64_t i = 0; i < config->edges.count; i++)
        if (config->edges.list[i].direction == direction) {
            bt_text_add(text, "%s%s > %s", comma, config->edges.list[i].from, config->edges.list[i].to);
            comma = ", ";
        }
}

bt_status bt_config_parse_edges(bt_config *config, const char *u2l, const char *l2u, const char *origin,
                                bt_edges *edges)
{
    const char *const lines[] = {u2l, l2u}, *const origins[] = {origin, origin};
    *edges = (bt_edges){0};
    bt_config_swap_edges(config, edges);
    bt_status status = add_all(config, lines, origins);
    bt_config_swap_edges(config, edges);
    return status;
}
