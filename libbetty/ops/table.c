/* ops/table.c: the table of all ops of the library. */
#include "ops/ops.h"

#define BT_OP_ITEM(name) &bt_op_##name,
const bt_op *const bt_op_table[] = {BT_OP_LIST(BT_OP_ITEM) NULL};
