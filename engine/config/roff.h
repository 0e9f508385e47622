/* engine/config/roff.h: text for manual pages, in roff with the macros of man(7). */
#ifndef BT_ROFF_H
#define BT_ROFF_H

#include <stdio.h>

/* The first line of a page: bt_roff_begin(file, "BETTY-RUN", 1). */
void bt_roff_begin(FILE *file, const char *title, int section);
/* Plain text, in which nothing is a request or an escape; words in backquotes become bold. */
void bt_roff(FILE *file, const char *text);
/* bt_roff, and a line end. */
void bt_roff_line(FILE *file, const char *text);

#endif
