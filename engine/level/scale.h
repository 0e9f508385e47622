/* engine/level/scale.h: the scale of a loss whose gradient passes through fp16, so that small cotangents do not
 * become 0 there. It is a variable, so the host never waits for it. An update whose gradient is not finite lowers it;
 * many good ones in a row raise it. */
#ifndef BT_SCALE_H
#define BT_SCALE_H

#include "engine/level/level.h"

bt_status bt_scale_open(bt_problem *problem); /* its variables, if a level of the run is fp16 */
void bt_scale_close(bt_problem *problem);
/* Whether its own network is fp16, or that of a level whose solution its loss uses. */
bool bt_scale_needed(const bt_problem *problem);

/* In the trace in progress: the cotangent of its loss, and a gradient without the scale. Without a scale: 1, and the
 * gradient as it is. */
bt_tensor *bt_scale_cotangent(const bt_problem *problem, const bt_tensor *loss);
bt_tensor *bt_scale_away(const bt_problem *problem, bt_tensor *gradient); /* NULL gives NULL */
/* After an update; made: BT_BOOL [], whether it was made. If the scale would fall below 1, the run stops. */
void bt_scale_next(const bt_problem *problem, bt_tensor *made);

/* ---- second-order products of an fp16 level, product_precision = fp16: a scale for the loss, with a direction of
 * length 1. The scale is too large if a product is not finite although its direction is. Then the update of the level
 * above is skipped, and that level's own scale does not change. ---- */

bt_tensor *bt_product_scale_read(const bt_problem *lower); /* F32 []; NULL: there is none */
/* BT_BOOL []; sound: the direction is finite; finite: its product is. */
void bt_product_scale_next(const bt_problem *lower, bt_tensor *sound, bt_tensor *finite);
bool bt_is_product_scale(const bt_context *context, const bt_var *var);

#endif
