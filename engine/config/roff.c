/* engine/config/roff.c: text in manual pages. */
#include "engine/config/roff.h"

#include "base/version.h"
#include <stdbool.h>
#include <string.h>

void bt_roff_begin(FILE *file, const char *title, int section)
{
    fprintf(file, ".TH %s %d %s \"libbetty %s\" libbetty\n", title, section, BT_VERSION_DATE, BT_VERSION);
}

void bt_roff(FILE *file, const char *text)
{
    bool bold = false, begins = true; /* begins: at the start of a line */
    for (const char *c = text; *c; c++) {
        if (begins && (*c == '.' || *c == '\''))
            fputs("\\&", file);
        begins = *c == '\n';
        if (*c == '`' && (bold || strchr(c + 1, '`')))
            fputs((bold = !bold) ? "\\fB" : "\\fR", file);
        else if (*c == '\\')
            fputs("\\e", file);
        else if (*c == '-')
            fputs("\\-", file);
        else
            fputc(*c, file);
    }
}

void bt_roff_line(FILE *file, const char *text)
{
    bt_roff(file, text);
    fputc('\n', file);
}
