/* engine/level/stream.h: the batches of one problem: drawn from a loader, made by get_batch, or taken from a problem
 * above it. */
#ifndef BT_STREAM_H
#define BT_STREAM_H

#include "data/data.h"
#include "runtime/phase.h"
#include <betty/problem.h>

enum { BT_MAX_SHAPES = 2 }; /* of a stream's batches: the full one, and the short last one */

/* What a trace reads of one micro-batch: its fields, and its record, the counter for random ops. */
typedef struct bt_micro {
    bt_batch *batch;
    bt_var *record; /* I64 [] */
    struct bt_context *context;
} bt_micro;

typedef struct bt_stream { /* the batches of one problem in one mode */
    bt_problem *problem;
    bt_mode mode;
    bt_loader *loader; /* NULL: get_batch */
    bt_batch *shapes[BT_MAX_SHAPES];
    int shape_count;
    int64_t drawn;         /* with get_batch: batches drawn */
    const bt_batch **kept; /* ring of the newest batches: kept[i] is micro-batch i of the step in progress */
    bt_batch **made;       /* with get_batch: owned, one for each kept batch */
    int64_t keep, kept_count;
    struct bt_stream *of;           /* batch_of: the stream whose batch is taken; NULL: own data */
    bt_batch *alias[BT_MAX_SHAPES]; /* batch_of: that batch, with this stream's own numbers */
    int64_t task;                   /* batch_of: the position in `of` of the batch that this inner loop works on */
    bool ahead; /* the kept batches were drawn for an inner loop below, and no step has used them yet */
} bt_stream;

/* Whether batches are made one at a time: by get_batch, or without fields if the problem has no data at all. */
bool bt_makes_batches(const bt_problem_def *def);
bt_stream *bt_stream_open(bt_problem *problem, bt_mode mode, int64_t keep); /* NULL after an error */
void bt_stream_free(bt_stream *stream);
bt_status bt_stream_draw(bt_stream *stream, int64_t count); /* the next `count` micro-batches, into kept[] */
bt_status bt_stream_take(bt_stream *stream, int64_t count); /* likewise, unless they were drawn ahead */
bt_status bt_stream_next_task(bt_stream *stream);           /* batch_of: an inner loop begins; otherwise does nothing */
/* Micro-batch m of the newest `count`, at its present address; NULL after an error. */
const bt_batch *bt_stream_newest(bt_stream *stream, int64_t count, int64_t m);
int64_t bt_stream_position(const bt_stream *stream); /* how many have been drawn */
/* The kept batches get the rows of all ranks, not only of this one. */
void bt_stream_complete(bt_stream *stream);
/* Makes the newest `kept` batches at that position available again. */
bt_status bt_stream_rewind(bt_stream *stream, int64_t position, int64_t kept);
int64_t bt_stream_validation(const bt_stream *stream); /* number of batches in one validation, from the first */
int bt_stream_shape(const bt_stream *stream, const bt_batch *batch); /* its index in shapes; -1 after an error */

/* ---- micro.c: what programs read of a problem's batches ---- */

/* reader: the problem whose programs read the micro-batch. */
bt_status bt_micro_new(bt_micro *micro, const bt_problem *reader, const bt_stream *stream, int shape);
void bt_micro_free(bt_micro *micro);
void bt_micro_bind(const bt_micro *micro, const bt_batch *batch);

/* What programs read of the newest `count` micro-batches of a problem. A program reads one of them. If there are
 * several, it runs once for each, and adds its result times the micro-batch's share to a phase variable. The share is
 * its count divided by the sum of all counts. A count is the number of examples, or what the problem's loss
 * declares. */
typedef struct bt_micro_set {
    bt_micro shapes[BT_MAX_SHAPES];
    int shape_count;
    int kinds; /* variants of a program that reads the only micro-batch, by bt_micro_set_bind; 1 if there are several */
    int64_t count;
    bt_var *share;   /* F64 []: of the present micro-batch; NULL: it is the only one */
    bt_var *counted; /* F64 []: the count that its loss declares; NULL: it declares none */
    double *counts;  /* of all micro-batches; NULL: there is only one */
    struct bt_context *context;
} bt_micro_set;

/* Entries by shape, run once for each micro-batch; and those that compute each micro-batch's count before that. */
typedef struct bt_micro_part {
    int each[BT_MAX_SHAPES];
    int count[BT_MAX_SHAPES]; /* into set->counted; none if that is NULL: then the count is the number of examples */
} bt_micro_part;

bt_status bt_micro_set_open(bt_micro_set *set, const bt_problem *reader, const bt_problem *problem, int64_t count);
void bt_micro_set_free(bt_micro_set *set);
/* If there is only one micro-batch, binds it and returns its shape; if several, returns 0; -1 after an error. */
int bt_micro_set_bind(const bt_micro_set *set, const bt_problem *problem);
/* Runs the entry for the batch's shape on one batch (NULL: after an error), with that share. */
bt_status bt_micro_set_run_on(const bt_micro_set *set, const bt_problem *problem, const bt_batch *batch, double share,
                              bt_phase *phase, const int *entries);
/* Runs the part once for each micro-batch whose count is not 0. If all counts are 0, or one is not valid, every
 * share is NaN, and so is the sum. */
bt_status bt_micro_set_run(const bt_micro_set *set, const bt_problem *problem, bt_phase *phase,
                           const bt_micro_part *part);
/* Likewise, for only the newest `count` micro-batches. */
bt_status bt_micro_set_run_newest(const bt_micro_set *set, const bt_problem *problem, int64_t count, bt_phase *phase,
                                  const bt_micro_part *part);

#endif
