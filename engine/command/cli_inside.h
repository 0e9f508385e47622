/* engine/command/cli_inside.h: the table of options, parsed in cli.c and described in manual.c. */
#ifndef BT_CLI_INSIDE_H
#define BT_CLI_INSIDE_H

#include "engine/command/cli.h"

typedef enum bt_cli_option_kind {
    FLAG,    /* sets a bool of bt_cli */
    SETTING, /* --name VALUE: a key of the engine, `key` */
    SET,     /* --set SECTION.KEY=VALUE */
    SEEDS,   /* --seeds LIST */
    JOBS,    /* --jobs N */
    TEXT,    /* --name VALUE: a text of bt_cli */
    COUNT,   /* --name N: a number of bt_cli, at least 1 */
    REAL,    /* --name X: likewise, at least 0 */
    FORM     /* --name, or --name=WORD: one of the words of `value`, the first if there is none; a text of bt_cli */
} bt_cli_option_kind;

typedef struct bt_cli_option {
    const char *name;
    bt_cli_option_kind kind;
    size_t offset;
    const char *key, *value, *help;
} bt_cli_option;

const bt_cli_option *bt_cli_option_at(int index); /* NULL after the last */

/* Ways to call the command, one per line: "CALL: what it does". */
extern const char bt_cli_synopsis[];

#endif
