/* engine/output/crc.c: the checksum of pieces in files of records. */
#include "engine/output/sinks_inside.h"

/* The Castagnoli polynomial, bit by bit: a run writes only a few kilobytes with it. */
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
