/* runtime/store.h: the bytes of variables. Outside runtime/ and the backends nobody needs to know where a variable
 * lies: it is read, written, copied and cleared here, window or whole.
 *
 * `instance` says whose copy of the variable is meant; NULL: that of a variable that no instance runs yet, such as a
 * module's before it belongs to an engine. All functions fail with BT_ERROR_INTERNAL if the variable has no memory (its
 * phase is not planned, or it is external and not bound) or fewer bytes than requested.
 *
 * A variable divided among ranks (runtime/copies.h) must be read by all processes of a run at the same time, and each
 * gets the whole; in writes and copies each handles its own part.
 *
 * If a variable lies on a device (runtime/settle.h), writes, copies and clears are put onto its queue, and a read waits
 * for it, except for numbers that only the host sets: these are read at once. A read returns earlier failures on the
 * device. */
#ifndef BT_STORE_H
#define BT_STORE_H

#include "graph/variable.h"

struct bt_instance;

/* `bytes` bytes of the variable from byte `offset` on; to and from near memory. */
bt_status bt_store_read(const struct bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes);
bt_status bt_store_write(const struct bt_instance *instance, bt_var *var, size_t offset, const void *from,
                         size_t bytes);

bt_status bt_store_copy(const struct bt_instance *instance, bt_var *to, const bt_var *from); /* of equal size */
bt_status bt_store_clear(const struct bt_instance *instance, bt_var *var);

/* Element i as a number, whatever the dtype. */
bt_status bt_store_get(const struct bt_instance *instance, const bt_var *var, int64_t i, double *value);
bt_status bt_store_put(const struct bt_instance *instance, bt_var *var, int64_t i, double value);

/* All elements as numbers, to and from an array with as many elements, of any dtype. */
bt_status bt_store_to_array(const struct bt_instance *instance, const bt_var *var, bt_array to);
bt_status bt_store_from_array(const struct bt_instance *instance, bt_var *var, bt_array from);

/* Copies `bytes` bytes of one variable, from byte `from_offset` on, into another. */
bt_status bt_store_move(const struct bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                        size_t from_offset, size_t bytes);

/* Lets a variable from outside lie within another one from now on, from its byte `offset` on. */
bt_status bt_store_lay(const struct bt_instance *instance, bt_var *var, bt_var *within, size_t offset);

/* Points a variable from outside at near data; NULL: at nothing. The data must not change before the next call: a
 * device keeps it as it was when the first program read it. */
void bt_store_point(bt_var *var, void *data);

/* The bytes themselves if they are near; NULL: they are on a device, or divided, and have to be read. */
const void *bt_store_near(const struct bt_instance *instance, const bt_var *var);

#endif
