/* engine/level/keep.h: a copy of part of the ledger, to be restored later: what a question moves, what an adaptation
 * changes, the start of an inner loop. */
#ifndef BT_KEEP_H
#define BT_KEEP_H

#include "engine/level/ledger.h"

typedef enum bt_keep_scope {
    BT_KEEP_ALL,      /* everything */
    BT_KEEP_QUESTION, /* all but what only updates write */
    BT_KEEP_ADAPT,    /* what steps of one problem on another batch change, except its metrics */
    BT_KEEP_REPORTS,  /* metrics, and the memory of users */
    BT_KEEP_LOOP      /* what roll_back takes back, of one problem; the copies are entered in the ledger themselves */
} bt_keep_scope;

typedef struct bt_kept bt_kept;
/* Copies of what is there now; problem: of BT_KEEP_ADAPT and BT_KEEP_LOOP. NULL after an error. */
bt_kept *bt_kept_new(bt_context *context, bt_keep_scope scope, const bt_problem *problem);
void bt_kept_renew(bt_kept *kept); /* the copies are of now */
/* Rows that have left the ledger since are skipped, unless there is a new one under the same name. */
bt_status bt_kept_restore(const bt_kept *kept);
void bt_kept_free(bt_kept *kept); /* NULL ok */

#endif
