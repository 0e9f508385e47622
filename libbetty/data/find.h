/* data/find.h: which files a data set is in. */
#ifndef BT_FIND_H
#define BT_FIND_H

#include "base/base.h"

enum { BT_PATH = 4096, BT_MORE_FILES = 4 };

typedef struct bt_found {
    enum {
        BT_FOUND_NOTHING,
        BT_FOUND_IMAGES,
        BT_FOUND_CIFAR,
        BT_FOUND_FOLDERS,
        BT_FOUND_ARRAYS,
        BT_FOUND_TABLE,
        BT_FOUND_TEXTS
    } kind;
    char file[BT_PATH]; /* the images, or their folder, or that of the arrays, or the table; the texts to train with */
    char labels[BT_PATH]; /* of images; the texts to validate with; "" if there are none */
    char other[BT_PATH];  /* the table of the other split; what numbers the classes; the texts to test with; or "" */
    char more[BT_MORE_FILES][BT_PATH]; /* CIFAR: the other files of the split; "" after the last */
} bt_found;

/* `base` is a file, with or without its extension, a folder, or what IDX files' names begin with. Nothing there is no
 * failure; a set without the split, or images without labels, are. */
bt_status bt_find_files(const char *base, const char *split, bt_found *found);

/* open.c: the files of a data set by its name, in the places in which data are looked for. */
bt_status bt_find_data(const char *name, const char *split, bt_found *found);

#endif
