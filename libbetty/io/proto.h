/* io/proto.h: messages of protocol buffers, written field by field: https://protobuf.dev/programming-guides/encoding. A
 * field is a number, which the schema of a format gives a meaning, and a value. A text holds any bytes here; its
 * `failed` says that there was no memory for all of them. */
#ifndef BT_PROTO_H
#define BT_PROTO_H

#include "base/base.h"

void bt_proto_whole(bt_text *out, int field, int64_t value); /* int32, int64, an enum */
void bt_proto_double(bt_text *out, int field, double value);
void bt_proto_float(bt_text *out, int field, float value);
void bt_proto_bytes(bt_text *out, int field, const void *data, size_t size);         /* a string, or bytes */
void bt_proto_doubles(bt_text *out, int field, const double *values, int64_t count); /* packed */
void bt_proto_text(bt_text *out, int field, const char *text);                       /* a string */
void bt_proto_message(bt_text *out, int field, bt_text *message);                    /* and empties it */
void bt_proto_head(bt_text *out, int field, size_t size); /* of a field whose `size` bytes come after it */

#endif
