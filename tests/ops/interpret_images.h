/* tests/ops/interpret_images.h: part of interpret.c: ops on images and channels. */
#ifndef TESTS_OPS_INTERPRET_IMAGES_H
#define TESTS_OPS_INTERPRET_IMAGES_H

#include "graph/graph.h"

/* Computes one node; out is initially zero. False: the op is not one of these. */
bool interpret_images(const bt_node *node, const double *const *in, double *const *out);

#endif
