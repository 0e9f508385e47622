/* engine/output/ticker.h: the last line of a terminal, rewritten during the run, and lines that stay above it. A pipe
 * gets only the lines that stay. */
#ifndef BT_TICKER_H
#define BT_TICKER_H

#include "base/base.h"
#include <stdio.h>

typedef struct bt_ticker {
    FILE *file; /* NULL: silent */
    bool terminal, drawn;
} bt_ticker;

bt_ticker bt_ticker_on(FILE *file);
void bt_ticker_show(bt_ticker *ticker, const char *line); /* cut so that it never wraps */
void bt_ticker_erase(bt_ticker *ticker);
void bt_ticker_say(bt_ticker *ticker, const char *format, ...) BT_FORMAT(2, 3); /* a line that stays */

#endif
