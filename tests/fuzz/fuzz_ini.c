/* INI files: from bytes to settings. */
#include "fuzz.h"

#include "engine/config/config.h"

void fuzz_one(const uint8_t *data, size_t size)
{
    bt_config *config = fuzz_config();
    bt_config_read(config, fuzz_file(0, data, size));
    fuzz_resolve(config);
}
