/* bench/libbetty/bench.h: the interface between the files of bench-libbetty: the session with the driver, the
 * workloads. */
#ifndef BENCH_LIBBETTY_H
#define BENCH_LIBBETTY_H

#include <betty/betty.h>

enum { PIXELS = 28 * 28, CLASSES = 10 };

typedef struct session {
    const char *folder;
    bt_engine *engine;
    const struct workload *workload;
    int64_t hidden;        /* lower.hidden */
    int64_t batch;         /* lower.batch_size; 0: all */
    int64_t tasks;         /* upper.meta_batch */
    int64_t asked, unroll; /* lower steps of the running measurement (0: none), and per call of between_steps */
    int64_t step;          /* lower steps in one step of the driver */
    int64_t done;
    size_t resident; /* bytes of this process before anything is read or planned */
    double start;
    struct bt_profile *profile; /* counts the work instead of timing it; NULL: time it */
} session;

typedef struct workload {
    const char *name;
    bt_export problems;
    const char *top, *set; /* the problem whose loss and parameters are the state, and its data set; NULL: tasks */
    bt_step_fn *loss;      /* of the state */
    const char *input;     /* the field that holds the rows of train_x and meta_x */
    int64_t features;      /* of a row; 0: as many as hidden */
    const char *label;     /* likewise for _y */
    bool classes;          /* labels are integers, one or more per row */
    int64_t unroll;        /* steps per call of between_steps, unless lower.unroll_steps is set */
} workload;

extern const workload mwn_workload, resnet_workload, wrn_workload, unet_workload, deep_workload; /* reweighting.c */
extern const workload darts_workload;                                                            /* search.c */
extern const workload logistic_workload, mlp_workload;                                           /* small.c */
extern const workload language_workload;                                                         /* language.c */
extern const workload maml_workload;                                                             /* few_shot.c */

/* main.c: called before each inner loop, and after each epoch of a single-level problem. Continues with the requested
 * steps, or waits for the next question. */
void between_steps(bt_problem *self);

/* files.c: reads a set that the driver has written; writes the starting point of the other programs. */
bt_dataset *read_set(const session *s, const char *set);
bt_dataset *lower_data(bt_problem *self); /* for problems whose user is the session */
bt_dataset *upper_data(bt_problem *self);
bt_status export_start(session *s, int64_t batches);
double *params_of(session *s, const char *problem, int64_t *count); /* the caller frees it; NULL after an error */

/* few_shot.c */
bt_dataset *few_shot_tasks(bt_problem *self);

/* work.c: the minimum work of the `steps` steps that were counted, and what this core can do per second. */
void print_work(session *s, int64_t steps);

/* networks.c: images to logits */
bt_module *unet(void);                                           /* 64 x 64 x 3 to ten classes per pixel */
bt_module *deep(int64_t layers, int64_t hidden, double dropout); /* rows of PIXELS */

#endif
