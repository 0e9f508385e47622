/* base/random.c: random numbers on the host. */
#include "base/base.h"
#include "base/philox.h"

double bt_host_uniform(uint64_t seed, uint64_t stream, uint64_t element)
{
    bt_philox counter = {{(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    bt_philox word = bt_philox4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return bt_philox_f64(word.word[0], word.word[1]);
}
