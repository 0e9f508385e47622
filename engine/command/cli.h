/* engine/command/cli.h: the command line of betty-run. */
#ifndef BT_CLI_H
#define BT_CLI_H

#include "engine/config/config.h"
#include "engine/grid/grid.h"

typedef struct bt_cli_setting {
    const char *key, *value, *origin; /* "classifier.lr", "0.1", "--set classifier.lr" */
} bt_cli_setting;

enum { BT_CLI_AUTO = -1 };

typedef struct bt_cli {
    bt_region *region; /* of all text that is not the command line's own */
    const char *file;  /* NULL: none was given */
    bool version, report, plan, curve, info, print_config, equation, check, ablate, profile, json, quiet;
    const char *help, *keys; /* --help, --help-keys: the form, "text", "man", ...; NULL: not asked for */
    const char *resume;      /* the folder of the run to go on with; NULL: a new one */
    const char *evaluate;    /* the folder of the run to evaluate; NULL: none */
    const char *new;         /* the problem to write; NULL: none */
    const char *compare;     /* the folder of a run; `file` is another one's; NULL: none */
    const char *find_lr;     /* the problem whose learning rate is looked for; NULL: none */
    const char *lr_range;    /* with it: LOW:HIGH:N; NULL: the default */
    const char *predictions; /* the file for what each example gets; NULL: none */
    const char *sample;      /* a text to go on with; NULL: none */
    const char *export;      /* the file for others; NULL: none */
    const char *problem;     /* with it: whose network; NULL: that of the only one */
    const char *run;         /* with it: the folder of the run */
    const char **words;      /* what stands beside the options: of a report its folders; else sorted out as above */
    int64_t word_count, word_room;
    const char *level;        /* NULL: all */
    const char *card;         /* that is planned for; NULL: the default */
    const char *output;       /* --output, which is a setting, too; NULL: not given */
    int64_t samples, steps;   /* 0: as many as the engine thinks */
    int64_t tokens, top;      /* of a sample; 0: not given */
    double temperature;       /* below 0: not given */
    bt_cli_setting *settings; /* in the order of the line */
    int64_t setting_count, setting_room;
    bool grid;     /* several runs */
    json_t *asked; /* which: the settings, too */
    int64_t jobs;  /* at once; BT_CLI_AUTO: as many as there are cores for; 0: not given */
} bt_cli;

/* Options may stand before and after FILE; --name=value is --name value; what follows -- is no option. On failure
 * BT_ERROR_CONFIG; bt_cli_free in any case. */
bt_status bt_cli_parse(bt_cli *cli, int argc, char *const *argv);
void bt_cli_free(bt_cli *cli);
bool bt_cli_reports(const bt_cli *cli); /* it asks for something else than training */

/* What --help and --help-keys print. form: one of their words; what there is no page of is refused. */
bt_status bt_cli_help(const char *form, FILE *file);
bt_status bt_cli_keys(const char *form, FILE *file); /* every INI key, those of the built-in methods included */

#endif
