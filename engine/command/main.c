/* engine/command/main.c: betty-run: trains what an INI file says. */
#include "base/version.h"
#include "engine/ablation/ablation.h"
#include "engine/command/cli.h"
#include "engine/command/crash.h"
#include "engine/command/mpi.h"
#include "engine/command/new.h"
#include "engine/command/ranks.h"
#include "engine/command/signals.h"
#include "engine/compare/compare.h"
#include "engine/find_lr/find_lr.h"
#include "engine/grid/grid.h"
#include "engine/output/json.h"
#include "engine/report/report.h"
#include "engine/session/front.h"
#include "runtime/backend.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { DONE = 0, FAILED = 1, BAD_INPUT = 2 };

static volatile sig_atomic_t crash_code = BAD_INPUT; /* the exit code of a crash in a problem's code */

/* Whether the input is at fault (an error before the run, or in a setting), not the run itself. */
static bool is_input(bt_status status, bool running)
{
    switch (status) {
    case BT_ERROR_CONFIG:
        return true;
    case BT_ERROR_MEMORY:
    case BT_ERROR_DEVICE:
    case BT_ERROR_INTERNAL:
    case BT_ERROR_NUMERIC:
        return false;
    default:
        return !running;
    }
}

/* Prints what went wrong; returns the exit code. */
static int complain(bt_status status, bool running)
{
    fflush(stdout); /* what was printed before the error stands before it in a file, too */
    if (status == BT_ERROR_INTERRUPTED) {
        if (!bt_ranks_follows() && !bt_mpi_follows())
            fprintf(stderr, "betty-run: interrupted\n");
        return BT_INTERRUPTED;
    }
    const int code = is_input(status, running) ? BAD_INPUT : FAILED;
    const char *why = *bt_error() ? bt_error() : "failed without saying why";
    bt_mpi_fail(why, code);
    if (!bt_ranks_fail(why, code))
        fprintf(stderr, "betty-run: %s\n", why);
    return code;
}

static int started; /* number of ranks started by mpirun or the like */

static bt_status configure(bt_engine *engine, const bt_cli *cli)
{
    if (cli->folder)
        BT_TRY(bt_left_run(cli->folder));
    BT_TRY(bt_engine_load(engine, cli->file));
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", started);
    if (started > 1)
        BT_TRY(bt_engine_set_from(engine, "engine.ranks", ranks, "the number of processes started"));
    for (int64_t i = 0; i < cli->setting_count; i++)
        BT_TRY(bt_engine_set_from(engine, cli->settings[i].key, cli->settings[i].value, cli->settings[i].origin));
    return BT_OK;
}

static bt_status load(bt_engine *engine, const bt_cli *cli)
{
    const bt_front front = {
        .progress = cli->quiet || bt_cli_reports(cli) ? NULL : stdout,
        .files = true,
        .reports = bt_cli_reports(cli),
        .dry = cli->plan && !cli->check,
        .profile = cli->profile ? stdout : NULL,
        .stop = bt_signals_stop(),
        .spread = bt_cli_reports(cli) ? NULL
                  : started > 1       ? bt_mpi_start
                                      : bt_ranks_start,
        .processes = started > 1 ? started : 0,
    };
    if (cli->card)
        BT_TRY(bt_cuda_profile(cli->card));
    BT_TRY(bt_engine_attach(engine, &front));
    BT_TRY(configure(engine, cli));
    if (cli->evaluate || cli->export || cli->find_lr) /* these do their own set-up, with other values */
        return BT_OK;
    return cli->resume ? bt_engine_resume(engine, cli->resume) : bt_engine_setup(engine);
}

