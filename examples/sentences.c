/* sentences.c: vectors of sentences from a published encoder like BERT, all-MiniLM-L6-v2 (Reimers and Gurevych 2019,
 * Wang et al. 2020): the mean of its outputs for a sentence's tokens, scaled to length 1.
 * sentences MODEL < LINES > VECTORS: MODEL is a folder with model.safetensors and tokenizer.json; a line is a sentence,
 * and becomes 384 floats. */
#include <betty/betty.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 384, MOST = 256 }; /* of a vector; of a sentence's tokens, any more are cut off */

static bt_module *encoder(void)
{
    bt_transformer_options o = bt_transformer_defaults();
    o.width = WIDTH;
    o.heads = 12;
    o.layers = 6;
    o.vocabulary = 30522;
    o.length = 512;
    o.types = 2;
    o.eps = 1e-12;
    o.causal = o.pre_norm = o.final_norm = o.head = false;
    o.embedding_norm = true;
    return bt_nn_transformer(&o);
}

static bt_tensor *vector(void *net, const bt_batch *batch)
{
    bt_tensor *token = bt_field(batch, "token"); /* [1, tokens] */
    bt_tensor *mean = bt_mean(bt_forward((bt_module *)net, token, bt_mul(token, 0)), 1);
    return bt_div(mean, bt_sqrt(bt_sum(bt_square(mean))));
}

static bt_status put(bt_function *function, const bt_tokenizer *tokenizer, const char *line)
{
    int32_t ids[MOST];
    float values[WIDTH];
    int64_t count = bt_tokenizer_encode(tokenizer, line, -1, true, ids, MOST);
    bt_batch *batch = bt_batch_new();
    bt_status status = count < 0 ? BT_ERROR_DATA : BT_OK;
    if (status == BT_OK)
        status = bt_batch_set(batch, "token", BT_ARRAY(ids, 1, count < MOST ? count : MOST));
    if (status == BT_OK)
        status = bt_function_run(function, batch, BT_ARRAY(values, 1, WIDTH));
    if (status == BT_OK)
        fwrite(values, sizeof *values, WIDTH, stdout);
    bt_batch_free(batch);
    return status;
}

int main(int argc, char **argv)
{
    char path[4096], line[65536];
    if (argc != 2) {
        fprintf(stderr, "sentences MODEL < LINES > VECTORS\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", argv[1]);
    bt_tokenizer *tokenizer = bt_tokenizer_open(path);
    snprintf(path, sizeof path, "%s/model.safetensors", argv[1]);
    bt_module *net = encoder();
    bt_load_options options = {.layout = BT_LAYOUT_BERT};
    bt_status status = tokenizer ? bt_module_init(net, BT_CPU, BT_F32, 1) : BT_ERROR_DATA;
    if (status == BT_OK)
        status = bt_module_load(net, path, &options, stderr);
    bt_function *function = bt_function_new(vector, net, BT_VALID); /* compiled for each length of a sentence */
    while (status == BT_OK && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        status = put(function, tokenizer, line);
    }
    if (status != BT_OK)
        fprintf(stderr, "%s\n", bt_error());
    bt_function_free(function);
    bt_module_free(net);
    bt_tokenizer_free(tokenizer);
    return status != BT_OK;
}
