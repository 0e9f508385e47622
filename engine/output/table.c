/* engine/output/table.c: rows of numbers as a CSV file. */
#include "engine/output/sinks_inside.h"

#include "io/file.h"
#include <math.h>
#include <string.h>

struct bt_table {
    bt_writer *file;
    bt_text line;
};

bt_table *bt_table_open(const char *path)
{
    bt_table *table = bt_alloc(sizeof *table);
    if (table && !(table->file = bt_writer_open(path))) {
        bt_free(table);
        return NULL;
    }
    return table;
}

void bt_csv_text(bt_text *line, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        bt_text_add(line, "%s", text);
        return;
    }
    bt_text_add(line, "\"");
    for (; *text; text++)
        bt_text_add(line, *text == '"' ? "\"\"" : "%c", *text);
    bt_text_add(line, "\"");
}

/* 9 digits are enough for a float. */
void bt_csv_number(bt_text *line, double value)
{
    if (isnan(value))
        bt_text_add(line, "nan");
    else
        bt_text_add(line, (double)(float)value == value ? "%.9g" : "%.17g", value);
}

static void next(bt_table *table)
{
    if (table->line.size)
        bt_text_add(&table->line, ",");
}

void bt_table_name(bt_table *table, const char *name)
{
    next(table);
    bt_csv_text(&table->line, name);
}

void bt_table_number(bt_table *table, double value)
{
    next(table);
    bt_csv_number(&table->line, value);
}

void bt_table_end_row(bt_table *table)
{
    bt_text_add(&table->line, "\n");
    if (!table->line.failed)
        bt_writer_put(table->file, table->line.data, (size_t)table->line.size);
    table->line.size = 0;
}

bt_status bt_table_close(bt_table *table, bool keep)
{
    if (!table)
        return BT_OK;
    const bool failed = table->line.failed;
    bt_status status = bt_writer_close(table->file, keep && !failed, NULL);
    bt_text_free(&table->line);
    bt_free(table);
    return failed && keep ? bt_fail(BT_ERROR_MEMORY, "out of memory for a row of predictions") : status;
}
