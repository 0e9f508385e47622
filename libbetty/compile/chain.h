/* compile/chain.h: elementwise steps that follow one another, as one call of a kernel that goes through them element by
 * element. A backend that has a kernel for bt_op_chain gets them: a value that only later links read never goes to
 * memory, and one launch does the work of many. */
#ifndef BT_CHAIN_H
#define BT_CHAIN_H

#include "compile/joined.h"

enum {
    BT_CHAIN_LINKS = 24,    /* of one call, at most; likewise */
    BT_CHAIN_OPERANDS = 24, /* inputs, and outputs */
};

/* One step: element i of what it gives is the op's of element i of each operand, or of an operand's one number. */
typedef struct bt_chain_link {
    const bt_op *op;
    const void *attr;
    bt_dtype dtype;            /* what it gives is stored as, or rounded to where it is not stored */
    uint8_t inputs;            /* how many operands it has */
    uint8_t in[BT_ROW_INPUTS]; /* each: an input of the call; from BT_CHAIN_OPERANDS on, a link before this one */
    int8_t out;                /* the output of the call that it gives; -1: none, only links read it */
} bt_chain_link;

/* All outputs have as many elements, and so have inputs; or an input is one number: all its strides are 0, or its sizes
 * 1. The kernel accepts a chain if it accepts each of its links as a chain by itself, whose operands are the inputs. */
typedef struct bt_chain_attr {
    bt_joined joined;
    int64_t n; /* elements */
    const bt_chain_link *links;
} bt_chain_attr;

extern const bt_op bt_op_chain;

#endif
