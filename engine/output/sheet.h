/* engine/output/sheet.h: cells of words in rows and columns, as lines of text or as Markdown. */
#ifndef BT_SHEET_H
#define BT_SHEET_H

#include "base/base.h"

typedef struct bt_sheet bt_sheet;

bt_sheet *bt_sheet_new(int64_t rows, int64_t columns); /* NULL: out of memory */
void bt_sheet_free(bt_sheet *sheet);                   /* NULL ok */

/* What a cell says, to add to. Row 0 has the headers. A column whose cells below it are all empty is left out. */
bt_text *bt_sheet_cell(bt_sheet *sheet, int64_t row, int64_t column);
/* What stands in the place of all of a row's cells but the first; empty: they do. */
bt_text *bt_sheet_note(bt_sheet *sheet, int64_t row);

/* The first column to the left, the others to the right. */
void bt_sheet_add(const bt_sheet *sheet, bool markdown, bt_text *text);

#endif
