/* betty/data.h: data sets, batches, loaders */
#ifndef BETTY_DATA_H
#define BETTY_DATA_H

#include <betty/base.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each function that takes a bt_dataset and a seed takes over the set and returns a new one. The new set depends only
 * on the old set and the seed. */

/* Opens a data set. name is its name (fashion-mnist, mnist, cifar10, cifar100, a9a, ..., or one that a user exports),
 * or the path of a file or folder (IDX, CIFAR, CSV, libsvm, texts with votes, images; plain or .gz). split is "train"
 * or "test"; texts and folders of images may also have "valid". Names and paths are looked up in the working folder, in
 * the INI file's folder, in $BETTY_DATA and in ./data.
 *
 * Images have the fields image [h, w, channels] in 0..1 and label; those of CIFAR-100 also have coarse. A folder of
 * images contains files SPLIT/CLASS/FILE, .jpg, .png, .pgm or .ppm, all of one size. The classes of train, sorted by
 * name, become 0, 1, ... Channels of 16 bits are rounded to 8, and transparency is ignored.
 *
 * A folder of arrays, FIELD.npy or SPLIT/FIELD.npy, has a field for each of them. Its numbers stay in the files, which
 * must not change while they are used.
 *
 * Tables have the fields x [features] and y. In CSV, y is the last column, or the one named in "FILE.csv:COLUMN". In a
 * libsvm file, features are counted from 1 and ordered within a line. For other files, append ":from_zero",
 * ":any_order" or ":from_zero,any_order" to the name. With ":sparse" the rows stay sparse: instead of x they have
 * x.value [k] and x.column [k], where k is the length of the longest row. Shorter rows end with values of 0 in column 0
 * (bt_field_matmul).
 *
 * Texts with the votes of labelling functions (semeval, trec) have x [words], votes [functions] (a class, or -1 for no
 * vote), counts [classes] of these votes, and the true label. */
bt_dataset *bt_dataset_open(const char *name, const char *split);

/* Opens a folder of images of different sizes and makes each of them a square. An image is resized so that its shorter
 * side has `resize` pixels; the longer side keeps the shape, rounded down. Then it is cut to the `crop` x `crop` pixels
 * in its middle. Resizing is bilinear with antialiasing and gives the same bytes as Pillow. resize 0: only cut. crop 0:
 * as `resize`. Both 0: images stay as they are. Other data sets fail if a size is given. */
typedef struct bt_image_options {
    int64_t resize, crop; /* up to 65536; crop is at most resize */
    bool colour;          /* all have three channels; false: as many as the first one, and no other may have more */
} bt_image_options;
bt_dataset *bt_dataset_images(const char *name, const char *split, const bt_image_options *options);

/* These functions change tables with the fields x [features] and y. They take over the set, even on failure, and return
 * it, or NULL on failure.
 *
 * bt_dataset_drop removes a column of x, by name, or by its current number from 1. bt_dataset_rows keeps examples from
 * <= i < to, in file order; negative numbers count from the end, and `to` may be BT_REST. bt_dataset_label adds a field
 * `label` for bt_cross_entropy: the values of `field`, which are the classes 0, 1, ..., as integers. A value that is
 * not an integer is BT_ERROR_DATA. bt_dataset_standardize replaces each number v of a floating-point field by (v -
 * mean) / deviation. The statistics are those of `train`, which it also takes over, or of the set itself if train is
 * NULL. A number that never changes has deviation 1:
 *
 *     bt_dataset_standardize(bt_dataset_rows(bt_dataset_open("a.csv", "train"), 800, BT_REST), "x",
 *                            bt_dataset_rows(bt_dataset_open("a.csv", "train"), 0, 800)) */
bt_dataset *bt_dataset_drop(bt_dataset *data, const char *column);
bt_dataset *bt_dataset_rows(bt_dataset *data, int64_t from, int64_t to);
bt_dataset *bt_dataset_label(bt_dataset *data, const char *field);
bt_dataset *bt_dataset_standardize(bt_dataset *data, const char *field, bt_dataset *train);

bt_dataset *bt_dataset_part(bt_dataset *data, double from, double to, uint64_t seed); /* fractions, after a shuffle */
bt_dataset *bt_dataset_per_class(bt_dataset *data, int64_t from, int64_t to, uint64_t seed); /* counts in each class */
bt_dataset *bt_dataset_long_tail(bt_dataset *data, double factor, uint64_t seed);  /* class sizes fall to 1/factor */
bt_dataset *bt_dataset_label_noise(bt_dataset *data, double share, uint64_t seed); /* gives this share a wrong label */

/* These functions change the field "image" [h, w, channels] when a batch is gathered. In training the changes are
 * random. They depend on the seed, the epoch (for few-shot tasks: the task's number) and the index, but not on the
 * batch size or the number of threads. Validation batches are only normalised. Each change is made at most once, always
 * in the order below, whatever the order of the calls. bt_dataset_crop shifts the image by up to `padding` pixels each
 * way and fills with 0. bt_dataset_flip flips it left to right with probability 1/2. bt_dataset_normalize computes (x -
 * mean) / deviation, with one mean and deviation per channel, [channels] each. bt_dataset_cutout sets a square to 0;
 * its centre may be anywhere. */
