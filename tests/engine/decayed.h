/* tests/engine/decayed.h: two levels on a few images: the lower one a network given by the test, the upper one the
 * logarithm of its weight decay. */
#ifndef DECAYED_H
#define DECAYED_H

#include "levels.h"

enum { DECAYED_CHANNELS = 3, DECAYED_CLASSES = 4, DECAYED_ROWS = 24, DECAYED_SIDE = 16 /* the largest sizes */ };

/* x: images of side x side pixels, y: their classes; for configure_train_data of both problems. */
bt_dataset *decayed_images(int side);

bt_module *decayed_penalty(bt_problem *self); /* configure_module of "upper" */
bt_tensor *decayed_loss(bt_problem *problem, const bt_batch *batch);
bt_tensor *decayed_lower_step(bt_problem *self, const bt_batch *batch);
bt_tensor *decayed_upper_step(bt_problem *self, const bt_batch *batch);

bt_module *decayed_resnet(bt_problem *self);       /* a ResNet-8 for "lower" */
bt_module *decayed_layer(int64_t in, int64_t out); /* linear, layer norm, gelu, dropout */

#define DECAYED_UPPER(images)                                                                                          \
    {                                                                                                                  \
        .name = "upper", .configure_train_data = (images), .configure_module = decayed_penalty,                        \
        .training_step = decayed_upper_step                                                                            \
    }
#define DECAYED_LOWER(images, net)                                                                                     \
    {                                                                                                                  \
        .name = "lower", .configure_train_data = (images), .configure_module = (net),                                  \
        .training_step = decayed_lower_step                                                                            \
    }

#endif
