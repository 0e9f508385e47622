/* runtime/variable.h: variables: storage that outlives a program, and blocks of them. */
#ifndef BT_VARIABLE_H
#define BT_VARIABLE_H

#include "graph/variable.h"

const char *bt_category_name(bt_category category);

bt_var *bt_var_new(bt_lifetime lifetime, bt_category category, const char *owner, const char *name, bt_array shape);
bt_var *bt_var_window(bt_var *base, size_t offset, const char *name, bt_array shape);
/* Puts a root variable of the run into host memory, on every rank; before the first program that needs it. */
void bt_var_offload(bt_var *root);
void bt_var_free(bt_var *var);        /* windows before their base */
char *bt_var_data(const bt_var *var); /* NULL if not bound */

/* A block: windows of one dtype, each aligned to BT_ALIGN, in one flat variable. `order` gives the storage order: the
 * i-th stored window has shapes[order[i]]. windows[j] belongs to shapes[j]; it is NULL if names[j] is. */
typedef struct bt_block {
    bt_var *flat;     /* [elements, gaps included] */
    bt_var **windows; /* in the order of shapes; NULL: none */
    int64_t count;
} bt_block;
bt_status bt_block_new(bt_block *block, bt_lifetime lifetime, bt_category category, const char *owner, const char *name,
                       bt_dtype dtype, const bt_array *shapes, const char *const *names, const int64_t *order,
                       int64_t count);
void bt_block_free(bt_block *block);

#endif
