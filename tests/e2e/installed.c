/* A program outside the project: the gradient of a sum of squares, through the installed library. */
#include <betty/betty.h>
#include <stdio.h>

static bt_tensor *gradient_norm(void *user, const bt_batch *batch) /* |d/dx sum x^2|^2 = 4 sum x^2 */
{
    bt_tensor *x = bt_field(batch, "x");
    (void)user;
    return bt_sum(bt_square(bt_grad(bt_sum(bt_square(x)), x)));
}

int main(void)
{
    const double x[3] = {1, 2, 3};
    double result = 0;
    bt_batch *batch = bt_batch_new();
    bt_function *function = bt_function_new(gradient_norm, NULL, BT_VALID);
    bt_batch_set(batch, "x", BT_ARRAY(x, 3));
    bt_function_run(function, batch, BT_ARRAY(&result));
    bt_function_free(function);
    bt_batch_free(batch);
    if (*bt_error())
        fprintf(stderr, "%s\n", bt_error());
    printf("%g\n", result);
    return result > 56 - 1e-4 && result < 56 + 1e-4 ? 0 : 1;
}
