/* engine/level/keep.h: a copy of part of the ledger, to be restored later: what a question or an adaptation changes,
 * or the start of an inner loop. */
#ifndef BT_KEEP_H
#define BT_KEEP_H

#include "engine/level/ledger.h"

typedef enum bt_keep_scope {
    BT_KEEP_ALL,      /* everything */
    BT_KEEP_QUESTION, /* everything except what only updates write */
    BT_KEEP_ADAPT,    /* what a problem's steps on another batch change, except its metrics */
    BT_KEEP_REPORTS,  /* metrics, and the users' memory */
    BT_KEEP_LOOP      /* what roll_back resets in one problem; the copies are in the ledger too */
} bt_keep_scope;

typedef struct bt_kept bt_kept;
/* Copies the present state; problem: for BT_KEEP_ADAPT and BT_KEEP_LOOP. NULL after an error. */
bt_kept *bt_kept_new(bt_context *context, bt_keep_scope scope, const bt_problem *problem);
bt_status bt_kept_renew(bt_kept *kept); /* copies the present state again */
/* Rows that have since left the ledger are skipped, unless a new row has the same name. */
bt_status bt_kept_restore(const bt_kept *kept);
void bt_kept_free(bt_kept *kept); /* NULL ok */

#endif
