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
    char *place;         /* where it runs: "classifier, step, gradient"; owned */
    char **shown;        /* by output: a near copy of it, for bt_phase_result; NULL: none yet */
    int loop;            /* entries with the same number repeat together; 0: run at most once a phase */
    int64_t base;        /* its first step on the time axis of the phase */
    double runs;         /* how often a run of the phase runs it, as far as known; 0: seldom */
    uint64_t meets;      /* hash of the collectives of the program; 0: there are none */
    const bt_var *spent; /* a variable of the phase that nobody reads after this entry; NULL: none */
} bt_phase_entry;

typedef struct bt_phase_value { /* a row of the plan */
    bt_category category;
    const bt_buffer *buffer; /* a transient or scratch; NULL: a phase variable */
    bt_var *var;             /* the row is its part from byte `start` on */
    size_t start;
    int entry;   /* the first one that touches it */
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
    size_t used;                /* up to the last byte really touched */
    size_t host;                /* bytes placed in host memory */
    int64_t peak;               /* the step that sets the bound */
    bool *cleared;              /* by value: done in this run of the phase */
    bool settled;               /* its programs are settled on the device: runtime/bind.h */
    const char *bound_to;       /* the arena of its current addresses; the instance may have a new one by now */
    const char *bound_host;     /* the same for the host's arena */
    struct bt_watch *watch;     /* if each value is an allocation of its own: runtime/watch.h; else NULL */
    bt_compile_options options; /* for programs added from now on; by default the instance's */
    double runs;                /* for entries added from now on; by default 1 */
    const bt_var *spent;        /* for entries added from now on; by default NULL */
    struct bt_instance *instance;
    struct bt_phase **others; /* rank 0: the phases of the other ranks, freed with it; NULL: there are none */
} bt_phase;

typedef struct bt_instance { /* where phases run: one arena, as large as the largest phase needs */
    const bt_backend *backend;
    int threads;                /* the most that a call uses; fewer if it has little to do: compile/work.h */
    bt_compile_options options; /* the initial options of new phases; by default all passes */
    bt_known *known;            /* finished searches of the compiler; NULL: not kept; not owned */
    bool planned;               /* false: BETTY_PLAN=off or guard, every value is an allocation of its own */
    bool dry;                   /* phases are only planned, never run: there is no arena */
    size_t red_zone;            /* bytes behind each such allocation: BETTY_PLAN=guard */
    bt_queue *queue;            /* of its backend's device; NULL: the processor itself */
    char *arena;
    size_t arena_size; /* bytes */
    char *host;        /* with two spaces: the arena in host memory, as large as the largest phase needs */
    size_t host_size;
    bool filled; /* bt_instance_fill was called: a new arena is filled too */
    bt_phase **phases;
    int64_t phase_count, phase_capacity;
    bt_phase *current;            /* the phase that has run but not ended, so it still needs the arena; NULL: none */
    double work;                  /* of all programs that have run, in compile/work.h's operations */
    struct bt_profile *profile;   /* where kernel calls are timed: runtime/profile.h; NULL: they are not; not owned */
    bt_world world;               /* its rank and the number of ranks */
    struct bt_instance *first;    /* the instance of rank 0: itself, unless it is another rank's */
    struct bt_instance **others;  /* rank 0: the instances of ranks 1, 2, ..., freed with it; NULL: none */
    struct bt_lockstep *lockstep; /* runs the ranks of this process; NULL: there is one rank */
    bt_joint *joint;              /* if the other ranks are processes; else NULL */
    struct bt_sender *sender;     /* makes its calls while steps run: runtime/sender.h; NULL: each is waited for */
} bt_instance;

bt_instance *bt_instance_new(const bt_backend *backend,
                             int threads); /* threads 0: all cores that the process may use */
/* The most threads that a call of any phase takes. *work: of the call with the most work, in compile/work.h's
 * operations. */
int bt_instance_busiest(const bt_instance *instance, double *work);
void bt_instance_free(bt_instance *instance); /* its phases must be freed before */

/* Whether there are two memories, the device's and the host's: with a device, and with BETTY_SPACES=2 on the processor,
 * which then has two of the same kind. */
bool bt_instance_has_spaces(const bt_instance *instance);

/* Before its first phase: runs everything on this many ranks, in lockstep (runtime/lockstep.h). A dry instance plans
 * for rank 0, which has the most rows, and has no others. BT_ERROR_UNSUPPORTED on a device, where each rank must be a
 * process. */
bt_status bt_instance_spread(bt_instance *instance, int ranks);
/* The same on the ranks of a transport, of which this process is one. The transport must outlive the instance. Devices
 * exchange the operands of collectives directly; the transport is then only for the hosts. */
bt_status bt_instance_join(bt_instance *instance, bt_transport *transport);
/* On the ranks of a transport, before its first phase: lets collectives be under way while steps run that do not need
 * them, on a thread of its own, or beside the device's work. */
