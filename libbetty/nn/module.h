/* nn/module.h: the inside of a module, and how it gets its storage. */
#ifndef BT_MODULE_H
#define BT_MODULE_H

#include "base/base.h"
#include "base/map.h"
#include "runtime/variable.h"
#include <betty/nn.h>

/* A parameter, or a buffer. */
typedef struct bt_slate {
    char *name; /* "weight" */
    char *path; /* from the root: "classifier.0.weight"; NULL before bt_module_list */
    bt_module *module;
    bt_init init; /* its array values are our own copy */
    bt_array shape;
    bool buffer;
    bool window;   /* a convolution's weight: the window's sizes, in, out */
    bool table;    /* an embedding's: its rows are looked up, few per step */
    int64_t empty; /* of a table: 1 + the index of the row that is initially 0; 0: none */
    bt_var *var;   /* NULL before bt_module_adopt */
} bt_slate;

struct bt_module {
    bt_forward_fn *forward;
    char *name; /* its name in its parent; of a root: its owner's name, or NULL */
    bt_module *parent;
    bt_module **children; /* in order of adding; owned */
    int64_t child_count, child_capacity;
    bt_slate **slates; /* its own parameters and buffers, in order of adding; owned */
    int64_t slate_count, slate_capacity;
    bt_map names;     /* by the hash of a name: 2 i for child i, 2 i + 1 for slate i; see named.c */
    void *data;       /* of a ready-made kind: its options; owned */
    bt_status status; /* the first mistake in building it; reported by bt_module_list */
    char *message;

    /* Of the root only. */
    bt_slate **params, **buffers; /* of the whole tree, in order of declaration: see bt_module_list */
    int64_t param_count, buffer_count;
    bt_block param_block, buffer_block; /* flat is NULL if there is none */
    bool listed, adopted;
    bool narrow;         /* parameters are stored in bf16 and read as f32; set before it has storage */
    bt_dtype dtype;      /* of parameters and buffers, once adopted */
    bt_dtype low;        /* of products in its forward pass, if it has a name: see bt_tag */
    int64_t norm_groups; /* of its batch norms that set none themselves; 0: 1 */
};

/* Checks the tree below `root` and lists its parameters and buffers in root->params and root->buffers, in order of
 * declaration: as in PyTorch, a module's own in order of adding, then its children's in order of adding. Nothing can be
 * added afterwards; a second call does nothing. BT_ERROR_ARGUMENT with the first mistake made in building the tree (a
 * module used twice, a cycle, a size below 1, two equal names, a NULL child). */
bt_status bt_module_list(bt_module *root);

/* Makes the storage and the initial values; `house` makes only the storage, of zeros. `order` gives the parameters'
 * order in their block: the i-th is root->params[order[i]]; NULL: as declared. Buffers have a block of their own.
 * Values depend only on seed, owner, path, shape and init, and on dtype by one rounding. The storage belongs to the
 * root and is freed with it. */
bt_status bt_module_house(bt_module *root, const char *owner, bt_dtype dtype, const int64_t *order);
bt_status bt_module_adopt(bt_module *root, const char *owner, bt_dtype dtype, uint64_t seed, const int64_t *order);

bt_module *bt_module_root(bt_module *module);

/* ---- named.c ---- */

/* The child, or the parameter or buffer, whose name is the first `length` characters of `name`; NULL: none. */
bt_module *bt_module_child_named(const bt_module *module, const char *name, size_t length);
bt_slate *bt_module_slate_named(const bt_module *module, const char *name, size_t length);

/* Notes the name, not yet used, of the next child or slate. */
bt_status bt_module_note_child(bt_module *module, const char *name);
bt_status bt_module_note_slate(bt_module *module, const char *name);

/* The parameter, buffer or module at a path from `module`; NULL (no message) if missing. */
bt_slate *bt_module_find(bt_module *module, const char *path);
bt_module *bt_module_find_child(bt_module *module, const char *path);

/* The path from the root, "classifier.0", to be freed; the root's is "" unless it has a name; NULL if out of memory. */
char *bt_module_path(const bt_module *module);

/* Notes a mistake for bt_module_list to report; only the first one is kept. */
void bt_module_mistake(bt_module *module, bt_status status, const char *format, ...) BT_FORMAT(3, 4);

/* bt_module_load, with its report as one line of text. */
bt_status bt_module_fill(bt_module *module, const char *path, const bt_load_options *options, bt_text *report);

/* A buffer's value after this run, as recorded so far: the one given to bt_param_set, else its current value. */
bt_tensor *bt_param_next(bt_module *module, const char *path);

/* For forward functions: the first input, or poison if there is none; and poison for a wrong last axis. */
bt_tensor *bt_module_input(const char *what, bt_tensor *const *in);
bt_tensor *bt_module_wrong_features(const char *what, int64_t features, const bt_tensor *x);

/* bt_forward of a bt_nn_linear; relu: with ReLU in the same op. */
bt_tensor *bt_module_linear(bt_module *linear, bt_tensor *x, bool relu);

/* Whether one of its batch norms uses batch statistics, in as many groups as the root says. */
bool bt_module_norms_batches(const bt_module *module);

/* A module of a ready-made kind: its options are `size` bytes copied from `options`. */
bt_module *bt_module_make(bt_forward_fn *forward, const void *options, size_t size);

/* Enters and leaves a module while tracing: nodes recorded in between carry its path, and its root's name as the level.
 */
bt_tag bt_module_enter(const bt_module *module);
void bt_module_leave(bt_tag before);

/* BT_ERROR_ARGUMENT unless `init` can fill `shape`. */
bt_status bt_init_check(const bt_init *init, bt_array shape);

/* Fills `to` (with data), which has the parameter's shape, by `init`. Equal (seed, stream) give equal values. */
bt_status bt_init_fill(const bt_init *init, uint64_t seed, uint64_t stream, bt_array to);

#endif
