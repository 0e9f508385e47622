/* engine/step/pieces.c: updates in pieces. If the optimiser's state is in the host's memory, an elementwise update
 * handles one piece of the block at a time, so that little of the state is on the device at once. */
#include "engine/level/offload.h"
#include "engine/step/step_inside.h"

/* Bytes of a piece of the parameters. Slopes are kept by parameter, and each parameter's slope must be in one piece. */
static size_t size_of(const bt_problem *problem)
{
    const int64_t slots = bt_optimizer_slot_count(problem->optimizer), unit = problem->context->settings->offload_unit;
    if (!slots || problem->slope.flat || !bt_offloads(problem, BT_OFFLOAD_OPTIMIZER))
        return SIZE_MAX;
    return bt_align_up((size_t)((unit + slots - 1) / slots));
}

static bt_var *window(bt_problem *problem, bt_var *whole, size_t from, bt_array shape)
{
    return bt_phase_own(problem->step->phase, bt_var_window(whole, from, problem->name, shape));
}

static bt_status add(bt_problem *problem, const bt_update_part *whole, size_t from, size_t to)
{
    bt_update_part *piece = &problem->step->pieces[problem->step->piece_count++];
    bt_array shape = {.dtype = whole->param->dtype, .rank = 1};
    shape.dims[0] = (int64_t)((to - from) / bt_dtype_size(shape.dtype));
    *piece = (bt_update_part){.group = whole->group, .name = whole->name};
    piece->param = window(problem, whole->param, from, shape);
    piece->grad = window(problem, whole->grad, from, shape);
    bool there = piece->param && piece->grad;
    for (int k = 0; k < bt_optimizer_slot_count(problem->optimizer); k++) {
        piece->slots[k] = window(problem, whole->slots[k], from, shape);
        there = there && piece->slots[k];
    }
    return there ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_pieces_make(bt_problem *problem)
{
    bt_step_phase *step = problem->step;
    const size_t size = size_of(problem);
    size_t count = 0, most = 0;
    for (int64_t s = 0; s < step->stretch_count; s++) {
        const size_t bytes = step->stretches[s].param->bytes;
        count += bytes / size + 1;
        most = bytes > most ? bytes : most;
    }
    if (!step->flat || most <= size)
        return BT_OK;
    if (!(step->pieces = bt_alloc_array(count, sizeof *step->pieces)))
        return BT_ERROR_MEMORY;
    for (int64_t s = 0; s < step->stretch_count; s++) {
        const bt_update_part *whole = &step->stretches[s];
        for (size_t from = 0, to; from < whole->param->bytes; from = to) {
            to = whole->param->bytes - from > size ? from + size : whole->param->bytes;
            BT_TRY(add(problem, whole, from, to));
        }
    }
    return BT_OK;
}
