/* engine/output/sheet.c: tables of words, as lines of text or as Markdown. */
#include "engine/output/sheet.h"

struct bt_sheet {
    int64_t rows, columns; /* including the header row */
    bt_text *cells;        /* row by row, each with its note at the end */
};

bt_sheet *bt_sheet_new(int64_t rows, int64_t columns)
{
    bt_sheet *sheet = bt_alloc(sizeof *sheet);
    if (!sheet)
        return NULL;
    *sheet = (bt_sheet){.rows = rows + 1, .columns = columns};
    sheet->cells = bt_alloc_array((size_t)(rows + 1), (size_t)(columns + 1) * sizeof *sheet->cells);
    if (sheet->cells)
        return sheet;
    bt_free(sheet);
    return NULL;
}

void bt_sheet_free(bt_sheet *sheet)
{
    if (!sheet)
        return;
    for (int64_t i = 0; i < sheet->rows * (sheet->columns + 1); i++)
        bt_text_free(&sheet->cells[i]);
    bt_free(sheet->cells);
    bt_free(sheet);
}

bt_text *bt_sheet_cell(bt_sheet *sheet, int64_t row, int64_t column)
{
    return &sheet->cells[row * (sheet->columns + 1) + column];
}

bt_text *bt_sheet_note(bt_sheet *sheet, int64_t row) { return bt_sheet_cell(sheet, row, sheet->columns); }

static const bt_text *look(const bt_sheet *sheet, int64_t row, int64_t column)
{
    return &sheet->cells[row * (sheet->columns + 1) + column];
}

/* The width on a terminal: characters, not bytes. */
static int width_of(const bt_text *words)
{
    int width = 0;
    for (const char *c = bt_text_get(words); *c; c++)
        width += ((unsigned char)*c & 0xc0) != 0x80;
    return width;
}

/* 0: all cells are empty. */
static int width_of_column(const bt_sheet *sheet, int64_t column)
{
    int widest = 0;
    for (int64_t i = 1; i < sheet->rows; i++) {
        const int width = width_of(look(sheet, i, column));
        widest = width > widest ? width : widest;
    }
    const int header = width_of(look(sheet, 0, column));
    return widest && header > widest ? header : widest;
}

/* Adds one line of text without characters that would end a cell. */
static void add_plain(bt_text *text, const char *words, bool markdown)
{
    for (; *words; words++)
        bt_text_add(text, markdown && *words == '|' ? "\\%c" : "%c", (unsigned char)*words < ' ' ? ' ' : *words);
}

static void add_cell(bt_text *text, int64_t column, const bt_text *words, int width, bool markdown)
{
    const int blanks = width - width_of(words);
    bt_text_add(text, "%s%*s", markdown ? (column ? " | " : "| ") : column ? "  " : "", column ? blanks : 0, "");
    add_plain(text, bt_text_get(words), markdown);
    bt_text_add(text, "%*s", column ? 0 : blanks, "");
}

static void add_row(const bt_sheet *sheet, int64_t row, const int *widths, bool markdown, bt_text *text)
{
    const bt_text *note = look(sheet, row, sheet->columns);
    for (int64_t k = 0; k < (note->size ? 1 : sheet->columns); k++)
        if (widths[k])
            add_cell(text, k, look(sheet, row, k), widths[k], markdown);
    if (note->size) {
        bt_text_add(text, markdown ? " | " : "  ");
        add_plain(text, bt_text_get(note), markdown);
    }
    bt_text_add(text, markdown ? " |\n" : "\n");
}

void bt_sheet_add(const bt_sheet *sheet, bool markdown, bt_text *text)
{
    int *widths = sheet ? bt_alloc_array((size_t)sheet->columns + 1, sizeof *widths) : NULL;
    text->failed = text->failed || !widths;
    for (int64_t k = 0; widths && k < sheet->columns; k++)
        widths[k] = width_of_column(sheet, k);
    for (int64_t i = 0; widths && i < sheet->rows * (sheet->columns + 1); i++)
        text->failed = text->failed || sheet->cells[i].failed;
    for (int64_t i = 0; widths && i < sheet->rows; i++) {
        add_row(sheet, i, widths, markdown, text);
        for (int64_t k = 0; markdown && i == 0 && k < sheet->columns; k++)
            if (widths[k])
                bt_text_add(text, k ? "--: |" : "| --- |");
        bt_text_add(text, markdown && i == 0 ? "\n" : "");
    }
    bt_free(widths);
}
