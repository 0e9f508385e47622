/* betty/data.h: data sets, batches, loaders */
#ifndef BETTY_DATA_H
#define BETTY_DATA_H

#include <betty/base.h>
#include <betty/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function with a bt_dataset and a seed takes the set over and returns a new one, a pure function of the seed. */

/* By name (fashion-mnist, mnist, cifar10, cifar100, a9a, ... or exported by a user) or path (IDX, CIFAR, CSV, libsvm,
 * texts with votes; plain or .gz; a file or a folder); split "train", "test" or, of texts and folders of images,
 * "valid". Images have image [h, w, channels] in 0..1 and label, those of CIFAR-100 also coarse; a folder of images is
 * SPLIT/CLASS/FILE, with files .jpg, .png, .pgm or .ppm of one size, where the classes of train, sorted by name, are 0,
 * 1, ...; 16 bits per channel are rounded to 8, and transparency is left out. A folder of arrays, FIELD.npy or
 * SPLIT/FIELD.npy, has a field for each, and stays in its files, which must not change meanwhile. Tables have x
 * [features] and y, in CSV the last column, or the one named in "FILE.csv:COLUMN"; texts with the votes of labelling
 * functions (semeval, trec) have x [words], votes [functions] (a class or -1: none), counts [classes] of these votes,
 * and the true label. A libsvm file that counts features from 0, or has those of a line in any order, is opened as
 * "FILE:from_zero", "FILE:any_order" or "FILE:from_zero,any_order"; as "FILE:sparse" its rows stay sparse: not x, but
 * x.value [k] and x.column [k], where k is the length of the longest, and shorter ones end with values of 0 in column 0
 * (bt_field_matmul). Looked for from the working folder, in the INI
 * file's, $BETTY_DATA and ./data. */
bt_dataset *bt_dataset_open(const char *name, const char *split);

/* A folder of images of different sizes, each made a square: resized, so that its shorter side has `resize` pixels (the
 * longer one as many as keep its shape, rounded down), and cut to the `crop` x `crop` pixels in its middle. Resizing is
 * bilinear with antialiasing, to the byte that of Pillow. resize 0: only cut; crop 0: as `resize`; both 0: as they are.
 * Other data sets fail where a size is asked for. */
typedef struct bt_image_options {
    int64_t resize, crop; /* up to 65536; crop is not more than resize */
    bool colour; /* all have three channels; false: as many as the first one, which must not be less than others */
} bt_image_options;
bt_dataset *bt_dataset_images(const char *name, const char *split, const bt_image_options *options);

/* Tables, the fields x [features] and y. These functions take the set over, also on failure, and return it; NULL:
 * failed. Columns of x by name, or by number from 1 as they are then; examples from <= i < to in the order of the file,
 * where negative numbers count from the end and `to` may be BT_REST; a further field `label`, the integers of `field`,
 * as bt_cross_entropy wants them (the classes 0, 1, ...), BT_ERROR_DATA where one is none; (v - mean) / deviation of
 * each number of a floating field, with the statistics of `train`, which is taken over, too (NULL: of the set itself),
 * and deviation 1 where a number never changes:
 *
 *     bt_dataset_standardize(bt_dataset_rows(bt_dataset_open("a.csv", "train"), 800, BT_REST), "x",
 *                            bt_dataset_rows(bt_dataset_open("a.csv", "train"), 0, 800)) */
bt_dataset *bt_dataset_drop(bt_dataset *data, const char *column);
bt_dataset *bt_dataset_rows(bt_dataset *data, int64_t from, int64_t to);
bt_dataset *bt_dataset_label(bt_dataset *data, const char *field);
bt_dataset *bt_dataset_standardize(bt_dataset *data, const char *field, bt_dataset *train);

bt_dataset *bt_dataset_part(bt_dataset *data, double from, double to, uint64_t seed); /* fractions, once shuffled */
bt_dataset *bt_dataset_per_class(bt_dataset *data, int64_t from, int64_t to, uint64_t seed); /* counts, in each class */
bt_dataset *bt_dataset_long_tail(bt_dataset *data, double factor, uint64_t seed);  /* classes shrink down to 1/factor */
bt_dataset *bt_dataset_label_noise(bt_dataset *data, double share, uint64_t seed); /* that share gets another label */

/* Images [h, w, channels], the field "image", that are changed when a batch is gathered: at random in training, by
 * seed, epoch (of few-shot tasks: the task's number) and index, whatever the batch size or the threads. Validation
 * batches are only normalised. The order is always this one, in whatever order they are asked for, and each happens at
 * most once: moved by up to `padding` pixels each way, 0 coming in; flipped left to right, one of two; (x - mean) /
 * deviation, [channels] each; a square of 0, its centre anywhere. */
