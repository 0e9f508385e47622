/* data/read.h: reads data files; only for the files of data/. */
#ifndef BT_READ_H
#define BT_READ_H

#include "data/dataset.h"
#include "data/pieces.h"
#include <betty/text.h>

/* ---- source.c: reads a file, plain or gzip, by bytes or in pieces. Messages name the file. ---- */

typedef struct bt_source bt_source;
bt_source *bt_source_open(const char *path);
void bt_source_close(bt_source *source);
const char *bt_source_path(const bt_source *source);
int64_t bt_source_size(const bt_source *source); /* of its content; -1: unknown, because it is gzip */
int64_t bt_source_most(const bt_source *source); /* an upper bound for the size of its content */
int bt_source_byte(bt_source *source);           /* -1: the end or a failure, see bt_source_status */
bt_status bt_source_status(const bt_source *source);
bt_status bt_source_read(bt_source *source, void *to, int64_t size, int64_t *got); /* less only at the end */

/* The next bytes, without consuming them; for a file just opened, its first bytes. Returns 0 at the end or on
 * failure. */
int64_t bt_source_peek(bt_source *source, const unsigned char **bytes);

/* The rest of the source, or the whole file, null-terminated; to be freed. */
bt_status bt_source_rest(bt_source *source, char **text, int64_t *size);
bt_status bt_source_all(const char *path, char **text, int64_t *size);

/* The next line without its line end, null-terminated, valid until the next call; *line is NULL at the end. */
bt_status bt_source_line(bt_source *source, const char **line, int64_t *length);

/* Fails if a file's first bytes show UTF-16 or UTF-32 text. */
bt_status bt_check_text(const char *path, const char *head, int64_t size);

/* Bytes of a file for a message: at most 40; unprintable ones become '?'. */
typedef struct bt_shown {
    char text[48];
} bt_shown;
bt_shown bt_show(const char *text, int64_t length);

/* ---- number.c: decimal numbers, in any locale ---- */

typedef enum bt_numeral {
    BT_NUMERAL,
    BT_NUMERAL_MISSING, /* empty, or a word such as NA */
    BT_NUMERAL_TEXT,
    BT_NUMERAL_LARGE /* too large for a double */
} bt_numeral;
bt_numeral bt_read_number(const char *text, int64_t length, double *value); /* text[length] must end the number */

/* Describes what is wrong, for messages; shows `text` if that helps. */
const char *bt_numeral_text(char buffer[80], bt_numeral kind, const char *text, int64_t length);

/* ---- table.c ---- */

/* Takes the values over (from bt_alloc or bt_grow), also on failure. Stores them as f32, or as bytes (narrow.c), if
 * that is exact. */
bt_store *bt_store_numbers(double *values, int rank, const int64_t *dims);

/* Mostly-zero data can be small on disk but huge in memory: fails unless they fit into half the machine's memory. */
bt_status bt_check_dense(const char *path, int64_t rows, int64_t columns, size_t item);

/* ---- readers; they return NULL on failure ---- */

/* Image [n, height, width, channels] and label [n]. Labels are 0 to classes-1; classes is 0 if that is unknown. */
bt_dataset *bt_read_idx(const char *images, const char *labels, int classes);

/* Image [n, 32, 32, 3], label [n] and, for CIFAR-100, coarse [n], from all files in order. `classes` says whether they
 * are CIFAR-10 or CIFAR-100; 0: their size tells. */
enum { BT_CIFAR_FILES = 5, BT_CIFAR_FIELDS = 3 };
bt_dataset *bt_read_cifar(const char *const *paths, int files, int classes);

/* Image [n, height, width, channels] and label [n] from files FOLDER/CLASS/FILE. The subfolders of `numbered_by`,
 * which may be the same folder, number the classes. Grey or colour, like the first image. The hash changes if the
 * files do. */
bt_dataset *bt_read_images(const char *folder, const char *numbered_by, const bt_image_options *options,
                           bool blank); /* options NULL: keep the images as they are; blank: read only the first */
