/* engine/output/json.c: values as JSON. */
#include "engine/output/json.h"

#include <math.h>

json_t *bt_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

const char *bt_json_read_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double bt_json_read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool add_metric(json_t *object, const bt_metric_value *metric)
{
    bool good = json_object_set_new(object, metric->name, bt_json_number(metric->value)) == 0;
    if (isnan(metric->interval))
        return good;
    char *name = bt_string("%s.interval", metric->name);
    good = name && json_object_set_new(object, name, bt_json_number(metric->interval)) == 0 && good;
    bt_free(name);
    return good;
}

bool bt_json_metrics(json_t *object, const bt_metric_value *metrics, int count)
{
    bool good = object != NULL;
    for (int i = 0; i < count && good; i++)
        good = add_metric(object, &metrics[i]);
    return good;
}

bt_status bt_json_write(const char *folder, const char *name, const json_t *value, size_t flags)
{
    size_t size;
    char *text = bt_json_text(value, flags, &size);
    if (!text) {
        bt_error_context("%s", name);
        return BT_ERROR_MEMORY;
    }
    bt_status status = bt_output_write(folder, name, text, size);
    bt_free(text);
    return status;
}

bt_status bt_json_print(const json_t *value, FILE *file)
{
    size_t size;
    char *text = bt_json_text(value, JSON_INDENT(2), &size);
    if (!text)
        return BT_ERROR_MEMORY;
    fwrite(text, 1, size, file);
    bt_free(text);
    return BT_OK;
}
