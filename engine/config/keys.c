/* engine/config/keys.c: the table of INI keys. */
#include "engine/config/keys.h"
#include "engine/config/ini.h"
#include "graph/variable.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#define MANY      1e15 /* a count without an upper end; exact in a double */
#define HUGE_REAL 1e300

#define ENGINE(field)     .section = BT_SECTION_ENGINE, .offset = offsetof(bt_engine_settings, field)
#define DEPENDENCY(field) .section = BT_SECTION_DEPENDENCIES, .offset = offsetof(bt_dependency_settings, field)
#define PROBLEM(field)    .section = BT_SECTION_PROBLEM, .offset = offsetof(bt_problem_settings, field)
#define GROUP(field)      .section = BT_SECTION_GROUP, .offset = offsetof(bt_group_settings, field)

#define TEXT            .kind = BT_KEY_TEXT
#define LIST            TEXT, .list = true
#define BOOL            .kind = BT_KEY_BOOL
#define INT(from, to)   .kind = BT_KEY_INT, .low = (from), .high = (to)
#define REAL(from, to)  .kind = BT_KEY_DOUBLE, .low = (from), .high = (to)
#define SIZE(word)      .kind = BT_KEY_SIZE, .low = 1, .high = MANY, .words = (word)
#define CHOICE(list)    .kind = BT_KEY_CHOICE, .words = (list)
#define RESUMABLE       .resumable = true
#define LIVE            RESUMABLE, .live = true
#define SAVES(category) (1u << (category))
#define STRATEGY        CHOICE("default | distributed | zero1 | zero2 | zero3 | zero | fsdp")
#define PRECISION                                                                                                      \
    CHOICE("fp32 | fp64 | bf16 | fp16 | bf16-true"),                                                                   \
        .refused = "tf32 | amp",                                                                                       \
        .advice = "bf16 halves what a network holds for its derivatives, and needs "                                   \
                  "no scale of the loss"

