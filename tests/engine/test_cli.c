/* The command line of betty-run. */
#include "engine/command/cli.h"
#include "engine/config/roff.h"

#include "support/suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static bt_cli cli;

static bt_status parse(const char *const *words)
{
    char *argv[32] = {(char[]){"betty-run"}};
    static char copies[32][128];
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        strcpy(copies[argc], words[argc - 1]);
        argv[argc] = copies[argc];
    }
    bt_cli_free(&cli);
    bt_error_clear();
    return bt_cli_parse(&cli, argc, argv);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void teardown(void)
{
    bt_cli_free(&cli);
    bt_error_clear();
}

START_TEST(options_before_and_after_the_file)
{
    ck_assert_int_eq(PARSE("--plan", "a.ini", "--json"), BT_OK);
    ck_assert_str_eq(cli.file, "a.ini");
    ck_assert(cli.plan && cli.json && !cli.info && !cli.quiet && !cli.check);
    ck_assert_int_eq(PARSE("a.ini"), BT_OK);
    ck_assert(!cli.plan);
    ck_assert_int_eq(PARSE("--quiet", "--", "--plan"), BT_OK);
    ck_assert_str_eq(cli.file, "--plan");
    ck_assert(cli.quiet && !cli.plan);
    ck_assert_int_eq(PARSE("-h"), BT_OK);
    ck_assert_str_eq(cli.help, "text");
    ck_assert_ptr_null(cli.file);
    ck_assert_int_eq(PARSE("--help=man"), BT_OK);
    ck_assert_str_eq(cli.help, "man");
    ck_assert_int_eq(PARSE("--help-keys"), BT_OK);
    ck_assert_str_eq(cli.keys, "text");
    ck_assert_int_eq(PARSE("--help-keys=markdown"), BT_OK);
    ck_assert_str_eq(cli.keys, "markdown");
}
END_TEST

