/* base/status.c: this thread's first failure. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE = 4096 };

static _Thread_local char message[MESSAGE];
static _Thread_local bt_status first;

const char *bt_error(void) { return message; }

bt_status bt_error_status(void) { return first; }

void bt_error_clear(void)
{
    message[0] = 0;
    first = BT_OK;
}

/* Ends a message that was cut off with dots. */
static void end_with_dots(char *text, int length, size_t room)
{
    if (length >= 0 && (size_t)length >= room)
        snprintf(text + room - 4, 4, "...");
}

static const char *status_text(bt_status status)
{
    switch (status) {
#define BT_STATUS_CASE(name, code, text)                                                                               \
    case name:                                                                                                         \
        return text;
        BT_STATUS_LIST(BT_STATUS_CASE)
#undef BT_STATUS_CASE
    }
    return "unknown status";
}

/* A name from a file or a command line may contain any bytes, but messages are printed on terminals. */
static void quote_controls(void)
{
    char raw[MESSAGE];
    if (!bt_has_controls(message))
        return;
    memcpy(raw, message, sizeof raw);
    bt_show_controls(message, sizeof message, raw);
}

bt_status bt_fail(bt_status status, const char *format, ...)
{
    if (message[0] || status == BT_OK)
        return status;
    first = status;
    va_list args;
    va_start(args, format);
    int length = format && *format ? vsnprintf(message, sizeof message, format, args) : 0;
    va_end(args);
    end_with_dots(message, length, sizeof message);
    if (length <= 0)
        snprintf(message, sizeof message, "%s", status_text(status));
    quote_controls();
    return status;
}

void bt_error_context(const char *format, ...)
{
    if (!message[0])
        return;
    char whole[2 * MESSAGE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(whole, MESSAGE - 3, format, args);
    va_end(args);
    if (length < 0 || length >= MESSAGE - 3)
        return;
    if (strncmp(message, whole, (size_t)length) == 0 && strncmp(message + length, ": ", 2) == 0)
        return; /* the context is there already: mention it only once */
    length += snprintf(whole + length, sizeof whole - (size_t)length, ": %s", message);
    end_with_dots(whole, length, sizeof message);
    memcpy(message, whole, sizeof message);
    quote_controls();
}

bt_failure bt_failure_take(void)
{
    bt_failure failure = {.status = first, .message = first == BT_OK ? NULL : bt_strdup(message)};
    bt_error_clear();
    return failure;
}

void bt_failure_give(bt_failure *failure)
{
    bt_fail(failure->status, "%s", failure->message ? failure->message : "out of memory");
    bt_free(failure->message);
    *failure = (bt_failure){BT_OK, NULL};
}
