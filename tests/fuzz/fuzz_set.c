/* The command line: each line of the input is an argument. */
#include "fuzz.h"

#include "engine/command/cli.h"
#include "engine/config/config.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };

void fuzz_one(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *words[WORDS + 2] = {"betty-run"}, *rest = NULL;
    fuzz_check(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = 0;
    int count = 1;
    for (char *word = strtok_r(text, "\n", &rest); word && count < WORDS; word = strtok_r(NULL, "\n", &rest))
        words[count++] = word;
    bt_cli cli;
    bt_config *config = fuzz_config();
    if (bt_cli_parse(&cli, count, words) == BT_OK)
        for (int64_t i = 0; i < cli.setting_count; i++)
            bt_config_set(config, cli.settings[i].key, cli.settings[i].value, cli.settings[i].origin);
    fuzz_resolve(config);
    bt_cli_free(&cli);
    free(text);
}
