/* data/find.h: finds the files of a data set. */
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
    char file[BT_PATH];   /* the images or their folder; the folder of arrays; the table; or the texts for training */
    char labels[BT_PATH]; /* of images; the texts for validation; "": none */
    char other[BT_PATH]; /* the table of the other split; the folder that numbers the classes; the texts for testing; or
                            "" */
    char more[BT_MORE_FILES][BT_PATH]; /* CIFAR: the other files of the split; "" after the last */
} bt_found;

/* `base` is a file, with or without its extension, a folder, or the prefix of IDX file names. Finding nothing is no
 * error; a set without the split, or images without labels, are errors. */
bt_status bt_find_files(const char *base, const char *split, bt_found *found);

/* open.c: finds the files of a named data set in the usual places. */
bt_status bt_find_data(const char *name, const char *split, bt_found *found);

#endif
