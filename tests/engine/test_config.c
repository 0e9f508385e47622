/* The configuration: the result of an INI file and --set, and error messages. */
#include "engine/config/config.h"
#include "engine/config/ini.h"

#include "support/suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bt_method_def darts = {.name = "darts"};
static const bt_method_def cg = {
    .name = "cg",
    .hypers = {{"iterations", 1, 0, 1000, "steps", BT_HYPER_WHOLE}, {"alpha", 1, 1e-6, 1e6, "factor", BT_HYPER_REAL}}};
static const bt_optimizer_def tiger = {
    .name = "tiger",
    .hypers = {{"lr", 1e-4, 0, 1, "rate", BT_HYPER_REAL}, {"sharpness", 3, 1, 9, "steepness", BT_HYPER_REAL}}};

#define BASE                                                                                                           \
    "[engine]\nproblems = reweight.c ; a comment\ntrain_iters = 6000\n"                                                \
    "[dependencies]\nu2l = reweight > classifier   # the classifier's loss uses the net\nl2u = classifier > "          \
    "reweight\n"                                                                                                       \
    "[reweight]\noptimizer = adam\nlr = 1e-4\n"                                                                        \
    "[classifier]\ntype = cg\ncg_iterations = 7\noptimizer = sgd\nlr = 0.1\nmomentum = 0.9\n"

static char folder[] = "/tmp/betty-config-XXXXXX";
static char path[128];

static void setup(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/reweight.ini", folder);
    bt_error_clear();
}

static void teardown(void)
{
    unlink(path);
    rmdir(folder);
}

static void write_bytes(const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    fclose(file);
}

/* A configuration with two problems, read from `text`; one function for each stage, so that each can fail
 * separately. */
static bt_config *read_only(const char *text)
{
    write_bytes(text, strlen(text));
    bt_config *config = bt_config_new();
    ck_assert_ptr_nonnull(config);
    bt_config_add_method(config, &darts);
    bt_config_add_method(config, &cg);
    bt_config_add_optimizer(config, &tiger);
    bt_config_read(config, path);
    return config;
}

static bt_config *read_all(const char *text)
{
    bt_config *config = read_only(text);
    if (!*bt_error() && bt_config_engine(config)) {
        bt_config_add_problem(config, "reweight");
        bt_config_add_problem(config, "classifier");
        bt_config_resolve(config);
    }
    return config;
}

static void expect_good(void) { ck_assert_str_eq(bt_error(), ""); }

/* The message from "reweight.ini" on is `part`; before that comes the temporary folder. */
static void expect_error(const char *part)
{
    const char *message =
        strncmp(bt_error(), folder, strlen(folder)) == 0 ? bt_error() + strlen(folder) + 1 : bt_error();
    ck_assert_msg(strcmp(message, part) == 0, "found:    %s\nexpected: %s", message, part);
    bt_error_clear();
}

static void expect_text(const char *text, const char *part)
{
    bt_config *config = read_all(text);
    if (!*bt_error())
        bt_config_finish(config);
    expect_error(part);
    bt_config_free(config);
}

/* ---- values ---- */

START_TEST(values_are_read)
{
    bt_config *config = read_all(BASE "weight_decay = 5e-4\nnesterov = true\nbatch_size = all\nvalid_batches = 12\n"
                                      "gradient_clipping = 2.5\nshuffle = false\n");
    expect_good();
    const bt_engine_settings *engine = bt_config_engine(config);
    ck_assert_str_eq(engine->problems, "reweight.c");
    ck_assert_int_eq(engine->train_iters, 6000);
    ck_assert_int_eq(engine->valid_step, 500);
    ck_assert_int_eq(engine->seed, 1);
    ck_assert_ptr_null(engine->output);
    ck_assert(!engine->roll_back && !engine->early_stopping);

    const bt_problem_settings *lower = bt_config_problem(config, "classifier");
    ck_assert(lower->active);
    ck_assert_ptr_eq(lower->method, &cg);
    ck_assert_double_eq(lower->method_hypers[0], 7);
    ck_assert_double_eq(lower->method_hypers[1], 1);
    ck_assert_str_eq(lower->optimizer->name, "sgd");
    ck_assert_double_eq(lower->hypers[bt_hyper_index(lower->optimizer->hypers, "lr")], 0.1);
    ck_assert_double_eq(lower->hypers[bt_hyper_index(lower->optimizer->hypers, "momentum")], 0.9);
    ck_assert_double_eq(lower->hypers[bt_hyper_index(lower->optimizer->hypers, "weight_decay")], 5e-4);
    ck_assert_double_eq(lower->hypers[bt_hyper_index(lower->optimizer->hypers, "nesterov")], 1);
    ck_assert_int_eq(lower->batch_size, 0);
    ck_assert_int_eq(lower->valid_batch_size, 0); /* as batch_size */
    ck_assert_int_eq(lower->valid_batches, 12);
    ck_assert_double_eq(lower->gradient_clipping, 2.5);
    ck_assert(!lower->shuffle && !lower->drop_last && lower->allow_unused);
    ck_assert_int_eq(lower->product, BT_PRODUCT_JVP);
    ck_assert_int_eq(lower->detach, BT_DETACH_FROZEN);
    ck_assert_str_eq(lower->trainable, "*");

    const bt_problem_settings *upper = bt_config_problem(config, "reweight");
    ck_assert_ptr_eq(upper->method, &darts);
    ck_assert_str_eq(upper->optimizer->name, "adam");
    ck_assert_int_eq(upper->batch_size, 100);
    ck_assert_int_eq(upper->unroll_steps, 1);
    ck_assert_int_eq(upper->log_step, -1);
    ck_assert_double_eq(upper->darts_alpha, 0.01);
    ck_assert_ptr_null(bt_config_problem(config, "nobody"));
    bt_config_finish(config);
    expect_good();
    ck_assert_str_eq(bt_config_stem(config), "reweight");
    ck_assert_str_eq(bt_config_folder(config), folder);
    bt_config_free(config);
}
END_TEST