bt_dataset *bt_dataset_crop(bt_dataset *data, int64_t padding, uint64_t seed);
bt_dataset *bt_dataset_flip(bt_dataset *data, uint64_t seed);
bt_dataset *bt_dataset_normalize(bt_dataset *data, bt_array mean, bt_array deviation);
bt_dataset *bt_dataset_cutout(bt_dataset *data, int64_t size, uint64_t seed);

/* Training at random sizes, before all others: a part of the image, of a share of its area between `least` and 1 and
 * with sides of 3:4 to 4:3, anywhere in it, is resized to the whole, bilinear (Szegedy et al., "Going deeper with
 * convolutions", CVPR 2015). Not together with bt_dataset_crop. */
bt_dataset *bt_dataset_random_resized_crop(bt_dataset *data, double least, uint64_t seed);

/* share * image + (1-share) * another example's image, which has been changed on its own; share is Beta(alpha, alpha).
 * The batch also has `other_label`, of that example, and `share`, [n]; in validation other_label is label, share is 1:
 * share * cross_entropy(logits, label) + (1-share) * cross_entropy(logits, other_label). */
bt_dataset *bt_dataset_mixup(bt_dataset *data, double alpha, uint64_t seed);

/* Few-shot tasks without end: a batch is one task, of `ways` classes, which are numbered anew, 0 to ways-1.
 * support.FIELD has `shots` examples of each, one class after the other, [ways*shots, ...]; query.FIELD has `queries`
 * others, [ways*queries,
 * ...], which bt_batch_count counts. Task number i is a function of (seed, i); batch sizes do not matter. */
bt_dataset *bt_dataset_tasks(bt_dataset *data, int64_t ways, int64_t shots, int64_t queries, uint64_t seed);

/* Square images also turned by 90, 180 and 270 degrees: four times as many, each turn with classes of its own. */
bt_dataset *bt_dataset_rotations(bt_dataset *data);

/* Two streams in one batch, each with its own epochs and order; the fields of `other` become PREFIX.FIELD. */
bt_dataset *bt_dataset_join(bt_dataset *data, const char *prefix, bt_dataset *other);

/* From memory, which is copied. The first axis of each field counts the examples. A field of f32 numbers that all are
 * x/255 for a byte x takes a byte each; batches have the very numbers that were given. */
bt_dataset *bt_dataset_new(int64_t count);
bt_status bt_dataset_add(bt_dataset *data, const char *field, bt_array values);
void bt_dataset_free(bt_dataset *data);

typedef struct bt_dataset_def { /* a data set to be opened by name */
    const char *name;
    bt_dataset *(*open)(const char *split);
} bt_dataset_def;

/* Of a table whose target `y` says a class, such as -1 or 1: a further field `label`, 0, 1, ... for the different
 * values of `train` in increasing order (taken over; NULL: of the set itself), which are the classes' names.
 * BT_ERROR_DATA where an example is of none of them. A set that has the field `label` stays as it is. */
bt_dataset *bt_dataset_number_label(bt_dataset *data, bt_dataset *train);

/* How many classes the field `label` (or `y` of a table) has: as many names as it has, or the largest label and 1,
 * where labels are 0, 1, ...; 0 after a failure. The name of class k: its folder's; NULL: it has none. Owned by the
 * set. */
int64_t bt_dataset_classes(const bt_dataset *data);
const char *bt_dataset_class_name(const bt_dataset *data, int64_t k);

/* A batch drawn from a set also has `index`, each example's place in it. Fields are [n, ...]; n is the batch size, or
 * what is left for the last batch of an epoch; floating fields come in the precision of the problem. */
bt_tensor *bt_field(const bt_batch *batch, const char *name, ...) BT_FORMAT(2, 3); /* traced; name: format */
/* Traced: the product of a table's field with weight [features, m] or [features]: [n, m] or [n]. Of one that is kept
 * sparse, which has FIELD.value and FIELD.column in its place, the sum over j of value[i, j] weight[column[i, j]]. */
bt_tensor *bt_field_matmul(const bt_batch *batch, const char *name, bt_tensor *weight);
int64_t bt_batch_count(const bt_batch *batch); /* host: how many examples; 1 if no field counts */
bt_batch *bt_batch_new(void);
bt_status bt_batch_set(bt_batch *batch, const char *field, bt_array values); /* copied */
void bt_batch_free(bt_batch *batch);

/* Without a problem (bt_loader_for is for one), floating fields as float: shuffled batches, images changed as in
 * training; BT_DONE once after each epoch, whose last batch may be short. */
bt_loader *bt_loader_new(bt_dataset *data, int64_t batch_size, uint64_t seed); /* takes the set over */
bt_status bt_loader_next(bt_loader *loader, const bt_batch **batch);           /* valid until the next call */
void bt_loader_free(bt_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
