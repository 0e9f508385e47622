/* engine/command/cli.c: the command line of betty-run. */
#include "engine/command/cli_inside.h"

#include "engine/solve/methods.h"
#include "engine/state/checkpoint.h"
#include <stddef.h>
#include <string.h>

#define FIELD(field) .offset = offsetof(bt_cli, field)

static const bt_cli_option options[] = {
    {"--plan", FLAG, FIELD(plan), .help = "print the memory plan; do not train"},
    {"--curve", FLAG, FIELD(curve),
     .help = "with --plan: print what less memory would cost: bytes against recomputed work, for each phase and for "
             "the whole run. It plans for ever smaller values of memory_budget. With --output it writes curve.json and "
             "curve.svg"},
    {"--info", FLAG, FIELD(info), .help = "print the levels, the device and the kernels; do not train"},
    {"--print-config", FLAG, FIELD(print_config), .help = "print every setting as an INI file; do not train"},
    {"--print-equation", FLAG, FIELD(equation),
     .help = "print the equations of the gradients that the levels follow; do not train"},
    {"--check-hypergradient", FLAG, FIELD(check),
     .help = "compare hypergradients with finite differences of the loss after retraining; do not train. With --output "
             "it writes check.json to that folder, which may be a run's"},
    {"--ablate", FLAG, FIELD(ablate),
     .help = "try each memory technique on each level and print what it saves and costs; with --plan only the bytes, "
             "without running. It writes ablation.json, ablation.md and ablation.svg"},
    {"--steps", COUNT, FIELD(steps), .value = "N", .help = "with --ablate: leaf steps per row and round (20)"},
    {"--find-lr", TEXT, FIELD(find_lr), .value = "PROBLEM",
     .help =
         "learning rate range test (lr_find): let the learning rate of this problem rise from step to step, print the "
         "loss over it and suggest a rate. It writes lr.csv and lr.svg to runs/NAME-find-lr-N, or to --output"},
    {"--lr-range", TEXT, FIELD(lr_range), .value = "LOW:HIGH:N",
     .help = "with --find-lr: the lowest and the highest rate, and the number of steps of PROBLEM (1e-7:10:100)"},
    {"--level", TEXT, FIELD(level), .value = "NAME",
     .help = "check the hypergradient of this upper problem only; evaluate or sample from this problem only; ablate "
             "this level only"},
    {"--samples", COUNT, FIELD(samples), .value = "N",
     .help = "with --check-hypergradient: number of directions to check; if there are no more parameters than that, "
             "check each parameter"},
    {"--profile", FLAG, FIELD(profile),
     .help = "train and print where the time went; write profile.json and trace.json (Chrome's trace format)"},
    {"--json", FLAG, FIELD(json),
     .help = "print the plan, the info, the check, the ablation, the losses of --find-lr, the differences between two "
             "runs, or the table of several runs as JSON"},
    {"--set", SET, .value = "SECTION.KEY=VALUE",
     .help = "override a setting of the file; may be repeated. Several values, A|B|C, start several runs: one for each "
             "combination and each seed. Write \\| for a | inside a value"},
    {"--output", SETTING, .key = "engine.output", .value = "DIR",
     .help = "folder for the files of the run (runs/NAME-N)"},
    {"--resume", TEXT, FIELD(resume), .value = "DIR",
     .help = "continue the run in this folder from its newest checkpoint, or from DIR/checkpoints/NAME; FILE may be "
             "omitted"},
    {"--evaluate", TEXT, FIELD(evaluate), .value = "DIR",
     .help = "evaluate the newest checkpoint of the run in this folder, or DIR/checkpoints/NAME, on its validation "
             "data; do not train. FILE may be omitted"},
    {"--compare", TEXT, FIELD(compare), .value = "RUN RUN",
     .help = "print the differences between the runs in two folders: configuration, code and results"},
    {"--new", TEXT, FIELD(new), .value = "NAME",
     .help = "write NAME.c and NAME.ini: a two-level problem that trains as it is, as a starting point for your own"},
    {"--report", FLAG, FIELD(report), .value = "RUN [RUN ...]",
     .help =
         "write report.html, one self-contained page: curves of every metric, memory by phase, the equation, the "
         "check, the profile, the configuration and the differences between runs. RUN is the folder of a run, of "
         "several runs, of an ablation or of a check. The page is written to the first RUN, or with --output to DIR"},
    {"--predictions", TEXT, FIELD(predictions), .value = "CSV",
     .help = "with --evaluate: write the prediction for each example to this file"},
    {"--sample", TEXT, FIELD(sample), .value = "TEXT",
     .help = "with --evaluate: print how the run's language model continues this text, instead of metrics"},
    {"--tokens", COUNT, FIELD(tokens), .value = "N", .help = "with --sample: number of tokens to draw (100)"},
    {"--temperature", REAL, FIELD(temperature), .value = "X",
     .help = "with --sample: draw tokens from softmax(logits / X) (1); 0: always take the most likely one"},
    {"--top", COUNT, FIELD(top), .value = "N", .help = "with --sample: draw only from the N most likely tokens (all)"},
    {"--export", TEXT, FIELD(export), .value = "MODEL.onnx",
     .help = "betty-run --export MODEL.onnx --problem NAME RUN: write the network trained by the run in folder RUN as "
             "an ONNX model; MODEL.safetensors: write its parameters, for PyTorch"},
    {"--problem", TEXT, FIELD(problem), .value = "NAME", .help = "with --export: problem whose network is written"},
    {"--device", SETTING, .key = "engine.device", .value = "NAME", .help = "auto | cpu | cuda"},
    {"--device-profile", TEXT, FIELD(card), .value = "NAME",
     .help =
         "with --plan and --device cuda: plan for this card without having one: h100, or a file that describes a card"},
    {"--threads", SETTING, .key = "engine.threads", .value = "N",
     .help = "maximum number of threads per kernel call (0: depends on the work and the cores)"},
    {"--ranks", SETTING, .key = "engine.ranks", .value = "N",
     .help = "number of ranks that share each batch; with --plan: print what one rank needs and sends"},
    {"--seed", SETTING, .key = "engine.seed", .value = "N", .help = "seed of all random numbers"},
    {"--seeds", SEEDS, .value = "LIST",
     .help = "run once with each of these seeds, 1..5 or 1,2,7..9, in subfolders of one folder, and print a table of "
             "means and deviations. It writes grid.json, grid.md and grid.svg; with --plan it prints only the bytes of "
             "each combination. --resume DIR continues the unfinished runs, or adds seeds and values"},
    {"--jobs", JOBS, .value = "N",
     .help = "number of runs at a time, if there are several (1); auto, or 0: as many as the cores allow. If `threads` "
             "is not set, the runs share the cores"},
    {"--quiet", FLAG, FIELD(quiet), .help = "print nothing while training"},
    {"--help", FORM, FIELD(help), .value = "text | man | list",
     .help = "print this text and the keys of an INI file; --help=man: this text as a manual page; =list: a list for "
             "programs, such as shell completion"},
    {"--help-keys", FORM, FIELD(keys), .value = "text | markdown | man | list",
     .help = "print only the keys; --help-keys=markdown: as a Markdown page; =man: as a manual page; =list: as a list "
             "for programs"},
    {"--version", FLAG, FIELD(version), .help = "print the version"},
};