START_TEST(defaults_are_bettys)
{
    bt_config *config = read_all("[classifier]\n");
    expect_good();
    const bt_engine_settings *engine = bt_config_engine(config);
    ck_assert_int_eq(engine->train_iters, 50000);
    ck_assert_int_eq(engine->early_stopping_mode, BT_STOP_MIN);
    ck_assert_int_eq(engine->early_stopping_tolerance, 5);
    ck_assert_str_eq(engine->early_stopping_metric, "loss");
    const bt_problem_settings *p = bt_config_problem(config, "classifier");
    ck_assert_int_eq(p->gradient_accumulation, 1);
    ck_assert_int_eq(p->warmup_steps, 0);
    ck_assert_double_eq(p->gradient_clipping, 0);
    ck_assert_int_eq(bt_precision_dtype(p->precision), BT_F32);
    ck_assert_ptr_eq(p->method, &darts);
    bt_config_free(config);
}
END_TEST

START_TEST(a_setting_can_follow_another)
{
    bt_config *config =
        read_all("[engine]\nprecision = fp64\ntrain_iters = 300\n[classifier]\nbatch_size = 32\n"
                 "scheduler = cosine\n[reweight]\nprecision = fp32\nbatch_size = 8\nvalid_batch_size = 9\n");
    expect_good();
    const bt_problem_settings *c = bt_config_problem(config, "classifier"), *r = bt_config_problem(config, "reweight");
    ck_assert_int_eq(bt_precision_dtype(c->precision), BT_F64);
    ck_assert_int_eq(c->valid_batch_size, 32);
    ck_assert_int_eq(c->scheduler.kind, BT_SCHEDULER_COSINE);
    ck_assert_int_eq(c->scheduler.t_max, 300);
    ck_assert_int_eq(bt_precision_dtype(r->precision), BT_F32);
    ck_assert_int_eq(r->valid_batch_size, 9);
    bt_config_free(config);
}
END_TEST

START_TEST(schedulers)
{
    bt_config *config = read_all("[classifier]\nscheduler = multistep\nscheduler_milestones = 30, 60,90\n"
                                 "scheduler_gamma = 0.2\nscheduler_warmup = 5\n"
                                 "[reweight]\nscheduler = step\nscheduler_step_size = 40\n");
    expect_good();
    const bt_scheduler *s = &bt_config_problem(config, "classifier")->scheduler;
    ck_assert_int_eq(s->kind, BT_SCHEDULER_MULTISTEP);
    ck_assert_int_eq(s->milestone_count, 3);
    ck_assert_int_eq(s->milestones[0], 30);
    ck_assert_int_eq(s->milestones[2], 90);
    ck_assert_double_eq(s->gamma, 0.2);
    ck_assert_int_eq(s->warmup, 5);
    ck_assert_int_eq(bt_config_problem(config, "reweight")->scheduler.step_size, 40);
    bt_config_free(config);
    expect_text("[classifier]\nscheduler = step\n",
                "reweight.ini:2: [classifier] scheduler = step needs scheduler_step_size");
    expect_text("[classifier]\nscheduler = multistep\n",
                "reweight.ini:2: [classifier] scheduler = multistep needs scheduler_milestones");
    expect_text("[classifier]\nscheduler_milestones = 3, x\n",
                "reweight.ini:2: [classifier] scheduler_milestones = 3, x: expected whole numbers, at least 0, "
                "separated by commas, "
                "not more than 16");
    expect_text(
        "[classifier]\nscheduler = linear_warmup\n",
        "reweight.ini:2: [classifier] scheduler = linear_warmup: not supported: scheduler_warmup works with every "
        "scheduler, and with none; use none | step | multistep | cosine | linear | exponential | plateau");
    bt_config *wrong = read_all("[classifier]\nscheduler = multistep\nscheduler_milestones = 60, 30\n");
    ck_assert_ptr_nonnull(strstr(bt_error(), "[classifier] scheduler"));
    bt_config_free(wrong);
}
END_TEST

START_TEST(groups_take_over_from_the_problem)
{
    bt_config *config = read_all("[classifier]\nlr = 0.5\nweight_decay = 5e-4\n[classifier.biases]\nparams = *.bias\n"
                                 "weight_decay = 0\n[classifier.first]\nparams = layer0.*\nfrozen = true\n");
    expect_good();
    const bt_problem_settings *p = bt_config_problem(config, "classifier");
    int lr = bt_hyper_index(p->optimizer->hypers, "lr"), decay = bt_hyper_index(p->optimizer->hypers, "weight_decay");
    ck_assert_int_eq(p->group_count, 2);
    ck_assert_str_eq(p->groups[0].name, "biases");
    ck_assert_str_eq(p->groups[0].params, "*.bias");
    ck_assert(!p->groups[0].frozen);
    ck_assert_double_eq(p->groups[0].hypers[lr], 0.5);
    ck_assert_double_eq(p->groups[0].hypers[decay], 0);
    ck_assert_uint_eq(p->groups[0].own, 1u << decay);
    ck_assert(p->groups[1].frozen);
    ck_assert_double_eq(p->groups[1].hypers[decay], 5e-4);
    ck_assert_uint_eq(p->groups[1].own, 0);
    bt_config_free(config);
    expect_text("[classifier]\n[classifier.biases]\nlr = 1\n",
                "reweight.ini:2: [classifier.biases] needs params: patterns of its parameters, as in params = *.bias");
    expect_text("[classifier.biases]\nparams = *\nmomentun = 1\n",
                "reweight.ini:3: [classifier.biases] has no key `momentun`; did you mean `momentum`?");
    expect_text("[classifier.biases]\nparams = *\nbatch_size = 1\n",
                "reweight.ini:3: [classifier.biases] has no key `batch_size`; it belongs to a problem's section");
}
END_TEST

START_TEST(patterns)
{
    ck_assert(bt_pattern_match("*", "layer0.weight"));
    ck_assert(bt_pattern_match("*.bias", "layer2.0.bias"));
    ck_assert(!bt_pattern_match("*.bias", "layer2.0.bias2"));
    ck_assert(bt_pattern_match("layer0.*, *.bias", "layer3.bias"));
    ck_assert(bt_pattern_match("layer?.w*t", "layer7.weight"));
    ck_assert(!bt_pattern_match("layer?.w*t", "layer10.weight"));
    ck_assert(bt_pattern_match("a*b*c", "a1b2b3c"));
    ck_assert(!bt_pattern_match("a*b*c", "a1b2b3"));
    ck_assert(!bt_pattern_match(NULL, "x") && !bt_pattern_match("*", NULL));
}
END_TEST

