/* engine/config/keys.c: the table of INI keys. */
#include "engine/config/keys.h"
#include "engine/config/ini.h"
#include "graph/variable.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#define MANY      1e15 /* a count without an upper bound; exact in a double */
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
    CHOICE("fp32 | tf32 | fp64 | bf16 | fp16 | bf16-true"),                                                            \
        .refused = "amp", .advice = "bf16 halves what a network holds for its derivatives and needs no loss scale"

const bt_key bt_keys[] = {
    /* ---- the engine ---- */
    {"problems", ENGINE(problems), LIST, RESUMABLE,
     .help = "names of built-in problems, or .c files, which are compiled when the run starts; separated by commas. "
             "Paths are relative to `folder`"},
    {"folder", ENGINE(folder), TEXT, RESUMABLE,
     .help = "folder that the paths in `problems` are relative to; data sets are looked for there too. Unset: the "
             "folder of the INI file"},
    {"folder_here", ENGINE(folder_here), TEXT, RESUMABLE,
     .help = "`folder`, relative to the folder of this file; a run's config.ini has it. If the files of `problems` "
             "exist there, the run uses them. So a project that was moved or copied continues with its own files"},
    {"levels", ENGINE(levels), LIST,
     .help =
         "problems to train, separated by commas, for a baseline run with only some of a file's problems; unset: all"},
    {"train_iters", ENGINE(train_iters), INT(1, MANY), .value = "50000", LIVE, .help = "steps of the leaf problems"},
    {"valid_step", ENGINE(valid_step), INT(0, MANY), .value = "500", LIVE,
     .help = "leaf steps between two validations; 0: no validation"},
    {"roll_back", ENGINE(roll_back), BOOL, .value = "false",
     .help = "after each step of an upper level, return the lower level to where its inner loop began and let it take "
             "one step with the new state of the upper level"},
    {"early_stopping", ENGINE(early_stopping), BOOL, .value = "false", RESUMABLE,
     .help = "stop when the metric has not improved for early_stopping_tolerance validations"},
    {"early_stopping_mode", ENGINE(early_stopping_mode), CHOICE("min | max"), .value = "min",
     .help = "whether a lower (min) or a higher (max) metric is better"},
    {"early_stopping_tolerance", ENGINE(early_stopping_tolerance), INT(1, MANY), .value = "5", LIVE,
     .help = "validations without improvement before the run stops"},
    {"early_stopping_metric", ENGINE(early_stopping_metric), TEXT, .value = "loss",
     .help = "validation metric to watch: METRIC or PROBLEM.METRIC"},
    {"seed", ENGINE(seed), INT(0, MANY), .value = "1", .help = "seed of all random numbers of the run"},
    {"device", ENGINE(device), CHOICE("auto | cpu | cuda"), .value = "auto", .refused = "gpu",
     .advice = "GPUs are used through CUDA", RESUMABLE,
     .help = "where to compute. auto: on the CPU; cuda: on the first GPU, or on one GPU per rank, in a build with CUDA "
             "(docs/cuda.md). With --plan no GPU is needed"},
    {"threads", ENGINE(threads), INT(0, 1024), .value = "0", RESUMABLE,
     .help = "maximum number of threads per kernel call; a call with little work uses fewer. 0: as many as the plan "
             "has work for and this process has cores (by its affinity and its cgroup's CPU quota)"},
    {"precision", ENGINE(precision), PRECISION, .value = "fp32", .ablate = "fp32",
     .help = "precision of problems that do not set their own"},
    {"memory_budget", ENGINE(memory_budget), .kind = BT_KEY_BYTES, RESUMABLE,
     .help = "bytes (64MiB, 1.5GB) for everything that is planned (planned_bytes in summary.json); see also the "
             "problem key of the same name"},
    {"reassociate", ENGINE(reassociate), BOOL, .value = "true",
     .help = "multiply chains of matrix products in the cheapest order, including through the upper gradient and the "
             "second-order product where that pays; false: multiply in the order written"},
    {"log_step", ENGINE(log_step), INT(0, MANY), .value = "100", LIVE,
     .help = "leaf steps between two lines of training metrics; 0: none"},
    {"output", ENGINE(output), TEXT, RESUMABLE,
     .help = "folder for the files of the run; unset: runs/NAME-N with the next free number"},
    {"checkpoint_step", ENGINE(checkpoint_step), INT(0, MANY), .value = "0", LIVE,
     .help = "leaf steps between two checkpoints. 0: no checkpoints by steps; they are still written at the end, on "
             "interruption, and as checkpoint_minutes says"},
    {"checkpoint_minutes", ENGINE(checkpoint_minutes), REAL(0, 1e6), .value = "5", LIVE,
     .help = "maximum number of minutes between two checkpoints; 0: no checkpoints by time"},
    {"checkpoint_best", ENGINE(checkpoint_best), BOOL, .value = "false", RESUMABLE,
     .help = "keep the checkpoint of the validation with the best early_stopping_metric as checkpoints/best, with or "
             "without early stopping"},
    {"checkpoint_keep", ENGINE(checkpoint_keep), INT(1, 1e6), .value = "2", LIVE,
     .help = "number of newest checkpoints to keep"},
    {"ranks", ENGINE(ranks), .kind = BT_KEY_SIZE, .low = 1, .high = 4096, .words = "all", .value = "1", RESUMABLE,
     .help = "ranks that share each batch and compute what one rank would, except for rounding. Training runs them as "
             "processes on this machine (executor). With --plan there may be more ranks than devices. all: one rank "
             "per device"},
    {"executor", ENGINE(executor), CHOICE("auto | lockstep | processes"), .value = "auto", RESUMABLE,
     .help = "how ranks run. processes: betty-run starts processes to train; lockstep: the ranks take turns in one "
             "process and one thread, as in everything that betty-run does besides training; auto: processes"},
    {"strategy", ENGINE(strategy), STRATEGY, .value = "default", RESUMABLE,
     .help = "what is divided among the ranks; see the problem key of the same name"},
    {"zero_unit", ENGINE(zero_unit), .kind = BT_KEY_BYTES, .value = "16MiB", RESUMABLE,
     .help = "zero3: a gathered parameter is kept until this many bytes of other parameters have been gathered; if it "
             "is needed after that, it is gathered again"},
    {"distributed", ENGINE(distributed), BOOL, .value = "false", RESUMABLE,
     .help = "true: the same as strategy = distributed, and also ranks = all unless `ranks` is set (Betty's name)"},
    {"bucket", ENGINE(bucket), .kind = BT_KEY_BYTES, .words = "0", .value = "25MiB", RESUMABLE,
     .help = "sums over the ranks that do not depend on each other, such as the gradients of many parameters, are "
             "exchanged together, up to this many bytes at a time. No bit of a result changes. 0: each sum is "
             "exchanged by itself"},
    {"overlap", ENGINE(overlap), CHOICE("auto | true | false"), .value = "auto", RESUMABLE,
     .help = "exchange data between rank processes on a separate thread or GPU stream while steps that do not need it "
             "run. This takes more memory and changes no bit. auto: if a rank on the processor has more cores than "
             "threads, or if the ranks are on several machines"},
    {"offload_ahead", ENGINE(offload_ahead), INT(1, 1e6), .value = "2", RESUMABLE,
     .help =
         "offload: a copy back from host memory starts this many steps of a program before the step that reads it, and "
         "a copy out has as many steps to finish. A larger value hides more of the copying time and takes more memory"},
    {"offload_unit", ENGINE(offload_unit), .kind = BT_KEY_BYTES, .value = "4MiB", RESUMABLE,
     .help = "offload = optimizer: about this many bytes of the optimiser's state are on the device at a time, in "
             "addition to those being copied"},
    {"logger_type", ENGINE(loggers), .kind = BT_KEY_WORDS, .words = "none | csv | tensorboard", .value = "none",
     .refused = "wandb",
     .advice = "wandb.log accepts the JSON objects in metrics.jsonl, line by line, during the run or later "
               "(docs/quickstart.md), and Weights & Biases reads TensorBoard files",
     RESUMABLE,
     .help = "logs to write besides metrics.jsonl, which is always written: csv: metrics.csv; tensorboard: event files "
             "for TensorBoard"},
    {"log_histograms", ENGINE(log_histograms), BOOL, .value = "false",
     .help = "logger_type = tensorboard: log histograms of the values passed to bt_histogram, such as example weights, "
             "and of the norms of the upper levels' gradients. Each covers the steps since the last line of metrics"},

    /* ---- dependencies ---- */
    {"u2l", DEPENDENCY(u2l), LIST,
     .help = "upper > lower, separated by commas: the loss of the lower problem uses the upper problem (`a > b, c`: "
             "the losses of both b and c)"},
    {"l2u", DEPENDENCY(l2u), LIST,
     .help =
         "lower > upper, separated by commas: the loss of the upper problem uses the solution of the lower problem"},

    /* ---- a problem: how its solution is differentiated ---- */
    {"type", PROBLEM(method), .kind = BT_KEY_METHOD, .value = "darts", .refused = "reinforce",
     .advice = "write a score-function gradient as an upper loss, bt_mul(bt_detach(reward), log_probability); it needs "
               "no type of its own",
     .help = "how hypergradients are computed through the solution of this lower problem"},
    {"product", PROBLEM(product), CHOICE("jvp | vjp | finite"), .value = "jvp", .ablate = "jvp | finite | vjp",
     .saves = SAVES(BT_VECTORS),
     .help = "how second-order products are computed. jvp: forward over reverse; vjp: reverse over reverse; finite: as "
             "a difference of two gradients (the default for type = sama)"},
    {"detach", PROBLEM(detach), CHOICE("frozen | field | follow"), .value = "frozen",
     .help = "how second derivatives treat detached values. frozen: as constants; field: as part of the gradient field "
             "that training follows; follow: as functions, like Betty's finite difference"},
    {"product_batches", PROBLEM(product_batches), CHOICE("last | all"), .value = "last", .ablate = "last",
     .saves = SAVES(BT_ACTIVATIONS), .help = "which micro-batches of the last step second-order products use"},
    {"product_precision", PROBLEM(product_precision), CHOICE("auto | fp32 | level | fp16"), .value = "auto",
     .help = "precision of second-order products if `precision` is tf32, bf16 or fp16. auto: the precision of the "
             "level, but "
             "fp32 for product = finite, for methods that take many products (cg, neumann, nystrom, penalty), and for "
             "levels in fp16; fp16: for levels in fp16, with a loss scale of its own"},
    {"darts_alpha", PROBLEM(darts_alpha), REAL(DBL_MIN, HUGE_REAL), .value = "0.01",
     .help = "product = finite: step of the difference, divided by the norm of the direction"},
    {"first_order", PROBLEM(first_order), CHOICE("true"), .value = "true", .refused = "false",
     .advice = "to differentiate through the unrolled graph, set type = itd",
     .help = "accepted for compatibility with Betty"},
    {"allow_unused", PROBLEM(allow_unused), BOOL, .value = "true",
     .help = "true: parameters that the loss does not use keep their values; false: an unused parameter is an error"},

    /* ---- a problem: when it steps ---- */
    {"unroll_steps", PROBLEM(unroll_steps), INT(1, MANY), .value = "1",
     .help = "steps of this problem for each step of the problems above it"},
    {"unroll_tolerance", PROBLEM(unroll_tolerance), REAL(0, HUGE_REAL), .value = "0",
     .help = "within an inner loop of unroll_steps, stop moving once the norm of the gradient is at most this; the "
             "remaining steps are counted and logged as NAME.rested_steps. 0: never stop"},
    {"warmup_steps", PROBLEM(warmup_steps), INT(0, MANY), .value = "0",
     .help = "steps of this problem before the problems above it start"},
    {"gradient_accumulation", PROBLEM(gradient_accumulation), INT(1, 1e6), .value = "1", .ablate = "2 | 4",
     .saves = SAVES(BT_ACTIVATIONS) | SAVES(BT_WORKSPACE) | SAVES(BT_BATCH),
     .help = "micro-batches per step; the state of every level is the same for all of them"},
    {"meta_batch", PROBLEM(meta_batch), INT(1, 1e6), .value = "1",
     .help = "for an upper problem: inner loops per step, as in a batch of tasks"},
    {"log_step", PROBLEM(log_step), INT(-1, MANY), .value = "-1", LIVE,
     .help = "steps of this problem between two lines of its training metrics; -1: use the engine's setting"},

    /* ---- a problem: data ---- */
    {"batch_size", PROBLEM(batch_size), SIZE("all"), .value = "100", .help = "examples per (micro-)batch"},
    {"shuffle", PROBLEM(shuffle), BOOL, .value = "true", .help = "use a new random order in each epoch"},
    {"drop_last", PROBLEM(drop_last), BOOL, .value = "false", .help = "drop the last batch of an epoch if it is short"},
    {"prefetch", PROBLEM(prefetch), BOOL, .value = "true", .ablate = "false", .exact = true, .saves = SAVES(BT_BATCH),
     .help = "prepare the next batch while this one is used, if a core is free; false saves the memory of one batch"},
    {"valid_batch_size", PROBLEM(valid_batch_size), SIZE("all"), .like = "batch_size",
     .help = "examples per validation batch"},
    {"valid_batches", PROBLEM(valid_batches), SIZE("all"), .value = "all", RESUMABLE,
     .help = "batches per validation; all: one pass over the data, or one batch if the data have no end"},
    {"precision", PROBLEM(precision), PRECISION, .like = "engine.precision", .ablate = "bf16",
     .saves = SAVES(BT_ACTIVATIONS),
     .help = "precision of parameters and floating-point data. bf16 and fp16 keep both in fp32, but matrix products "
             "and convolutions of the level's network read and write values rounded to 16 bits. bf16-true also keeps "
             "parameters and their gradients in bf16 (docs/memory.md). tf32 stores everything in fp32, and on a GPU "
             "matrix products and convolutions may round what they multiply to 11 bits (docs/cuda.md)"},

    {"batch_norm_groups", PROBLEM(batch_norm_groups), INT(1, MANY), .value = "1",
     .help = "number of groups of neighbouring rows in a batch; batch norms in this level's module normalise each "
             "group separately. Every batch must divide into this many groups, including a short last one (drop_last). "
             "If the number of ranks divides it, no rank needs the statistics of another (docs/ranks.md)"},
    {"fp16", PROBLEM(fp16), BOOL, .value = "false", .help = "true: the same as precision = fp16 (Betty's name)"},
    {"initial_dynamic_scale", PROBLEM(initial_dynamic_scale), REAL(1, 0x1p100), .value = "4096",
     .help = "initial loss scale of a level whose gradient passes through fp16: the loss is multiplied by it, and the "
             "gradient is divided by it in fp32"},
    {"scale_factor", PROBLEM(scale_factor), REAL(1.0001, 65536), .value = "2",
     .help = "factor by which the loss scale changes. It falls when an update is skipped because the gradient is not "
             "finite, and grows after scale_interval updates in a row"},
    {"scale_interval", PROBLEM(scale_interval), INT(1, MANY), .value = "2000",
     .help = "updates in a row after which the loss scale grows"},
    {"memory_budget", PROBLEM(memory_budget), .kind = BT_KEY_BYTES, RESUMABLE,
     .help = "bytes (64MiB, 1.5GB) for what is kept for this level and the largest of its phases. Values that do not "
             "fit are recomputed instead of held, unless `checkpointing` says otherwise. A level that cannot fit is an "
             "error before anything runs"},
    {"checkpointing", PROBLEM(checkpointing), .kind = BT_KEY_CHECKPOINTING, RESUMABLE,
     .ablate = "cheap | cost:20% | sqrt", .exact = true, .planned = "", .saves = SAVES(BT_ACTIVATIONS),
     .help = "which forward values of this level are recomputed instead of held until its derivatives have read them: "
             "none | cheap | cost:P% | budget:BYTES | every:N | sqrt | modules:PATTERNS | ops:NAMES; true means sqrt. "
             "No bit of a result changes (docs/memory.md)"},

    {"offload", PROBLEM(offload), .kind = BT_KEY_WORDS, .words = "none | optimizer | activations | trajectory",
     .value = "none", RESUMABLE, .ablate = "optimizer | activations | trajectory | optimizer, activations, trajectory",
     .exact = true, .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_ACTIVATIONS) | SAVES(BT_TRAJECTORY),
     .help = "what to keep in host memory instead of on the device, separated by commas. optimizer: the optimiser's "
             "state; activations: forward values until derivatives read them; trajectory: the states of an inner loop. "
             "Data is copied while other work runs, and no bit of a result changes (docs/memory.md)"},

    {"chunks", PROBLEM(chunks), SIZE("auto"), .value = "1", .ablate = "8 | auto", .saves = SAVES(BT_ACTIVATIONS),
     .help = "number of pieces, by rows, in which the logits of this level are computed, so that only one piece is in "
             "memory at a time. It applies to matrix products that are read row by row and reduced to little, as by a "
             "cross-entropy. auto: 2 to 64 pieces if the whole product takes more than an eighth of the bytes of the "
             "level's other forward values. A piece then takes no more than those do, if 64 pieces are enough"},

    /* ---- a problem: initial values of its parameters and buffers ---- */
    {"weights", PROBLEM(weights), TEXT,
     .help = "safetensors file with initial values; looked for in the working folder and beside the INI file"},
    {"weights_names", PROBLEM(weights_names), LIST,
     .help = "FROM > TO, separated by commas: the file's name of a tensor, and its name here. * matches any text; with "
             "nothing after >, the tensor is skipped"},
    {"weights_layout", PROBLEM(weights_layout), CHOICE("pytorch | plain | gpt2 | bert"), .value = "pytorch",
     .help = "layout of the file. pytorch: convolutions are [out, in, window, window]; plain: they are [window, "
             "window, in, out], as in libbetty's checkpoints; gpt2, bert: a published Transformer of that kind, whose "
             "names are translated before weights_names applies (docs/text.md)"},
    {"weights_missing", PROBLEM(weights_missing), CHOICE("error | keep"), .value = "error",
     .help =
         "what to do if the file lacks a parameter or buffer. error: refuse the file; keep: keep the initial value"},

    /* ---- a problem: its update ---- */
    {"trainable", PROBLEM(trainable), LIST, .value = "*",
     .help = "patterns, separated by commas, of the parameters that the optimiser changes (`layer0.*, *.bias`)"},
    {"meta_trainable", PROBLEM(meta_trainable), LIST, .value = "*",
     .help = "patterns, separated by commas, of the parameters that hypergradients pass through"},
    {"optimizer_state", PROBLEM(optimizer_state), CHOICE("fp32 | bf16"), .value = "fp32", .ablate = "bf16",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_TRAJECTORY),
     .help = "precision of the optimiser's state, if that is fp32. bf16: each update rounds the state to bf16, "
             "randomly up or down, so that small changes count on average (docs/memory.md)"},
    {"strategy", PROBLEM(strategy), STRATEGY, .like = "engine.strategy", .ablate = "zero1 | zero2 | zero3",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_GRADIENTS) | SAVES(BT_VECTORS) | SAVES(BT_PARAMETERS), RESUMABLE,
     .help = "what is divided among several ranks. default, distributed: only the rows of batches; zero1 (zero): also "
             "the optimiser's state; zero2: also gradients and the vectors of hypergradients; zero3 (fsdp): also "
             "parameters (docs/ranks.md)"},
    {"optimizer", PROBLEM(optimizer), .kind = BT_KEY_OPTIMIZER, .value = "sgd", .ablate = "adam8bit | sgd",
     .saves = SAVES(BT_OPTIMIZER) | SAVES(BT_TRAJECTORY), .refused = "lbfgs",
     .advice =
         "an update uses one gradient, without a line search; a .c file can export an optimiser (docs/extending.md)",
     .help = "how a gradient becomes an update; the hyperparameters of the optimiser are keys too"},
    {"gradient_clipping", PROBLEM(gradient_clipping), REAL(0, HUGE_REAL), .value = "0",
     .help = "maximum norm of the whole gradient; 0: no clipping"},
    {"gradient_clipping_value", PROBLEM(gradient_clipping_value), REAL(0, HUGE_REAL), .value = "0",
     .help = "maximum absolute value of each element of the gradient; 0: no clipping"},
    {"scheduler", PROBLEM(scheduler.kind), CHOICE("none | step | multistep | cosine | linear | exponential | plateau"),
     .value = "none", .refused = "linear_warmup",
     .advice = "scheduler_warmup works with every scheduler, and with none",
     .help = "how the learning rate changes with the updates, or, for plateau, with the validations"},
    {"scheduler_step_size", PROBLEM(scheduler.step_size), INT(1, MANY),
     .help = "step (required): updates between two decays"},
    {"scheduler_milestones", PROBLEM(milestones), .kind = BT_KEY_INTS, .low = 0, .high = MANY,
     .help = "multistep (required): the updates after which the rate decays, in increasing order, separated by commas"},
    {"scheduler_gamma", PROBLEM(scheduler.gamma), REAL(DBL_MIN, HUGE_REAL), .value = "0.1",
     .help = "step, multistep, plateau: factor of each decay; exponential (required): factor of each update"},
    {"scheduler_t_max", PROBLEM(scheduler.t_max), INT(1, MANY),
     .help = "cosine: updates from the full rate to the lowest one; unset: all updates of this problem within "
             "train_iters, after the warm-up"},
    {"scheduler_eta_min", PROBLEM(scheduler.eta_min), REAL(0, HUGE_REAL), .value = "0",
     .help = "cosine, plateau: the lowest rate"},
    {"scheduler_start_factor", PROBLEM(scheduler.start_factor), REAL(DBL_MIN, HUGE_REAL), .value = "0.3333333333333333",
     .help = "linear: factor of the rate at the first update"},
    {"scheduler_end_factor", PROBLEM(scheduler.end_factor), REAL(0, HUGE_REAL), .value = "1",
     .help = "linear: factor that the rate ends with and then keeps"},
    {"scheduler_total_iters", PROBLEM(scheduler.total_iters), INT(1, MANY), .value = "5",
     .help = "linear: updates from the first factor to the last"},
    {"scheduler_metric", PROBLEM(scheduler_metric), TEXT, .value = "loss",
     .help = "plateau: validation metric to watch, METRIC or PROBLEM.METRIC; a METRIC of this problem comes first"},
    {"scheduler_mode", PROBLEM(scheduler.mode), CHOICE("min | max"), .value = "min",
     .help = "plateau: whether a lower (min) or a higher (max) metric is better"},
    {"scheduler_patience", PROBLEM(scheduler.patience), INT(0, MANY), .value = "10",
     .help = "plateau: validations in a row without improvement that are tolerated; the next one makes the rate decay"},
    {"scheduler_threshold", PROBLEM(scheduler.threshold), REAL(0, HUGE_REAL), .value = "0.0001",
     .help = "plateau: by how much a value must beat the best one to count as an improvement"},
    {"scheduler_threshold_mode", PROBLEM(scheduler.threshold_mode), CHOICE("rel | abs"), .value = "rel",
     .help = "plateau: whether the threshold is a fraction of the best value (rel) or a difference (abs)"},
    {"scheduler_cooldown", PROBLEM(scheduler.cooldown), INT(0, MANY), .value = "0",
     .help = "plateau: validations that are not counted after a decay"},
    {"scheduler_eps", PROBLEM(scheduler.eps), REAL(0, HUGE_REAL), .value = "1e-08",
     .help = "plateau: a decay that would change the rate by no more than this is skipped"},
    {"scheduler_warmup", PROBLEM(scheduler.warmup), INT(0, MANY), .value = "0",
     .help = "updates over which the rate first rises linearly; the scheduler starts after them"},

    {"prune", PROBLEM(prune), REAL(0, 1), .value = "0",
     .help = "fraction of the weights (trained parameters with at least two axes) that pruning sets to 0 for good, the "
             "smallest first. The pruned share grows from prune_begin to prune_end as 1 - (1 - t)^3 of this fraction. "
             "Training gets neither faster nor smaller"},
    {"prune_begin", PROBLEM(prune_begin), INT(0, MANY), .value = "0", .help = "updates before pruning starts"},
    {"prune_end", PROBLEM(prune_end), INT(1, MANY),
     .help = "required with prune: updates after which pruning is complete"},

    /* ---- a group of parameters ---- */
    {"params", GROUP(params), LIST, .help = "required: patterns, separated by commas, of the parameters in the group"},
    {"frozen", GROUP(frozen), BOOL, .value = "false", .help = "true: the optimiser does not change these parameters"},

    {NULL, .help = NULL},
};

const bt_key *bt_key_find(bt_section_kind section, const char *name)
{
    for (const bt_key *key = bt_keys; name && key->name; key++)
        if (key->section == section && bt_ini_same(key->name, name))
            return key;
    return NULL;
}

/* Hyperparameters have no row in the table. */
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

bt_dtype bt_precision_dtype(int precision) { return precision == BT_IN_FP64 ? BT_F64 : BT_F32; }

bt_dtype bt_precision_low(int precision)
{
    const bool bf16 = precision == BT_IN_BF16 || precision == BT_IN_BF16_TRUE;
    return bf16 ? BT_BF16 : precision == BT_IN_FP16 ? BT_F16 : precision == BT_IN_TF32 ? BT_TF32 : BT_F32;
}