static bt_status report(bt_engine *engine, const bt_cli *cli)
{
    if (cli->curve)
        return bt_engine_curve(engine, &(bt_curve){.json = cli->json,
                                                   .file = stdout,
                                                   .folder = cli->output,
                                                   .progress = cli->quiet ? NULL : stderr});
    if (cli->sample)
        return bt_engine_sample(engine, cli->evaluate, cli->level,
                                &(bt_sampling){.text = cli->sample,
                                               .tokens = cli->tokens ? cli->tokens : 100,
                                               .temperature = cli->temperature < 0 ? 1 : cli->temperature,
                                               .top = cli->top,
                                               .file = stdout});
    if (cli->export)
        return bt_engine_export(
            engine, &(bt_exporting){.folder = cli->run, .problem = cli->problem, .path = cli->export, .file = stdout});
    if (cli->find_lr)
        return bt_engine_find_lr(engine, &(bt_find_lr){.problem = cli->find_lr,
                                                       .range = cli->lr_range,
                                                       .folder = cli->output,
                                                       .json = cli->json,
                                                       .file = stdout,
                                                       .progress = cli->quiet ? NULL : stderr});
    if (cli->evaluate)
        return bt_engine_evaluate(engine, &(bt_evaluation){.folder = cli->evaluate,
                                                           .level = cli->level,
                                                           .predictions = cli->predictions,
                                                           .json = cli->json,
                                                           .file = stdout});
    if (cli->print_config)
        BT_TRY(bt_engine_report(engine, BT_CONFIG, false, stdout));
    if (cli->equation)
        BT_TRY(bt_engine_report(engine, BT_EQUATION, false, stdout));
    if (cli->info)
        BT_TRY(bt_engine_report(engine, BT_INFO, cli->json, stdout));
    if (cli->plan)
        BT_TRY(bt_engine_report(engine, BT_PLAN, cli->json, stdout));
    if (cli->check)
        BT_TRY(bt_engine_check_hypergradient(engine, &(bt_checking){.level = cli->level,
                                                                    .samples = cli->samples,
                                                                    .json = cli->json,
                                                                    .file = stdout,
                                                                    .folder = cli->output}));
    return BT_OK;
}

static bt_status configure_row(void *user, bt_engine *engine) { return configure(engine, user); }

/* The budget cannot be met, which has been reported: adds a line that says what would fit. Its own failures are
 * silent. */
static void offer(bt_offers *offers, bt_cli *cli)
{
    const bt_ablation how = {.load = configure_row, .user = cli, .plan = true, .progress = cli->quiet ? NULL : stderr};
    bt_text text = {0};
    bt_error_clear();
    if (bt_offers_try(offers, &how, &text) == BT_OK)
        fprintf(stderr, "betty-run: %s\n", bt_text_get(&text));
    bt_text_free(&text);
}

static bt_status train(bt_engine *engine)
{
    bt_signals_finish("stopping after this step or validation");
    bt_status status = bt_engine_run(engine);
    bt_signals_finish(NULL);
    return status;
}

static int run(bt_cli *cli)
{
    bt_engine *engine = bt_engine_new();
    bool reports = bt_cli_reports(cli);
    bt_signals_setup(reports, cli->quiet);
    bt_status status = engine ? load(engine, cli) : BT_ERROR_MEMORY;
    bt_signals_ready();
    int code = DONE;
    crash_code = reports ? BAD_INPUT : FAILED;
    bt_offers *offers = status == BT_ERROR_CONFIG && !cli->resume ? bt_offers_new(engine) : NULL;
    if (status != BT_OK)
        code = complain(status, false);
    else if ((status = reports ? report(engine, cli) : train(engine)) != BT_OK)
        code = complain(status, !reports);
    else
        bt_ranks_end();
    bt_engine_free(engine);
    if (offers)
        offer(offers, cli);
    bt_offers_free(offers);
    return code;
}

static int ablate(bt_cli *cli)
{
    const bt_ablation ablation = {
        .load = configure_row,
        .user = cli,
        .level = cli->level,
        .folder = cli->output,
        .steps = cli->steps,
        .plan = cli->plan,
        .json = cli->json,
        .out = stdout,
        .progress = cli->quiet ? NULL : stderr,
        .stop = bt_signals_stop(),
    };
    bt_signals_finish("stopping; results so far are kept");
    bt_status status = bt_ablate(&ablation);
    return status == BT_OK ? DONE : complain(status, false);
}