START_TEST(options_are_settings)
{
    static const char *const expected[][3] = {
        {"classifier.lr", "0.05", "--set classifier.lr"},
        {"engine.output", "out=1", "--output"},
        {"engine.threads", "2", "--threads"},
        {"a.b.params", "x=y", "--set a.b.params"},
        {"engine.seed", "", "--seed"},
        {"classifier.lr", "", "--set classifier.lr"},
    };
    ck_assert_int_eq(PARSE("a.ini", "--set", "classifier.lr=0.05", "--output=out=1", "--threads", "2",
                           "--set=a.b.params=x=y", "--seed=", "--set", "classifier.lr="),
                     BT_OK);
    ck_assert_int_eq(cli.setting_count, BT_COUNT_OF(expected));
    for (int i = 0; i < BT_COUNT_OF(expected); i++) {
        ck_assert_str_eq(cli.settings[i].key, expected[i][0]);
        ck_assert_str_eq(cli.settings[i].value, expected[i][1]);
        ck_assert_str_eq(cli.settings[i].origin, expected[i][2]);
    }
    ck_assert(!cli.grid);
    ck_assert_int_eq(PARSE("a.ini", "--set", "a.b=x\\|y", "--set", "a.c=1|2", "--seeds=1..3", "--jobs", "auto"), BT_OK);
    ck_assert(cli.grid);
    ck_assert_int_eq(cli.jobs, BT_CLI_AUTO);
    char *asked = json_dumps(cli.asked, JSON_COMPACT);
    ck_assert_str_eq(asked, "{\"settings\":{\"a.b\":\"x|y\"},\"vary\":{\"a.c\":[\"1\",\"2\"]},\"seeds\":[1,2,3]}");
    free(asked);
    ck_assert_int_eq(PARSE("a.ini", "--check-hypergradient", "--level", "reweight", "--samples=12"), BT_OK);
    ck_assert(cli.check);
    ck_assert_str_eq(cli.level, "reweight");
    ck_assert_int_eq(cli.samples, 12);
    ck_assert_int_eq(PARSE("--evaluate", "runs/a-1", "--predictions=p.csv", "--level", "model", "--json"), BT_OK);
    ck_assert(bt_cli_reports(&cli));
    ck_assert_str_eq(cli.file, "runs/a-1/config.ini");
    ck_assert_str_eq(cli.evaluate, "runs/a-1");
    ck_assert_str_eq(cli.predictions, "p.csv");
    ck_assert_int_eq(PARSE("--export", "m.onnx", "--problem=model", "runs/a-1"), BT_OK);
    ck_assert(bt_cli_reports(&cli));
    ck_assert_str_eq(cli.export, "m.onnx");
    ck_assert_str_eq(cli.problem, "model");
    ck_assert_str_eq(cli.run, "runs/a-1");
    ck_assert_str_eq(cli.file, "runs/a-1/config.ini");
    ck_assert_int_eq(PARSE("a.ini", "--export=m.onnx", "runs/a-1"), BT_OK);
    ck_assert_str_eq(cli.run, "runs/a-1");
    ck_assert_str_eq(cli.file, "a.ini");
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *words[5], *message;
    } cases[] = {
        {{"a.ini", "--plam"}, "unknown option `--plam`; did you mean `--plan`?"},
        {{"a.ini", "--zzzzzzzzzzz=1"}, "unknown option `--zzzzzzzzzzz`; betty-run --help lists them"},
        {{"a.ini", "-x"}, "unknown option `-x`; betty-run --help lists them"},
        {{"a.ini", "b.ini"}, "one INI file at a time: found `a.ini` and `b.ini`"},
        {{"a.ini", "--set"}, "--set needs a value: --set SECTION.KEY=VALUE"},
        {{"a.ini", "--set", "classifier.lr"}, "--set classifier.lr: expected SECTION.KEY=VALUE"},
        {{"a.ini", "--output"}, "--output needs a value: --output DIR"},
        {{"a.ini", "--plan=yes"}, "--plan takes no value, found `yes`"},
        {{"a.ini", "--json"},
         "--json needs --plan, --info, --check-hypergradient, --ablate, --find-lr, --evaluate, --compare or several "
         "runs"},
        {{"a.ini", "--lr-range=1:2:10"}, "--lr-range needs --find-lr PROBLEM"},
        {{"a.ini", "--find-lr", "model", "--info"},
         "--find-lr cannot be combined with another report or with several runs"},
        {{"a.ini", "--find-lr=model", "--seeds=1,2"},
         "--find-lr cannot be combined with another report or with several runs"},
        {{"a.ini", "--level", "x"}, "--level needs --check-hypergradient, --ablate or --evaluate"},
        {{"a.ini", "--steps", "3"}, "--steps needs --ablate, and does not work with --plan"},
        {{"a.ini", "--ablate", "--plan", "--steps=3"}, "--steps needs --ablate, and does not work with --plan"},
        {{"a.ini", "--curve"}, "--curve needs --plan: betty-run FILE --plan --curve"},
        {{"a.ini", "--plan", "--curve", "--ablate"},
         "--plan --curve reports on one run, and cannot be combined with another report: leave out --seeds, --ablate, "
         "--info and the like, and give each --set one value"},
        {{"a.ini", "--plan", "--curve", "--seeds=1,2"},
         "--plan --curve reports on one run, and cannot be combined with another report: leave out --seeds, --ablate, "
         "--info and the like, and give each --set one value"},
        {{"a.ini", "--ablate", "--info"}, "--ablate can be combined with --plan, but with no other report"},
        {{"a.ini", "--predictions=p.csv"}, "--predictions needs --evaluate DIR"},
        {{"--evaluate=run", "--plan"}, "--evaluate cannot be combined with another report"},
        {{"--evaluate=run", "--resume=run"},
         "--resume trains: it cannot be combined with --plan, --info, --print-config, --print-equation, "
         "--check-hypergradient, "
         "--ablate, --find-lr, --evaluate or --export"},
        {{"--export=m.onnx"}, "--export m.onnx needs a run: betty-run --export m.onnx --problem NAME RUN"},
        {{"a.ini", "b", "c", "--export=m.onnx"}, "one INI file at a time: found `a.ini`, `b` and more"},
        {{"b", "--export=m.onnx", "--info"}, "--export cannot be combined with a report or with several runs"},
        {{"a.ini", "--problem=x"}, "--problem needs --export MODEL.onnx"},
        {{"a.ini", "--samples", "3"}, "--samples needs --check-hypergradient"},
        {{"a.ini", "--check-hypergradient", "--samples=0"},
         "--samples = 0: expected a whole number, from 1 to 1000000000"},
        {{"a.ini", "--seeds", "3..1"}, "--seeds = 3..1: 3..1 ends before it begins"},
        {{"a.ini", "--seeds=1", "--seeds=2"}, "--seeds is given twice; put all seeds in one list: --seeds 1..3,10"},
        {{"a.ini", "--set", "a.b=1||2"}, "--set a.b = 1||2: one of the values is empty"},
        {{"a.ini", "--set", "engine.seed=1|2"}, "--set engine.seed: use --seeds 1..3 for several seeds"},
        {{"a.ini", "--set", "a.b=1|2", "--set=a.b=3"}, "--set a.b is given twice, once with several values"},
        {{"a.ini", "--set", "a.b=1|2", "--set=A.b=3|4"}, "--set A.b is given twice, once with several values"},
        {{"a.ini", "--jobs", "2"}, "--jobs needs several runs: give --seeds, or --set with several values"},
        {{"a.ini", "--seeds=1,2", "--jobs=-1"}, "--jobs = -1: expected a whole number, from 0 to 1024, or auto"},
        {{"a.ini", "--seeds=1,2", "--ablate"},
         "--seeds, and --set with several values, can only train or --plan; every other report is about one run"},
        {{"a.ini", "--seeds=1,2", "--profile"},
         "--profile is for one run: leave out --seeds, and give each --set one value"},
        {{"a.ini", "--seeds=1,2", "--resume=b"},
         "--resume b: this folder does not hold several runs; to continue one run, leave out --seeds and "
         "give each --set one value"},
        {{"a.ini", "--help-keys=html"}, "--help-keys = html: expected text | markdown | man | list"},
        {{"a.ini", "--help=html"}, "--help = html: expected text | man | list"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        ck_assert_int_eq(parse(cases[i].words), BT_ERROR_CONFIG);
        ck_assert_str_eq(bt_error(), cases[i].message);
    }
    ck_assert_int_ne(bt_cli_parse(NULL, 0, NULL), BT_OK);
    bt_cli_free(NULL);
}
END_TEST

