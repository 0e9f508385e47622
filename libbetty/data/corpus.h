/* data/corpus.h: the files of a text corpus; each file is a source. */
#ifndef BT_CORPUS_H
#define BT_CORPUS_H

#include "base/base.h"

typedef struct bt_corpus { /* starts as {0} */
    char **paths;          /* [count] */
    int64_t count, room;
} bt_corpus;

/* Finds a file, with or without .txt, .gz or .txt.gz, or the .txt and .txt.gz files of a folder, sorted by name. Skips
 * the description files SOURCE.txt, README.txt and LICENSE.txt. If there is no file, the corpus is empty, which is no
 * error. */
bt_status bt_corpus_find(const char *name, bt_corpus *corpus); /* call bt_corpus_free in any case */
void bt_corpus_free(bt_corpus *corpus);

/* The UTF-8 text of a file, to be freed; an empty text is refused. */
bt_status bt_corpus_read(const char *path, char **text, int64_t *size);

#endif
