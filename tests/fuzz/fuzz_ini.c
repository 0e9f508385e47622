/* INI files: from bytes to settings. */
#include "fuzz.h"

#include "engine/config/config.h"
#include <string.h>

void fuzz_one(const uint8_t *data, size_t size)
{
    bt_config *config = fuzz_config();
    bt_config_read(config, fuzz_file(0, data, size));
    /* Anything that iniparser would reject, or read differently, must have been found before, with its line. */
    fuzz_check(!strstr(bt_error(), "iniparser"), "iniparser does not read a file that was found to be good");
    fuzz_resolve(config);
}