/* The output of --help, or --help-keys, in some form; to be freed. */
static char *printed(bt_status (*print)(const char *, FILE *), const char *form)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    ck_assert_int_eq(print(form, file), BT_OK);
    fclose(file);
    return data;
}

START_TEST(help_names_all)
{
    char *data = printed(bt_cli_help, "text");
    static const char *const words[] = {
        "--plan",        "--set SECTION.KEY=VALUE", "--print-config", "--threads N", "train_iters",  "unroll_steps",
        "cg_iterations", "neumann_alpha",           "weight_decay",   "nesterov",    "--help[=FORM]"};
    for (int i = 0; i < BT_COUNT_OF(words); i++)
        ck_assert_msg(strstr(data, words[i]) != NULL, "missing: %s", words[i]);
    free(data);
    ck_assert_int_ne(bt_cli_help(NULL, stdout), BT_OK);
    ck_assert_int_ne(bt_cli_help("text", NULL), BT_OK);
    ck_assert_int_ne(bt_cli_keys("text", NULL), BT_OK);
    ck_assert_int_ne(bt_cli_keys("html", stdout), BT_OK);
}
END_TEST

/* Lines that begin with a dot must be intended roff requests. */
static void check_requests(const char *page)
{
    static const char *const known[] = {"TH", "SH", "PP", "TP", "RS", "RE", "br", "BR"};
    for (const char *line = page; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        ck_assert_int_ne(*line, '\'');
        bool fine = *line != '.';
        for (int i = 0; !fine && i < BT_COUNT_OF(known); i++)
            fine = strncmp(line + 1, known[i], 2) == 0 && strchr(" \n", line[3]);
        ck_assert_msg(fine, "%.20s", line);
    }
}

