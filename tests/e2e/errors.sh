#!/bin/bash
# Errors of betty-run: exit code 2, a message that says what is wrong and where, and no folder left behind.
# shellcheck disable=SC2016 # backquotes in single quotes are meant as they stand
. "$(dirname "$0")/common.sh" || exit 1
bad=0

cat >problem.c <<'C'
#include <betty/betty.h>

#ifndef WIDTH
#define WIDTH 3
#endif
static bt_dataset *data(bt_problem *self)
{
    static double x[20 * 3], y[20];
    (void)self;
    for (int i = 0; i < 60; i++)
        x[i] = bt_host_uniform(1, 1, (uint64_t)i);
    bt_dataset *set = bt_dataset_new(20);
    bt_dataset_add(set, "x", BT_ARRAY(x, 20, 3));
    bt_dataset_add(set, "y", BT_ARRAY(y, 20));
    return set;
}
static bt_module *penalty_module(bt_problem *self)
{
    (void)self;
    return bt_nn_parameter(bt_init_constant(0), 3);
}
static bt_module *model_module(bt_problem *self)
{
    return bt_nn_mlp(bt_tanh, WIDTH, bt_option_int(self, "hidden", 4, 1, 100), 1);
}
static bt_tensor *error(bt_problem *model, const bt_batch *batch)
{
    return bt_square(bt_sub(bt_squeeze(bt_forward(model, bt_field(batch, "x")), 1), bt_field(batch, "y")));
}
static bt_tensor *penalty_step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(error(bt_peer(self, "model"), batch));
}
static bt_tensor *model_step(bt_problem *self, const bt_batch *batch)
{
#ifdef VECTOR
    return error(self, batch);
#endif
#ifdef UNREACHED
    return bt_mean(error(self, batch));
#endif
    bt_tensor *strength = bt_sum(bt_exp(bt_forward(bt_peer(self, "penalty"))));
    return bt_add(bt_mean(error(self, batch)), bt_mul(strength, bt_sum(bt_square(bt_params(self)))));
}
static const bt_problem_def penalty = {.name = "penalty", .configure_train_data = data,
                                       .configure_module = penalty_module, .training_step = penalty_step};
static const bt_problem_def model = {.name = "model", .configure_train_data = data,
                                     .configure_module = model_module, .training_step = model_step};
BT_EXPORT(.problems = {&penalty, &model});
C

cat >run.ini <<'INI'
[engine]
problems = problem.c
train_iters = 3
[dependencies]
u2l = penalty > model
l2u = model > penalty
[penalty]
lr = 0.1
[model]
lr = 0.1
INI

changed() { # SED-PROGRAM: changes run.ini
    sed "$1" run.ini >changed.ini
}
variant() { # NAME...: problem.c with these macros, as variant.c
    { printf '#define %s\n' "$@"; cat problem.c; } >variant.c
}
expect() { # CODE TEXT ARGUMENTS...
    local code=$1 text=$2 found
    shift 2
    "$BETTY_RUN" "$@" >out 2>err
    found=$?
    if [ "$found" -ne "$code" ] || ! grep -qF -- "$text" err; then
        printf 'betty-run %s\n  exit code %s, expected %s; expected text: %s\n  found: ' "$*" "$found" "$code" "$text"
        cat err
        bad=1
    fi
    if [ "$code" -eq 2 ] && [ -e runs ]; then
        echo "betty-run $*: left a folder"
        bad=1
        rm -rf runs
    fi
}

# The unchanged files must work: only then do the errors below mean anything.
if ! "$BETTY_RUN" run.ini --quiet --output good >out 2>err || [ -s out ] || [ ! -s good/summary.json ]; then
    echo "the run without a mistake failed:"
    cat err out
    exit 1
fi

# the command line
expect 2 'an INI file is missing'
expect 2 'unknown option `--plam`; did you mean `--plan`?' run.ini --plam
expect 2 'nothing.ini: cannot be opened: No such file or directory' nothing.ini
expect 2 'cannot open the folder nosuch: No such file or directory' --resume nosuch
expect 2 'cannot open the folder nosuch: No such file or directory' --evaluate nosuch
mkdir empty
expect 2 'empty is not the folder of a run: it has no config.ini, which every run writes' --resume empty
expect 2 '--threads = many: expected a whole number' run.ini --threads many
expect 2 '--set model.lrr: [model] has no key `lrr`; did you mean `lr`?' run.ini --set model.lrr=1
expect 2 'there is no upper level nope in this run' run.ini --check-hypergradient --level nope
expect 2 'the output folder good already holds a run' run.ini --output good

# the file
changed 's/^train_iters/train_iter/'
expect 2 'changed.ini:3: [engine] has no key `train_iter`; did you mean `train_iters`?' changed.ini
changed '$s/.*/lernrate = 0.1/'
expect 2 'changed.ini:10: [model] has no key `lernrate`; did you mean `lr`?' changed.ini
changed '$s/.*/hiden = 8/'
expect 2 'changed.ini:10: [model] has no key `hiden`; did you mean `hidden`?' changed.ini
changed '$s/.*/hidden = 800/'
expect 2 'changed.ini:10: [model] hidden = 800: expected a whole number, from 1 to 100' changed.ini
changed '$s/.*/lr = fast/'
expect 2 'changed.ini:10: [model] lr = fast: expected a number' changed.ini
changed 's/^u2l.*/u2l = penalty > modle/'
expect 2 'changed.ini:5: u2l: there is no problem `modle`; did you mean `model`?' changed.ini
changed 's/^u2l.*/u2l = penalty > model, model > penalty/'
expect 2 'u2l has a cycle: penalty > model > penalty' changed.ini
changed 's/^u2l.*//'
expect 2 'penalty does not reach model through u2l' changed.ini
changed 's/^problems.*/problems = reweihgt/'
expect 2 'changed.ini:2: problems: there is no built-in problem file `reweihgt`; did you mean `reweight`?' changed.ini

# the code
changed 's/problem\.c/variant.c/'
{ cat problem.c; echo 'static int oops = ;'; } >variant.c
expect 2 'changed.ini:2: problems: variant.c does not compile' changed.ini
expect 2 "variant.c:$(wc -l <variant.c):" changed.ini
variant VECTOR
expect 2 'scalar' changed.ini
expect 2 'model' changed.ini
variant UNREACHED
expect 2 'penalty' changed.ini
variant 'WIDTH 5'
expect 2 'model: mlp expects 5 features, found [20, 3]' changed.ini --set model.batch_size=all --set penalty.batch_size=all
sed 's/bt_dataset_new(20)/bt_dataset_open("missing.csv", "train")/' problem.c >variant.c
expect 2 'missing.csv' changed.ini

exit $bad
