/* engine/output/sheet.h: a table of text cells, printed as plain text or as Markdown. */
#ifndef BT_SHEET_H
#define BT_SHEET_H

#include "base/base.h"

typedef struct bt_sheet bt_sheet;

bt_sheet *bt_sheet_new(int64_t rows, int64_t columns); /* NULL: out of memory */
void bt_sheet_free(bt_sheet *sheet);                   /* NULL ok */

/* The text of a cell, to add to. Row 0 has the headers. A column with no text below its header is left out. */
bt_text *bt_sheet_cell(bt_sheet *sheet, int64_t row, int64_t column);
/* A note that replaces all cells of a row but the first; empty: the cells are printed. */
bt_text *bt_sheet_note(bt_sheet *sheet, int64_t row);

/* Adds the table: the first column aligned to the left, the others to the right. */
void bt_sheet_add(const bt_sheet *sheet, bool markdown, bt_text *text);

#endif