START_TEST(pages_of_the_manual)
{
    static const char *const begin = ".TH BETTY-RUN 1 ", *const keys = ".TH BETTY-RUN 5 ";
    char *page = printed(bt_cli_help, "man");
    ck_assert(strncmp(page, begin, strlen(begin)) == 0);
    ck_assert_ptr_nonnull(strstr(page, "\n.TP\n\\fB\\-\\-set SECTION.KEY=VALUE\\fR\n"));
    ck_assert_ptr_nonnull(strstr(page, "\nbetty\\-run FILE [OPTIONS]\n.br\n.RS\ntrain the problems of an INI file\n"));
    ck_assert_ptr_nonnull(strstr(page, "\n.SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n"));
    check_requests(page);
    free(page);
    page = printed(bt_cli_keys, "man");
    ck_assert(strncmp(page, keys, strlen(keys)) == 0);
    ck_assert_ptr_nonnull(strstr(page, "\n.SH \"[PROBLEM.GROUP]: a group of parameters\"\n"));
    ck_assert_ptr_nonnull(strstr(page, "\n.TP\n\\fBtrain_iters\\fR = a whole number, at least 1\n"
                                       "steps of the leaf problems\n.br\nDefault: 50000\n"));
    check_requests(page);
    free(page);
}
END_TEST

START_TEST(text_in_roff)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    bt_roff_line(file, ".x\n'y\na.b `key` it's --n \\d `open\n`.c`");
    fclose(file);
    ck_assert_str_eq(data, "\\&.x\n\\&'y\na.b \\fBkey\\fR it's \\-\\-n \\ed \\fBopen\n\\fR.c`\n");
    free(data);
}
END_TEST

/* Machine-readable: fields separated by tabs, the third lists the possible values. */
START_TEST(lists)
{
    char *options = printed(bt_cli_help, "list"), *keys = printed(bt_cli_keys, "list");
    const char *const expected[][2] = {
        {options, "--plan\t\t\tprint the memory plan; do not train\n"},
        {options, "\n--help\t\ttext man list\tprint this text"},
        {options, "\n--device\tNAME\tauto cpu cuda\t"},
        {keys, "\nengine.executor\tauto | lockstep | processes\tauto lockstep processes\t"},
        {keys, "\nengine.ranks\ta whole number, from 1 to 4096, or all\t\tranks that share"},
        {keys, "\n*.type\tdarts | neumann | "},
        {keys, "\n*.*.params\t"},
    };
    for (int i = 0; i < BT_COUNT_OF(expected); i++)
        ck_assert_msg(strstr(expected[i][0], expected[i][1]) != NULL, "missing: %s", expected[i][1]);
    for (int i = 0, tabs = 0; keys[i]; i++) {
        tabs = keys[i] == '\n' ? 0 : tabs + (keys[i] == '\t');
        ck_assert(keys[i + 1] != '\n' || tabs == 3);
    }
    free(options);
    free(keys);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli");
    TCase *tests = tcase_create("cli");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, options_before_and_after_the_file);
    tcase_add_test(tests, options_are_settings);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, help_names_all);
    tcase_add_test(tests, pages_of_the_manual);
    tcase_add_test(tests, text_in_roff);
    tcase_add_test(tests, lists);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
