/* runtime/store.h: the bytes of variables. Outside of runtime/ and the backends nobody asks where a variable lies: it
 * is read, written, copied and cleared here, window or whole.
 *
 * `instance` says whose copy of the variable is meant; NULL: that of variables which no instance runs yet, as a
 * module's before it belongs to an engine. All fail with BT_ERROR_INTERNAL where the variable lies nowhere (one of a
 * phase that is not planned, one from outside that is not bound) or has fewer bytes than that.
 *
 * Of a variable of which each rank has a part (runtime/copies.h) all processes of a run must read at the same time, and
 * each of them gets the whole; what is written and copied there, each has its part of.
 *
 * Where a variable lies on a device (runtime/settle.h), writing, copying and clearing are put onto its queue, and
 * reading waits for it, except for numbers that only the host sets: these are read at once. Reading returns what has
 * failed on the device before. */
#ifndef BT_STORE_H
#define BT_STORE_H

#include "graph/variable.h"

struct bt_instance;

/* So many bytes from byte `offset` of the variable on; to and from near memory. */
bt_status bt_store_read(const struct bt_instance *instance, const bt_var *var, size_t offset, void *to, size_t bytes);
bt_status bt_store_write(const struct bt_instance *instance, bt_var *var, size_t offset, const void *from,
                         size_t bytes);

bt_status bt_store_copy(const struct bt_instance *instance, bt_var *to, const bt_var *from); /* of equal size */
bt_status bt_store_clear(const struct bt_instance *instance, bt_var *var);

/* Element i as a number, whatever the dtype. */
bt_status bt_store_get(const struct bt_instance *instance, const bt_var *var, int64_t i, double *value);
bt_status bt_store_put(const struct bt_instance *instance, bt_var *var, int64_t i, double value);

/* All elements as numbers, to and from an array of as many, of any dtype. */
bt_status bt_store_to_array(const struct bt_instance *instance, const bt_var *var, bt_array to);
bt_status bt_store_from_array(const struct bt_instance *instance, bt_var *var, bt_array from);

/* So many bytes from one variable, from byte `from_offset` on, into another. */
bt_status bt_store_move(const struct bt_instance *instance, bt_var *to, size_t to_offset, const bt_var *from,
                        size_t from_offset, size_t bytes);

/* A variable from outside lies within another one from now on, from its byte `offset` on. */
bt_status bt_store_lay(const struct bt_instance *instance, bt_var *var, bt_var *within, size_t offset);

/* A variable from outside lies here, near, from now on; NULL: nowhere. What is there must not change before the next
 * call: a device has it as it was when the first program read it. */
void bt_store_point(bt_var *var, void *data);

/* The bytes themselves where they are near; NULL: they are on a device, and have to be read. */
const void *bt_store_near(const struct bt_instance *instance, const bt_var *var);

#endif
