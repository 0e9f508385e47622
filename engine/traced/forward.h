/* engine/traced/forward.h: a network's forward pass by itself, as the steps of its problem call it. */
#ifndef BT_TRACED_FORWARD_H
#define BT_TRACED_FORWARD_H

#include "engine/level/level.h"

/* The first call of bt_forward(problem, ...) in a step, in mode BT_VALID. Its inputs from the batch are read from
 * variables instead, with `examples` examples; everything else belongs to the network. */
typedef struct bt_heard {
    bt_problem *problem;
    int64_t examples;
    bt_graph *graph; /* its only output is the network's; NULL: nobody has called it */
    bt_var *vars[BT_MAX_ITEMS];
    char names[BT_MAX_ITEMS][128];
    int count;
    bt_tensor *given[BT_MAX_ITEMS], *stands[BT_MAX_ITEMS]; /* within the step */
    bt_batch *batch;
    bt_var *record;
    bool begun, counted; /* counted: one of the inputs has an axis over the batch's examples */
} bt_heard;
/* The caller sets problem and examples; the rest is 0. Searches the problem's validation_step, its training_step, and
 * the training steps of the other problems. BT_ERROR_CONFIG: none of them calls it. Free it in any case. */
bt_status bt_hear(bt_heard *heard);
void bt_heard_free(bt_heard *heard);
/* peer.c: whether the present call is that one. `stands`, with room for BT_MAX_ITEMS and a NULL, gets the replacements
 * of its inputs; bt_heard_end takes the result. */
bool bt_heard_begin(bt_problem *problem, bt_tensor *const *in, bt_tensor **stands);
void bt_heard_end(bt_problem *problem, bt_tensor *out);

#endif
