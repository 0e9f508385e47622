/* engine/level/names.c: the names of the values that a run keeps. A checkpoint identifies its tensors only by name, so
 * names must be unique. */
#include "engine/level/level.h"

#include <string.h>

/* Moves *rest past the piece if it begins with it; false: it does not. */
static bool passes(const char **rest, const char *piece)
{
    size_t length = strlen(piece);
    if (strncmp(*rest, piece, length) != 0)
        return false;
    *rest += length;
    return true;
}

typedef struct holders { /* describes what has a name */
    const char *name;
    int count;
    bt_text *words;
} holders;

static void add(holders *h, const char *kind, const char *name, const char *of)
{
    bt_text_add(h->words, "%s%s `%s`%s%s%s", h->count++ ? " and " : "", kind, name, of ? " of `" : "", of ? of : "",
                of ? "`" : "");
}

static void look_at_block(holders *h, const bt_block *block)
{
    bt_category category = block->flat->category;
    bool plain = category == BT_PARAMETERS || category == BT_BUFFERS;
    for (int64_t i = 0; i < block->count; i++) {
        const bt_var *window = block->windows[i];
        if (!window)
            continue;
        const char *rest = h->name;
        if (!passes(&rest, window->owner) || !passes(&rest, ".") || !passes(&rest, window->name) ||
            (!plain && (!passes(&rest, ":") || !passes(&rest, block->flat->name))) || *rest)
            continue;
        if (plain)
            add(h, category == BT_BUFFERS ? "the buffer" : "the parameter", window->name, NULL);
        else
            add(h, "the state", block->flat->name, window->name);
    }
}

static void look_at(void *user, const bt_var *var, const bt_block *block)
{
    holders *h = user;
    const char *rest = h->name;
    if (block)
        look_at_block(h, block);
    else if (passes(&rest, var->owner) && passes(&rest, ":") && strcmp(rest, var->name) == 0)
        add(h, "the variable", var->name, NULL);
}

int bt_name_holders(const bt_context *context, const bt_problem *problem, const char *name, bt_text *words)
{
    holders h = {.name = name, .words = words};
    bt_visit_vars(context, problem, look_at, &h);
    for (int64_t i = 0; i < context->ledger.count; i++) {
        const bt_ledger_row *row = &context->ledger.rows[i];
        const char *rest = name;
        if (row->kind == BT_ROW_BYTES && passes(&rest, row->problem->name) && passes(&rest, ":state.") &&
            strcmp(rest, row->name) == 0)
            add(&h, "the memory (bt_state)", row->name, NULL);
    }
    return h.count;
}

bool bt_name_is_free(const bt_problem *problem, const char *name, bt_text *words)
{
    bt_text full = {0};
    bt_text_add(&full, "%s:%s", problem->name, name);
    bool is_free = full.failed || !bt_name_holders(problem->context, problem, full.data, words);
    bt_text_free(&full);
    return is_free;
}
