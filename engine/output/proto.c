/* engine/output/proto.c: the encoding of protocol buffers, and the sum that goes with them in files of records. */
#include "engine/output/sinks_inside.h"

#include <string.h>

enum { VARINT = 0, EIGHT = 1, DELIMITED = 2, FOUR = 5 }; /* wire types */

/* Seven bits a byte, the lowest first; the top bit says that there are more. */
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

/* The lowest byte first, on any machine. */
static void fixed(bt_text *out, uint64_t bits, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    bt_text_put(out, bytes, size);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void bt_proto_whole(bt_text *out, int field, int64_t value)
{
    tag(out, field, VARINT);
    varint(out, (uint64_t)value);
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

void bt_proto_bytes(bt_text *out, int field, const void *data, size_t size)
{
    tag(out, field, DELIMITED);
    varint(out, size);
    bt_text_put(out, data, size);
}

void bt_proto_doubles(bt_text *out, int field, const double *values, int64_t count)
{
    tag(out, field, DELIMITED);
    varint(out, 8 * (uint64_t)count);
    for (int64_t i = 0; i < count; i++)
        fixed(out, bits_of(values[i]), 8);
}

void bt_proto_message(bt_text *out, int field, bt_text *message)
{
    bt_proto_bytes(out, field, message->data, (size_t)message->size);
    out->failed |= message->failed;
    bt_text_free(message);
}

/* The polynomial of Castagnoli, bit by bit: a run writes a few kilobytes of it. */
uint32_t bt_crc32c(const void *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (const unsigned char *byte = data; size > 0; size--, byte++) {
        crc ^= *byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}
