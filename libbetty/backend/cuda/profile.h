/* backend/cuda/profile.h: the card that plans are made for. */
#ifndef BT_CUDA_PROFILE_H
#define BT_CUDA_PROFILE_H

#include "runtime/card.h"

/* The built-in profiles, which the build makes from profiles/NAME.json; the last record has no name. */
typedef struct bt_cuda_built_in {
    const char *name, *text;
} bt_cuda_built_in;
extern const bt_cuda_built_in bt_cuda_profiles[];

/* The card given to bt_cuda_profile; otherwise NULL if there is a device, which is then queried itself, or the first
 * built-in profile if there is none. Also NULL after an error. *which: a number that identifies the card. */
const bt_card *bt_cuda_planned_card(bool device, int *which);

/* convolution_plan.c: whether cuDNN, if there is one, accepts the description; `from` names it in the error. */
bt_status bt_cuda_card_known(const char *from, const bt_card *card);

#endif
