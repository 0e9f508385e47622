/* base/hash.h: bt_hash of bytes that arrive in pieces. */
#ifndef BT_HASH_H
#define BT_HASH_H

#include "base/base.h"

/* Call begin with the total size, words any number of times with multiples of 8 bytes, then end with the remaining 0 to
 * 7 bytes. The result equals bt_hash(seed, bytes, size). */
uint64_t bt_hash_begin(uint64_t seed, size_t size);
uint64_t bt_hash_words(uint64_t hash, const void *data, size_t size);
uint64_t bt_hash_end(uint64_t hash, const void *data, size_t size);

#endif
