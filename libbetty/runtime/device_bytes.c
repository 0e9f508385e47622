/* runtime/device_bytes.c: counts bytes on a device, each variable once. */
#include "runtime/device_bytes.h"

#include "base/map.h"
#include "runtime/settle.h"

typedef struct count {
    bt_device_bytes *bytes;
    bt_map seen;
    int64_t numbers; /* numbers in the mail */
} count;

static bt_status add_var(count *c, const bt_var *var)
{
    if (bt_map_get(&c->seen, var) >= 0)
        return BT_OK;
    BT_TRY(bt_map_put(&c->seen, var, 1));
    if (var->lifetime == BT_EXTERNAL)
        c->bytes->batches += bt_var_lands(var) ? var->bytes : 0;
    else if (var->space == BT_SPACE_HOST)
        c->bytes->host += var->lifetime == BT_RUN ? var->bytes : 0;
    else if (var->lifetime == BT_RUN && (!var->mailed || c->numbers++ >= BT_MAIL_NUMBERS))
        c->bytes->variables += var->bytes;
    return BT_OK;
}

static bt_status add_program(count *c, const bt_program *program)
{
    for (int64_t b = 0; b < program->buffer_count; b++) {
        const bt_buffer *buffer = &program->buffers[b];
        if (buffer->home == BT_HOME_CONSTANT)
            c->bytes->constants += bt_align_up(buffer->bytes);
        if (buffer->home == BT_HOME_VAR)
            BT_TRY(add_var(c, buffer->var));
    }
    return BT_OK;
}

static bt_status add_all(count *c, const bt_instance *instance)
{
    size_t host = 0;
    for (int64_t p = 0; p < instance->phase_count; p++) {
        const bt_phase *phase = instance->phases[p];
        host = phase->host > host ? phase->host : host;
        c->bytes->arena = phase->arena > c->bytes->arena ? phase->arena : c->bytes->arena;
        for (int64_t e = 0; e < phase->entry_count; e++)
            BT_TRY(add_program(c, phase->entries[e].program));
    }
    c->bytes->host += host;
    return BT_OK;
}

bt_status bt_instance_device_bytes(const bt_instance *instance, bt_device_bytes *bytes)
{
    const bt_device_table *device = instance->backend->device;
    count c = {.bytes = bytes};
    *bytes = (bt_device_bytes){.variables = BT_MAIL_BYTES, .own = device ? device->own : 0};
    const bt_status status = add_all(&c, instance);
    bt_map_free(&c.seen);
    return status;
}

size_t bt_device_sum(const bt_device_bytes *bytes)
{
    return bytes->arena + bytes->variables + bytes->batches + bytes->constants + bytes->own;
}