void bt_cli_free(bt_cli *cli)
{
    if (!cli)
        return;
    bt_free(cli->settings);
    bt_free(cli->words);
    json_decref(cli->asked);
    bt_region_free(cli->region);
    *cli = (bt_cli){0};
}

static bt_status unknown_option(const char *word, size_t length)
{
    const char *names[BT_COUNT_OF(options) + 1] = {NULL};
    for (int i = 0; i < BT_COUNT_OF(options); i++)
        names[i] = options[i].name;
    char *name = bt_string("%.*s", (int)length, word);
    const char *nearest = bt_nearest(name, names);
    bt_free(name);
    return bt_fail(BT_ERROR_CONFIG, "unknown option `%.*s`%s%s%s", (int)length, word, nearest ? "; did you mean `" : "",
                   nearest ? nearest : "; betty-run --help lists them", nearest ? "`?" : "");
}

static bt_status add_setting(bt_cli *cli, const char *key, const char *value, const char *origin)
{
    bt_cli_setting *grown = bt_grow(cli->settings, &cli->setting_room, cli->setting_count + 1, sizeof *cli->settings);
    if (grown)
        cli->settings = grown;
    if (!grown || !key || !origin)
        return BT_ERROR_MEMORY;
    cli->settings[cli->setting_count++] = (bt_cli_setting){key, value, origin};
    return BT_OK;
}

