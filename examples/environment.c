/* environment.c: two problems that share an environment, which moves on between their steps: a bandit with three arms.
 * An actor learns which arm to pull, by the score function; a critic learns what that is worth, and the actor counts
 * what it gets beyond it. Exit code 0: both have learned what is true of the bandit. */
#include <betty/betty.h>
#include <math.h>
#include <stdio.h>

enum { ARMS = 3, STEPS = 3000, BEST = 1, SEED = 5 };

typedef struct bandit {
    double worth[ARMS]; /* what an arm gives on average; the problems never read it */
    double arm, reward; /* of the last pull */
    int64_t pulls;
} bandit;

/* One pull by a policy with these logits. */
static void bandit_step(bandit *env, const double *logits)
{
    double sum = 0, chance = bt_host_uniform(SEED, (uint64_t)env->pulls, 0);
    for (int a = 0; a < ARMS; a++)
        sum += exp(logits[a]);
    int arm = 0;
    while (arm < ARMS - 1 && (chance -= exp(logits[arm]) / sum) >= 0)
        arm++;
    env->arm = arm;
    env->reward = env->worth[arm] + bt_host_uniform(SEED, (uint64_t)env->pulls, 1) - 0.5;
    env->pulls++;
}

/* ---- the problems: bt_user is the environment of both ---- */

static double arm_now(bt_problem *self) { return ((bandit *)bt_user(self))->arm; }
static double reward_now(bt_problem *self) { return ((bandit *)bt_user(self))->reward; }

static bt_module *actor_module(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    bt_module_add_param(net, "logits", bt_init_constant(0), ARMS);
    bt_state(self, "bandit", bt_user(self), sizeof(bandit)); /* a run that is resumed goes on with the same bandit */
    return net;
}

static bt_tensor *actor_step(bt_problem *self, const bt_batch *batch)
{
    static const double places[ARMS] = {0, 1, 2};
    bt_tensor *pulled = bt_equal(bt_constant(BT_ARRAY(places, ARMS)), bt_host_scalar(self, "arm", arm_now));
    bt_tensor *chance = bt_log_softmax(bt_param(self, "logits"), 0);
    bt_tensor *beyond = bt_sub(bt_host_scalar(self, "reward", reward_now), bt_param(bt_peer(self, "critic"), "value"));
    (void)batch;
    return bt_neg(bt_mul(bt_detach(beyond), bt_sum(bt_mul(pulled, chance))));
}

static bt_module *critic_module(bt_problem *self)
{
    bt_module *net = bt_module_new(NULL);
    (void)self;
    bt_module_add_param(net, "value", bt_init_constant(0), 1);
    return net;
}

static bt_tensor *critic_step(bt_problem *self, const bt_batch *batch)
{
    (void)batch;
    return bt_mean(bt_square(bt_sub(bt_param(self, "value"), bt_host_scalar(self, "reward", reward_now))));
}

static const bt_problem_def critic = {
    .name = "critic", .configure_module = critic_module, .training_step = critic_step};
static const bt_problem_def actor = {.name = "actor", .configure_module = actor_module, .training_step = actor_step};

BT_EXPORT(.problems = {&critic, &actor});

/* ---- the run ---- */

static int train(bt_engine *engine, bandit *env)
{
    double logits[ARMS] = {0}, value = 0, sum = 0;
    do {
        bt_engine_read(engine, "actor.logits", BT_ARRAY(logits, ARMS));
        bandit_step(env, logits); /* what the next step of both learns from */
    } while (bt_engine_step(engine) == BT_OK);
    bt_engine_read(engine, "critic.value", BT_ARRAY(&value, 1));
    for (int a = 0; a < ARMS; a++)
        sum += exp(logits[a]);
    const double chance = exp(logits[BEST]) / sum;
    printf("%lld pulls: arm %d with probability %.3f, worth %.3f\n", (long long)env->pulls, BEST, chance, value);
    return *bt_error() || chance < 0.95 || fabs(value - env->worth[BEST]) > 0.1;
}

int main(void)
{
    bandit env = {.worth = {0.2, 0.8, 0.5}};
    bt_engine *engine = bt_engine_new();
    bt_engine_use(engine, &bt_exported, &env);
    bt_engine_set(engine, "engine.train_iters", "%d", STEPS);
    bt_engine_set(engine, "engine.valid_step", "0");
    bt_engine_set(engine, "actor.lr", "0.1");
    bt_engine_set(engine, "critic.lr", "0.02");
    int bad = train(engine, &env);
    if (*bt_error())
        fprintf(stderr, "%s\n", bt_error());
    bt_engine_free(engine);
    return bad;
}
