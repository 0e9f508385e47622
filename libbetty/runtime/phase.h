/* runtime/phase.h: a phase: a short list of programs that are planned together, and the instance whose arena they
 * share. */
#ifndef BT_PHASE_H
#define BT_PHASE_H

#include "compile/compile.h"
#include "plan/place.h"
#include "runtime/backend.h"
#include "runtime/bind.h"
#include "runtime/transport.h"
#include "runtime/variable.h"

typedef struct bt_phase_entry {
    bt_program *program;
    bt_bound *bound;     /* the program, here */
    const char *part;    /* "gradient", "product": for the report; owned by the phase */
    char *place;         /* with whom it is: "classifier, step, gradient"; owned */
    char **shown;        /* by output: a near copy of it, for bt_phase_result; NULL: none yet */
    int loop;            /* entries with the same number repeat together; 0: run at most once a phase */
    int64_t base;        /* its first step on the time axis of the phase */
    double work;         /* of all its calls, in compile/work.h's operations */
    double runs;         /* how often a run of the phase runs it, as far as that is known; 0: seldom */
    uint64_t meets;      /* hash of the collectives of the program; 0: there are none */
    const bt_var *spent; /* a variable of the phase that nobody reads after it; NULL: none */
} bt_phase_entry;

typedef struct bt_phase_value { /* a row of the plan */
    bt_category category;
    const bt_buffer *buffer; /* a transient or scratch; NULL: a phase variable */
    bt_var *var;             /* the row is the part of it from byte `start` on */
    size_t start;
    int entry;   /* the first that touches it */
    size_t used; /* bytes, before rounding */
    bt_space space;
} bt_phase_value;

typedef struct bt_phase {
    char *name, *owner; /* "hypergradient", "reweight" */
    bt_phase_entry *entries;
    int64_t entry_count, entry_capacity;
    bt_var **vars; /* phase variables that belong to it, freed with it */
    int64_t var_count, var_capacity;
    bt_interval *intervals; /* of values, in the same order */
    bt_phase_value *values;
    int64_t value_count;
    size_t arena, bound;        /* bytes: placed, and the least possible for this order */
    size_t used;                /* the last byte that is really touched */
    size_t host;                /* bytes placed in the host's memory */
    int64_t peak;               /* the step that sets the bound */
    bool *cleared;              /* by value: done in this run of the phase */
    bool settled;               /* its programs have what they need on the device: runtime/bind.h */
    const char *bound_to;       /* the arena that its addresses belong to; the instance may have another one by now */
    const char *bound_host;     /* likewise, the host's */
    struct bt_watch *watch;     /* if each value is an allocation of its own: runtime/watch.h; else NULL */
    bt_compile_options options; /* of the programs that are added next; the instance's, unless they are changed */
    double runs;                /* likewise: of the entries that are added next; 1, unless it is changed */
    const bt_var *spent;        /* likewise; NULL */
    struct bt_instance *instance;
    struct bt_phase **others; /* rank 0: the phases of the other ranks, freed with it; NULL: there are none */
} bt_phase;

typedef struct bt_instance { /* where phases run: one arena, as large as the largest phase */
    const bt_backend *backend;
    int threads;                /* a call uses at most so many, fewer if it has little to do: compile/work.h */
    bt_compile_options options; /* what new phases begin with; all passes, unless they are changed */
    bt_known *known;            /* searches that compiling has made; NULL: it keeps none; not owned */
    bool planned;               /* false: BETTY_PLAN=off or guard, every value is an allocation of its own */
    bool dry;                   /* phases are planned, and never run: there is no arena */
    size_t red_zone;            /* bytes behind each such allocation: BETTY_PLAN=guard */
    bt_queue *queue;            /* of its backend's device; NULL: the processor itself */
    char *arena;
    size_t arena_size; /* bytes */
    char *host;        /* with two spaces: the arena of the host's; as large as a phase needs at most */
    size_t host_size;
    bool filled; /* filled by bt_instance_fill: so is an arena that replaces it */
    bt_phase **phases;
    int64_t phase_count, phase_capacity;
    bt_phase *current;            /* has run and has not ended: the arena holds what it needs; NULL: none */
    double work;                  /* of all programs that have run, in compile/work.h's operations */
    struct bt_profile *profile;   /* where kernel calls are timed: runtime/profile.h; NULL: they are not; not owned */
    bt_world world;               /* its rank, of how many */
    struct bt_instance *first;    /* that of rank 0; itself, but for the other ranks */
    struct bt_instance **others;  /* rank 0: those of ranks 1, 2, ..., freed with it; NULL: there are none */
    struct bt_lockstep *lockstep; /* room to run the ranks of this process; NULL: there is one rank */
    bt_joint *joint;              /* where the other ranks are processes; else NULL */
    struct bt_sender *sender;     /* makes calls of it while others run: runtime/sender.h; NULL: each is waited for */
} bt_instance;

bt_instance *bt_instance_new(const bt_backend *backend,
                             int threads); /* threads 0: all cores that the process may use */
/* How many threads the calls of all phases take at most; *work: of the call that has most to do, in compile/work.h's
 * operations. */
int bt_instance_busiest(const bt_instance *instance, double *work);
void bt_instance_free(bt_instance *instance); /* its phases must be freed before */

/* Two memories, the device's and the host's: if there is a device, and with BETTY_SPACES=2 on the processor, which then
 * has two of the same kind. */
bool bt_instance_has_spaces(const bt_instance *instance);

/* From now on, before it has a phase: what it runs is computed on so many ranks, in lockstep (runtime/lockstep.h). A
 * dry one plans for rank 0, which has the most rows, and has no others. BT_ERROR_UNSUPPORTED on a device, where each
 * rank is a process. */