static bt_status add_set(bt_cli *cli, const char *text)
{
    const char *equals = strchr(text, '=');
    json_t *values;
    if (!equals)
        return bt_fail(BT_ERROR_CONFIG, "--set %s: expected SECTION.KEY=VALUE", text);
    int length = (int)(equals - text);
    const char *key = bt_region_format(cli->region, "%.*s", length, text);
    const char *origin = bt_region_format(cli->region, "--set %.*s", length, text);
    if (!key || !origin)
        return BT_ERROR_MEMORY;
    if (!strchr(equals, '|'))
        return add_setting(cli, key, equals + 1, origin);
    BT_TRY(bt_grid_values(origin, equals + 1, &values));
    if (json_array_size(values) > 1)
        return bt_grid_ask_each(cli->asked, key, values);
    const char *one = bt_region_format(cli->region, "%s", json_string_value(json_array_get(values, 0)));
    json_decref(values);
    return one ? add_setting(cli, key, one, origin) : BT_ERROR_MEMORY;
}

static bt_status take_jobs(bt_cli *cli, const char *value)
{
    const bt_key count = {.name = "--jobs", .kind = BT_KEY_SIZE, .low = 0, .high = 1024, .words = "auto"};
    BT_TRY(bt_key_parse(&count, "--jobs", value, &cli->jobs));
    cli->jobs = cli->jobs ? cli->jobs : BT_CLI_AUTO;
    return BT_OK;
}

static bt_status take_value(bt_cli *cli, const bt_cli_option *o, const char *value)
{
    char *field = (char *)cli + o->offset;
    const bt_key count = {.name = o->name, .kind = BT_KEY_INT, .low = 1, .high = 1e9};
    const bt_key real = {.name = o->name, .kind = BT_KEY_DOUBLE, .low = 0, .high = 1e9};
    switch (o->kind) {
    case SETTING:
        if (strcmp(o->name, "--output") == 0)
            cli->output = value;
        return add_setting(cli, o->key, value, o->name);
    case SET:
        return add_set(cli, value);
    case SEEDS:
        return bt_grid_ask_seeds(cli->asked, value);
    case JOBS:
        return take_jobs(cli, value);
    case TEXT:
        memcpy(field, &value, sizeof value);
        return BT_OK;
    case COUNT:
        return bt_key_parse(&count, o->name, value, field);
    case REAL:
        return bt_key_parse(&real, o->name, value, field);
    case FORM:
        BT_TRY(bt_key_parse(&(bt_key){.name = o->name, .kind = BT_KEY_CHOICE, .words = o->value}, o->name, value,
                            &(int){0}));
        memcpy(field, &value, sizeof value);
        return BT_OK;
    case FLAG:
        return bt_fail(BT_ERROR_CONFIG, "%s takes no value, found `%s`", o->name, value);
    }
    return BT_ERROR_INTERNAL;
}

/* Takes one option; *next is its value, unless that follows a `=`. */
static bt_status take_option(bt_cli *cli, const char *word, char *const **next)
{
    size_t length = strcspn(word, "=");
    for (int i = 0; i < BT_COUNT_OF(options); i++) {
        const bt_cli_option *o = &options[i];
        if (!bt_word_is(word, length, o->name))
            continue;
        if (word[length])
            return take_value(cli, o, word + length + 1);
        if (o->kind == FLAG) {
            *((bool *)(void *)((char *)cli + o->offset)) = true;
            return BT_OK;
        }
        if (o->kind == FORM)
            return take_value(cli, o, "text");
        if (!**next)
            return bt_fail(BT_ERROR_CONFIG, "%s needs a value: %s %s", o->name, o->name, o->value);
        return take_value(cli, o, *(*next)++);
    }
    return unknown_option(word, length);
}

