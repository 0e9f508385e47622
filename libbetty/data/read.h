/* data/read.h: reading data files; for the files of data/ only. */
#ifndef BT_READ_H
#define BT_READ_H

#include "data/dataset.h"
#include "data/pieces.h"
#include <betty/text.h>

/* ---- source.c: a file, plain or gzip, byte by byte or in pieces. Messages name the file. ---- */

typedef struct bt_source bt_source;
bt_source *bt_source_open(const char *path);
void bt_source_close(bt_source *source);
const char *bt_source_path(const bt_source *source);
int64_t bt_source_size(const bt_source *source); /* of its content; -1 where it is gzip, and so not known */
int64_t bt_source_most(const bt_source *source); /* its content is not longer than this */
int bt_source_byte(bt_source *source);           /* -1: the end, or a failure: see bt_source_status */
bt_status bt_source_status(const bt_source *source);
bt_status bt_source_read(bt_source *source, void *to, int64_t size, int64_t *got); /* less only at the end */

/* What is next, and stays to be read: of a file that has just been opened its first bytes. 0: the end, or a failure. */
int64_t bt_source_peek(bt_source *source, const unsigned char **bytes);

/* What is left of it, or the whole file, with a closing 0, to be freed. */
bt_status bt_source_rest(bt_source *source, char **text, int64_t *size);
bt_status bt_source_all(const char *path, char **text, int64_t *size);

/* Without its line end, NUL-terminated, valid until the next call; *line is NULL at the end. */
bt_status bt_source_line(bt_source *source, const char **line, int64_t *length);

/* If a file's first bytes show UTF-16 or UTF-32 text, that is reported. */
bt_status bt_check_text(const char *path, const char *head, int64_t size);

/* Bytes of a file for a message: at most 40, those that do not print as '?'. */
typedef struct bt_shown {
    char text[48];
} bt_shown;
bt_shown bt_show(const char *text, int64_t length);

/* ---- number.c: decimal numbers, whatever the locale ---- */

typedef enum bt_numeral {
    BT_NUMERAL,
    BT_NUMERAL_MISSING, /* nothing, or a word for it, such as NA */
    BT_NUMERAL_TEXT,
    BT_NUMERAL_LARGE /* for a double */
} bt_numeral;
bt_numeral bt_read_number(const char *text, int64_t length, double *value); /* text[length] is no part of a number */

/* What is wrong with it, for messages; `text` is shown where it helps. */
const char *bt_numeral_text(char buffer[80], bt_numeral kind, const char *text, int64_t length);

/* ---- table.c ---- */

/* Takes the values over (of bt_alloc or bt_grow), also on failure; kept as f32, or as narrow.c has it, where that is
 * exact.
 */
bt_store *bt_store_numbers(double *values, int rank, const int64_t *dims);

/* Data that are nearly all zeros can be small as a file and huge in memory: they must fit into half the machine. */
bt_status bt_check_dense(const char *path, int64_t rows, int64_t columns, size_t item);

/* ---- readers; each gives NULL after a failure ---- */

/* Image [n, height, width, channels] and label [n]; labels are 0 to classes-1, if that is known; else classes is 0. */
bt_dataset *bt_read_idx(const char *images, const char *labels, int classes);

/* Image [n, 32, 32, 3], label [n] and, of CIFAR-100, coarse [n]: the files one after the other, of CIFAR-10 or
 * CIFAR-100, as `classes` says; 0: as the files tell by their size. */
enum { BT_CIFAR_FILES = 5, BT_CIFAR_FIELDS = 3 };
bt_dataset *bt_read_cifar(const char *const *paths, int files, int classes);

/* Image [n, height, width, channels] and label [n] of the files FOLDER/CLASS/FILE; the classes are numbered by the
 * subfolders of `numbered_by`, which may be the same folder. Grey or colour, as the first image is. The hash changes
 * with the files. */
