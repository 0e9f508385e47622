/* engine/find_lr/find_lr_inside.h: shared by the files of this room. */
#ifndef BT_FIND_LR_INSIDE_H
#define BT_FIND_LR_INSIDE_H

#include "base/base.h"
#include "engine/find_lr/find_lr.h"

/* ---- curve.c ---- */

enum { BT_LR_FEWEST = 10, BT_LR_MOST = 1000000 }; /* steps */

typedef struct bt_lr_point {
    double rate, loss, smooth;
} bt_lr_point;

typedef enum bt_lr_end {
    BT_LR_ALL,     /* all steps were made */
    BT_LR_ROSE,    /* the smoothed loss has risen well above its minimum */
    BT_LR_INFINITE /* the loss is NaN or infinite: the step gives no point */
} bt_lr_end;

typedef struct bt_lr_curve {
    double low, high;
    int64_t steps;
    bt_lr_point *points; /* room for `steps` */
    int64_t count;
    double mean; /* of the losses, with exponential weights that do not sum to 1 yet */
    double least;
    bt_lr_end end;
} bt_lr_curve;

/* text: "LOW:HIGH:N"; NULL: the default. bt_lr_close in any case. */
bt_status bt_lr_open(bt_lr_curve *curve, const char *text);
void bt_lr_close(bt_lr_curve *curve);
double bt_lr_rate(const bt_lr_curve *curve, int64_t step);
bool bt_lr_add(bt_lr_curve *curve, double loss); /* the loss of the next step; false: stop here */
double bt_lr_limit(const bt_lr_curve *curve);    /* the limit of the smoothed loss */
/* The point at which the smoothed loss falls fastest with the logarithm of the rate, excluding the edges of the range.
 * NULL: it falls nowhere. */
const bt_lr_point *bt_lr_suggest(const bt_lr_curve *curve);

/* ---- show.c ---- */

void bt_lr_text(const bt_lr_curve *curve, const char *problem, bt_text *text);
void bt_lr_csv(const bt_lr_curve *curve, bt_text *text);
bt_status bt_lr_json(const bt_lr_curve *curve, const char *problem, FILE *file);
bt_status bt_lr_picture(const bt_lr_curve *curve, const char *problem, bt_text *text);

#endif
