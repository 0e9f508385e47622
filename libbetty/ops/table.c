/* ops/table.c: every op of the library, for those who walk them all. */
#include "ops/ops.h"

#define BT_OP_ITEM(name) &bt_op_##name,
const bt_op *const bt_op_table[] = {BT_OP_LIST(BT_OP_ITEM) NULL};
