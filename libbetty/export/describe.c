/* export/describe.c: describes a network's inputs and output in words. */
#include "export/model.h"

void bt_forward_size(int64_t fewer, int64_t more, bt_text *text)
{
    int64_t times, parts;
    if (fewer == more) {
        bt_text_add(text, "%lld", (long long)fewer);
        return;
    }
    bt_onnx_ratio(fewer, &times, &parts);
    if (times > 1)
        bt_text_add(text, "%lld*", (long long)times);
    bt_text_add(text, "batch");
    if (parts > 1)
        bt_text_add(text, "/%lld", (long long)parts);
}

static void add_value(bt_text *text, const char *name, bt_array fewer, bt_array more)
{
    bt_text_add(text, "%s%s [", text->size ? " " : "", name);
    for (int a = 0; a < fewer.rank; a++) {
        bt_text_add(text, a ? ", " : "");
        bt_forward_size(fewer.dims[a], more.dims[a], text);
    }
    bt_text_add(text, "]");
}

void bt_forward_describe(const bt_forward_pair *pair, bt_text *text)
{
    const bt_graph *fewer = pair->of[0].graph, *more = pair->of[1].graph;
    bt_text line = {0};
    for (int i = 0; i < pair->inputs; i++) {
        bt_text_add(&line, i ? "," : "");
        add_value(&line, pair->names[i], bt_var_array(pair->of[0].inputs[i]), bt_var_array(pair->of[1].inputs[i]));
    }
    bt_text_add(&line, pair->inputs ? " ->" : "");
    add_value(&line, "output", bt_tensor_array(fewer->outputs[0]), bt_tensor_array(more->outputs[0]));
    bt_text_add(text, "%s", bt_text_get(&line));
    text->failed |= line.failed;
    bt_text_free(&line);
}
