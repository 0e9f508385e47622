/* nn/renaming.h: where an array of a file belongs in a module. */
#ifndef BT_RENAMING_H
#define BT_RENAMING_H

#include "base/base.h"
#include <betty/nn.h>

enum { BT_MOST_STARS = 8, BT_MOST_NAME = 1024 };

typedef struct bt_destination {
    char name[BT_MOST_NAME]; /* of a parameter or buffer here; "": the array is left out */
    bool turned;             /* a matrix that is [out, in] here and [in, out] there */
    int part, parts;         /* it is piece `part` of `parts` equal pieces of the first axis */
} bt_destination;

/* The place of an array that the file calls `name`: by the table of the file's layout, then by the rules of `options`.
 * BT_ERROR_ARGUMENT: a rule is malformed. BT_ERROR_FILE: the name is too long. */
bt_status bt_destination_of(const bt_load_options *options, const char *name, bt_destination *place);

/* Puts the parts in place of the pattern's stars; false: there are more stars than parts, or it is too long. */
bool bt_substitute(const char *pattern, size_t length, const bt_star *parts, int count, char to[BT_MOST_NAME]);

/* ---- published.c ---- */

bool bt_published(bt_layout layout); /* whether it has a table */

/* The place of an array by its name in a published layout; for an unknown name, and without a table, the place of that
 * name. */
bt_status bt_published_destination(bt_layout layout, const char *name, bt_destination *place);

/* The layout's name of that part of the parameter `ours`; false: it has no such array. */
bool bt_published_name(bt_layout layout, const char *ours, int part, char to[BT_MOST_NAME]);

#endif