/* ---- messages ---- */

START_TEST(misspelt_keys)
{
    expect_text(BASE "lernrate = 1\n", "reweight.ini:16: [classifier] has no key `lernrate`; did you mean `lr`?");
    expect_text(BASE "learning_rate = 1\n",
                "reweight.ini:16: [classifier] has no key `learning_rate`; did you mean `lr`?");
    expect_text(BASE "unrol_steps = 1\n",
                "reweight.ini:16: [classifier] has no key `unrol_steps`; did you mean `unroll_steps`?");
    expect_text(BASE "cg_iteration = 1\n",
                "reweight.ini:16: [classifier] has no key `cg_iteration`; did you mean `cg_iterations`?");
    expect_text(BASE "zzz = 1\n", "reweight.ini:16: [classifier] has no key `zzz`; betty-run --help lists the keys");
    expect_text("[engine]\ntrain_iter = 5\n",
                "reweight.ini:2: [engine] has no key `train_iter`; did you mean `train_iters`?");
    expect_text("[dependencies]\nu2i = reweight > classifier\n",
                "reweight.ini:2: [dependencies] has no key `u2i`; did you mean `u2l`?");
    expect_text("[reweight]\noptimizer = adam\nmomentum = 0.9\n",
                "reweight.ini:3: [reweight] has no key `momentum` with optimizer = adam; it belongs to sgd");
    expect_text("[reweight]\nvalid_step = 5\n",
                "reweight.ini:2: [reweight] has no key `valid_step`; it belongs to [engine]");
    expect_text("[engine]\nlr = 5\n", "reweight.ini:2: [engine] has no key `lr`; it belongs to a problem's section");
    expect_text("[Reweight]\nLS = 5\n", "reweight.ini:2: [Reweight] has no key `LS`; did you mean `lr`?");
    expect_text("[Reweight]\noptimizer = adam\nMomentum = 0.9\n",
                "reweight.ini:3: [Reweight] has no key `Momentum` with optimizer = adam; it belongs to sgd");
    expect_text("[Engine]\nLR = 5\n", "reweight.ini:2: [Engine] has no key `LR`; it belongs to a problem's section");
}
END_TEST

START_TEST(unknown_sections)
{
    expect_text("[clasifier]\nlr = 1\n", "reweight.ini:1: [clasifier]: there is no problem `clasifier`; did you mean "
                                         "`classifier`?");
    expect_text("[engin]\nseed = 1\n", "reweight.ini:1: [engin]: there is no problem `engin`; did you mean [engine]?");
    expect_text("[xyz.biases]\nparams = *\n",
                "reweight.ini:1: [xyz.biases]: there is no problem `xyz`; there are: reweight, classifier");
}
END_TEST

START_TEST(wrong_types_and_ranges)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"lr = fast", "lr = fast: expected a number, from 0 to 1e+06"},
        {"lr = 0.1x", "lr = 0.1x: expected a number, from 0 to 1e+06"},
        {"lr = nan", "lr = nan: expected a number, from 0 to 1e+06"},
        {"lr = 1e999", "lr = 1e999: expected a number, from 0 to 1e+06"},
        {"lr = 0x10", "lr = 0x10: expected a number, from 0 to 1e+06"},
        {"lr = -1", "lr = -1: expected a number, from 0 to 1e+06"},
        {"unroll_steps = 0.1", "unroll_steps = 0.1: expected a whole number, at least 1"},
        {"unroll_steps = 0", "unroll_steps = 0: expected a whole number, at least 1"},
        {"unroll_steps = 99999999999999999999",
         "unroll_steps = 99999999999999999999: expected a whole number, at least 1, and at most 1000000000000000"},
        {"cg_iterations = 2.5", "cg_iterations = 2.5: expected a whole number, from 0 to 1000"},
        {"batch_size = 0", "batch_size = 0: expected a whole number, at least 1, or all"},
        {"batch_size = none", "batch_size = none: expected a whole number, at least 1, or all"},
        {"shuffle = yes", "shuffle = yes: expected true | false"},
        {"nesterov = 2", "nesterov = 2: expected true | false"},
        {"product = hvp", "product = hvp: expected jvp | vjp | finite"},
        {"darts_alpha = 0", "darts_alpha = 0: expected a number above 0"},
        {"type = dart", "type = dart: expected darts | cg"},
        {"optimizer = muon",
         "optimizer = muon: expected sgd | adam | adamw | rmsprop | adagrad | lion | radam | nadam | "
         "adafactor | lamb | adam8bit | adamw8bit | lion8bit | tiger"},
        {"first_order = false",
         "first_order = false: not supported: to differentiate through the unrolled graph, set type = itd; use true"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        char text[256], message[256];
        snprintf(text, sizeof text, "[classifier]\n\n%s\n", cases[i].line);
        snprintf(message, sizeof message, "reweight.ini:3: [classifier] %s", cases[i].message);
        expect_text(text, message);
    }
}
END_TEST

/* Words of other programs that are not supported: the message suggests a replacement. */
START_TEST(refused_words)
{
    static const struct {
        const char *section, *line, *way;
    } cases[] = {
        {"classifier", "type = reinforce",
         "bt_mul(bt_detach(reward), log_probability); it needs no type of its own; use darts | cg"},
        {"classifier", "precision = amp", "needs no loss scale; use fp32 | tf32 | fp64 | bf16 | fp16 | bf16-true"},
        {"engine", "precision = amp", "bf16 halves what a network holds"},
        {"engine", "device = gpu", "GPUs are used through CUDA; use auto | cpu | cuda"},
        {"engine", "logger_type = wandb", "wandb.log"},
        {"classifier", "optimizer = lbfgs", "docs/extending.md); use sgd | adam | adamw | rmsprop"},
    };
    for (int i = 0; i < BT_COUNT_OF(cases); i++) {
        char text[128], begins[256];
        snprintf(text, sizeof text, "[%s]\n%s\n", cases[i].section, cases[i].line);
        snprintf(begins, sizeof begins, "%s:2: [%s] %s: not supported: ", path, cases[i].section, cases[i].line);
        bt_config *config = read_all(text);
        ck_assert_int_eq(bt_error_status(), BT_ERROR_CONFIG);
        ck_assert_msg(strncmp(bt_error(), begins, strlen(begins)) == 0, "%s", bt_error());
        ck_assert_msg(strstr(bt_error(), cases[i].way) != NULL, "%s", bt_error());
        bt_error_clear();
        bt_config_free(config);
    }
    for (const bt_key *key = bt_keys; key->name; key++)
        ck_assert_msg(!key->refused || (key->advice && strlen(key->advice) > 20), "%s has no advice", key->name);
}
END_TEST

