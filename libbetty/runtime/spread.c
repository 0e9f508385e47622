/* runtime/spread.c: variables on several ranks. */
#include "runtime/spread.h"

#include "base/footprint.h"
#include <string.h>

static bt_spread *spread_of(bt_var *var, int ranks)
{
    if (var->spread)
        return var->spread;
    bt_spread *spread = bt_alloc(sizeof *spread);
    bt_var **own = bt_alloc_array((size_t)ranks, sizeof(bt_var *));
    if (!spread || !own) {
        bt_free(spread);
        bt_free(own);
        return NULL;
    }
    *spread = (bt_spread){.ranks = ranks, .own = own};
    return var->spread = spread;
}

int bt_var_ranks(const bt_var *var)
{
    const bt_spread *spread = (var->base ? var->base : var)->spread;
    return spread ? spread->ranks : 1;
}

/* What is kept for the whole run is replicated, and what comes from outside with the examples along its first axis is
 * split along it. */
bool bt_var_layout(const bt_var *root, bt_layout *layout)
{
    *layout = root->spread ? root->spread->layout : (bt_layout){.kind = BT_REPLICATED};
    return root->lifetime == BT_RUN || (root->spread && root->spread->known);
}

bt_status bt_var_decide(bt_var *root, int ranks, const bt_layout *layout)
{
    bt_spread *spread = spread_of(root, ranks);
    if (!spread)
        return BT_ERROR_MEMORY;
    spread->known = true;
    spread->layout = *layout;
    return BT_OK;
}

static int64_t rows_of(const bt_layout *layout, int rank, int ranks)
{
    return bt_share_first(layout->rows, rank + 1, ranks) - bt_share_first(layout->rows, rank, ranks);
}

/* The byte of the whole variable at which the rank's own begins. */
static size_t first_of(const bt_var *root, int rank)
{
    const bt_layout *layout = &root->spread->layout;
    if (layout->kind != BT_SHARDED || !root->dims[0])
        return 0;
    const int64_t unit = root->dims[0] / layout->rows, rows = bt_share_first(layout->rows, rank, root->spread->ranks);
    return (size_t)(rows * unit) * (root->bytes / (size_t)root->dims[0]);
}

static void follow(const bt_var *root, int rank)
{
    bt_var *own = root->spread->own[rank];
    if (own && own != root && root->lifetime == BT_EXTERNAL)
        own->data = root->data ? root->data + first_of(root, rank) : NULL;
}

/* Memory of other ranks is not that of this one. */
static void count(const bt_var *var, int rank, int64_t sign)
{
    if (rank && var->lifetime == BT_RUN)
        bt_live_far(-sign * (int64_t)var->bytes);
}

static bt_var *new_root(bt_var *root, int rank)
{
    const bt_layout *layout = &root->spread->layout;
    bt_array shape = bt_var_array(root);
    shape.data = NULL;
    if (layout->kind == BT_SHARDED)
        shape.dims[layout->axis] =
            shape.dims[layout->axis] / layout->rows * rows_of(layout, rank, root->spread->ranks);
    bt_var *own = bt_var_new(root->lifetime, root->category, root->owner, root->name, shape);
    if (!own)
        return NULL;
    own->clear = root->clear;
    own->lasting = root->lasting;
    own->mailed = root->mailed;
    count(own, rank, 1);
    if (own->lifetime == BT_RUN && own->bytes)
        memcpy(own->data, root->data, own->bytes);
    return own;
}

bt_var *bt_var_of_rank(bt_var *var, int rank, int ranks)
{
    bt_var *root = bt_var_root(var);
    bt_spread *spread = spread_of(root, ranks), *own = spread && var->base ? spread_of(var, ranks) : spread;
    if (!own)
        return NULL;
    if (rank == 0 && spread->layout.kind != BT_SHARDED)
        own->own[0] = var;
    if (own->own[rank])
        return own->own[rank];
    if (!var->base) {
        spread->own[rank] = new_root(root, rank);
        if (spread->own[rank])
            follow(root, rank);
        return spread->own[rank];
    }
    bt_array shape = bt_var_array(var);
    bt_var *whole = bt_var_of_rank(root, rank, ranks);
    own->own[rank] = whole ? bt_var_window(whole, var->offset, var->name, shape) : NULL;
    if (own->own[rank])
        own->own[rank]->tail = var->tail;
    return own->own[rank];
}

char *bt_var_data_of(const bt_var *var, int rank)
{
    const bt_var *root = var->base ? var->base : var, *own = root;
    if (root->spread && rank < root->spread->ranks)
        own = root->spread->own[rank];
    else if (rank)
        own = NULL;
    return own && own->data ? own->data + bt_var_start(var) : NULL;
}

void bt_var_follow(bt_var *var)
{
    for (int r = 0; var->spread && r < var->spread->ranks; r++)
        follow(var, r);
}

void bt_var_unspread(bt_var *var)
{
    bt_spread *spread = var->spread;
    if (!spread)
        return;
    var->spread = NULL;
    for (int r = 0; r < spread->ranks; r++) {
        bt_var *own = spread->own[r];
        if (!own || own == var)
            continue;
        if (!var->base)
            count(own, r, -1);
        bt_var_free(own);
    }
    bt_free(spread->own);
    bt_free(spread);
}
