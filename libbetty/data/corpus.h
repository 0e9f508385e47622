/* data/corpus.h: the files of a text, each of which is a source. */
#ifndef BT_CORPUS_H
#define BT_CORPUS_H

#include "base/base.h"

typedef struct bt_corpus { /* starts as {0} */
    char **paths;          /* [count] */
    int64_t count, room;
} bt_corpus;

/* A file, with or without .txt, .gz or .txt.gz, or a folder of files .txt or .txt.gz, in order of their names, except
 * those that describe them: SOURCE.txt, README.txt and LICENSE.txt. No file is not an error: an empty corpus. */
bt_status bt_corpus_find(const char *name, bt_corpus *corpus); /* bt_corpus_free in any case */
void bt_corpus_free(bt_corpus *corpus);

/* The text of a file, UTF-8, to be freed; an empty one is refused. */
bt_status bt_corpus_read(const char *path, char **text, int64_t *size);

#endif
