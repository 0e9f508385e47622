/* optim/rule.h: the inside of bt_rule: what an optimiser's update, a schedule or a hypergradient method sees. */
#ifndef BT_RULE_H
#define BT_RULE_H

#include "graph/graph.h"
#include <betty/optim.h>

typedef struct bt_rule_item {
    const char *name;
    bt_tensor *value; /* the current value; a hyperparameter: a scalar of any floating dtype, which bt_hyper casts */
    bt_tensor *next;  /* the value that the rule set; NULL: none */
    double fixed;     /* a hyperparameter's configured value, for choices made while tracing */
} bt_rule_item;

typedef struct bt_rule_calls { /* what a method may ask for; each poisons if it cannot be answered */
    bt_tensor *(*hvp)(void *context, bt_tensor *x);
    bt_tensor *(*lower_gradient)(void *context, bt_tensor *shift);
    bt_tensor *(*upper_gradient)(void *context, bt_tensor *shift);
    bt_tensor *(*slope)(void *context);
    bt_tensor *(*iteration)(void *context);
    bt_tensor *(*unit)(void *context);
    bt_tensor *(*last_solution)(void *context); /* NULL: none is kept */
} bt_rule_calls;

struct bt_rule {
    const char *what; /* for messages: "optimizer adam", "method cg" */
    bt_dtype dtype;   /* of the values of bt_hyper */
    bt_rule_item hypers[BT_MAX_ITEMS], slots[BT_MAX_ITEMS];
    int hyper_count, slot_count;
    bool scheduling; /* within `schedule`: hyperparameters may be set, and there are no slots */

    /* An update: BT_BOOL, BT_BOOL and F64 scalars. */
    bt_tensor *ok;    /* the gradient is finite; if not, nothing may change */
    bt_tensor *first; /* this is the first applied update */
    bt_tensor *count; /* the number of this update, from 1 */

    const bt_rule_calls *calls; /* of a method; NULL elsewhere */
    void *context;
    bt_tensor *trouble;        /* BT_BOOL [], set by a method's step: the method fails here */
    const char *trouble_means; /* "the series diverges" */
};

void bt_rule_begin(bt_rule *rule, const char *what, bt_dtype dtype); /* *rule is overwritten */

/* Names are kept, not copied; at most BT_MAX_ITEMS of each. fixed: a hyperparameter's configured value. */
void bt_rule_add_hyper(bt_rule *rule, const char *name, double fixed, bt_tensor *value);
void bt_rule_add_slot(bt_rule *rule, const char *name, bt_tensor *value);

bt_rule_item *bt_rule_hyper(bt_rule *rule, const char *name); /* NULL: none of that name */
bt_rule_item *bt_rule_slot(bt_rule *rule, const char *name);  /* likewise */
bt_tensor *bt_rule_next(const bt_rule_item *item);            /* the value that was set, else the current one */

#endif