const bt_key bt_keys[] = {
    /* ---- the engine ---- */
    {"problems", ENGINE(problems), LIST, RESUMABLE,
     .help = "built-in problems by name, or .c files, which are compiled on the fly; several by commas. A path is "
             "relative to `folder`"},
    {"folder", ENGINE(folder), TEXT, RESUMABLE,
     .help = "where the paths in `problems` begin, and where data sets are looked for, too; not set: the INI file's "
             "folder"},
    {"folder_here", ENGINE(folder_here), TEXT, RESUMABLE,
     .help =
         "`folder` as it is seen from this file, which a run's config.ini has; it counts where the files of `problems` "
         "are there, so that a project that was moved, or copied, goes on with its own"},
    {"levels", ENGINE(levels), LIST,
     .help = "the problems to train, by commas, for a baseline run with some of a file's; not set: all"},
    {"train_iters", ENGINE(train_iters), INT(1, MANY), .value = "50000", LIVE, .help = "steps of the leaf problems"},
    {"valid_step", ENGINE(valid_step), INT(0, MANY), .value = "500", LIVE,
     .help = "leaf steps from one validation to the next; 0: none"},
    {"roll_back", ENGINE(roll_back), BOOL, .value = "false",
     .help =
         "after each step of an upper level, the lower one returns to where its inner loop began and takes one step "
         "with what the upper level has become"},
    {"early_stopping", ENGINE(early_stopping), BOOL, .value = "false", RESUMABLE,
     .help = "stop when the metric has not improved for a while"},
    {"early_stopping_mode", ENGINE(early_stopping_mode), CHOICE("min | max"), .value = "min",
     .help = "whether the metric is to fall or to rise"},
    {"early_stopping_tolerance", ENGINE(early_stopping_tolerance), INT(1, MANY), .value = "5", LIVE,
     .help = "validations without an improvement before the run stops"},
    {"early_stopping_metric", ENGINE(early_stopping_metric), TEXT, .value = "loss",
     .help = "METRIC or PROBLEM.METRIC, from the validation"},
    {"seed", ENGINE(seed), INT(0, MANY), .value = "1", .help = "all randomness of a run comes from it"},
    {"device", ENGINE(device), CHOICE("auto | cpu | cuda"), .value = "auto", .refused = "gpu",
     .advice = "a GPU is computed on by CUDA", RESUMABLE,
     .help = "where to compute; auto: on the CPU. cuda: on the first GPU, or one for each rank, in a build with "
             "CUDA (docs/cuda.md); with --plan no GPU is needed"},
    {"threads", ENGINE(threads), INT(0, 1024), .value = "0", RESUMABLE,
     .help =
         "threads of a kernel call, at most: one with little work takes fewer; 0: as many as the plan has work for, "
         "and this process has cores (its affinity, and the processor quota of its cgroup)"},
    {"precision", ENGINE(precision), PRECISION, .value = "fp32", .ablate = "fp32",
     .help = "of problems that do not set their own"},
    {"memory_budget", ENGINE(memory_budget), .kind = BT_KEY_BYTES, RESUMABLE,
     .help = "bytes (64MiB, 1.5GB) for all that is planned (planned_bytes in summary.json); see the key of that name "
             "of a problem"},
    {"reassociate", ENGINE(reassociate), BOOL, .value = "true",
     .help = "chains of matrix products are multiplied in the cheapest order, through upper gradient and product where "
             "that pays; false: as written"},
    {"log_step", ENGINE(log_step), INT(0, MANY), .value = "100", LIVE,
     .help = "leaf steps from one line of training metrics to the next; 0: none"},
    {"output", ENGINE(output), TEXT, RESUMABLE,
     .help = "the folder that the run leaves; not set: runs/NAME-N with the next free number"},
    {"checkpoint_step", ENGINE(checkpoint_step), INT(0, MANY), .value = "0", LIVE,
     .help = "leaf steps from one checkpoint to the next; 0: not by steps, but at the end, when the run is "
             "interrupted, and "
             "as checkpoint_minutes says"},
    {"checkpoint_minutes", ENGINE(checkpoint_minutes), REAL(0, 1e6), .value = "5", LIVE,
     .help = "minutes from one checkpoint to the next, at most; 0: not by time"},
    {"checkpoint_best", ENGINE(checkpoint_best), BOOL, .value = "false", RESUMABLE,
     .help = "keep the checkpoint of the validation with the best early_stopping_metric, as checkpoints/best, whether "
             "the run stops early or not"},
    {"checkpoint_keep", ENGINE(checkpoint_keep), INT(1, 1e6), .value = "2", LIVE,
     .help = "checkpoints that stay, the newest ones"},
    {"ranks", ENGINE(ranks), .kind = BT_KEY_SIZE, .low = 1, .high = 4096, .words = "all", .value = "1", RESUMABLE,
     .help =
         "ranks that share each batch, and compute what one rank would, but for rounding: processes on this machine "
         "(executor); with --plan, of more devices than there are; all: one for each device"},
    {"executor", ENGINE(executor), CHOICE("auto | lockstep | processes"), .value = "auto", RESUMABLE,
     .help = "where ranks are computed: processes, which betty-run starts to train; lockstep: in one process and one "
             "thread, in turn, as all else does that betty-run does; auto: processes"},
    {"strategy", ENGINE(strategy), STRATEGY, .value = "default", RESUMABLE,
     .help = "what each rank has all of; see the key of that name of a problem"},
    {"zero_unit", ENGINE(zero_unit), .kind = BT_KEY_BYTES, .value = "16MiB", RESUMABLE,
     .help = "zero3: a parameter that is needed again after so many bytes of others were gathered is gathered again; "
             "until then it is kept"},
    {"distributed", ENGINE(distributed), BOOL, .value = "false", RESUMABLE,
     .help = "true: strategy = distributed and, where `ranks` is not set, ranks = all, as Betty has it"},
    {"bucket", ENGINE(bucket), .kind = BT_KEY_BYTES, .words = "0", .value = "25MiB", RESUMABLE,
     .help =
         "sums over the ranks, as of the gradients of many parameters, are taken together up to so many bytes where "
         "none depends on another: one meeting in the place of many, and the same bits; 0: each by itself"},
    {"overlap", ENGINE(overlap), CHOICE("auto | true | false"), .value = "auto", RESUMABLE,
     .help = "what ranks that are processes exchange is under way, on a thread or a stream of a GPU of its own, while "
             "steps run that do not need it: the same bits, and more memory; auto: where a rank on the processor has "
             "more cores than threads, or ranks are on several machines"},
    {"offload_ahead", ENGINE(offload_ahead), INT(1, 1e6), .value = "2", RESUMABLE,
     .help =
         "offload: a copy back from the host's memory begins so many steps of a program before its reader, and a copy "
         "out has so many to be done; more hides more of their time, and takes more memory"},
    {"offload_unit", ENGINE(offload_unit), .kind = BT_KEY_BYTES, .value = "4MiB", RESUMABLE,
     .help =
         "offload = optimizer: of the optimiser's state about so many bytes are on the device at once, and those that "
         "are under way"},
    {"logger_type", ENGINE(loggers), .kind = BT_KEY_WORDS, .words = "none | csv | tensorboard", .value = "none",
     .refused = "wandb",
     .advice = "the lines of metrics.jsonl in the run's folder are JSON objects that wandb.log takes, while it runs or "
               "later (docs/quickstart.md), and Weights & Biases reads the files of tensorboard",
     RESUMABLE,
     .help = "logs beside metrics.jsonl, which is always written: metrics.csv, files of events for TensorBoard"},
    {"log_histograms", ENGINE(log_histograms), BOOL, .value = "false",
     .help =
         "logger_type = tensorboard: how what bt_histogram is given is distributed, as the weights of examples, and "
         "the norms of upper levels' gradients, from one line of metrics to the next"},

    /* ---- dependencies ---- */
    {"u2l", DEPENDENCY(u2l), LIST,
     .help = "upper > lower, by commas: the lower problem's loss uses the upper one (`a > b, c`: both b and c)"},
    {"l2u", DEPENDENCY(l2u), LIST,
     .help = "lower > upper, by commas: the upper problem's loss uses the lower one's solution"},

    /* ---- a problem: how its solution is differentiated ---- */
    {"type", PROBLEM(method), .kind = BT_KEY_METHOD, .value = "darts", .refused = "reinforce",
     .advice = "a score-function gradient is an upper loss, bt_mul(bt_detach(reward), log_probability), and needs no "
               "type of its own",
     .help = "how hypergradients pass through this lower problem"},
    {"product", PROBLEM(product), CHOICE("jvp | vjp | finite"), .value = "jvp", .ablate = "jvp | finite | vjp",
     .saves = SAVES(BT_VECTORS),
     .help = "second-order products: forward over reverse, reverse over reverse, or a difference of two gradients "
             "(what type = sama takes by itself)"},
    {"detach", PROBLEM(detach), CHOICE("frozen | field | follow"), .value = "frozen",
     .help = "what a second derivative makes of detached values: constants; part of the gradient field that training "
             "follows; or functions, as in Betty's difference"},
    {"product_batches", PROBLEM(product_batches), CHOICE("last | all"), .value = "last", .ablate = "last",
     .saves = SAVES(BT_ACTIVATIONS), .help = "which micro-batches of the last step second-order products use"},
    {"product_precision", PROBLEM(product_precision), CHOICE("auto | fp32 | level | fp16"), .value = "auto",
     .help =
         "where `precision` is bf16 or fp16, what second-order products are computed in: auto: as the level is, but "
         "fp32 for product = finite, for methods that take many (cg, neumann, nystrom, penalty) and for levels in "
         "fp16; fp16, there: with a scale of their own"},
    {"darts_alpha", PROBLEM(darts_alpha), REAL(DBL_MIN, HUGE_REAL), .value = "0.01",
     .help = "product = finite: the step of the difference, over the norm of the direction"},
    {"first_order", PROBLEM(first_order), CHOICE("true"), .value = "true", .refused = "false",
     .advice = "it means `through the unrolled graph`, which is type = itd", .help = "accepted for Betty's sake"},
    {"allow_unused", PROBLEM(allow_unused), BOOL, .value = "true",
     .help = "parameters that the loss does not use stay as they are; false: an error"},

    /* ---- a problem: when it steps ---- */
    {"unroll_steps", PROBLEM(unroll_steps), INT(1, MANY), .value = "1",
     .help = "steps of this problem to one step of the problems above it"},
    {"unroll_tolerance", PROBLEM(unroll_tolerance), REAL(0, HUGE_REAL), .value = "0",
     .help =
         "stop moving within unroll_steps once the norm of the gradient is at most this; such steps are counted, and "
         "logged as NAME.rested_steps; 0: never"},
    {"warmup_steps", PROBLEM(warmup_steps), INT(0, MANY), .value = "0",
     .help = "steps of this problem before the problems above it begin"},
    {"gradient_accumulation", PROBLEM(gradient_accumulation), INT(1, 1e6), .value = "1", .ablate = "2 | 4",
     .saves = SAVES(BT_ACTIVATIONS) | SAVES(BT_WORKSPACE) | SAVES(BT_BATCH),
     .help = "micro-batches to one step, all at the same state of every level"},
    {"meta_batch", PROBLEM(meta_batch), INT(1, 1e6), .value = "1",
     .help = "an upper problem: inner loops to one step, as in a batch of tasks"},
    {"log_step", PROBLEM(log_step), INT(-1, MANY), .value = "-1", LIVE,
     .help = "steps of this problem from one line of its training metrics to the next; -1: as the engine's"},

    /* ---- a problem: data ---- */
    {"batch_size", PROBLEM(batch_size), SIZE("all"), .value = "100", .help = "examples in a (micro-)batch"},
    {"shuffle", PROBLEM(shuffle), BOOL, .value = "true", .help = "a new order in each epoch"},
    {"drop_last", PROBLEM(drop_last), BOOL, .value = "false", .help = "leave out the short last batch of an epoch"},
    {"prefetch", PROBLEM(prefetch), BOOL, .value = "true", .ablate = "false", .exact = true, .saves = SAVES(BT_BATCH),
     .help = "draw the next batch while this one is used, where a core is to spare; false saves a batch's memory"},
    {"valid_batch_size", PROBLEM(valid_batch_size), SIZE("all"), .like = "batch_size",
     .help = "examples in a validation batch"},
    {"valid_batches", PROBLEM(valid_batches), SIZE("all"), .value = "all", RESUMABLE,
     .help = "batches in one validation; all: one pass over the data, or one batch where they have no end"},
    {"precision", PROBLEM(precision), PRECISION, .like = "engine.precision", .ablate = "bf16",
     .saves = SAVES(BT_ACTIVATIONS),
     .help = "of parameters and floating data; bf16, fp16: these are fp32, but what the level's network computes is "
             "rounded to 16 bits where products of matrices and convolutions read and write it; bf16-true: parameters "
             "and their gradients are kept in bf16, too (docs/memory.md)"},

    {"batch_norm_groups", PROBLEM(batch_norm_groups), INT(1, MANY), .value = "1",
     .help =
         "groups of neighbouring rows of a batch, which batch norms of this level's module normalise by themselves; "
         "batches must divide into them, short last ones too (drop_last). Where the number of ranks divides it, no "
         "rank needs the statistics of another (docs/ranks.md)"},
    {"fp16", PROBLEM(fp16), BOOL, .value = "false", .help = "true: precision = fp16, as Betty has it"},
    {"initial_dynamic_scale", PROBLEM(initial_dynamic_scale), REAL(1, 0x1p100), .value = "4096",
     .help = "of a level whose gradient passes through fp16: what its loss is multiplied by at first, and its gradient "
             "divided by, in fp32"},
    {"scale_factor", PROBLEM(scale_factor), REAL(1.0001, 65536), .value = "2",
     .help =
         "the loss scale is divided by it where an update is left out, for the gradient is not finite; and multiplied "
         "after scale_interval updates in a row"},
    {"scale_interval", PROBLEM(scale_interval), INT(1, MANY), .value = "2000",
     .help = "updates in a row after which the loss scale grows"},
    {"memory_budget", PROBLEM(memory_budget), .kind = BT_KEY_BYTES, RESUMABLE,
     .help = "bytes (64MiB, 1.5GB) for what is kept for this level and the largest of its phases: what does not fit is "
             "computed again rather than held, where no `checkpointing` says otherwise; what cannot fit is an error "
             "before anything runs"},
    {"checkpointing", PROBLEM(checkpointing), .kind = BT_KEY_CHECKPOINTING, RESUMABLE,
     .ablate = "cheap | cost:20% | sqrt", .exact = true, .planned = "", .saves = SAVES(BT_ACTIVATIONS),
     .help = "which forward values of this level are computed again rather than held until its derivatives have read "
             "them: none | cheap | cost:P% | budget:BYTES | every:N | sqrt | modules:PATTERNS | ops:NAMES; true is "
             "sqrt. No bit of a result depends on it (docs/memory.md)"},

    {"offload", PROBLEM(offload), .kind = BT_KEY_WORDS, .words = "none | optimizer | activations | trajectory",
     .value = "none", RESUMABLE, .ablate = "optimizer | activations | trajectory | optimizer, activations, trajectory",
     .exact = true, .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_ACTIVATIONS) | SAVES(BT_TRAJECTORY),
     .help =
         "what of this level lies in the host's memory rather than on the device, and is copied there and back while "
         "other work is done, by commas: what the optimiser keeps, forward values until its derivatives read them, "
         "the states of an inner loop. No bit of a result depends on it (docs/memory.md)"},

    {"chunks", PROBLEM(chunks), SIZE("auto"), .value = "1", .ablate = "8 | auto", .saves = SAVES(BT_ACTIVATIONS),
     .help =
         "pieces of rows in which the logits of this level come: a product of matrices that is read row by row until "
         "little is left of it, as by a cross-entropy; one piece at once need be there. auto: from 2 to 64 pieces "
         "where all rows have more bytes than an eighth of the level's other forward values, none of more than "
         "those, if it can be"},

    /* ---- a problem: first values of its parameters and buffers ---- */
    {"weights", PROBLEM(weights), TEXT,
     .help = "a safetensors file to start from, looked for in the working folder and beside the INI file"},
    {"weights_names", PROBLEM(weights_names), LIST,
     .help = "FROM > TO, by commas: what the file's names are called here; * is any text, nothing after > leaves out"},
    {"weights_layout", PROBLEM(weights_layout), CHOICE("pytorch | plain | gpt2 | bert"), .value = "pytorch",
     .help =
         "of convolutions: [out, in, window, window], or [window, window, in, out] as in checkpoints from here; or a "
         "published Transformer of that kind, whose names become ours before weights_names (docs/text.md)"},
    {"weights_missing", PROBLEM(weights_missing), CHOICE("error | keep"), .value = "error",
     .help = "parameters and buffers that the file lacks: refused, or they keep their initial values"},

    /* ---- a problem: its update ---- */
    {"trainable", PROBLEM(trainable), LIST, .value = "*",
     .help = "patterns, by commas, of the parameters that the optimiser changes (`layer0.*, *.bias`)"},
    {"meta_trainable", PROBLEM(meta_trainable), LIST, .value = "*",
     .help = "patterns of the parameters that hypergradients pass through"},
    {"optimizer_state", PROBLEM(optimizer_state), CHOICE("fp32 | bf16"), .value = "fp32", .ablate = "bf16",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_TRAJECTORY),
     .help = "of an fp32 state; bf16: what the optimiser keeps for each parameter is rounded to bf16 by each update, "
             "up or down by chance, so that small changes count in the mean (docs/memory.md)"},
    {"strategy", PROBLEM(strategy), STRATEGY, .like = "engine.strategy", .ablate = "zero1 | zero2 | zero3",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_GRADIENTS) | SAVES(BT_VECTORS) | SAVES(BT_PARAMETERS), RESUMABLE,
     .help = "of several ranks, what is divided among them: default, distributed: the rows of batches alone; zero1 "
             "(zero): also the optimiser's state; zero2: gradients and the vectors of hypergradients, too; zero3 "
             "(fsdp): parameters, too (docs/ranks.md)"},
    {"optimizer", PROBLEM(optimizer), .kind = BT_KEY_OPTIMIZER, .value = "sgd", .ablate = "adam8bit | sgd",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_TRAJECTORY), .refused = "lbfgs",
     .advice = "an update is made of one gradient, with no search along a line; a .c file can export an optimiser "
               "(docs/extending.md)",
     .help = "what makes an update from a gradient; its hyperparameters are keys too"},
    {"gradient_clipping", PROBLEM(gradient_clipping), REAL(0, HUGE_REAL), .value = "0",
     .help = "largest norm of the whole gradient; 0: no clipping"},
    {"gradient_clipping_value", PROBLEM(gradient_clipping_value), REAL(0, HUGE_REAL), .value = "0",
     .help = "largest absolute value of an element of the gradient; 0: no clipping"},
    {"scheduler", PROBLEM(scheduler.kind), CHOICE("none | step | multistep | cosine | linear | exponential | plateau"),
     .value = "none", .refused = "linear_warmup", .advice = "scheduler_warmup goes with every scheduler, none included",
     .help = "how the learning rate moves with the updates; plateau: with the validations"},
    {"scheduler_step_size", PROBLEM(scheduler.step_size), INT(1, MANY),
     .help = "step, needed there: updates from one decay to the next"},
    {"scheduler_milestones", PROBLEM(milestones), .kind = BT_KEY_INTS, .low = 0, .high = MANY,
     .help = "multistep, needed there: the updates after which the rate decays, rising, by commas"},
    {"scheduler_gamma", PROBLEM(scheduler.gamma), REAL(DBL_MIN, HUGE_REAL), .value = "0.1",
     .help = "step, multistep, plateau: the factor of a decay; exponential, needed there: that of each update"},
    {"scheduler_t_max", PROBLEM(scheduler.t_max), INT(1, MANY),
     .help = "cosine: updates from the full rate down to the least; not set: all that this problem makes in "
             "train_iters, after the warm-up"},
    {"scheduler_eta_min", PROBLEM(scheduler.eta_min), REAL(0, HUGE_REAL), .value = "0",
     .help = "cosine, plateau: the least rate"},
    {"scheduler_start_factor", PROBLEM(scheduler.start_factor), REAL(DBL_MIN, HUGE_REAL), .value = "0.3333333333333333",
     .help = "linear: the factor of the first update"},
    {"scheduler_end_factor", PROBLEM(scheduler.end_factor), REAL(0, HUGE_REAL), .value = "1",
     .help = "linear: the factor that it comes to, and stays at"},
    {"scheduler_total_iters", PROBLEM(scheduler.total_iters), INT(1, MANY), .value = "5",
     .help = "linear: updates from the one factor to the other"},
    {"scheduler_metric", PROBLEM(scheduler_metric), TEXT, .value = "loss",
     .help =
         "plateau: the metric of the validation that it watches, as early_stopping_metric; first of the problem's own"},
    {"scheduler_mode", PROBLEM(scheduler.mode), CHOICE("min | max"), .value = "min",
     .help = "plateau: whether the metric is to become small or large"},
    {"scheduler_patience", PROBLEM(scheduler.patience), INT(0, MANY), .value = "10",
     .help = "plateau: validations in a row without improvement that are let pass; at the next the rate decays"},
    {"scheduler_threshold", PROBLEM(scheduler.threshold), REAL(0, HUGE_REAL), .value = "0.0001",
     .help = "plateau: by how much a value must be better than the best to be an improvement"},
    {"scheduler_threshold_mode", PROBLEM(scheduler.threshold_mode), CHOICE("rel | abs"), .value = "rel",
     .help = "plateau: whether the threshold is a part of the best value, or a difference"},
    {"scheduler_cooldown", PROBLEM(scheduler.cooldown), INT(0, MANY), .value = "0",
     .help = "plateau: validations after a decay that are not counted"},
    {"scheduler_eps", PROBLEM(scheduler.eps), REAL(0, HUGE_REAL), .value = "1e-08",
     .help = "plateau: a decay that changes the rate by no more is left out"},
    {"scheduler_warmup", PROBLEM(scheduler.warmup), INT(0, MANY), .value = "0",
     .help = "updates over which the rate first rises linearly; the scheduler begins after them"},

    {"prune", PROBLEM(prune), REAL(0, 1), .value = "0",
     .help = "part of the weights (trained parameters of two axes or more) that becomes 0, the smallest of all first, "
             "and stays so: from prune_begin to prune_end 1 - (1 - t)^3 of it. It saves nothing while training"},
    {"prune_begin", PROBLEM(prune_begin), INT(0, MANY), .value = "0", .help = "updates after which weights are pruned"},
    {"prune_end", PROBLEM(prune_end), INT(1, MANY),
     .help = "prune, needed there: updates after which all are 0 that will be"},

    /* ---- a group of parameters ---- */
    {"params", GROUP(params), LIST, .help = "needed: patterns, by commas, of the group's parameters"},
    {"frozen", GROUP(frozen), BOOL, .value = "false", .help = "the optimiser leaves them as they are"},

    {NULL, .help = NULL},
};

