/* tests/export/graph_hash.h: extracts the graph from a model file. Golden values cover only the graph, as the rest of
 * the file has the version of the writer. */
#ifndef TESTS_EXPORT_GRAPH_HASH_H
#define TESTS_EXPORT_GRAPH_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the GraphProto in the file; free *file with bt_free. Aborts if there is none. */
const char *graph_of(const char *path, char **file, size_t *size);
uint64_t graph_hash(const char *path);

#endif
