/* examples/game.c: a lower level that minimises nothing: of two players, one wants f small and the other wants it
 * large,
 *
 *   f(x, y) = x^2 / 2 + 3 x y - y^2 / 2 - p x + q y
 *
 * They are at rest where both derivatives, (df/dx, -df/dy), are 0. That field is not a gradient, because its Jacobian
 * is not symmetric; it is a `condition`. The upper problem sets the prices p and q so that the players rest at (1, 2).
 */
#include <betty/betty.h>

static bt_status no_data(bt_problem *self, bt_mode mode, int64_t index, bt_batch *batch)
{
    const float one = 1;
    (void)self, (void)mode, (void)index;
    return bt_batch_set(batch, "one", BT_ARRAY(&one, 1));
}

static bt_module *two_numbers(bt_problem *self) { return (void)self, bt_nn_parameter(bt_init_constant(0), 2); }

static bt_tensor *condition(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *w = bt_forward(self), *price = bt_forward(bt_peer(self, "prices"));
    bt_tensor *x = bt_slice(w, 0, 0, 1), *y = bt_slice(w, 0, 1, 2);
    (void)batch;
    return bt_sub(bt_concat(0, bt_add(x, bt_mul(3, y)), bt_sub(y, bt_mul(3, x))), price);
}

/* The players step against the field: it is the gradient of this value, with the field itself held constant. */
static bt_tensor *players_step(bt_problem *self, const bt_batch *batch)
{
    return bt_sum(bt_mul(bt_detach(condition(self, batch)), bt_forward(self)));
}

static bt_tensor *prices_step(bt_problem *self, const bt_batch *batch)
{
    const double target[] = {1, 2};
    bt_tensor *w = bt_forward(bt_peer(self, "players"));
    (void)batch;
    bt_metric(self, "x", bt_at(w, 0));
    bt_metric(self, "y", bt_at(w, 1));
    return bt_sum(bt_square(bt_sub(w, bt_constant(BT_ARRAY(target, 2)))));
}

static const bt_problem_def prices = {
    .name = "prices", .get_batch = no_data, .configure_module = two_numbers, .training_step = prices_step};

static const bt_problem_def players = {.name = "players",
                                       .get_batch = no_data,
                                       .configure_module = two_numbers,
                                       .training_step = players_step,
                                       .condition = condition};

BT_EXPORT(.problems = {&prices, &players});