/* Ranges include their ends, except for an end given by `above`. */
START_TEST(ends_of_ranges)
{
    bt_config *config =
        read_all("[reweight]\noptimizer = tiger\nlr = 1\nsharpness = 9\ntype = cg\ncg_iterations = 1000\n"
                 "cg_alpha = 1e-6\nlog_step = -1\nwarmup_steps = 0\nbatch_size = 1\n"
                 "gradient_accumulation = 1000000\n[classifier]\noptimizer = tiger\nlr = 0\n"
                 "sharpness = 1\ntype = cg\ncg_iterations = 0\ncg_alpha = 1e6\nunroll_steps = 1\n");
    expect_good();
    const bt_problem_settings *high = bt_config_problem(config, "reweight");
    ck_assert_double_eq(high->hypers[0], 1);
    ck_assert_double_eq(high->method_hypers[0], 1000);
    ck_assert_int_eq(high->gradient_accumulation, 1000000);
    ck_assert_double_eq(bt_config_problem(config, "classifier")->hypers[0], 0);
    bt_config_free(config);
    static const char *const beyond[] = {"gradient_accumulation = 1000001", "gradient_accumulation = 0",
                                         "log_step = -2", "warmup_steps = -1"};
    for (int i = 0; i < BT_COUNT_OF(beyond); i++) {
        char text[128];
        snprintf(text, sizeof text, "[reweight]\n%s\n", beyond[i]);
        config = read_all(text);
        ck_assert_msg(strstr(bt_error(), beyond[i]) != NULL, "found: %s; expected %s", bt_error(), beyond[i]);
        bt_error_clear();
        bt_config_free(config);
    }
}
END_TEST

START_TEST(malformed_files)
{
    expect_text("[engine\n", "reweight.ini:1: expected [section], but the ] is missing");
    expect_text("[engine] x\n", "reweight.ini:1: nothing may follow [section], found `x`");
    expect_text("[a.b.c]\n",
                "reweight.ini:1: [a.b.c]: a section is a name of letters, digits, _ and -, or problem.group");
    expect_text("seed = 1\n", "reweight.ini:1: `seed` comes before the first [section]");
    expect_text("[engine]\nseed\n", "reweight.ini:2: expected key = value or [section], found `seed`");
    expect_text("[engine]\nse ed = 1\n", "reweight.ini:2: `se ed`: a key is a name of letters, digits, _ and -");
    expect_text("[engine]\nseed =\n", "reweight.ini:2: [engine] seed has no value; leave the line out for the default");
    expect_text("[engine]\nseed = ; 5\n",
                "reweight.ini:2: [engine] seed has no value; leave the line out for the default");
    expect_text("[engine]\noutput = \"a\n", "reweight.ini:2: output: the value's closing \" is missing");
    expect_text("[engine]\noutput = \"a\" b\n",
                "reweight.ini:2: output: after the value's closing \" only a comment may follow");
    bt_config *config = read_only("[engine]\nseed = 1\n[classifier]\nlr = 1\n\nlr = 2\n");
    char message[256];
    snprintf(message, sizeof message, "reweight.ini:6: [classifier] lr is set twice, first at %s:4", path);
    expect_error(message);
    bt_config_free(config);
    config = read_only("[engine]\n[engine]\n");
    snprintf(message, sizeof message, "reweight.ini:2: section [engine] occurs twice, first at %s:1", path);
    expect_error(message);
    bt_config_free(config);

    write_bytes("[engine]\nseed\0=1\n", 17);
    config = bt_config_new();
    ck_assert_int_eq(bt_config_read(config, path), BT_ERROR_FILE);
    expect_error("reweight.ini: not a text file: it contains a zero byte");
    write_bytes("\xff\xfe[\0e\0n\0g\0", 10);
    ck_assert_int_eq(bt_config_read(config, path), BT_ERROR_DATA);
    expect_error("reweight.ini: the text is UTF-16; expected UTF-8: convert it with iconv -f UTF-16 -t UTF-8");
    ck_assert_int_eq(bt_config_read(config, "/nonexistent/x.ini"), BT_ERROR_FILE);
    expect_error("/nonexistent/x.ini: cannot be opened: No such file or directory");
    ck_assert_int_eq(bt_config_read(config, "/tmp"), BT_ERROR_FILE);
    expect_error("/tmp: cannot be read: Is a directory");
    bt_config_free(config);
}
END_TEST

START_TEST(how_values_are_written)
{
    bt_config *config = read_all("\xef\xbb\xbf[engine]\r\n  output   =  \"a;b#c\"  ; comment\r\n# seed = 9\n"
                                 "early_stopping_metric = ' x;y \"z\\\\ ' # quoted\nproblems = a = b\nseed = 3");
    expect_good();
    const bt_engine_settings *engine = bt_config_engine(config);
    ck_assert_str_eq(engine->output, "a;b#c");
    ck_assert_str_eq(engine->early_stopping_metric, " x;y \"z\\\\ ");
    ck_assert_str_eq(engine->problems, "a = b");
    ck_assert_int_eq(engine->seed, 3);
    bt_config_free(config);
}
END_TEST

/* ---- --set ---- */

