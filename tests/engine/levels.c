/* tests/engine/levels.c */
#include "levels.h"

#include "engine/session/session.h"
#include "support/vars.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_lines(bt_engine *engine, const char *lines)
{
    while (*lines) {
        char line[256] = {0};
        size_t length = strcspn(lines, "\n");
        memcpy(line, lines, length < sizeof line ? length : sizeof line - 1);
        lines += length + (lines[length] == '\n');
        char *equals = strstr(line, " = ");
        if (!equals)
            continue;
        *equals = 0;
        bt_engine_set(engine, line, "%s", equals + 3);
    }
}

bt_dataset *levels_one_row(bt_problem *self)
{
    static const double x = 1;
    (void)self;
    bt_dataset *data = bt_dataset_new(1);
    bt_dataset_add(data, "x", BT_ARRAY(&x, 1));
    return data;
}

void levels_fill(bt_engine *engine, const bt_export *parts, void *user, const char *settings)
{
    bt_engine_use(engine, parts, user);
    bt_engine_set(engine, "engine.precision", "fp64");
    bt_engine_set(engine, "engine.valid_step", "0");
    set_lines(engine, settings);
}

bt_engine *levels_engine(const bt_export *parts, void *user, const char *settings)
{
    bt_engine *engine = bt_engine_new();
    levels_fill(engine, parts, user, settings);
    if (!*bt_error())
        return engine;
    bt_engine_free(engine);
    return NULL;
}

void levels_run(bt_engine *engine)
{
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_run(engine));
}

void levels_step(bt_engine *engine, int64_t count)
{
    ck_assert_msg(engine != NULL, "%s", bt_error());
    EXPECT_OK(bt_engine_setup(engine));
    for (int64_t i = 0; i < count; i++)
        EXPECT_OK(bt_session_step(engine));
}

static bt_tensor *params(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_params(self);
}

void levels_params(bt_engine *engine, const char *problem, double *values, int64_t count)
{
    EXPECT_OK(bt_eval(bt_engine_problem(engine, problem), params, NULL, BT_ARRAY(values, count)));
}

/* Independent of the order in which variables were created. */
static void hash(void *user, const bt_var *var, const bt_block *block)
{
    (void)block;
    uint64_t *sum = user;
    *sum += bt_hash(bt_hash_text(bt_hash_text(0, var->owner), var->name), var_near(var), var->bytes);
}

uint64_t levels_hash(bt_engine *engine, const char *problem)
{
    uint64_t sum = 0;
    bt_visit_vars(&engine->context, problem ? bt_engine_problem(engine, problem) : NULL, hash, &sum);
    return sum;
}

static void hash_lasting(void *user, const bt_var *var, const bt_block *block)
{
    if (var->category != BT_BATCH)
        hash(user, var, block);
}

uint64_t levels_state(bt_engine *engine)
{
    uint64_t sum = 0;
    bt_visit_vars(&engine->context, NULL, hash_lasting, &sum);
    return sum;
}

void levels_expect_resumes(bt_engine *(*make)(void *user), void *user, int steps)
{
    char folder[] = "/tmp/betty-resumes-XXXXXX", at[64], command[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    bt_engine *engine = make(user);
    for (int step = 0; step <= steps; step++) {
        snprintf(at, sizeof at, "%s/at-%d", folder, step);
        EXPECT_OK(bt_engine_save(engine, at));
        levels_step(engine, step < steps);
    }
    uint64_t end = levels_state(engine);
    bt_engine_free(engine);
    for (int step = 0; step <= steps; step++) {
        engine = make(user);
        snprintf(at, sizeof at, "%s/at-%d", folder, step);
        EXPECT_OK(bt_engine_resume(engine, at));
        levels_step(engine, steps - step);
        ck_assert_msg(levels_state(engine) == end, "resumed after %d of %d steps, it is another run", step, steps);
        bt_engine_free(engine);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

int64_t levels_steps(bt_engine *engine, const char *problem) { return bt_engine_problem(engine, problem)->steps; }

int64_t levels_skipped(bt_engine *engine, const char *problem)
{
    int64_t skipped;
    memcpy(&skipped, var_near(bt_engine_problem(engine, problem)->optimizer->skipped), sizeof skipped);
    return skipped;
}

void levels_expect_error(bt_engine *engine, ...)
{
    bt_status status = engine ? bt_engine_run(engine) : BT_ERROR_CONFIG;
    ck_assert_msg(status != BT_OK, "an error is expected");
    va_list words;
    va_start(words, engine);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        ck_assert_msg(strstr(bt_error(), word) != NULL, "`%s` is not in the message: %s", word, bt_error());
    va_end(words);
    bt_engine_free(engine);
    bt_error_clear();
}