static int grid(const bt_cli *cli)
{
    const bt_grid several = {
        .asked = cli->asked,
        .file = cli->file,
        .resume = cli->resume,
        .jobs = cli->jobs == BT_CLI_AUTO ? 0
                : cli->jobs              ? cli->jobs
                                         : 1,
        .plan = cli->plan,
        .json = cli->json,
        .out = stdout,
        .progress = cli->quiet ? NULL : stderr,
        .stop = bt_signals_stop(),
    };
    bt_signals_finish("stopping each run after its current step or validation");
    bt_status status = bt_grid_run(&several);
    return status == BT_OK ? DONE : complain(status, false);
}

static int compare(const bt_cli *cli)
{
    bt_text text = {0};
    json_t *compared = bt_compare(cli->compare, cli->file);
    bt_status status = compared ? BT_OK : bt_error_status();
    if (compared && cli->json)
        status = bt_json_print(compared, stdout);
    else if (compared)
        bt_compare_text(compared, &text);
    if (text.failed)
        status = bt_fail(BT_ERROR_MEMORY, "out of memory for the output");
    else if (text.size)
        fputs(text.data, stdout);
    bt_text_free(&text);
    json_decref(compared);
    return status == BT_OK ? DONE : complain(status, false);
}

static int write_report(const bt_cli *cli)
{
    char *path;
    bt_status status = bt_report_write(cli->words, cli->word_count, cli->output, &path);
    if (status == BT_OK && !cli->quiet)
        printf("%s\n", path);
    bt_free(path);
    return status == BT_OK ? DONE : complain(status, false);
}

static int write_new(const bt_cli *cli)
{
    const bt_status status = bt_new_write(cli->new, stdout);
    return status == BT_OK ? DONE : complain(status, false);
}

static bt_status meet(const bt_cli *cli)
{
    BT_TRY(bt_mpi_begin(&started));
    if (started == 1 || !(cli->grid || cli->ablate || cli->compare || cli->report || bt_cli_reports(cli)))
        return BT_OK;
    return bt_fail(BT_ERROR_CONFIG, "several processes were started as ranks, but this command does not train: start "
                                    "one process for reports and for several runs; with --plan, --ranks N is enough");
}

/* What needs no INI file. */
static int help(const bt_cli *cli)
{
    bt_status status = BT_OK;
    if (cli->version)
        printf("betty-run %s\n", BT_VERSION);
    else if (cli->keys)
        status = bt_cli_keys(cli->keys, stdout);
    else
        status = bt_cli_help(cli->help, stdout);
    return status == BT_OK ? DONE : complain(status, true);
}

/* If 0, 1 or 2 is closed, the next file opened would get that number, and receive what is printed. So these numbers are
 * filled with files that cannot be read or written, which makes lost output an error. */
static void hold_standard_files(void)
{
    static const int useless[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < BT_COUNT_OF(useless); i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", useless[i]) != i)
            return;
}

int main(int argc, char **argv)
{
    hold_standard_files();
    bt_signals_listen();
    bt_crash_listen(&crash_code);
    bt_cli cli = {0};
    int code;
    bt_status status = bt_cli_parse(&cli, argc, argv);
    if (status == BT_OK && (cli.help || cli.version || cli.keys))
        code = help(&cli);
    else if (status == BT_OK && cli.new)
        code = write_new(&cli);
    else if (status == BT_OK && !cli.file && !cli.report && !(cli.grid && cli.resume))
        code = complain(bt_fail(BT_ERROR_CONFIG, "an INI file is missing: betty-run FILE [OPTIONS]; betty-run --help"),
                        false);
    else if (status == BT_OK && (status = meet(&cli)) == BT_OK)
        code = cli.report    ? write_report(&cli)
               : cli.compare ? compare(&cli)
               : cli.grid    ? grid(&cli)
               : cli.ablate  ? ablate(&cli)
                             : run(&cli);
    else
        code = complain(status, false);
    bt_cli_free(&cli);
    bt_mpi_end();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "betty-run: the output cannot be written\n");
        return code == DONE ? FAILED : code;
    }
    return code;
}