bt_status bt_instance_spread(bt_instance *instance, int ranks);
/* Likewise, on the ranks of a transport, of which this process is one. The transport lives as long as the instance. On
 * a device, their devices exchange what collectives do, and the transport is for the host. */
bt_status bt_instance_join(bt_instance *instance, bt_transport *transport);
/* On the ranks of a transport, before its first phase: what they exchange is under way while steps run that do not need
 * it, on a thread of its own, or beside what a device computes. */
bt_status bt_instance_overlap(bt_instance *instance);
/* Each rank has a part of the elements of this root from now on, and none has all of them: before the first program
 * that needs it. With one rank, or of nothing: as it is. */
bt_status bt_instance_divide(const bt_instance *instance, bt_var *root);
/* Of one that is written by summands: each rank has all of them, and whoever reads it, the sum of its part. */
bt_status bt_instance_sum_divided(const bt_instance *instance, bt_var *root);
void bt_instance_window(bt_instance *instance, size_t bytes); /* bt_world.window, of all ranks */
/* Each of so many, whether it is true in any process of the run. */
bt_status bt_instance_any(bt_instance *instance, bool *flags, int count);
int bt_instance_cores(const bt_instance *instance); /* of the machine, its part of them where ranks share it */
int bt_instance_home(const bt_instance *instance);  /* the rank whose numbers this process shows */
bt_var *bt_instance_own(const bt_instance *instance, bt_var *var); /* the rank's own; NULL after an error */

/* Waits until everything that was run is done; returns the first failure since the last time. On the processor it is
 * done already. */
bt_status bt_instance_wait(bt_instance *instance);
int64_t bt_instance_waits(const bt_instance *instance); /* how often the host has waited for the device so far */

int bt_instance_others(const bt_instance *instance); /* how many other ranks it has beside it */
int bt_phase_others(const bt_phase *phase);          /* how many run it, too */

bt_phase *bt_phase_new(bt_instance *instance, const char *owner, const char *name);
void bt_phase_free(bt_phase *phase);
/* Frees it with the phase. One that is lasting has its place in the arena whether a program touches it or not. NULL for
 * NULL, or out of memory. */
bt_var *bt_phase_own(bt_phase *phase, bt_var *var);
/* Whether the host can have bytes of a lasting variable for its own use: the arena is near, and one piece. */
bool bt_instance_lends(const bt_instance *instance);
char *bt_phase_lend(bt_phase *phase, bt_var *var); /* these bytes, all 0, until the phase ends */
int bt_phase_add(bt_phase *phase, const bt_graph *graph, int loop,
                 const char *part); /* compiles; entry, or -1 after an error */
/* Replaces the entry's program, which is freed; the phase must be planned again. Takes over the program, also after an
 * error. */
bt_status bt_phase_replace(bt_phase *phase, bt_phase_entry *entry, bt_program *program);
bt_status bt_phase_plan(bt_phase *phase); /* places; grows the instance's arena if need be */

bt_status bt_instance_take_arena(bt_instance *instance, size_t size); /* in the place of the old one */
void bt_instance_drop_arena(bt_instance *instance);                   /* that of its own rank */
bt_status bt_instance_take_host(bt_instance *instance, size_t size);  /* likewise, the host's */
bt_status bt_instance_reserve(bt_instance *instance);                 /* an arena for the largest of its phases */

void bt_phase_begin(bt_phase *phase);               /* a new run: variables to clear are cleared again */
bt_status bt_phase_run(bt_phase *phase, int entry); /* BT_ERROR_INTERNAL while another one is in progress */
bt_status bt_part_run(bt_phase *phase, int entry);  /* likewise; an error says where */
void bt_phase_end(bt_phase *phase);

/* A phase in progress makes room for another one. */
typedef struct bt_aside {
    bt_phase *phase; /* NULL: none was in progress */
    char **copies;   /* by rank: of what the arena held */
} bt_aside;

bt_status bt_instance_set_aside(bt_instance *instance, bt_aside *aside);
bt_status bt_instance_put_back(bt_instance *instance, bt_aside *aside); /* frees the copy, also after an error */

/* What a whole variable of the phase holds before the entry runs; zero where nothing will read it any more. */
bt_status bt_phase_read(const bt_phase *phase, int entry, const bt_var *var, char *to);
/* Likewise, into another variable, from its byte `offset` on. */
bt_status bt_phase_keep(const bt_phase *phase, int entry, const bt_var *var, bt_var *to, size_t offset);

/* The part of the arena that has been touched since the fill: witness of the plan. */
bt_status bt_instance_bind(bt_instance *instance); /* after another arena has been put in place of the old one */
void bt_instance_fill(bt_instance *instance);
size_t bt_instance_touched(const bt_instance *instance);

bt_status bt_phase_list(bt_phase *phase);  /* layout.c: what lives when: values and intervals, for bt_phase_plan */
bt_status bt_phase_place(bt_phase *phase); /* likewise: where each lies; arena, bound, peak and host */
char *bt_phase_address(void *phase, int64_t value, size_t start); /* where this byte of it lies now; NULL: nowhere */

typedef struct bt_saved { /* bytes of forward values that an entry's derivatives read: its saved activations */
    size_t held;          /* the most that wait for their readers at one moment */
    size_t all;           /* of all of them */
} bt_saved;
bt_status bt_phase_saved(const bt_phase *phase, int entry, bt_saved *saved);
bool bt_phase_saves(const bt_phase *phase, const char *level); /* some are values of this level */

#endif
