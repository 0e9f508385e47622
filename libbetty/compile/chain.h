/* compile/chain.h: consecutive elementwise steps as one call of a kernel that runs them element by element. A backend
 * that has a kernel for bt_op_chain gets them: a value that only later links read never goes to memory, and one launch
 * does the work of many. */
#ifndef BT_CHAIN_H
#define BT_CHAIN_H

#include "compile/joined.h"

enum {
    BT_CHAIN_LINKS = 24,    /* at most, in one call */
    BT_CHAIN_OPERANDS = 24, /* at most, of inputs and of outputs */
};

/* One step: element i of its result is the op applied to element i of each operand, or to the operand's only number. */
typedef struct bt_chain_link {
    const bt_op *op;
    const void *attr;
    bt_dtype dtype;            /* the result is stored in it, or rounded to it if it is not stored */
    uint8_t inputs;            /* how many operands */
    uint8_t in[BT_ROW_INPUTS]; /* each an input of the call; from BT_CHAIN_OPERANDS on, an earlier link */
    int8_t out;                /* the call's output that it computes; -1: only links read it */
} bt_chain_link;

/* All outputs have n elements, and so do inputs; or an input is one number: all its strides are 0, or its sizes 1. The
 * kernel accepts a chain if it accepts each link as a chain of its own. */
typedef struct bt_chain_attr {
    bt_joined joined;
    int64_t n; /* elements */
    const bt_chain_link *links;
} bt_chain_attr;

extern const bt_op bt_op_chain;

#endif
