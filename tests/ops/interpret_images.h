/* tests/ops/interpret_images.h: part of interpret.c: what works on images and their channels. */
#ifndef TESTS_OPS_INTERPRET_IMAGES_H
#define TESTS_OPS_INTERPRET_IMAGES_H

#include "graph/graph.h"

/* Computes one node; out is zeros at first. False: none of these ops. */
bool interpret_images(const bt_node *node, const double *const *in, double *const *out);

#endif
