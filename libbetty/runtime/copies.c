/* runtime/copies.c: variables on several ranks. */
#include "runtime/copies.h"

#include "base/footprint.h"
#include "runtime/settle.h"
#include <string.h>

/* NULL after an error. */
static bt_copies *copies_of(bt_var *var, int home, int ranks)
{
    if (var->copies && var->copies->ranks == ranks)
        return var->copies;
    if (var->copies) {
        bt_fail(BT_ERROR_INTERNAL, "%s has copies on %d ranks, but is needed on %d", var->name, var->copies->ranks,
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

static bool in_parts(const bt_copies *copies)
{
    return copies->layout.kind == BT_SHARDED || copies->layout.kind == BT_STRETCH;
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

/* A variable of the whole run is replicated unless its layout was decided. */
bool bt_var_layout(const bt_var *root, bt_spread *layout)
{
    *layout = root->copies && root->copies->known ? root->copies->layout : (bt_spread){.kind = BT_REPLICATED};
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

/* The byte of the whole variable at which the rank's part begins. */
static size_t first_of(const bt_var *root, int rank)
{
    const bt_spread *layout = &root->copies->layout;
    if (layout->kind == BT_STRETCH)
        return (size_t)bt_stretch_first(layout, layout->of, rank, root->copies->ranks) * bt_dtype_size(root->dtype);
    if (layout->kind != BT_SHARDED || !root->dims[0])
        return 0;
    const int64_t unit = root->dims[0] / layout->rows, rows = bt_share_first(layout->rows, rank, root->copies->ranks);
    return (size_t)(rows * unit) * (root->bytes / (size_t)root->dims[0]);
}

static void follow(const bt_var *root, int rank)
{
    bt_var *own = root->copies->own[rank];
    if (!own || own == root || root->lifetime != BT_EXTERNAL)
        return;
    own->data = root->data ? root->data + first_of(root, rank) : NULL;
    own->queue = root->queue;
    bt_var_moved(own);
}

/* Does not count other ranks' memory as this one's. */
static void count(const bt_var *var, bool other, int64_t sign)
{
    if (!other || var->lifetime != BT_RUN)
        return;
    if (var->space == BT_SPACE_HOST)
        bt_live_host(-sign * (int64_t)var->bytes);
    else
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
    if (root->space == BT_SPACE_HOST && root->lifetime == BT_RUN)
        bt_var_offload(own);
    own->space = root->space;
    count(own, rank != root->copies->home, 1);
    if (own->lifetime == BT_RUN && own->bytes)
        memcpy(own->data, root->data + first_of(root, rank), own->bytes);
    return own;
}

/* A variable for the window's elements in the rank's stretch of the root. */
static bt_var *new_stretch(bt_var *whole, const bt_var *var, int rank)
{
    const bt_copies *copies = var->base->copies;
    const bt_spread layout = bt_spread_within(&copies->layout, var);
    const bt_array shape = bt_local_shape(bt_var_array(var), &layout, rank, copies->ranks);
    const int64_t count = bt_array_count(bt_var_array(var)),
                  first = bt_stretch_first(&layout, count, rank, copies->ranks);
    const size_t at = var->offset + (size_t)first * bt_dtype_size(var->dtype), start = first_of(var->base, rank);
    bt_var *own = bt_var_window(whole, shape.dims[0] ? at - start : 0, var->name, shape);
    if (own && shape.dims[0] &&
        first + shape.dims[0] == count) { /* the bytes behind the last element are the rank's too */
        const size_t left = whole->bytes - (at - start) - own->bytes;
        own->tail = var->tail < left ? var->tail : left;
    }
    return own;
}

bt_var *bt_var_of_rank(bt_var *var, int rank, int home, int ranks)
{
    bt_var *root = bt_var_root(var);
    bt_copies *copies = copies_of(root, home, ranks), *own = copies && var->base ? copies_of(var, home, ranks) : copies;
    if (!own)
        return NULL;
    if (rank == home && !in_parts(copies))
        own->own[home] = var;
    if (own->own[rank])
        return own->own[rank];
    if (!var->base) {
        copies->own[rank] = new_root(root, rank);
        if (copies->own[rank])
            follow(root, rank);
        return copies->own[rank];
    }
    bt_var *whole = bt_var_of_rank(root, rank, home, ranks);
    if (copies->layout.kind == BT_STRETCH)
        return own->own[rank] = whole ? new_stretch(whole, var, rank) : NULL;
    own->own[rank] = whole ? bt_var_window(whole, var->offset, var->name, bt_var_array(var)) : NULL;
    if (own->own[rank])
        own->own[rank]->tail = var->tail;
    return own->own[rank];
}

char *bt_var_data_of(const bt_var *var, int rank)
{
    const bt_var *root = root_of(var), *own = NULL;
    if (rank == bt_var_home(var) && (!root->copies || !in_parts(root->copies)))
        own = root;
    else if (root->copies && rank < root->copies->ranks)
        own = root->copies->own[rank];
    return own && own->data ? own->data + bt_var_start(var) : NULL;
}

/* ---- parts of a whole ---- */

bool bt_var_is_parted(const bt_var *var)
{
    const bt_copies *copies = root_of(var)->copies;
    return copies && copies->layout.kind == BT_STRETCH;
}

bt_status bt_var_part(bt_var *root, int home, int ranks, bool all, int64_t rows)
{
    const int64_t count = bt_array_count(bt_var_array(root));
    const bt_spread layout = {.kind = BT_STRETCH, .rows = rows, .of = count};
    if (root->base || root->queue || rows < 1 || count % rows)
        return bt_fail(BT_ERROR_INTERNAL, "%s cannot be divided among ranks", root->name);
    BT_TRY(bt_var_decide(root, home, ranks, &layout));
    if (root->lifetime != BT_RUN)
        return BT_OK;
    for (int r = 0; r < ranks; r++)
        if ((all || r == home) && !bt_var_of_rank(root, r, home, ranks))
            return bt_error_status();
    bt_free_aligned(root->data);
    root->data = NULL;
    return BT_OK;
}

size_t bt_var_home_bytes(const bt_var *root)
{
    const bt_copies *copies = root->copies;
    return bt_var_is_parted(root) && copies->own[copies->home] ? copies->own[copies->home]->bytes : root->bytes;
}

typedef struct piece { /* the part of a range of a variable's bytes that one rank has */
    bt_queue *queue;   /* the queue of their device; NULL: they are near */
    char *own;
    size_t at, bytes; /* offset in the range; bytes 0: the rank has none */
} piece;

static piece overlap(const bt_var *var, int rank, size_t offset, size_t bytes)
{
    const bt_var *root = root_of(var), *part = root->copies->own[rank];
    const size_t from = bt_var_start(var) + offset, first = first_of(root, rank);
    if (!part || !part->data || first + part->bytes <= from || first >= from + bytes)
        return (piece){0};
    const size_t begin = first > from ? first : from;
    const size_t end = first + part->bytes < from + bytes ? first + part->bytes : from + bytes;
    return (piece){part->queue, part->data + (begin - first), begin - from, end - begin};
}

bt_status bt_var_collect(const bt_var *var, size_t offset, void *to, size_t bytes)
{
    memset(to, 0, bytes);
    for (int r = 0, ranks = bt_var_ranks(var); r < ranks; r++) {
        const piece p = overlap(var, r, offset, bytes);
        if (p.bytes)
            BT_TRY(bt_queue_read(p.queue, (char *)to + p.at, p.own, p.bytes));
    }
    return BT_OK;
}

bool bt_var_alike(const bt_var *a, const bt_var *b)
{
    const bt_copies *x = root_of(a)->copies, *y = root_of(b)->copies;
    return x && y && x->ranks == y->ranks && x->home == y->home && bt_spread_same(&x->layout, &y->layout) &&
           bt_var_start(a) == bt_var_start(b) && a->dtype == b->dtype;
}

/* Bytes that come from a device stay there. */
static bt_status copy_part(const bt_var *to, const bt_var *from, int rank, size_t offset, size_t bytes)
{
    const piece source = overlap(from, rank, offset, bytes);
    if (!source.bytes || overlap(to, rank, offset, bytes).bytes != source.bytes)
        return BT_OK;
    BT_TRY(bt_var_settle(root_of(to)->copies->own[rank], source.queue));
    const piece target = overlap(to, rank, offset, bytes);
    return target.queue == source.queue ? bt_queue_copy(target.queue, target.own, source.own, source.bytes)
                                        : bt_queue_write(target.queue, target.own, source.own, source.bytes);
}

bt_status bt_var_copy_parts(const bt_var *to, const bt_var *from, size_t offset, size_t bytes)
{
    for (int r = 0, ranks = bt_var_ranks(from); r < ranks; r++)
        BT_TRY(copy_part(to, from, r, offset, bytes));
    return BT_OK;
}

bt_status bt_var_distribute(const bt_var *var, size_t offset, const void *from, size_t bytes)
{
    for (int r = 0, ranks = bt_var_ranks(var); r < ranks; r++) {
        const piece p = overlap(var, r, offset, bytes);
        if (p.bytes && from)
            BT_TRY(bt_queue_write(p.queue, p.own, (const char *)from + p.at, p.bytes));
        else if (p.bytes)
            BT_TRY(bt_queue_fill(p.queue, p.own, 0, p.bytes));
    }
    return BT_OK;
}

bool bt_var_is_partial(const bt_var *var)
{
    const bt_copies *copies = root_of(var)->copies;
    return copies && copies->layout.kind == BT_PARTIAL;
}

bt_status bt_var_sum(const bt_var *var, size_t offset, void *to, size_t bytes)
{
    const size_t size = bt_dtype_size(var->dtype);
    bt_queue *queue = root_of(var)->queue;
    if (queue) /* this process is one rank */
        return bt_queue_read(queue, to, bt_var_data(var) + offset, bytes);
    memset(to, 0, bytes);
    for (int r = 0, ranks = bt_var_ranks(var); r < ranks; r++) {
        const char *own = bt_var_data_of(var, r);
        for (int64_t i = 0, n = own ? (int64_t)(bytes / size) : 0; i < n; i++)
            bt_put(var->dtype, to, i, bt_get(var->dtype, to, i) + bt_get(var->dtype, own + offset, i));
    }
    return BT_OK;
}

bt_status bt_var_check_whole(const bt_var *var)
{
    const bt_var *root = root_of(var);
    if (!root->copies || root->copies->layout.kind == BT_REPLICATED)
        return BT_OK;
    return bt_fail(BT_ERROR_INTERNAL, "%s is divided among %d ranks, but is needed whole", var->name,
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