const bt_key *bt_key_find(bt_section_kind section, const char *name)
{
    for (const bt_key *key = bt_keys; name && key->name; key++)
        if (key->section == section && bt_ini_same(key->name, name))
            return key;
    return NULL;
}

/* Hyperparameters have no row. */
static const bt_key techniques[] = {
    {"itd_spacing", .ablate = "sqrt", .exact = true, .instead = "itd_states", .planned = "auto",
     .saves = SAVES(BT_TRAJECTORY)},
    {"itd_states", .ablate = "4", .exact = true, .instead = "itd_spacing", .saves = SAVES(BT_TRAJECTORY)},
};

const bt_key *bt_key_technique(bt_section_kind section, const char *name)
{
    const bt_key *key = bt_key_find(section, name);
    for (int i = 0; !key && i < BT_COUNT_OF(techniques); i++)
        if (section == BT_SECTION_PROBLEM && bt_ini_same(techniques[i].name, name))
            key = &techniques[i];
    return key && key->ablate ? key : NULL;
}

bt_dtype bt_precision_dtype(int precision) { return precision == BT_FP64 ? BT_F64 : BT_F32; }

bt_dtype bt_precision_low(int precision)
{
    const bool bf16 = precision == BT_PRECISION_BF16 || precision == BT_PRECISION_BF16_TRUE;
    return bf16 ? BT_BF16 : precision == BT_PRECISION_FP16 ? BT_F16 : BT_F32;
}
