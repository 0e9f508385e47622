/* bench/libbetty/bench.h: what the files of bench-libbetty share: the session with the driver, and the workloads. */
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
    int64_t asked, unroll; /* lower steps in the measurement that is running, 0: none; those to a call of ours */
    int64_t step;          /* lower steps in what the driver calls a step */
    int64_t done;
    size_t resident; /* bytes of this process before anything is read or planned */
    double start;
    struct bt_profile *profile; /* the work is counted, not timed; NULL: it is not */
} session;

typedef struct workload {
    const char *name;
    bt_export problems;
    const char *top, *set; /* the problem whose loss and parameters are the state, and its data; NULL: tasks */
    bt_step_fn *loss;      /* of the state */
    const char *input;     /* the field that the rows of train_x and meta_x become */
    int64_t features;      /* of a row; 0: as many as hidden */
    const char *label;     /* likewise for _y */
    bool classes;          /* labels are whole numbers, one for each row or more */
    int64_t unroll;        /* steps to a call of ours, unless lower.unroll_steps says otherwise */
} workload;

extern const workload mwn_workload, resnet_workload, wrn_workload, unet_workload, deep_workload; /* reweighting.c */
extern const workload darts_workload;                                                            /* search.c */
extern const workload logistic_workload, mlp_workload;                                           /* small.c */
extern const workload language_workload;                                                         /* language.c */
extern const workload maml_workload;                                                             /* few_shot.c */

/* main.c: before each inner loop, and after each epoch of a problem of one level: on with the steps that were asked
 * for, or wait for the next question. */
void between_steps(bt_problem *self);

/* files.c: the data of a set as the driver has written them; what the other programs start from is written beside. */
bt_dataset *read_set(const session *s, const char *set);
bt_dataset *lower_data(bt_problem *self); /* for problems whose user is the session */
bt_dataset *upper_data(bt_problem *self);
bt_status export_start(session *s, int64_t batches);
double *params_of(session *s, const char *problem, int64_t *count); /* the caller's, for free; NULL after an error */

/* few_shot.c */
bt_dataset *few_shot_tasks(bt_problem *self);

/* work.c: what `steps` steps that were counted have to do at least, and what this core does in a second. */
void print_work(session *s, int64_t steps);

/* networks.c: images to logits */
bt_module *unet(void);                                           /* 64 x 64 x 3 to ten classes a pixel */
bt_module *deep(int64_t layers, int64_t hidden, double dropout); /* rows of PIXELS */

#endif
