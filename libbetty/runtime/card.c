/* runtime/card.c: reads the description of a card; its fields are those by which cuDNN 9 describes a device. */
#include "runtime/card.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum kind { NUMBER, THREE, NAME };

static const struct field {
    const char *name;
    enum kind kind;
    int64_t least, most;
} fields[] = {
    {"maxGridSize", THREE, 1, INT32_MAX},
    {"maxBlockSize", THREE, 1, INT32_MAX},
    {"regsPerBlock", NUMBER, 1, INT32_MAX},
    {"multiProcessorCount", NUMBER, 1, 65535},
    {"warpSize", NUMBER, 32, 32},
    {"maxSharedMemoryPerBlock", NUMBER, 1, INT32_MAX},
    {"maxSharedMemoryPerBlockOptin", NUMBER, 1, INT32_MAX},
    {"reservedSharedMemoryPerBlock", NUMBER, 0, INT32_MAX},
    {"maxRegistersPerSM", NUMBER, 1, INT32_MAX},
    {"maxCtasPerSM", NUMBER, 1, 65535},
    {"maxThreadsPerBlock", NUMBER, 1, 65535},
    {"maxThreadsPerSM", NUMBER, 1, 65535},
    {"pciDeviceId", NUMBER, 0, INT32_MAX},
    {"isTccDriver", NUMBER, 0, 1},
    {"supportCoopLaunch", NUMBER, 0, 1},
    {"totalGlobalMem", NUMBER, 1, INT64_C(1) << 50},
    {"smClockRateKHz", NUMBER, 0, INT32_MAX},
    {"memClockRateKHz", NUMBER, 0, INT32_MAX},
    {"l2CacheSize", NUMBER, 0, INT32_MAX},
    {"cudaDeviceId", NUMBER, 0, 65535},
    {"deviceVer", NUMBER, 500, 9990},
    {"driverVer", NUMBER, 0, INT32_MAX},
    {"deviceName", NAME, 1, sizeof((bt_card *)NULL)->name - 1},
};

static bt_status bad(const char *from, const struct field *field, const json_t *value)
{
    char *found = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char wanted[96];
    if (field->kind == NAME)
        snprintf(wanted, sizeof wanted, "a text of 1 to %lld bytes", (long long)field->most);
    else
        snprintf(wanted, sizeof wanted, "%s of %lld to %lld", field->kind == THREE ? "three numbers" : "a number",
                 (long long)field->least, (long long)field->most);
    const bt_status status = bt_fail(BT_ERROR_DATA, "device profile %s: \"%s\" is %.200s; expected %s", from,
                                     field->name, found ? found : "missing", wanted);
    free(found);
    return status;
}

static bool is_number(const struct field *field, const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= field->least &&
           json_integer_value(value) <= field->most;
}

static bool is_good(const struct field *field, const json_t *value)
{
    if (field->kind == NUMBER)
        return is_number(field, value);
    if (field->kind == NAME)
        return json_is_string(value) && json_string_length(value) >= 1 &&
               json_string_length(value) <= (size_t)field->most &&
               strlen(json_string_value(value)) == json_string_length(value);
    bool good = json_is_array(value) && json_array_size(value) == 3;
    for (size_t i = 0; good && i < 3; i++)
        good = is_number(field, json_array_get(value, i));
    return good;
}

/* Copies only the known fields, for cuDNN. */
static bt_status take(const char *from, const json_t *root, json_t *known)
{
    if (!json_is_object(root))
        return bt_fail(BT_ERROR_DATA,
                       "device profile %s: it does not contain a JSON object; expected {\"deviceName\": ...}", from);
    for (int i = 0; i < BT_COUNT_OF(fields); i++) {
        json_t *value = json_object_get(root, fields[i].name);
        if (!value || !is_good(&fields[i], value))
            return bad(from, &fields[i], value);
        if (json_object_set(known, fields[i].name, value) != 0)
            return bt_fail(BT_ERROR_MEMORY, "out of memory: device profile %s", from);
    }
    return BT_OK;
}

static bt_status make(const char *from, const json_t *root, bt_card *card)
{
    json_t *known = json_object();
    if (!known)
        return bt_fail(BT_ERROR_MEMORY, "out of memory: device profile %s", from);
    bt_status status = take(from, root, known);
    if (status == BT_OK) {
        char *text = json_dumps(known, JSON_COMPACT);
        bt_card made = {.memory = json_integer_value(json_object_get(known, "totalGlobalMem")),
                        .processors = json_integer_value(json_object_get(known, "multiProcessorCount")),
                        .capability = json_integer_value(json_object_get(known, "deviceVer")),
                        .text = text ? bt_strdup(text) : NULL};
        snprintf(made.name, sizeof made.name, "%s", json_string_value(json_object_get(known, "deviceName")));
        free(text);
        if (made.text)
            *card = made;
        else
            status = bt_fail(BT_ERROR_MEMORY, "out of memory: device profile %s", from);
    }
    json_decref(known);
    return status;
}

static bt_status finish(const char *from, json_t *root, const json_error_t *error, bt_card *card)
{
    if (!root)
        return bt_fail(BT_ERROR_DATA, "device profile %s: line %d: %s; expected JSON as cuDNN writes it for a device",
                       from, error->line, error->text);
    const bt_status status = make(from, root, card);
    json_decref(root);
    return status;
}

bt_status bt_card_parse(const char *from, const char *text, size_t size, bt_card *card)
{
    json_error_t error = {0};
    return finish(from, json_loadb(text, size, JSON_REJECT_DUPLICATES, &error), &error, card);
}

bt_status bt_card_read(const char *path, bt_card *card)
{
    json_error_t error = {0};
    FILE *file = fopen(path, "re");
    if (!file)
        return bt_fail(BT_ERROR_FILE, "device profile %s cannot be opened: %s", path, strerror(errno));
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    return finish(path, root, &error, card);
}

void bt_card_free(bt_card *card)
{
    bt_free(card->text);
    *card = (bt_card){0};
}
