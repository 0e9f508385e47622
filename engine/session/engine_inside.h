/* engine/session/engine_inside.h: between setup.c, engine.c, train.c and report.c. */
#ifndef BT_ENGINE_INSIDE_H
#define BT_ENGINE_INSIDE_H

#include "engine/level/level.h"

/* setup.c; source: the file that the parts come from, for messages, or NULL; it lives as long as the engine. */
bt_status bt_engine_add(bt_engine *engine, const bt_export *parts, void *user, const char *source);

/* state.c: what a question may change while it is answered. `all`: with parameters and optimiser state, for questions
 * that make updates. NULL: out of memory. */
typedef struct bt_kept bt_kept;
bt_kept *bt_kept_save(bt_engine *engine, bool all);
bt_status bt_kept_restore(bt_kept *state);
void bt_kept_free(bt_kept *state);

void bt_engine_backend(const bt_engine *engine, char text[256]); /* report.c: "x86-64-v4, 2 threads" */

/* memory.c: every run variable of the engine, of one problem (NULL: of all); block: the one whose flat variable it is,
 * or NULL. Those of the category BT_BATCH are given anew before each program that reads them; all others, with the
 * engine's record (checkpoint_record.c) and the users' memory (bt_state), are the state of a run. */
typedef void bt_visit_var_fn(void *user, const bt_var *var, const bt_block *block);
void bt_engine_visit(const bt_engine *engine, const bt_problem *problem, bt_visit_var_fn *visit, void *user);
size_t bt_problem_batch_bytes(const bt_problem *problem); /* buffers of its loaders */
size_t bt_engine_arena(const bt_engine *engine);          /* planned: of the largest phase */
size_t bt_engine_arena_used(const bt_engine *engine);     /* up to the last byte that is written */
void bt_engine_note_touched(bt_engine *engine);           /* how far it has been written, in engine->standing */

#endif
