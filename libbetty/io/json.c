/* io/json.c: builds JSON when memory may run out. */
#include "io/json.h"

json_t *bt_json_string(const char *text)
{
    if (bt_is_utf8(text))
        return json_string(text);
    bt_text shown = {0};
    for (size_t bytes; *text; text += bytes ? bytes : 1)
        if ((bytes = bt_utf8_bytes(text)) > 0)
            bt_text_add(&shown, "%.*s", (int)bytes, text);
        else
            bt_text_add(&shown, "\\x%02x", (unsigned)(unsigned char)*text);
    json_t *string = shown.failed ? NULL : json_string(bt_text_get(&shown));
    bt_text_free(&shown);
    return string;
}

json_t *bt_json_with(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

json_t *bt_json_append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* Writes into a buffer of the exact size: when memory runs out, jansson's own growing buffers can silently lose a
 * key. */
char *bt_json_text(const json_t *value, size_t flags, size_t *size)
{
    size_t length = json_dumpb(value, NULL, 0, flags);
    char *text = length ? bt_alloc(length + 1) : NULL;
    if (text && json_dumpb(value, text, length, flags) == length) {
        text[length] = '\n';
        *size = length + 1;
        return text;
    }
    bt_free(text);
    bt_fail(BT_ERROR_MEMORY, "JSON: out of memory, or a text that is not UTF-8");
    return NULL;
}