START_TEST(set_wins_over_the_file)
{
    bt_config *config = bt_config_new();
    bt_config_add_method(config, &darts);
    bt_config_add_method(config, &cg);
    write_bytes(BASE, strlen(BASE));
    bt_config_set(config, "classifier.lr", "0.25", "--set classifier.lr"); /* even before the file is read */
    bt_config_set(config, "classifier.momentum", "", "--set classifier.momentum");
    bt_config_read(config, path);
    bt_config_set(config, "engine.train_iters", "10", "--set engine.train_iters");
    bt_config_set(config, "classifier.biases.params", "*.bias", "--set classifier.biases.params");
    bt_config_set(config, "classifier.cg_iterations", "", "--set classifier.cg_iterations");
    ck_assert_int_eq(bt_config_engine(config)->train_iters, 10);
    bt_config_add_problem(config, "reweight");
    bt_config_add_problem(config, "classifier");
    bt_config_resolve(config);
    bt_config_finish(config);
    expect_good();
    const bt_problem_settings *p = bt_config_problem(config, "classifier");
    ck_assert_double_eq(p->hypers[bt_hyper_index(p->optimizer->hypers, "lr")], 0.25);
    ck_assert_double_eq(p->hypers[bt_hyper_index(p->optimizer->hypers, "momentum")], 0);
    ck_assert_double_eq(p->method_hypers[0], 1);
    ck_assert_int_eq(p->group_count, 1);
    ck_assert_str_eq(bt_config_origin(config, "classifier", "lr"), "--set classifier.lr");
    ck_assert_ptr_null(bt_config_origin(config, "classifier", "momentum"));
    ck_assert_int_eq(bt_config_set(config, "classifier.lr", "1", "--set classifier.lr"), BT_ERROR_ARGUMENT);
    bt_config_free(config);
}
END_TEST

static void expect_set(const char *key, const char *value, const char *origin, const char *message)
{
    bt_config *config = read_only("[classifier]\nlr = 1\n");
    bt_config_set(config, key, value, origin);
    if (!*bt_error() && bt_config_engine(config)) {
        bt_config_add_problem(config, "classifier");
        bt_config_resolve(config);
        if (!*bt_error())
            bt_config_finish(config);
    }
    expect_error(message);
    bt_config_free(config);
}

START_TEST(set_is_checked_alike)
{
    expect_set("lr", "1", "--set lr", "--set lr: expected SECTION.KEY, as in classifier.lr, found `lr`");
    expect_set(".lr", "1", "--set .lr", "--set .lr: expected SECTION.KEY, as in classifier.lr, found `.lr`");
    expect_set("classifier.", "1", "--set classifier.",
               "--set classifier.: expected SECTION.KEY, as in classifier.lr, found `classifier.`");
    expect_set("classifier.lr", "x", "--set classifier.lr",
               "--set classifier.lr = x: expected a number, from 0 to 1e+06");
    expect_set("classifier.lrr", "1", "--set classifier.lrr",
               "--set classifier.lrr: [classifier] has no key `lrr`; did you mean `lr`?");
    expect_set("classifer.lr", "1", "--set classifer.lr",
               "--set classifer.lr: [classifer]: there is no problem `classifer`; did you mean `classifier`?");
    expect_set("engine.threads", "many", "--threads", "--threads = many: expected a whole number, from 0 to 1024");
    expect_set("classifier.lr", "x", "bt_engine_set",
               "bt_engine_set: [classifier] lr = x: expected a number, from 0 to 1e+06");
    expect_set("classifier.lr", "1\n[x]", "--set classifier.lr", "--set classifier.lr: a value is one line");
}
END_TEST

/* ---- dependencies ---- */

START_TEST(dependencies_are_read)
{
    bt_config *config = read_only("[dependencies]\nu2l = a > b, c, b > c\nl2u = c > a,b\n");
    bt_config_add_problem(config, "a");
    bt_config_add_problem(config, "b");
    bt_config_add_problem(config, "c");
    bt_config_resolve(config);
    expect_good();
    static const char *const expected[][2] = {{"a", "b"}, {"a", "c"}, {"b", "c"}, {"c", "a"}, {"c", "b"}};
    int count;
    const bt_dependency *edges = bt_config_dependencies(config, &count);
    ck_assert_int_eq(count, 5);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(edges[i].direction, i < 3 ? BT_U2L : BT_L2U);
        ck_assert_str_eq(edges[i].from, expected[i][0]);
        ck_assert_str_eq(edges[i].to, expected[i][1]);
        ck_assert_ptr_nonnull(strstr(edges[i].origin, i < 3 ? "reweight.ini:2" : "reweight.ini:3"));
    }
    bt_config_free(config);
}
END_TEST

START_TEST(dependency_mistakes)
{
    expect_text("[dependencies]\nu2l = reweigt > classifier\n",
                "reweight.ini:2: u2l: there is no problem `reweigt`; did you mean `reweight`?");
    expect_text("[dependencies]\nl2u = classifier > foo\n",
                "reweight.ini:2: l2u: there is no problem `foo`; there are: reweight, classifier");
    expect_text("[dependencies]\nu2l = reweight >\n",
                "reweight.ini:2: u2l: expected upper > lower, with commas between several, found `reweight >`");
    expect_text("[dependencies]\nu2l = reweight\n",
                "reweight.ini:2: u2l: expected upper > lower, with commas between several, found `reweight`");
    expect_text(
        "[dependencies]\nl2u = classifier > reweight > classifier\n",
        "reweight.ini:2: l2u: expected lower > upper, with commas between several, found `classifier > reweight > "
        "classifier`");
    expect_text("[dependencies]\nu2l = reweight > classifier,\n",
                "reweight.ini:2: u2l: expected upper > lower, with commas between several, found ``");
    expect_text("[dependencies]\nu2l = reweight > reweight\n",
                "reweight.ini:2: u2l: reweight > reweight: a problem cannot depend on itself");
    expect_text("[dependencies]\nu2l = reweight > classifier, classifier\n",
                "reweight.ini:2: u2l: reweight > classifier is given twice");
    expect_text(
        "[dependencies]\nu2l = reweight > classifier, classifier > reweight\n",
        "reweight.ini:2: u2l has a cycle: reweight > classifier > reweight; a level can be above another one or "
        "below it, not both");
    expect_text("[dependencies]\nl2u = classifier > reweight\n",
                "reweight.ini:2: l2u: classifier > reweight: reweight does not reach classifier through u2l, so its "
                "hypergradient would be zero; add reweight > classifier to u2l");
}
END_TEST

