/* tests/export/graph_hash.h: the graph within the file of a model, which is what golden values are of: around it stands
 * the version of who wrote it. */
#ifndef TESTS_EXPORT_GRAPH_HASH_H
#define TESTS_EXPORT_GRAPH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the GraphProto in the file, to be freed by bt_free of *file; aborts where there is none. */
const char *graph_of(const char *path, char **file, size_t *size);
uint64_t graph_hash(const char *path);

#endif
