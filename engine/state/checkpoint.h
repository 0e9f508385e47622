/* engine/state/checkpoint.h: the state of a run on the disk.
 *
 *   FOLDER/checkpoints/step-N.safetensors   every run variable, and the users' memory (bt_state)
 *   FOLDER/checkpoints/step-N.json          the engine's record and the configuration; length and hash of the other
 * file
 *
 *   FOLDER/checkpoints/best.*               likewise, of the best validation: engine.checkpoint_best
 *
 * Both are written under temporary names; the second comes last, and with it the checkpoint is there. */
#ifndef BT_CHECKPOINT_H
#define BT_CHECKPOINT_H

#include "engine/level/level.h"
#include "engine/output/sinks.h"
#include "io/safetensors.h"
#include <jansson.h>

/* ---- checkpoint.c ---- */

enum { BT_CHECKPOINT_NAME = 40 };
#define BT_CHECKPOINT_BEST "best"

/* Writes a checkpoint of what has been reached, between two steps: as step-N, and those beyond engine.checkpoint_keep
 * are removed; best: as BT_CHECKPOINT_BEST, in place of the one before. lengths: bytes of the logs in FOLDER that
 * belong to it, and are on the disk. */
bt_status bt_checkpoint_save(bt_context *context, const char *folder, bool best, const bt_log_lengths *lengths);
/* What another process of the run does while rank 0 saves: it gives its parts of what is divided among them. */
bt_status bt_checkpoint_attend(bt_context *context);

/* What `path` names: a run's folder, whose newest checkpoint is meant (name is ""), or one of its checkpoints,
 * FOLDER/checkpoints/NAME, or one of the files of it. *folder: for bt_free. */
bt_status bt_checkpoint_place(const char *path, char **folder, char name[BT_CHECKPOINT_NAME]);

/* Puts planned levels where the checkpoint of this name was written; "": the newest of the folder, where a damaged one
 * is passed over, with a warning. BT_ERROR_FILE: there is none that can be used; BT_ERROR_CONFIG: it is one of another
 * problem, or of other settings. After a failure the run is of no use. lengths: as they were saved. */
bt_status bt_checkpoint_load(bt_context *context, const char *folder, const char *name, bt_log_lengths *lengths);

/* Only what a model is, parameters, buffers and the users' memory, and how many steps it has made, of the checkpoint
 * that `path` names (bt_checkpoint_place): settings and data may be others. BT_ERROR_CONFIG: it is one of another
 * model. */
bt_status bt_checkpoint_load_model(bt_context *context, const char *path);

/* ---- files.c ---- */

typedef struct bt_checkpoint_content { /* read, whole, and as it was written */
    int64_t step;
    char name[BT_CHECKPOINT_NAME];
    json_t *record;
    char *data; /* in which the tensors lie */
    bt_safetensors tensors;
} bt_checkpoint_content;

/* The one of this name; "": the newest that can be used; what is wrong with those passed over is added to `warning`. */
bt_status bt_checkpoint_open(const char *folder, const char *name, bt_checkpoint_content *checkpoint, bt_text *warning);
void bt_checkpoint_free(bt_checkpoint_content *checkpoint);
/* The record of the newest one alone, as it was written, in whatever format, for json_decref; NULL: there is none. */
bt_status bt_checkpoint_record(const char *folder, json_t **record);
int64_t bt_checkpoint_step(const char *folder, const char *name); /* that it was written after; -1: there is none */

/* Keeps the newest `keep` up to `step`, and removes all other files that a checkpoint left. */
void bt_checkpoint_prune(const char *folder, int64_t step, int64_t keep);

/* ---- record_write.c, record_check.c, record_restore.c: what a run knows beside its variables, as JSON ---- */

json_t *bt_record_new(const bt_context *context, const bt_log_lengths *lengths); /* NULL after an error */
bt_log_lengths bt_record_lengths(const json_t *record);                          /* as it was given them */
/* Whether the record is one of these problems, settings and data: else BT_ERROR_CONFIG with the differences. */
bt_status bt_record_check(bt_context *context, json_t *record);
bt_status bt_record_check_graphs(bt_context *context, json_t *record); /* likewise of the traced callbacks */
bt_status bt_record_rewire(bt_context *context, json_t *record);       /* dependencies that were changed meanwhile */
bt_status bt_record_restore(bt_context *context, json_t *record);      /* metrics, numbers, streams */
bt_status bt_record_space(bt_context *context, json_t *record);        /* programs with its spacing of states */
void bt_record_restore_steps(bt_context *context, json_t *record);     /* of the problems that this run has, too */

/* ---- tensors.c ---- */

/* Everything that is kept as a tensor: a parameter or buffer by its path, "classifier.0.weight"; a slot as
 * "classifier.0.weight:momentum"; other variables and a user's memory as "classifier:applied". */
typedef struct bt_tensor_list {
    bt_region *region;
    bt_stored *items;     /* data: where it lies in the engine, which may be on a device */
    struct bt_var **vars; /* by item: the variable that it is of; NULL: memory of a user's */
    int64_t count, capacity, var_capacity;
    bt_status status;
} bt_tensor_list;
bt_status bt_tensors_of_memory(const bt_context *context, bt_tensor_list *list); /* adds what bt_state was told */
bt_status bt_tensors_of_variables(const bt_context *context, bt_tensor_list *list);
bt_status bt_tensors_of_model(const bt_context *context, bt_tensor_list *list); /* parameters and buffers alone */
bt_status bt_check_names(const bt_context *context);                            /* no two of all these have one name */
/* data: its values, near, as they are now. All processes of a run fetch what is divided among them together. */
bt_status bt_tensors_fetch(const bt_context *context, bt_tensor_list *list, int64_t item);
/* The part of a process in what rank 0 fetches, all of the list. */
bt_status bt_tensors_attend(const bt_context *context, const bt_tensor_list *list);
void bt_tensors_free(bt_tensor_list *list);

/* files.c: writes both files; `record` gets the entries that say what belongs together. */
bt_status bt_checkpoint_write(const char *folder, const char *name, int64_t step, const bt_tensor_list *list,
                              json_t *record);
void bt_checkpoint_name(char name[BT_CHECKPOINT_NAME], int64_t step);
/* From the file into the engine, once it is clear that all of the list is there with the same shapes. */
bt_status bt_tensors_restore(const bt_tensor_list *list, const bt_safetensors *file);

#endif