static bt_status take_word(bt_cli *cli, const char *word)
{
    const char **grown = bt_grow(cli->words, &cli->word_room, cli->word_count + 1, sizeof *cli->words);
    if (!grown)
        return BT_ERROR_MEMORY;
    cli->words = grown;
    grown[cli->word_count++] = word;
    return BT_OK;
}

/* Sorts the words that are not options: FILE, RUN, FILE RUN with --export, any number of them with --report. */
static bt_status sort_words(bt_cli *cli)
{
    const int64_t count = cli->word_count;
    if (cli->report)
        return count ? BT_OK
                     : bt_fail(BT_ERROR_CONFIG, "--report needs at least one run: betty-run --report RUN [RUN ...]");
    if (count > (cli->export ? 2 : 1))
        return bt_fail(BT_ERROR_CONFIG, "one %s at a time: found `%s`%s `%s`%s",
                       cli->compare ? "pair of runs to compare" : "INI file", cli->words[0], count > 2 ? "," : " and",
                       cli->words[1], count > 2 ? " and more" : "");
    if (cli->export && !count)
        return bt_fail(BT_ERROR_CONFIG, "--export %s needs a run: betty-run --export %s --problem NAME RUN",
                       cli->export, cli->export);
    if (cli->export)
        cli->run = cli->words[count - 1];
    if (count == (cli->export ? 2 : 1))
        cli->file = cli->words[0];
    return BT_OK;
}

bool bt_cli_reports(const bt_cli *cli)
{
    return cli->plan || cli->info || cli->print_config || cli->equation || cli->check || cli->ablate || cli->evaluate ||
           cli->export || cli->find_lr;
}

/* Checks options that need --ablate or exclude it. */
static bt_status check_ablation(const bt_cli *cli)
{
    if (cli->steps && (!cli->ablate || cli->plan))
        return bt_fail(BT_ERROR_CONFIG, "--steps needs --ablate, and does not work with --plan");
    if (cli->ablate && (cli->info || cli->print_config || cli->equation || cli->check || cli->profile || cli->evaluate))
        return bt_fail(BT_ERROR_CONFIG, "--ablate can be combined with --plan, but with no other report");
    return BT_OK;
}

static bt_status check_find_lr(const bt_cli *cli)
{
    if (cli->lr_range && !cli->find_lr)
        return bt_fail(BT_ERROR_CONFIG, "--lr-range needs --find-lr PROBLEM");
    if (cli->find_lr && (cli->plan || cli->info || cli->print_config || cli->equation || cli->check || cli->ablate ||
                         cli->evaluate || cli->export || cli->profile || cli->grid))
        return bt_fail(BT_ERROR_CONFIG, "--find-lr cannot be combined with another report or with several runs");
    return BT_OK;
}

static bt_status check_curve(const bt_cli *cli)
{
    if (cli->card && !cli->plan)
        return bt_fail(BT_ERROR_CONFIG, "--device-profile needs --plan: betty-run FILE --plan --device cuda "
                                        "--device-profile h100");
    if (cli->curve && !cli->plan)
        return bt_fail(BT_ERROR_CONFIG, "--curve needs --plan: betty-run FILE --plan --curve");
    if (cli->curve && (cli->info || cli->print_config || cli->equation || cli->check || cli->ablate || cli->grid))
        return bt_fail(BT_ERROR_CONFIG,
                       "--plan --curve reports on one run, and cannot be combined with another report: leave out "
                       "--seeds, --ablate, --info and the like, and give each --set one value");
    return BT_OK;
}