START_TEST(levels_leave_problems_out)
{
    bt_config *config = read_all(BASE "[engine.x]\n");
    bt_config_free(config);
    bt_error_clear();

    config = read_only(BASE);
    bt_config_set(config, "engine.levels", "classifier", "--set engine.levels");
    bt_config_add_problem(config, "reweight");
    bt_config_add_problem(config, "classifier");
    bt_config_resolve(config);
    expect_good();
    int count = -1;
    bt_config_dependencies(config, &count);
    ck_assert_int_eq(count, 0);
    ck_assert(!bt_config_problem(config, "reweight")->active);
    ck_assert(bt_config_problem(config, "classifier")->active);
    bt_config_finish(config);
    expect_good();
    bt_config_free(config);

    expect_text("[engine]\nlevels = clasifier\n",
                "reweight.ini:2: levels: there is no problem `clasifier`; did you mean `classifier`?");
}
END_TEST

/* ---- keys of a problem ---- */

START_TEST(options)
{
    bt_config *config = read_all("[classifier]\nhidden = 32\nnoise = 0.4\ndata = \"mnist; small\"\nbaseline = true\n");
    expect_good();
    int64_t whole = 0;
    double real = 0;
    bool truth = false;
    const char *text = NULL;
    bt_config_option_int(config, "classifier", "hidden", 100, 1, 10000, &whole);
    ck_assert_int_eq(whole, 32);
    bt_config_option_double(config, "classifier", "noise", 0, 0, 1, &real);
    ck_assert_double_eq(real, 0.4);
    bt_config_option_text(config, "classifier", "data", "fashion-mnist", &text);
    ck_assert_str_eq(text, "mnist; small");
    bt_config_option_bool(config, "classifier", "baseline", false, &truth);
    ck_assert(truth);
    bt_config_option_int(config, "reweight", "hidden", 100, 1, 10000, &whole);
    ck_assert_int_eq(whole, 100);
    bt_config_option_text(config, "reweight", "data", NULL, &text);
    ck_assert_ptr_null(text);
    bt_config_finish(config);
    expect_good();
    bt_config_option_int(config, "classifier", "hidden", 100, 1, 10000, &whole); /* known: it may be asked for again */
    ck_assert_int_eq(whole, 32);
    ck_assert_int_ne(bt_config_option_int(config, "classifier", "late", 7, 1, 10, &whole), BT_OK);
    ck_assert_ptr_nonnull(strstr(bt_error(), "[classifier] late"));
    ck_assert_ptr_nonnull(strstr(bt_error(), "configure_module"));
    bt_error_clear();
    bt_config_free(config);
}
END_TEST

START_TEST(option_mistakes)
{
    bt_config *config = read_all("[classifier]\nhidden = 0\nhiden = 5\n");
    int64_t whole = 0;
    double real = 0;
    const char *text = NULL;
    ck_assert_int_eq(bt_config_option_int(config, "classifier", "hidden", 100, 1, 10000, &whole), BT_ERROR_CONFIG);
    expect_error("reweight.ini:2: [classifier] hidden = 0: expected a whole number, from 1 to 10000");
    ck_assert_int_eq(whole, 100);
    ck_assert_int_eq(bt_config_option_int(config, "classifier", "lr", 1, 1, 2, &whole), BT_ERROR_CONFIG);
    expect_error(
        "the code asks for [classifier] lr as a key of its own, but that is a key that every problem can have; "
        "choose another name");
    bt_config_option_int(config, "classifier", "hidden", 50, 1, 10000, &whole);
    expect_error("the code asks for [classifier] hidden twice, with different defaults, `100` and `50`");
    bt_config_option_double(config, "classifier", "hidden", 100, 1, 10000, &real);
    expect_error("the code asks for [classifier] hidden twice, with different types");
    bt_config_option_int(config, "nobody", "hidden", 100, 1, 10000, &whole);
    expect_error("the code asks for the key hidden of `nobody`, which is not a problem");
    bt_config_option_int(config, "classifier", "cells", 0, 1, 10, &whole);
    expect_error("the code asks for [classifier] cells with the default 0 and the range 1 to 10");
    ck_assert_int_eq(bt_config_option_text(config, "classifier", "column", "", &text), BT_ERROR_ARGUMENT);
    expect_error("the code's default for [classifier] column is an empty text, which a key cannot have: give NULL "
                 "instead; the code then gets NULL if the key is not set");
    bt_config_finish(config);
    expect_error("reweight.ini:3: [classifier] has no key `hiden`; did you mean `hidden`?");
    bt_config_free(config);
}
END_TEST

/* ---- user-defined optimisers and methods ---- */

START_TEST(own_optimizers_bring_keys)
{
    bt_config *config = read_all("[classifier]\noptimizer = tiger\nsharpness = 4.5\n");
    expect_good();
    const bt_problem_settings *p = bt_config_problem(config, "classifier");
    ck_assert_ptr_eq(p->optimizer, &tiger);
    ck_assert_double_eq(p->hypers[0], 1e-4);
    ck_assert_double_eq(p->hypers[1], 4.5);
    bt_config_free(config);

    config = bt_config_new();
    static const bt_optimizer_def twice = {.name = "sgd"},
                                  clash = {.name = "mine", .hypers = {{"batch_size", 1, 0, 2, "", BT_HYPER_REAL}}};
    static const bt_method_def method = {.name = "unroll", .hypers = {{"steps", 1, 0, 9, "", BT_HYPER_WHOLE}}};
    bt_config_add_optimizer(config, &twice);
    expect_error("optimizer sgd: there is already one of that name");
    bt_config_add_optimizer(config, &clash);
    expect_error("optimizer mine: its hyperparameter batch_size is a key that every problem has");
    bt_config_add_method(config, &method);
    expect_error(
        "method unroll: its hyperparameter steps would be the key unroll_steps, which every problem already has");
    bt_config_add_problem(config, "engine");
    expect_error("problem `engine`: a problem's name is its section: use letters, digits, _ and -, but not engine or "
                 "dependencies");
    bt_config_add_problem(config, "a");
    bt_config_add_problem(config, "a");
    expect_error("problem a: there are two of that name");
    bt_config_add_problem(config, "A"); /* the same section, and the same keys */
    expect_error("problem A: there are two of that name");
    static const bt_method_def darts = {.name = "Darts"}, other = {.name = "dARTS"};
    bt_config_add_method(config, &darts);
    bt_config_add_method(config, &other);
    expect_error("method dARTS: there is already a method of that name");
    bt_config_free(config);
}
END_TEST

/* ---- printing ---- */