bt_dataset *bt_dataset_crop(bt_dataset *data, int64_t padding, uint64_t seed);
bt_dataset *bt_dataset_flip(bt_dataset *data, uint64_t seed);
bt_dataset *bt_dataset_normalize(bt_dataset *data, bt_array mean, bt_array deviation);
bt_dataset *bt_dataset_cutout(bt_dataset *data, int64_t size, uint64_t seed);

/* For training at random sizes; done before all other changes. A random part of the image is resized to the size of the
 * image, bilinearly. The part has between `least` and 1 of the area, and sides from 3:4 to 4:3 (Szegedy et al., "Going
 * deeper with convolutions", CVPR 2015). Cannot be used together with bt_dataset_crop. */
bt_dataset *bt_dataset_random_resized_crop(bt_dataset *data, double least, uint64_t seed);

/* Mixes images: share * image + (1-share) * the image of another example, which has its own random changes. share is
 * drawn from Beta(alpha, alpha). The batch also has `other_label`, the label of the other example, and `share`, [n]. In
 * validation, other_label is label and share is 1. The loss is
 * share * cross_entropy(logits, label) + (1-share) * cross_entropy(logits, other_label). */
bt_dataset *bt_dataset_mixup(bt_dataset *data, double alpha, uint64_t seed);

/* Few-shot tasks, an endless supply. A batch is one task of `ways` classes, numbered 0 to ways-1. support.FIELD holds
 * `shots` examples of each class, one class after the other, [ways*shots, ...]. query.FIELD holds `queries` other
 * examples of each class, [ways*queries, ...]; bt_batch_count counts these. Task number i depends only on (seed, i).
 * Batch sizes are ignored. */
bt_dataset *bt_dataset_tasks(bt_dataset *data, int64_t ways, int64_t shots, int64_t queries, uint64_t seed);

/* Adds square images rotated by 90, 180 and 270 degrees: four times as many examples, with separate classes for each
 * rotation. */
bt_dataset *bt_dataset_rotations(bt_dataset *data);

/* Two streams in one batch, each with its own epochs and order. The fields of `other` are called PREFIX.FIELD. */
bt_dataset *bt_dataset_join(bt_dataset *data, const char *prefix, bt_dataset *other);

/* A data set from arrays in memory, which are copied. The first axis of each field counts the examples. If all numbers
 * of an f32 field are x/255 for a byte x, each is stored as one byte; batches still hold exactly the numbers given. */
bt_dataset *bt_dataset_new(int64_t count);
bt_status bt_dataset_add(bt_dataset *data, const char *field, bt_array values);
void bt_dataset_free(bt_dataset *data);

typedef struct bt_dataset_def { /* a data set that can be opened by name */
    const char *name;
    bt_dataset *(*open)(const char *split);
} bt_dataset_def;

/* Adds the field `label` to a table whose target `y` names a class, such as -1 or 1: 0, 1, ... for the different values
 * in `train`, in increasing order. These values become the names of the classes. Takes over both sets; train NULL: the
 * set itself. BT_ERROR_DATA: an example has a value that train does not have. A set that has `label` is unchanged. */
bt_dataset *bt_dataset_number_label(bt_dataset *data, bt_dataset *train);

/* The number of classes of the field `label`, or of `y` of a table: the number of their names, or the largest label
 * plus 1 if labels are 0, 1, ... It is 0 after a failure. The name of class k is that of its folder; NULL: it has none.
 * The set owns the name. */
int64_t bt_dataset_classes(const bt_dataset *data);
const char *bt_dataset_class_name(const bt_dataset *data, int64_t k);

/* A batch from a data set also has the field `index`, the position of each example in the set. Fields are [n, ...],
 * where n is the batch size, or the remainder in the last batch of an epoch. Floating-point fields have the precision
 * of the problem. */
bt_tensor *bt_field(const bt_batch *batch, const char *name, ...) BT_FORMAT(2, 3); /* traced; name: format */
/* Traced: the product of a table's field and weight [features, m] or [features]: [n, m] or [n]. A sparse field, stored
 * as FIELD.value and FIELD.column, gives the sum over j of value[i, j] weight[column[i, j]]. */
bt_tensor *bt_field_matmul(const bt_batch *batch, const char *name, bt_tensor *weight);
int64_t bt_batch_count(const bt_batch *batch); /* host: the number of examples; 1 if no field counts */
bt_batch *bt_batch_new(void);
bt_status bt_batch_set(bt_batch *batch, const char *field, bt_array values); /* copied */
void bt_batch_free(bt_batch *batch);

/* A loader without a problem (with one, use bt_loader_for). Floating-point fields are float. Batches are shuffled, and
 * images are changed as in training. BT_DONE follows each epoch once; the last batch of an epoch may be short. */
bt_loader *bt_loader_new(bt_dataset *data, int64_t batch_size, uint64_t seed); /* takes over the set */
bt_status bt_loader_next(bt_loader *loader, const bt_batch **batch);           /* *batch is valid until the next call */
void bt_loader_free(bt_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
