/* tests/nn/running.h: runs a module on given arrays; the loops that tests compare with. */
#ifndef BT_TEST_RUNNING_H
#define BT_TEST_RUNNING_H

#include <betty/betty.h>

typedef struct field {
    const char *name;
    bt_array values;
} field;

/* The result of `call` on these fields; fails the test if it does not succeed. */
void run_on(bt_function_fn *call, void *user, bt_mode mode, const field *fields, int count, bt_array result);
bt_status try_on(bt_function_fn *call, void *user, bt_mode mode, const field *fields, int count, bt_array result);

#define RUN(call, user, mode, result, ...)                                                                             \
    run_on((call), (user), (mode), (const field[]){__VA_ARGS__},                                                       \
           (int)(sizeof((const field[]){__VA_ARGS__}) / sizeof(field)), (result))
#define TRY(call, user, mode, result, ...)                                                                             \
    try_on((call), (user), (mode), (const field[]){__VA_ARGS__},                                                       \
           (int)(sizeof((const field[]){__VA_ARGS__}) / sizeof(field)), (result))

void draw(double *x, int count, uint64_t stream);           /* uniform in -1..1 */
const double *values_of(bt_module *root, const char *path); /* of an f64 parameter */
void expect_close(const char *file, int line, const double *found, const double *expected, int count, double within);
void expect_message(const char *file, int line, const char *part); /* and clears it */
#define CLOSE(found, expected, count, within) expect_close(__FILE__, __LINE__, (found), (expected), (count), (within))
#define MESSAGE(part)                         expect_message(__FILE__, __LINE__, (part))

#endif
