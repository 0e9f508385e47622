/* engine/output/table.c: rows of numbers as a CSV file. */
#include "engine/output/log.h"

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

static void next(bt_table *table)
{
    if (table->line.size)
        bt_text_add(&table->line, ",");
}

/* Quoted where it has to be: RFC 4180. */
void bt_table_name(bt_table *table, const char *name)
{
    next(table);
    if (!strpbrk(name, ",\"\r\n")) {
        bt_text_add(&table->line, "%s", name);
        return;
    }
    bt_text_add(&table->line, "\"");
    for (; *name; name++)
        bt_text_add(&table->line, *name == '"' ? "\"\"" : "%c", *name);
    bt_text_add(&table->line, "\"");
}

/* So that it reads back as it was: 9 digits do for a number that is a float. What is no number is nothing. */
void bt_table_number(bt_table *table, double value)
{
    next(table);
    if (isnan(value))
        bt_text_add(&table->line, "nan");
    else
        bt_text_add(&table->line, (double)(float)value == value ? "%.9g" : "%.17g", value);
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
