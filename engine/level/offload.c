/* engine/level/offload.c: the parts of a level that are in the host's memory. */
#include "engine/level/offload.h"

bool bt_offloads(const bt_problem *problem, bt_offload what)
{
    return (problem->settings->offload >> what & 1) && bt_instance_has_spaces(problem->context->instance);
}