bt_status bt_images_hash(const char *folder, const char *numbered_by, uint64_t *hash);

/* A folder of .npy files, one FIELD.npy per field, which are mapped (mapped.c). An `image` of bytes [n, height, width,
 * channels] is delivered as x/255, as from other formats. */
bt_dataset *bt_read_arrays(const char *folder);
bool bt_has_arrays(const char *folder); /* whether the folder has such files */

typedef struct bt_npy { /* the header of a .npy file */
    bt_array array;     /* data is NULL */
    int64_t offset;     /* byte offset of the numbers, which end the file */
} bt_npy;
bt_status bt_read_npy(const char *path, bt_npy *npy);

/* ---- images, 8 bits per channel, for bt_read_images ---- */

typedef struct bt_picture {
    int64_t height, width, channels; /* channels: 1: grey, 3: red, green, blue */
    bool deep;                       /* 16 bits per channel, of which 8 are used */
    bool transparent;                /* partly transparent, which is ignored */
} bt_picture;

/* Called when the header has been read. Returns where the pixels go, and whether as 1 or 3 channels, at least as many
 * as were found. */
typedef bt_status bt_picture_fn(void *user, const bt_picture *found, int64_t *channels, uint8_t **pixels);
bt_status bt_read_jpeg(bt_source *source, bt_picture_fn *place, void *user);
bt_status bt_read_png(bt_source *source, bt_picture_fn *place, void *user);
bt_status bt_read_pnm(bt_source *source, bt_picture_fn *place, void *user);

/* ---- resize.c: see bt_dataset_images ---- */

void bt_resized_size(const bt_picture *found, const bt_image_options *o, int64_t *height, int64_t *width);
/* Takes the central square with side `crop` from a picture that is at least that large after resizing. */
bt_status bt_resize(const bt_picture *found, const bt_image_options *o, const uint8_t *from, int64_t channels,
                    uint8_t *to);

/* ---- */

/* target: a column's name, or its number from 1; NULL: the last column. */
bt_dataset *bt_read_csv(const char *path, const char *target);

/* How a file deviates from the usual libsvm format. */
typedef struct bt_libsvm_form {
    bool from_zero; /* features are numbered from 0 */
    bool any_order; /* the features of a line may be in any order */
    bool sparse;    /* rows stay sparse: the fields bt_sparse_fields */
} bt_libsvm_form;
bt_status bt_libsvm_form_of(const char *path, const char *words,
                            bt_libsvm_form *form); /* words: "from_zero,any_order"; or NULL */

enum { BT_SPARSE_FIELDS = 3 };
extern const char *const bt_sparse_fields[BT_SPARSE_FIELDS];

/* At least `features` columns. */
bt_dataset *bt_read_libsvm(const char *path, bt_libsvm_form form, int64_t features);
bt_status bt_libsvm_width(const char *path, bt_libsvm_form form, int64_t *features);

/* Texts with the votes of labelling functions: x [n, words] (see words.h), votes [n, functions] (-1: none), counts [n,
 * classes] of the votes per class, label [n]. The files are for training, validation and testing. The first is
 * required; the others may be "" if not wanted. All files determine the numbers of functions and classes. */
enum { BT_TEXT_SPLITS = 3, BT_TEXT_FIELDS = 4 };
extern const char *const bt_text_fields[BT_TEXT_FIELDS];

/* Instead of x: token [n, length], the ids with the tokeniser's special tokens and padding at the end, and length [n],
 * the number of tokens without padding. NULL: x. */
typedef struct bt_text_form {
    const bt_tokenizer *tokenizer;
    int64_t length;
} bt_text_form;
bt_dataset *bt_read_texts(const char *const paths[BT_TEXT_SPLITS], int wanted, const bt_text_form *form);
bt_status bt_read_text_lines(const char *path, bt_pieces *lines); /* only the texts, as one piece */

#endif
