/* backend/cuda/profile.h: which card plans are made for. */
#ifndef BT_CUDA_PROFILE_H
#define BT_CUDA_PROFILE_H

#include "runtime/card.h"

/* The built-in ones, made by the build of profiles/NAME.json; ends with a record without a name. */
typedef struct bt_cuda_built_in {
    const char *name, *text;
} bt_cuda_built_in;
extern const bt_cuda_built_in bt_cuda_profiles[];

/* What bt_cuda_profile was told. Else NULL where a device answers, which is asked itself, and the first built-in one
 * where none does. NULL after an error, too. *which: a number of its own for each. */
const bt_card *bt_cuda_planned_card(bool device, int *which);

#endif