/* Finds out whether these are several runs: the requested ones, or those in the folder to continue. */
static bt_status find_grid(bt_cli *cli)
{
    const bool several = bt_grid_asks_several(cli->asked);
    const bool holds = cli->resume && bt_output_holds(cli->resume) == BT_OUTPUT_RUNS;
    if (several && cli->resume && !holds)
        return bt_fail(BT_ERROR_CONFIG,
                       "--resume %s: this folder does not hold several runs; to continue one run, leave out --seeds "
                       "and give each --set "
                       "one value",
                       cli->resume);
    cli->grid = several || holds;
    if (cli->jobs && !cli->grid)
        return bt_fail(BT_ERROR_CONFIG, "--jobs needs several runs: give --seeds, or --set with several values");
    if (several && (cli->info || cli->print_config || cli->equation || cli->check || cli->ablate || cli->evaluate))
        return bt_fail(
            BT_ERROR_CONFIG,
            "--seeds, and --set with several values, can only train or --plan; every other report is about one run");
    if (cli->grid && cli->profile)
        return bt_fail(BT_ERROR_CONFIG, "--profile is for one run: leave out --seeds, and give each --set one value");
    for (int64_t i = 0; cli->grid && i < cli->setting_count; i++)
        BT_TRY(bt_grid_ask(cli->asked, cli->settings[i].key, cli->settings[i].value));
    return BT_OK;
}

static bt_status check_sample(const bt_cli *cli)
{
    if (cli->sample && (!cli->evaluate || cli->json || cli->predictions))
        return bt_fail(BT_ERROR_CONFIG,
                       "--sample needs --evaluate DIR, and does not work with --json or --predictions");
    if (!cli->sample && (cli->tokens || cli->top || cli->temperature >= 0))
        return bt_fail(BT_ERROR_CONFIG, "%s needs --evaluate DIR --sample TEXT",
                       cli->tokens ? "--tokens"
                       : cli->top  ? "--top"
                                   : "--temperature");
    return BT_OK;
}

static bt_status check_export(const bt_cli *cli)
{
    if (cli->problem && !cli->export)
        return bt_fail(BT_ERROR_CONFIG, "--problem needs --export MODEL.onnx");
    if (cli->export && (cli->plan || cli->info || cli->print_config || cli->equation || cli->check || cli->ablate ||
                        cli->evaluate || cli->profile || cli->json || cli->grid))
        return bt_fail(BT_ERROR_CONFIG, "--export cannot be combined with a report or with several runs");
    return BT_OK;
}

/* Whether it asks for something that cannot be combined with --compare, --report or --new. */
static bool asks_more(const bt_cli *cli) { return cli->resume || cli->profile || cli->grid || bt_cli_reports(cli); }

static bt_status check_compare(const bt_cli *cli)
{
    if (!cli->compare)
        return BT_OK;
    if (cli->setting_count || asks_more(cli))
        return bt_fail(BT_ERROR_CONFIG, "--compare RUN RUN can be combined only with --json");
    if (!cli->file)
        return bt_fail(BT_ERROR_CONFIG, "--compare %s needs a second run: betty-run --compare RUN RUN", cli->compare);
    return BT_OK;
}

/* --output also counts as a setting. */
static bt_status check_report(const bt_cli *cli)
{
    if (cli->report && (cli->setting_count > (cli->output ? 1 : 0) || cli->compare || cli->json || asks_more(cli)))
        return bt_fail(BT_ERROR_CONFIG, "--report RUN [RUN ...] can be combined only with --output");
    return BT_OK;
}

static bt_status check_new(const bt_cli *cli)
{
    if (cli->new &&
        (cli->word_count || cli->setting_count || cli->compare || cli->report || cli->json || asks_more(cli)))
        return bt_fail(BT_ERROR_CONFIG, "--new NAME cannot be combined with anything else");
    return BT_OK;
}