bt_dataset *bt_read_images(const char *folder, const char *numbered_by, const bt_image_options *options,
                           bool blank); /* options NULL: as they are; blank: only the first is read */
bt_status bt_images_hash(const char *folder, const char *numbered_by, uint64_t *hash);

/* A folder of .npy files, FIELD.npy each, which stay where they are: mapped.c. `image` of bytes [n, height, width,
 * channels] is delivered as x/255, like that of other formats. */
bt_dataset *bt_read_arrays(const char *folder);
bool bt_has_arrays(const char *folder); /* there is one with such files */

typedef struct bt_npy { /* what the header of such a file says */
    bt_array array;     /* data NULL */
    int64_t offset;     /* of the numbers, in bytes; the file ends with them */
} bt_npy;
bt_status bt_read_npy(const char *path, bt_npy *npy);

/* ---- images, 8 bits per channel, for bt_read_images ---- */

typedef struct bt_picture {
    int64_t height, width, channels; /* 1: grey, 3: red, green, blue */
    bool deep;                       /* 16 bits per channel, of which 8 are taken */
    bool transparent;                /* in part, which is left out */
} bt_picture;

/* Called when the header has been read: where the pixels go, and whether as 1 channel or 3, which is not less than what
 * was found. */
typedef bt_status bt_picture_fn(void *user, const bt_picture *found, int64_t *channels, uint8_t **pixels);
bt_status bt_read_jpeg(bt_source *source, bt_picture_fn *place, void *user);
bt_status bt_read_png(bt_source *source, bt_picture_fn *place, void *user);
bt_status bt_read_pnm(bt_source *source, bt_picture_fn *place, void *user);

/* ---- resize.c: as bt_dataset_images says ---- */

void bt_resized_size(const bt_picture *found, const bt_image_options *o, int64_t *height, int64_t *width);
/* The square in the middle, with a side of `crop`, of a picture that is at least as large when it is resized. */
bt_status bt_resize(const bt_picture *found, const bt_image_options *o, const uint8_t *from, int64_t channels,
                    uint8_t *to);

/* ---- */

/* Target: a column's name or number, from 1; NULL: the last. */
bt_dataset *bt_read_csv(const char *path, const char *target);

/* How a file differs from what libsvm writes. */
typedef struct bt_libsvm_form {
    bool from_zero; /* features are counted from 0 */
    bool any_order; /* those of a line come in any order */
    bool sparse;    /* rows are kept so: the fields of bt_sparse_fields */
} bt_libsvm_form;
bt_status bt_libsvm_form_of(const char *path, const char *words,
                            bt_libsvm_form *form); /* "from_zero,any_order"; NULL */

enum { BT_SPARSE_FIELDS = 3 };
extern const char *const bt_sparse_fields[BT_SPARSE_FIELDS];

/* At least `features` wide. */
bt_dataset *bt_read_libsvm(const char *path, bt_libsvm_form form, int64_t features);
bt_status bt_libsvm_width(const char *path, bt_libsvm_form form, int64_t *features);

/* Texts with the votes of labelling functions: x [n, words] (see words.h), votes [n, functions] (-1: none), counts [n,
 * classes] of the votes for each class, label [n]. Files to train, validate and test with; the first is needed, others
 * may be "" if they are not wanted. All tell how many functions and classes there are. */
enum { BT_TEXT_SPLITS = 3, BT_TEXT_FIELDS = 4 };
extern const char *const bt_text_fields[BT_TEXT_FIELDS];

/* Not x, but token [n, length], the ids with what the tokeniser adds and padding behind, and length [n], how many are
 * no padding. NULL: x. */
typedef struct bt_text_form {
    const bt_tokenizer *tokenizer;
    int64_t length;
} bt_text_form;
bt_dataset *bt_read_texts(const char *const paths[BT_TEXT_SPLITS], int wanted, const bt_text_form *form);
bt_status bt_read_text_lines(const char *path, bt_pieces *lines); /* the texts alone, as one piece */

#endif
