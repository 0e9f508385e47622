/* runtime/copies.c: variables on several ranks. */
#include "runtime/copies.h"

#include "base/footprint.h"
#include <string.h>

/* NULL after an error. */
static bt_copies *copies_of(bt_var *var, int home, int ranks)
{
    if (var->copies && var->copies->ranks == ranks)
        return var->copies;
    if (var->copies) {
        bt_fail(BT_ERROR_INTERNAL, "%s has copies on %d ranks, and is needed on %d", var->name, var->copies->ranks,
                ranks);
        return NULL;
    }
    bt_copies *copies = bt_alloc(sizeof *copies);
    bt_var **own = bt_alloc_array((size_t)ranks, sizeof(bt_var *));
    if (!copies || !own) {
        bt_free(copies);
        bt_free(own);
        return NULL;
    }
    *copies = (bt_copies){.ranks = ranks, .home = home, .own = own};
    return var->copies = copies;
}

static const bt_var *root_of(const bt_var *var) { return var->base ? var->base : var; }

int bt_var_ranks(const bt_var *var)
{
    const bt_copies *copies = root_of(var)->copies;
    return copies ? copies->ranks : 1;
}

int bt_var_home(const bt_var *var)
{
    const bt_copies *copies = root_of(var)->copies;
    return copies ? copies->home : 0;
}

/* What is kept for the whole run is replicated. */
bool bt_var_layout(const bt_var *root, bt_spread *layout)
{
    *layout = root->copies ? root->copies->layout : (bt_spread){.kind = BT_REPLICATED};
    return root->lifetime == BT_RUN || (root->copies && root->copies->known);
}

bt_status bt_var_decide(bt_var *root, int home, int ranks, const bt_spread *layout)
{
    bt_copies *copies = copies_of(root, home, ranks);
    if (!copies)
        return bt_error_status();
    if (root->lifetime == BT_EXTERNAL && layout->kind == BT_SHARDED && layout->axis)
        return bt_fail(BT_ERROR_INTERNAL, "%s is split along axis %d: rows of a rank that lie outside are one stretch",
                       root->name, layout->axis);
    copies->known = true;
    copies->layout = *layout;
    return BT_OK;
}

/* The byte of the whole variable at which the rank's own begins. */
static size_t first_of(const bt_var *root, int rank)
{
    const bt_spread *layout = &root->copies->layout;
    if (layout->kind != BT_SHARDED || !root->dims[0])
        return 0;
    const int64_t unit = root->dims[0] / layout->rows, rows = bt_share_first(layout->rows, rank, root->copies->ranks);
    return (size_t)(rows * unit) * (root->bytes / (size_t)root->dims[0]);
}

static void follow(const bt_var *root, int rank)
{
    bt_var *own = root->copies->own[rank];
    if (own && own != root && root->lifetime == BT_EXTERNAL)
        own->data = root->data ? root->data + first_of(root, rank) : NULL;
}

/* Memory of other ranks is not that of this one. */
static void count(const bt_var *var, bool other, int64_t sign)
{
    if (other && var->lifetime == BT_RUN)
        bt_live_far(-sign * (int64_t)var->bytes);
}

static bt_var *new_root(bt_var *root, int rank)
{
    const bt_array shape = bt_local_shape(bt_var_array(root), &root->copies->layout, rank, root->copies->ranks);
    bt_var *own = bt_var_new(root->lifetime, root->category, root->owner, root->name, shape);
    if (!own)
        return NULL;
    own->clear = root->clear;
    own->lasting = root->lasting;
    own->mailed = root->mailed;
    count(own, rank != root->copies->home, 1);
    if (own->lifetime == BT_RUN && own->bytes)
        memcpy(own->data, root->data, own->bytes);
    return own;
}

bt_var *bt_var_of_rank(bt_var *var, int rank, int home, int ranks)
{
    bt_var *root = bt_var_root(var);
    bt_copies *copies = copies_of(root, home, ranks), *own = copies && var->base ? copies_of(var, home, ranks) : copies;
    if (!own)
        return NULL;
    if (rank == home && copies->layout.kind != BT_SHARDED)
        own->own[home] = var;
    if (own->own[rank])
        return own->own[rank];
    if (!var->base) {
        copies->own[rank] = new_root(root, rank);
        if (copies->own[rank])
            follow(root, rank);
        return copies->own[rank];
    }
    bt_array shape = bt_var_array(var);
    bt_var *whole = bt_var_of_rank(root, rank, home, ranks);
    own->own[rank] = whole ? bt_var_window(whole, var->offset, var->name, shape) : NULL;
    if (own->own[rank])
        own->own[rank]->tail = var->tail;
    return own->own[rank];
}

char *bt_var_data_of(const bt_var *var, int rank)
{
    const bt_var *root = root_of(var), *own = NULL;
    if (rank == bt_var_home(var) && (!root->copies || root->copies->layout.kind != BT_SHARDED))
        own = root;
    else if (root->copies && rank < root->copies->ranks)
        own = root->copies->own[rank];
    return own && own->data ? own->data + bt_var_start(var) : NULL;
}

bool bt_var_is_partial(const bt_var *var)
{
    const bt_copies *copies = root_of(var)->copies;
    return copies && copies->layout.kind == BT_PARTIAL;
}

void bt_var_sum(const bt_var *var, size_t offset, void *to, size_t bytes)
{
    const size_t size = bt_dtype_size(var->dtype);
    memset(to, 0, bytes);
    for (int r = 0, ranks = bt_var_ranks(var); r < ranks; r++) {
        const char *own = bt_var_data_of(var, r);
        for (int64_t i = 0, n = own ? (int64_t)(bytes / size) : 0; i < n; i++)
            bt_put(var->dtype, to, i, bt_get(var->dtype, to, i) + bt_get(var->dtype, own + offset, i));
    }
}

bt_status bt_var_check_whole(const bt_var *var)
{
    const bt_var *root = root_of(var);
    if (!root->copies || root->copies->layout.kind == BT_REPLICATED)
        return BT_OK;
    return bt_fail(BT_ERROR_INTERNAL, "%s lies in parts on %d ranks, and is needed whole", var->name,
                   root->copies->ranks);
}

void bt_var_follow(bt_var *var)
{
    for (int r = 0; var->copies && r < var->copies->ranks; r++)
        follow(var, r);
}

void bt_var_drop_copies(bt_var *var)
{
    bt_copies *copies = var->copies;
    if (!copies)
        return;
    var->copies = NULL;
    for (int r = 0; r < copies->ranks; r++) {
        bt_var *own = copies->own[r];
        if (!own || own == var)
            continue;
        if (!var->base)
            count(own, r != copies->home, -1);
        bt_var_free(own);
    }
    bt_free(copies->own);
    bt_free(copies);
}
