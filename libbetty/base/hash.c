/* base/hash.c: a 64-bit hash of bytes (multiply and mix, eight bytes at a time). */
#include "base/hash.h"

#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xE9846AF9B1A615D5);
    x ^= x >> 29;
    return x;
}

uint64_t bt_hash_begin(uint64_t seed, size_t size)
{
    return mix(seed ^ (UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(size + 1)));
}

uint64_t bt_hash_words(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = mix((hash ^ word) * UINT64_C(0xD6E8FEB86659FD93) + UINT64_C(0x2545F4914F6CDD1D));
    }
    return hash;
}

uint64_t bt_hash_end(uint64_t hash, const void *data, size_t size)
{
    uint64_t rest = 0;
    if (size)
        memcpy(&rest, data, size);
    return mix((hash ^ rest) * UINT64_C(0xD6E8FEB86659FD93) + size);
}

uint64_t bt_hash(uint64_t seed, const void *data, size_t size)
{
    const size_t rest = size % 8;
    const uint64_t hash = bt_hash_words(bt_hash_begin(seed, size), data, size - rest);
    return bt_hash_end(hash, rest ? (const unsigned char *)data + (size - rest) : NULL, rest);
}

uint64_t bt_hash_text(uint64_t seed, const char *text) { return text ? bt_hash(seed, text, strlen(text)) : mix(seed); }