bt_status bt_instance_overlap(bt_instance *instance);
/* Divides the elements of this root among ranks, so that none has all of them. Call before the first program that needs
 * it. Does nothing with one rank, or if it has no bytes. */
bt_status bt_instance_divide(const bt_instance *instance, bt_var *root);
/* For a root that ranks write as summands: each rank has all elements, and a reader gets its part of the sum. */
bt_status bt_instance_sum_divided(const bt_instance *instance, bt_var *root);
void bt_instance_window(bt_instance *instance, size_t bytes); /* bt_world.window, of all ranks */
/* Sets each of `count` flags that is true in any process of the run. */
bt_status bt_instance_any(bt_instance *instance, bool *flags, int count);
int bt_instance_cores(const bt_instance *instance); /* of the machine, or its part of them if ranks share it */
int bt_instance_home(const bt_instance *instance);  /* the rank whose numbers this process shows */
bt_var *bt_instance_own(const bt_instance *instance, bt_var *var); /* the rank's counterpart; NULL after an error */

/* Waits until everything that was run is done, and returns the first failure since the last wait. On the processor
 * nothing is pending. */
bt_status bt_instance_wait(bt_instance *instance);
int64_t bt_instance_waits(const bt_instance *instance); /* how often the host has waited for the device so far */

int bt_instance_others(const bt_instance *instance); /* how many other ranks this process runs */
int bt_phase_others(const bt_phase *phase);          /* how many of them run it too */

bt_phase *bt_phase_new(bt_instance *instance, const char *owner, const char *name);
void bt_phase_free(bt_phase *phase);
/* Gives the variable to the phase, which frees it. A lasting one has a place in the arena even if no program touches
 * it. Returns NULL for NULL, or if out of memory. */
bt_var *bt_phase_own(bt_phase *phase, bt_var *var);
/* Whether the host may use the bytes of a lasting variable: the arena is near, and in one piece. */
bool bt_instance_lends(const bt_instance *instance);
char *bt_phase_lend(bt_phase *phase, bt_var *var); /* these bytes, all 0, until the phase ends */
int bt_phase_add(bt_phase *phase, const bt_graph *graph, int loop,
                 const char *part); /* compiles; entry, or -1 after an error */
/* Replaces the entry's program, which is freed; the phase must be planned again. Takes ownership of the new program,
 * even on error. */
bt_status bt_phase_replace(bt_phase *phase, bt_phase_entry *entry, bt_program *program);
bt_status bt_phase_plan(bt_phase *phase); /* places; grows the instance's arena if need be */

bt_status bt_instance_take_arena(bt_instance *instance, size_t size); /* replaces the old one */
void bt_instance_drop_arena(bt_instance *instance);                   /* only this rank's */
bt_status bt_instance_take_host(bt_instance *instance, size_t size);  /* the same for the host's */
bt_status bt_instance_reserve(bt_instance *instance);                 /* an arena for the largest of its phases */

void bt_phase_begin(bt_phase *phase);               /* begins a new run: variables to clear are cleared again */
bt_status bt_phase_run(bt_phase *phase, int entry); /* BT_ERROR_INTERNAL while another one is in progress */
bt_status bt_part_run(bt_phase *phase, int entry);  /* the same; an error says where */
void bt_phase_end(bt_phase *phase);

/* Sets a phase in progress aside to make room for another one. */
typedef struct bt_aside {
    bt_phase *phase; /* NULL: none was in progress */
    char **copies;   /* by rank: of the arena's contents */
} bt_aside;

bt_status bt_instance_set_aside(bt_instance *instance, bt_aside *aside);
bt_status bt_instance_put_back(bt_instance *instance, bt_aside *aside); /* frees the copies, also after an error */

/* Reads a whole variable of the phase as it is before the entry runs; parts that nothing will read any more are zero.
 */
bt_status bt_phase_read(const bt_phase *phase, int entry, const bt_var *var, char *to);
/* The same, into another variable, from its byte `offset` on. */
bt_status bt_phase_keep(const bt_phase *phase, int entry, const bt_var *var, bt_var *to, size_t offset);

/* How much of the arena has been touched since the fill: a witness of the plan. */
bt_status bt_instance_bind(bt_instance *instance); /* after another arena has been put in place of the old one */
void bt_instance_fill(bt_instance *instance);
size_t bt_instance_touched(const bt_instance *instance);

bt_status bt_phase_list(bt_phase *phase);  /* layout.c: what lives when: values and intervals, for bt_phase_plan */
bt_status bt_phase_place(bt_phase *phase); /* layout.c: where each lies; arena, bound, peak and host */
char *bt_phase_address(void *phase, int64_t value, size_t start); /* where this byte lies now; NULL: nowhere */

typedef struct bt_saved { /* bytes of forward values that an entry's derivatives read: its saved activations */
    size_t held;          /* the most that wait for readers at one moment */
    size_t all;           /* of all of them */
} bt_saved;
bt_status bt_phase_saved(const bt_phase *phase, int entry, bt_saved *saved);
bool bt_phase_saves(const bt_phase *phase, const char *level); /* some are values of this level */

#endif
