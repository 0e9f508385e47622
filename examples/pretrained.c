/* pretrained.c: published weights of a residual network, applied to CIFAR-10 images.
 * pretrained WEIGHTS.safetensors DATA [DEPTH [LOGITS]]: prints the accuracy; LOGITS: a file for all logits, as floats.
 */
#include <betty/betty.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 100, CLASSES = 10 };

static bt_tensor *logits(void *user, const bt_batch *batch)
{
    static const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
    bt_tensor *image = bt_sub(bt_field(batch, "image"), bt_constant(BT_ARRAY(mean, 3)));
    return bt_forward((bt_module *)user, bt_div(image, bt_constant(BT_ARRAY(deviation, 3))));
}

static bt_tensor *field(void *user, const bt_batch *batch) { return bt_field(batch, "%s", (const char *)user); }

static int64_t largest(const float *x)
{
    int64_t best = 0;
    for (int64_t i = 1; i < CLASSES; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* How many images are classified correctly, and how many there are. Batches are shuffled, the file is not. */
static bt_status classify(bt_module *net, bt_loader *loader, FILE *out, int64_t *right, int64_t *count)
{
    static char label[] = "label", index[] = "index";
    bt_function *score = bt_function_new(logits, net, BT_VALID), *truth = bt_function_new(field, label, BT_VALID),
                *place = bt_function_new(field, index, BT_VALID);
    const bt_batch *batch;
    bt_status status;
    while ((status = bt_loader_next(loader, &batch)) == BT_OK) {
        float x[BATCH * CLASSES];
        int64_t y[BATCH], at[BATCH], n = bt_batch_count(batch);
        status = bt_function_run(score, batch, BT_ARRAY(x, n, CLASSES));
        if (status == BT_OK)
            status = bt_function_run(truth, batch, BT_ARRAY(y, n));
        if (status == BT_OK)
            status = bt_function_run(place, batch, BT_ARRAY(at, n));
        if (status != BT_OK)
            break;
        for (int64_t i = 0; i < n; i++)
            *right += largest(x + i * CLASSES) == y[i];
        for (int64_t i = 0; out && i < n; i++)
            if (fseek(out, (long)(at[i] * CLASSES * (int64_t)sizeof *x), SEEK_SET) == 0)
                fwrite(x + i * CLASSES, sizeof *x, CLASSES, out);
        *count += n;
    }
    bt_function_free(score);
    bt_function_free(truth);
    bt_function_free(place);
    return status == BT_DONE ? BT_OK : status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "pretrained WEIGHTS.safetensors DATA [DEPTH [LOGITS]]\n");
        return 2;
    }
    int64_t right = 0, count = 0;
    bt_module *net = bt_nn_resnet_cifar(argc > 3 ? atoll(argv[3]) : 32, 3, CLASSES);
    bt_loader *loader = bt_loader_new(bt_dataset_open(argv[2], "train"), BATCH, 1);
    FILE *out = argc > 4 ? fopen(argv[4], "wb") : NULL;
    bt_module_init(net, BT_CPU, BT_F32, 1);
    bt_module_load(net, argv[1], NULL, stdout);
    bt_status status = classify(net, loader, out, &right, &count);
    if (status == BT_OK && !*bt_error())
        printf("accuracy %.4f of %lld images\n", (double)right / (double)count, (long long)count);
    else
        fprintf(stderr, "%s\n", bt_error());
    if (out)
        fclose(out);
    bt_loader_free(loader);
    bt_module_free(net);
    return *bt_error() ? 1 : 0;
}
