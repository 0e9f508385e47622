/* engine/output/ticker.c: the last line of a terminal, which is updated in place. */
#include "engine/output/ticker.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

bt_ticker bt_ticker_on(FILE *file) { return (bt_ticker){.file = file, .terminal = file && isatty(fileno(file))}; }

static int width(FILE *file)
{
    struct winsize size = {0};
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void bt_ticker_show(bt_ticker *ticker, const char *line)
{
    if (!ticker->terminal)
        return;
    fprintf(ticker->file, "\r\033[K%.*s", width(ticker->file) - 1, line);
    fflush(ticker->file);
    ticker->drawn = true;
}

void bt_ticker_erase(bt_ticker *ticker)
{
    if (!ticker->drawn)
        return;
    fputs("\r\033[K", ticker->file);
    fflush(ticker->file);
    ticker->drawn = false;
}

void bt_ticker_say(bt_ticker *ticker, const char *format, ...)
{
    if (!ticker->file)
        return;
    bt_ticker_erase(ticker);
    va_list args;
    va_start(args, format);
    vfprintf(ticker->file, format, args);
    va_end(args);
    fputc('\n', ticker->file);
    fflush(ticker->file);
}
