/* base/hash.h: bt_hash of bytes that are not all available at once. */
#ifndef BT_HASH_H
#define BT_HASH_H

#include "base/base.h"

/* bt_hash(seed, bytes, size) is end of words of begin: begin is told the size of all; words, as often as is needed,
 * takes multiples of 8; end takes the fewer than 8 that are left. */
uint64_t bt_hash_begin(uint64_t seed, size_t size);
uint64_t bt_hash_words(uint64_t hash, const void *data, size_t size);
uint64_t bt_hash_end(uint64_t hash, const void *data, size_t size);

#endif
