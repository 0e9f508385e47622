/* runtime/settle.c: variables on a device. */
#include "runtime/settle.h"

#include "base/footprint.h"
#include <string.h>

typedef struct bt_landing { /* the place of an external variable's near data on a device */
    bt_queue *queue;
    char *far;
    bool fresh; /* the current data has been sent */
} bt_landing;

/* Moves it into pinned host memory. */
static bt_status settle_host(bt_var *var, bt_queue *queue)
{
    char *pinned = bt_queue_pin(queue, var->bytes);
    if (!pinned)
        return bt_error_status();
    if (var->bytes)
        memcpy(pinned, var->data, var->bytes);
    bt_live_far((int64_t)var->bytes);
    bt_free_aligned(var->data);
    var->data = pinned;
    var->queue = bt_queue_share(queue);
    return BT_OK;
}

bt_status bt_var_settle(bt_var *var, bt_queue *queue)
{
    if (!queue || var->queue || var->lifetime != BT_RUN)
        return BT_OK;
    if (var->space == BT_SPACE_HOST)
        return settle_host(var, queue);
    char *far = var->mailed ? bt_queue_number(queue) : NULL;
    bool mailed = far != NULL;
    if (!far && !(far = bt_queue_alloc(queue, var->bytes)))
        return bt_error_status();
    bt_status status = BT_OK;
    if (mailed)
        bt_queue_post(queue, far, var->data, var->bytes);
    else
        status = bt_queue_write(queue, far, var->data, var->bytes);
    bt_free_aligned(var->data);
    bt_live_far((int64_t)var->bytes);
    var->data = far;
    var->queue = bt_queue_share(queue);
    return status;
}

bt_status bt_var_place(bt_var *var, bt_queue *queue)
{
    if (!var->landing && !(var->landing = bt_alloc(sizeof *var->landing)))
        return BT_ERROR_MEMORY;
    bt_landing *landing = var->landing;
    if (landing->queue != queue) {
        bt_queue_free(landing->queue, landing->far);
        bt_queue_leave(landing->queue);
        *landing = (bt_landing){.queue = bt_queue_share(queue), .far = bt_queue_alloc(queue, var->bytes)};
    }
    return landing->far ? BT_OK : bt_error_status();
}

bt_status bt_var_land(bt_var *var, bt_queue *queue, char **data)
{
    *data = var->data;
    if (var->queue || !queue)
        return BT_OK;
    BT_TRY(bt_var_place(var, queue));
    *data = var->landing->far;
    if (var->landing->fresh)
        return BT_OK;
    var->landing->fresh = true;
    return bt_queue_write(queue, var->landing->far, var->data, var->bytes);
}

void bt_var_moved(bt_var *var)
{
    if (var->landing)
        var->landing->fresh = false;
}

static void unsettle_host(bt_var *var)
{
    if (var->data)
        bt_live_host(-(int64_t)var->bytes);
    if (var->queue) {
        bt_queue_unpin(var->queue, var->data);
        bt_queue_leave(var->queue);
    } else if (var->data) {
        bt_live_far((int64_t)var->bytes);
        bt_free_aligned(var->data);
    }
}

void bt_var_unsettle(bt_var *var)
{
    if (var->landing) {
        bt_queue_free(var->landing->queue, var->landing->far);
        bt_queue_leave(var->landing->queue);
        bt_free(var->landing);
    }
    if (var->lifetime != BT_RUN)
        return;
    if (var->space == BT_SPACE_HOST) {
        unsettle_host(var);
        return;
    }
    if (var->queue)
        bt_live_far(-(int64_t)var->bytes);
    if (bt_queue_mirror(var->queue, var->data))
        bt_queue_drop(var->queue, var->data);
    else
        bt_queue_free(var->queue, var->data);
    bt_queue_leave(var->queue);
}
