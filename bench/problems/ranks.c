/* bench/problems/ranks.c: plain training of a residual network on noise images; bench/ranks.py measures it on several
 * ranks next to PyTorch. */
#include <betty/betty.h>
#include <stdlib.h>

enum { IMAGES = 1280, SIZE = 32, PIXELS = SIZE * SIZE * 3, CLASSES = 10 };

/* Bytes without a pattern; the Python side generates the same ones. */
static uint8_t noise(uint32_t i)
{
    i = (i ^ i >> 16) * 0x45d9f3bu;
    return (uint8_t)((i ^ i >> 16) * 0x45d9f3bu >> 24);
}

static bt_dataset *images(bt_problem *self)
{
    static int64_t labels[IMAGES];
    uint8_t *pixels = malloc(IMAGES * PIXELS);
    bt_dataset *data = bt_dataset_new(IMAGES);
    for (uint32_t i = 0; pixels && i < IMAGES * PIXELS; i++)
        pixels[i] = noise(i);
    for (int64_t i = 0; i < IMAGES; i++)
        labels[i] = i % CLASSES;
    bt_dataset_add(data, "x", BT_ARRAY(pixels, IMAGES, SIZE, SIZE, 3));
    bt_dataset_add(data, "label", BT_ARRAY(labels, IMAGES));
    free(pixels);
    return (void)self, data;
}

static bt_module *resnet(bt_problem *self)
{
    return bt_nn_resnet_cifar(bt_option_int(self, "depth", 32, 8, 1000), 3, CLASSES);
}

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_div(bt_cast(bt_field(batch, "x"), BT_F32), 255);
    return bt_mean(bt_cross_entropy(bt_forward(self, x), bt_field(batch, "label")));
}

static const bt_problem_def classifier = {
    .name = "classifier", .configure_train_data = images, .configure_module = resnet, .training_step = loss};

BT_EXPORT(.problems = {&classifier});
