/* nn/embedding.c: tables whose rows are looked up by index. */
#include "nn/module.h"

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct embedding_options {
    bt_embedding_options options;
} embedding_options;

bt_embedding_options bt_embedding_defaults(void) { return (bt_embedding_options){.padding = -1}; }

/* The padding row is read like any other, but as a constant. It can still change through other uses, such as a head
 * that shares the table. */
static bt_tensor *embedding_forward(bt_module *self, bt_tensor *const *in)
{
    const embedding_options *own = self->data;
    bt_tensor *index = bt_module_input("embedding", in), *rows = bt_gather(bt_param(self, "weight"), index);
    if (own->options.padding < 0 || bt_poisoned(rows))
        return rows;
    return bt_where(bt_unsqueeze(bt_equal(index, own->options.padding), -1), bt_stop(rows), rows);
}

bt_module *(bt_nn_embedding)(int64_t count, int64_t width, const bt_embedding_options *options)
{
    embedding_options own = {options ? *options : bt_embedding_defaults()};
    bt_module *module = bt_module_make(embedding_forward, &own, sizeof own);
    int64_t padding = own.options.padding;
    if (count < 1 || width < 1 || padding < -1 || padding >= count) {
        bt_module_mistake(module, BT_ERROR_ARGUMENT,
                          "bt_nn_embedding: %lld rows of %lld numbers, padding %lld; expected at least 1 of both, and "
                          "for the padding a row, or -1 for none",
                          (long long)count, (long long)width, (long long)padding);
        return module;
    }
    if (module)
        bt_module_add_param(module, "weight", bt_init_normal(0, 1), count, width);
    bt_slate *table = bt_module_find(module, "weight");
    if (table) {
        table->table = true;
        table->empty = padding + 1;
    }
    return module;
}
