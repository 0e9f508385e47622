/* engine/state/checkpoint.h: the state of a run on disk.
 *
 *   FOLDER/checkpoints/step-N.safetensors   every run variable, and the users' memory (bt_state)
 *   FOLDER/checkpoints/step-N.json          the engine's record and configuration; length and hash of the other file
 *
 *   FOLDER/checkpoints/best.*               likewise, of the best validation: engine.checkpoint_best
 *
 * Both are written under temporary names and then renamed, the second last: with it the checkpoint is complete. */
#ifndef BT_CHECKPOINT_H
#define BT_CHECKPOINT_H

#include "engine/level/level.h"
#include "engine/output/sinks.h"
#include "io/safetensors.h"
#include <jansson.h>

/* ---- checkpoint.c ---- */

enum { BT_CHECKPOINT_NAME = 40 };
#define BT_CHECKPOINT_BEST "best"

/* Writes a checkpoint of the present state, between two steps: as step-N, removing those beyond engine.checkpoint_keep;
 * best: as BT_CHECKPOINT_BEST, replacing the previous one. lengths: bytes of the logs in FOLDER that belong to it and
 * are on the disk. */
bt_status bt_checkpoint_save(bt_context *context, const char *folder, bool best, const bt_log_lengths *lengths);
/* What the other processes of the run do while rank 0 saves: they send their parts of what is divided. */
bt_status bt_checkpoint_attend(bt_context *context);

/* What `path` names: a run's folder, meaning its newest checkpoint (name is ""); one of its checkpoints,
 * FOLDER/checkpoints/NAME; or one of the files of a checkpoint. *folder: for bt_free. */
bt_status bt_checkpoint_place(const char *path, char **folder, char name[BT_CHECKPOINT_NAME]);

/* Restores planned levels from the checkpoint of this name; "": from the newest in the folder, skipping damaged ones
 * with a warning. BT_ERROR_FILE: there is no usable one; BT_ERROR_CONFIG: it belongs to another problem or to other
 * settings. After a failure the run cannot be used. lengths: as they were saved. */
bt_status bt_checkpoint_load(bt_context *context, const char *folder, const char *name, bt_log_lengths *lengths);

/* Restores only the model (parameters, buffers, the users' memory) and its step counts from the checkpoint that `path`
 * names (bt_checkpoint_place). Settings and data may differ. BT_ERROR_CONFIG: it belongs to another model. */
bt_status bt_checkpoint_load_model(bt_context *context, const char *path);

/* ---- files.c ---- */

typedef struct bt_checkpoint_content { /* read in full, and verified */
    int64_t step;
    char name[BT_CHECKPOINT_NAME];
    json_t *record;
    char *data; /* contains the tensors */
    bt_safetensors tensors;
} bt_checkpoint_content;

/* Opens the one of this name; "": the newest usable one; what is wrong with those skipped is added to `warning`. */
bt_status bt_checkpoint_open(const char *folder, const char *name, bt_checkpoint_content *checkpoint, bt_text *warning);
void bt_checkpoint_free(bt_checkpoint_content *checkpoint);
/* Only the record of the newest one, as it was written, in whatever format; for json_decref; NULL: there is none. */
bt_status bt_checkpoint_record(const char *folder, json_t **record);
int64_t bt_checkpoint_step(const char *folder, const char *name); /* the step when it was written; -1: there is none */

/* Keeps the newest `keep` up to `step`, and removes all other checkpoint files. */
void bt_checkpoint_prune(const char *folder, int64_t step, int64_t keep);

/* ---- record_write.c, record_check.c, record_restore.c: the state of a run outside its variables, as JSON ---- */

json_t *bt_record_new(const bt_context *context, const bt_log_lengths *lengths); /* NULL after an error */
bt_log_lengths bt_record_lengths(const json_t *record);                          /* those given to bt_record_new */
/* Whether the record belongs to these problems, settings and data; if not, BT_ERROR_CONFIG with the differences. */
bt_status bt_record_check(bt_context *context, json_t *record);
bt_status bt_record_check_graphs(bt_context *context, json_t *record); /* likewise, for the traced callbacks */
bt_status bt_record_rewire(bt_context *context, json_t *record);       /* applies dependencies that had changed */
bt_status bt_record_restore(bt_context *context, json_t *record);      /* restores metrics, numbers, streams */
bt_status bt_record_space(bt_context *context, json_t *record);        /* recompiles for its spacing of states */
void bt_record_restore_steps(bt_context *context, json_t *record);     /* of the problems that this run also has */

/* ---- tensors.c ---- */

/* Everything that is stored as a tensor: a parameter or buffer under its path, "classifier.0.weight"; a slot as
 * "classifier.0.weight:momentum"; other variables and users' memory as "classifier:applied". */
typedef struct bt_tensor_list {
    bt_region *region;
    bt_stored *items;     /* data: its address in the engine, perhaps on a device */
    struct bt_var **vars; /* by item: its variable; NULL: a user's memory */
    int64_t count, capacity, var_capacity;
    bt_status status;
} bt_tensor_list;
bt_status bt_tensors_of_memory(const bt_context *context, bt_tensor_list *list); /* adds the memory given to bt_state */
bt_status bt_tensors_of_variables(const bt_context *context, bt_tensor_list *list);
bt_status bt_tensors_of_model(const bt_context *context, bt_tensor_list *list); /* only parameters and buffers */
bt_status bt_check_names(const bt_context *context);                            /* no two of these have the same name */
/* Sets data to the present values, in host memory. All processes of a run together fetch what is divided among them. */
bt_status bt_tensors_fetch(const bt_context *context, bt_tensor_list *list, int64_t item);
/* What another process does while rank 0 fetches the whole list. */
bt_status bt_tensors_attend(const bt_context *context, const bt_tensor_list *list);
void bt_tensors_free(bt_tensor_list *list);

/* files.c: writes both files; `record` gets the entries that say what belongs together. */
bt_status bt_checkpoint_write(const char *folder, const char *name, int64_t step, const bt_tensor_list *list,
                              json_t *record);
void bt_checkpoint_name(char name[BT_CHECKPOINT_NAME], int64_t step);
/* Copies from the file into the engine, after checking that it has the whole list with the same shapes. */
bt_status bt_tensors_restore(const bt_tensor_list *list, const bt_safetensors *file);

#endif