static char *printed(bt_config *config)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    ck_assert_int_eq(bt_config_print(config, file), BT_OK);
    fclose(file);
    return data;
}

static void ask_options(bt_config *config)
{
    int64_t whole;
    const char *text;
    double real;
    bt_config_option_int(config, "classifier", "hidden", 100, 1, 10000, &whole);
    bt_config_option_text(config, "classifier", "data", "fashion-mnist", &text);
    bt_config_option_double(config, "reweight", "noise", 0.1, 0, 1, &real);
    bt_config_finish(config);
    expect_good();
}

/* Each value of `checkpointing`: its meaning, and how it is printed. */
START_TEST(what_is_computed_again)
{
    static const struct {
        const char *value, *printed;
        bt_checkpointing_kind kind;
        double cost;
        int64_t number;
    } good[] = {
        {"none", "none", BT_CHECKPOINTING_NONE, 0, 0},
        {"false", "none", BT_CHECKPOINTING_NONE, 0, 0},
        {"true", "sqrt", BT_CHECKPOINTING_SQRT, 0, 0},
        {"sqrt", "sqrt", BT_CHECKPOINTING_SQRT, 0, 0},
        {"cheap", "cheap", BT_CHECKPOINTING_CHEAP, 0.05, 0},
        {"cost:5%", "cost:5%", BT_CHECKPOINTING_COST, 0.05, 0},
        {"cost:0.5%", "cost:0.5%", BT_CHECKPOINTING_COST, 0.005, 0},
        {"cost:0%", "cost:0%", BT_CHECKPOINTING_COST, 0, 0},
        {"cost:150", "cost:150%", BT_CHECKPOINTING_COST, 1.5, 0},
        {"every:1", "every:1", BT_CHECKPOINTING_EVERY, 0, 1},
        {"every:12", "every:12", BT_CHECKPOINTING_EVERY, 0, 12},
        {"budget:1", "budget:1", BT_CHECKPOINTING_BUDGET, 0, 1},
        {"budget:1500000", "budget:1500000", BT_CHECKPOINTING_BUDGET, 0, 1500000},
        {"budget:64MiB", "budget:67108864", BT_CHECKPOINTING_BUDGET, 0, 64 << 20},
        {"budget:1.5 GB", "budget:1500000000", BT_CHECKPOINTING_BUDGET, 0, 1500000000},
        {"budget:3KB", "budget:3000", BT_CHECKPOINTING_BUDGET, 0, 3000},
        {"modules:layer2.*, head", "modules:layer2.*, head", BT_CHECKPOINTING_MODULES, 0, 0},
        {"ops:relu", "ops:relu", BT_CHECKPOINTING_OPS, 0, 0},
    };
    for (int i = 0; i < BT_COUNT_OF(good); i++) {
        char text[600], line[128];
        snprintf(text, sizeof text, BASE "checkpointing = %s\n", good[i].value);
        bt_config *config = read_all(text);
        expect_good();
        const bt_checkpointing *how = &bt_config_problem(config, "classifier")->checkpointing;
        ck_assert_int_eq(how->kind, good[i].kind);
        if (good[i].cost > 0 || good[i].kind == BT_CHECKPOINTING_COST)
            ck_assert_double_eq_tol(how->cost, good[i].cost, 1e-12);
        ck_assert_int_eq(how->number, good[i].number);
        ask_options(config);
        char *first = printed(config);
        snprintf(line, sizeof line, "checkpointing = %s\n", good[i].printed);
        ck_assert_msg(strstr(first, line) != NULL, "missing: %s\nin:\n%s", line, first);
        bt_config_free(config);
        config = read_all(first);
        ask_options(config);
        char *second = printed(config);
        ck_assert_str_eq(first, second);
        bt_config_free(config);
        free(first);
        free(second);
    }
}
END_TEST

START_TEST(what_cannot_be_computed_again)
{
    static const char *const bad[] = {
        "yes",         "cost",       "cost:",       "cost:-1%",
        "cost:nan%",   "cost:inf%",  "cost:5%%",    "cost:x",
        "cost:1e400%", "cost:5 %x",  "budget",      "budget:",
        "budget:0",    "budget:-1",  "budget:1EiB", "budget:99999999TiB",
        "budget:9e9",  "budget:MiB", "budget:1..",  "budget:.",
        "every",       "every:",     "every:0",     "every:1.5",
        "every:-2",    "every:1e99", "every:2x",    "every:nan",
        "modules",     "modules:",   "ops:",        "ops",
        "sqrt:2",      "cheap:5%",   "none:",       "Sqrt",
        ":",           "every:0x10", "cost:0x5%",
    };
    for (int i = 0; i < BT_COUNT_OF(bad); i++) {
        char text[128], message[400];
        snprintf(text, sizeof text, "[classifier]\n\ncheckpointing = %s\n", bad[i]);
        snprintf(message, sizeof message,
                 "reweight.ini:3: [classifier] checkpointing = %s: expected none | cheap | cost:P%% | budget:BYTES | "
                 "every:N | sqrt | modules:PATTERNS | ops:NAMES, with N and BYTES at least 1 (BYTES: 64MiB, 1.5GB)",
                 bad[i]);
        expect_text(text, message);
    }
    expect_text("[classifier]\ncheckpointing =\n",
                "reweight.ini:2: [classifier] checkpointing has no value; leave the line out for the default");
}
END_TEST

START_TEST(print_reads_back)
{
    bt_config *config = read_all(BASE "data = 'a;b \"c\"'\nscheduler = multistep\nscheduler_milestones = 10, 20\n"
                                      "weight_decay = 0.30000000000000004\nbatch_size = all\nnesterov = 1\n"
                                      "[classifier.biases]\nparams = *.bias\nlr = 0.01\n");
    ask_options(config);
    char *first = printed(config);
    bt_config_free(config);
    config = read_all(first);
    ask_options(config);
    char *second = printed(config);
    bt_config_free(config);
    ck_assert_str_eq(first, second);
    static const char *const lines[] = {"[engine]\nproblems = reweight.c\n",
                                        "train_iters = 6000\n",
                                        "valid_step = 500\n",
                                        "\n[classifier]\ntype = cg\ncg_iterations = 7\ncg_alpha = 1\n",
                                        "weight_decay = 0.30000000000000004\n",
                                        "data = 'a;b \"c\"'\n",
                                        "hidden = 100\n",
                                        "nesterov = true\n",
                                        "batch_size = all\n",
                                        "scheduler_milestones = 10, 20\n",
                                        "\n[classifier.biases]\nparams = *.bias\nfrozen = false\nlr = 0.01\n",
                                        "\n[dependencies]\nu2l = reweight > classifier\nl2u = classifier > reweight\n",
                                        "noise = 0.1\n",
                                        "valid_batch_size = all\n"};
    for (int i = 0; i < BT_COUNT_OF(lines); i++)
        ck_assert_msg(strstr(first, lines[i]) != NULL, "missing: %s\nin:\n%s", lines[i], first);
    ck_assert_ptr_null(strstr(first, "output"));
    free(first);
    free(second);
}
END_TEST

