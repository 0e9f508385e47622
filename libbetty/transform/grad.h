/* transform/grad.h: differentiation: appends nodes to a graph by the rules of its ops. Call inside a trace of that
 * graph. */
#ifndef BT_GRAD_H
#define BT_GRAD_H

#include "graph/graph.h"

/* Reverse mode: result[i] = sum over j of (d y[j] / d x[i])^T cotangent[j]; NULL where that is zero.
 * `through`: derivatives pass through detach as if it were the identity, except for a detached value that is an x. */
void bt_vjp(bt_graph *graph, bt_tensor *const *y, bt_tensor *const *cotangent, int ys, bt_tensor *const *x, int xs,
            bt_tensor **result, bool through);

/* Forward mode: result[j] = sum over i of (d y[j] / d x[i]) tangent[i]; NULL where that is zero. A NULL tangent is
 * zero. */
void bt_jvp(bt_graph *graph, bt_tensor *const *x, bt_tensor *const *tangent, int xs, bt_tensor *const *y, int ys,
            bt_tensor **result, bool through);

/* derive.c: the derivative of a node from its op's body, recorded as one composite NAME.vjp or NAME.jvp. */
void bt_derive_vjp(const bt_node *node, bt_tensor *const *given, bt_tensor **wanted, bool through);
void bt_derive_jvp(const bt_node *node, bt_tensor *const *given, bt_tensor **wanted, bool through);

#endif