static bt_status check_together(const bt_cli *cli)
{
    BT_TRY(check_new(cli));
    BT_TRY(check_report(cli));
    BT_TRY(check_compare(cli));
    BT_TRY(check_export(cli));
    BT_TRY(check_ablation(cli));
    BT_TRY(check_find_lr(cli));
    BT_TRY(check_curve(cli));
    BT_TRY(check_sample(cli));
    if (cli->samples && !cli->check)
        return bt_fail(BT_ERROR_CONFIG, "--samples needs --check-hypergradient");
    if (cli->level && !cli->check && !cli->evaluate && !cli->ablate)
        return bt_fail(BT_ERROR_CONFIG, "--level needs --check-hypergradient, --ablate or --evaluate");
    if (cli->predictions && !cli->evaluate)
        return bt_fail(BT_ERROR_CONFIG, "--predictions needs --evaluate DIR");
    if (cli->json && !cli->plan && !cli->info && !cli->check && !cli->ablate && !cli->find_lr && !cli->evaluate &&
        !cli->compare && !cli->grid)
        return bt_fail(BT_ERROR_CONFIG, "--json needs --plan, --info, --check-hypergradient, --ablate, --find-lr, "
                                        "--evaluate, --compare or several runs");
    if (cli->evaluate && (cli->plan || cli->info || cli->print_config || cli->equation || cli->check || cli->profile))
        return bt_fail(BT_ERROR_CONFIG, "--evaluate cannot be combined with another report");
    if (cli->resume && bt_cli_reports(cli))
        return bt_fail(BT_ERROR_CONFIG, "--resume trains: it cannot be combined with --plan, --info, --print-config, "
                                        "--print-equation, --check-hypergradient, --ablate, --find-lr, --evaluate or "
                                        "--export");
    if (cli->resume && cli->output)
        return bt_fail(BT_ERROR_CONFIG, "--resume continues in the run's own folder: leave out --output");
    return BT_OK;
}

/* The configuration of a run to continue is in its folder. */
static bt_status find_file(bt_cli *cli)
{
    const char *asked = cli->evaluate ? cli->evaluate : cli->run, *place = cli->resume ? cli->resume : asked;
    if (asked && bt_output_holds(asked) == BT_OUTPUT_RUNS)
        return bt_fail(BT_ERROR_CONFIG, "%s %s: this folder has several runs; name the subfolder of one",
                       cli->evaluate ? "--evaluate" : "--export", asked);
    if (cli->file || !place || cli->grid) /* with several runs, the grid knows it */
        return BT_OK;
    char *folder, name[BT_CHECKPOINT_NAME];
    BT_TRY(bt_checkpoint_place(place, &folder, name));
    cli->folder = bt_region_format(cli->region, "%s", folder);
    cli->file = bt_region_format(cli->region, "%s/config.ini", folder);
    bt_free(folder);
    return cli->folder && cli->file ? BT_OK : BT_ERROR_MEMORY;
}

bt_status bt_cli_parse(bt_cli *cli, int argc, char *const *argv)
{
    if (!cli || argc < 1 || !argv)
        return bt_fail(BT_ERROR_ARGUMENT, "bt_cli_parse: an argument is NULL");
    *cli = (bt_cli){.region = bt_region_new(), .asked = bt_grid_asked(), .temperature = -1};
    if (!cli->region || !cli->asked)
        return bt_fail(BT_ERROR_MEMORY, "out of memory");
    bool no_more = false;
    for (char *const *next = argv + 1; *next;) {
        const char *word = *next++;
        if (no_more || word[0] != '-')
            BT_TRY(take_word(cli, word));
        else if (strcmp(word, "--") == 0)
            no_more = true;
        else
            BT_TRY(take_option(cli, strcmp(word, "-h") == 0 ? "--help" : word, &next));
    }
    BT_TRY(sort_words(cli));
    BT_TRY(find_grid(cli));
    BT_TRY(check_together(cli));
    return find_file(cli);
}

/* ---- help ---- */

const bt_cli_option *bt_cli_option_at(int index)
{
    return index >= 0 && index < BT_COUNT_OF(options) ? &options[index] : NULL;
}

const char bt_cli_synopsis[] =
    "betty-run FILE [OPTIONS]: train the problems of an INI file\n"
    "betty-run FILE --seeds 1..5 --set SECTION.KEY=A|B [OPTIONS]: train several times\n"
    "betty-run --resume DIR [OPTIONS]: continue one or several stopped runs\n"
    "betty-run --evaluate DIR [OPTIONS]: evaluate the newest checkpoint of a run\n"
    "betty-run --export MODEL.onnx --problem NAME [FILE] RUN: export a trained network\n"
    "betty-run --new NAME: write a problem to start from, NAME.c and NAME.ini\n"
    "betty-run --compare RUN RUN [--json]: print the differences between two runs\n"
    "betty-run --report RUN [RUN ...] [--output DIR]: write one page of curves, memory and findings\n";
