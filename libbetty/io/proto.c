/* io/proto.c: encodes fields of protocol buffers. */
#include "io/proto.h"

#include <string.h>

enum { VARINT = 0, EIGHT = 1, DELIMITED = 2, FOUR = 5 }; /* wire types */

/* Seven bits per byte, lowest first; the top bit is set if more bytes follow. */
static void varint(bt_text *out, uint64_t value)
{
    unsigned char bytes[10];
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    bt_text_put(out, bytes, count);
}

static void tag(bt_text *out, int field, int wire) { varint(out, (uint64_t)field << 3 | (uint64_t)wire); }

/* Little-endian on any machine. */
static void fixed(bt_text *out, uint64_t bits, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    bt_text_put(out, bytes, size);
}

void bt_proto_whole(bt_text *out, int field, int64_t value)
{
    tag(out, field, VARINT);
    varint(out, (uint64_t)value);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void bt_proto_double(bt_text *out, int field, double value)
{
    tag(out, field, EIGHT);
    fixed(out, bits_of(value), 8);
}

void bt_proto_float(bt_text *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(out, field, FOUR);
    fixed(out, bits, 4);
}

void bt_proto_head(bt_text *out, int field, size_t size)
{
    tag(out, field, DELIMITED);
    varint(out, size);
}

void bt_proto_bytes(bt_text *out, int field, const void *data, size_t size)
{
    bt_proto_head(out, field, size);
    bt_text_put(out, data, size);
}

void bt_proto_doubles(bt_text *out, int field, const double *values, int64_t count)
{
    bt_proto_head(out, field, 8 * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        fixed(out, bits_of(values[i]), 8);
}

void bt_proto_text(bt_text *out, int field, const char *text) { bt_proto_bytes(out, field, text, strlen(text)); }

void bt_proto_message(bt_text *out, int field, bt_text *message)
{
    bt_proto_bytes(out, field, message->data, (size_t)message->size);
    out->failed |= message->failed;
    bt_text_free(message);
}