START_TEST(every_key_is_documented)
{
    bt_config *config = bt_config_new();
    bt_config_add_method(config, &cg);
    for (int form = BT_DOCUMENT_TEXT; form <= BT_DOCUMENT_LIST; form++) {
        char *data = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&data, &size);
        ck_assert_int_eq(bt_config_document(config, (bt_document)form, file), BT_OK);
        fclose(file);
        for (const bt_key *key = bt_keys; key->name; key++)
            ck_assert_ptr_nonnull(strstr(data, key->name));
        ck_assert_ptr_nonnull(strstr(data, "cg_iterations"));
        ck_assert_ptr_nonnull(strstr(data, "weight_decay"));
        free(data);
    }
    bt_config_free(config);
}
END_TEST

/* 0 is a valid number of bytes if the table says so. */
START_TEST(no_bytes)
{
    const bt_key *bucket = bt_key_find(BT_SECTION_ENGINE, "bucket");
    int64_t bytes = 1;
    bt_text text = {0};
    ck_assert_int_eq(bt_key_parse(bucket, "here", "0", &bytes), BT_OK);
    ck_assert_int_eq(bytes, 0);
    ck_assert(bt_key_print(bucket, &bytes, &text));
    ck_assert_str_eq(bt_text_get(&text), "0");
    bt_text_free(&text);
    ck_assert_int_ne(bt_key_parse(bucket, "here", "-1", &bytes), BT_OK);
    ck_assert_msg(strstr(bt_error(), "at least 0") != NULL, "%s", bt_error());
    bt_error_clear();
    ck_assert_int_ne(bt_key_parse(bt_key_find(BT_SECTION_ENGINE, "memory_budget"), "here", "0", &bytes), BT_OK);
    bt_error_clear();
}
END_TEST

/* Each key's default is a valid value, and it has a name and a help text. */
START_TEST(the_table_holds_together)
{
    for (const bt_key *key = bt_keys; key->name; key++) {
        ck_assert_ptr_eq(bt_key_find(key->section, key->name), key); /* no name twice in a section */
        ck_assert(bt_ini_name(key->name, false));
        ck_assert_ptr_nonnull(key->help);
        ck_assert(!(key->value && key->like));
        char field[256];
        bool named = key->kind == BT_KEY_METHOD || key->kind == BT_KEY_OPTIMIZER;
        if (key->value && !named) {
            ck_assert_int_eq(bt_key_parse(key, key->name, key->value, field), BT_OK);
            bt_text text = {0};
            ck_assert(bt_key_print(key, field, &text));
            ck_assert_str_eq(bt_text_get(&text), key->value);
            bt_text_free(&text);
        }
    }
}
END_TEST

START_TEST(null_is_survived)
{
    bt_config_free(NULL);
    ck_assert_int_ne(bt_config_read(NULL, "x"), BT_OK);
    ck_assert_int_ne(bt_config_set(NULL, "a.b", "c", "d"), BT_OK);
    ck_assert_ptr_null(bt_config_engine(NULL));
    ck_assert_int_ne(bt_config_resolve(NULL), BT_OK);
    ck_assert_int_ne(bt_config_finish(NULL), BT_OK);
    ck_assert_int_ne(bt_config_print(NULL, stdout), BT_OK);
    ck_assert_int_ne(bt_config_add_problem(NULL, NULL), BT_OK);
    ck_assert_int_ne(bt_config_add_method(NULL, NULL), BT_OK);
    ck_assert_int_ne(bt_config_add_optimizer(NULL, NULL), BT_OK);
    ck_assert_int_ne(bt_config_option_bool(NULL, NULL, NULL, false, NULL), BT_OK);
    ck_assert_ptr_null(bt_config_problem(NULL, NULL));
    ck_assert_ptr_null(bt_config_origin(NULL, NULL, NULL));
    int count = 7;
    ck_assert_ptr_null(bt_config_dependencies(NULL, &count));
    ck_assert_int_eq(count, 0);
    ck_assert_str_eq(bt_config_folder(NULL), ".");
    bt_error_clear();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, values_are_read);
    tcase_add_test(tests, defaults_are_bettys);
    tcase_add_test(tests, a_setting_can_follow_another);
    tcase_add_test(tests, schedulers);
    tcase_add_test(tests, groups_take_over_from_the_problem);
    tcase_add_test(tests, patterns);
    tcase_add_test(tests, misspelt_keys);
    tcase_add_test(tests, unknown_sections);
    tcase_add_test(tests, wrong_types_and_ranges);
    tcase_add_test(tests, what_is_computed_again);
    tcase_add_test(tests, what_cannot_be_computed_again);
    tcase_add_test(tests, refused_words);
    tcase_add_test(tests, ends_of_ranges);
    tcase_add_test(tests, malformed_files);
    tcase_add_test(tests, how_values_are_written);
    tcase_add_test(tests, set_wins_over_the_file);
    tcase_add_test(tests, set_is_checked_alike);
    tcase_add_test(tests, dependencies_are_read);
    tcase_add_test(tests, dependency_mistakes);
    tcase_add_test(tests, levels_leave_problems_out);
    tcase_add_test(tests, options);
    tcase_add_test(tests, option_mistakes);
    tcase_add_test(tests, own_optimizers_bring_keys);
    tcase_add_test(tests, print_reads_back);
    tcase_add_test(tests, every_key_is_documented);
    tcase_add_test(tests, no_bytes);
    tcase_add_test(tests, the_table_holds_together);
    tcase_add_test(tests, null_is_survived);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
