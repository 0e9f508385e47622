/* io/proto.h: writes protocol buffer messages field by field: https://protobuf.dev/programming-guides/encoding. A field
 * has a number, whose meaning the format's schema defines, and a value. Here a bt_text holds bytes, not only text; its
 * `failed` is set if memory ran out. */
#ifndef BT_PROTO_H
#define BT_PROTO_H

#include "base/base.h"

void bt_proto_whole(bt_text *out, int field, int64_t value); /* int32, int64, an enum */
void bt_proto_double(bt_text *out, int field, double value);
void bt_proto_float(bt_text *out, int field, float value);
void bt_proto_bytes(bt_text *out, int field, const void *data, size_t size);         /* a string, or bytes */
void bt_proto_doubles(bt_text *out, int field, const double *values, int64_t count); /* packed */
void bt_proto_text(bt_text *out, int field, const char *text);                       /* a null-terminated string */
void bt_proto_message(bt_text *out, int field, bt_text *message);                    /* and empties the message */
void bt_proto_head(bt_text *out, int field, size_t size); /* the head of a field; its `size` bytes must follow */

#endif
