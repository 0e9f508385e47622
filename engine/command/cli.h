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
    bt_region *region;  /* for all text that the command line itself does not hold */
    const char *file;   /* NULL: none was given */
    const char *folder; /* of the run that `file` belongs to; NULL: `file` was given itself */
    bool version, report, plan, curve, info, print_config, equation, check, ablate, profile, json, quiet;
    const char *help, *keys; /* --help, --help-keys: the form, "text", "man", ...; NULL: not requested */
    const char *resume;      /* the folder of the run to continue; NULL: a new one */
    const char *evaluate;    /* the folder of the run to evaluate; NULL: none */
    const char *new;         /* the problem to write; NULL: none */
    const char *compare;     /* the folder of one run, `file` being that of the other; NULL: none */
    const char *find_lr;     /* the problem whose learning rate to find; NULL: none */
    const char *lr_range;    /* with it: LOW:HIGH:N; NULL: the default */
    const char *predictions; /* the file for the predictions of all examples; NULL: none */
    const char *sample;      /* a text to continue; NULL: none */
    const char *export;      /* the file to export to; NULL: none */
    const char *problem;     /* with it: the problem whose network it is; NULL: the only one */
    const char *run;         /* with it: the folder of the run */
    const char **words;      /* what is not an option: the folders of a report; else sorted into the above */
    int64_t word_count, word_room;
    const char *level;        /* NULL: all */
    const char *card;         /* the card to plan for; NULL: the default */
    const char *output;       /* --output, which is also a setting; NULL: not given */
    int64_t samples, steps;   /* 0: the engine's choice */
    int64_t tokens, top;      /* of a sample; 0: not given */
    double temperature;       /* below 0: not given */
    bt_cli_setting *settings; /* in command-line order */
    int64_t setting_count, setting_room;
    bool grid;     /* several runs */
    json_t *asked; /* the requested runs, including the settings */
    int64_t jobs;  /* runs at once; BT_CLI_AUTO: as many as the cores allow; 0: not given */
} bt_cli;

/* Options may come before or after FILE; --name=value is the same as --name value; words after -- are not options. On
 * failure BT_ERROR_CONFIG; bt_cli_free in any case. */
bt_status bt_cli_parse(bt_cli *cli, int argc, char *const *argv);
void bt_cli_free(bt_cli *cli);
bool bt_cli_reports(const bt_cli *cli); /* it asks for something other than training */

/* What --help and --help-keys print. form: one of their words; an unknown one is refused. */
bt_status bt_cli_help(const char *form, FILE *file);
bt_status bt_cli_keys(const char *form, FILE *file); /* every INI key, including those of the built-in methods */

#endif
