/* bench/problems/resnet50.c: ResNet-50 (He et al. 2016) on synthetic images of 224 x 224, to plan its memory on several
 * ranks (docs/ranks.md). */
#include <betty/betty.h>
#include <stdlib.h>

enum { IMAGES = 1024, SIZE = 224, CLASSES = 1000 };

static bt_dataset *images(bt_problem *self)
{
    static int64_t labels[IMAGES];
    uint8_t *pixels = calloc(IMAGES, SIZE * SIZE * 3);
    for (int64_t i = 0; i < IMAGES; i++)
        labels[i] = i % CLASSES;
    bt_dataset *data = bt_dataset_new(IMAGES);
    bt_dataset_add(data, "x", BT_ARRAY(pixels, IMAGES, SIZE, SIZE, 3));
    bt_dataset_add(data, "label", BT_ARRAY(labels, IMAGES));
    free(pixels);
    return (void)self, data;
}

static bt_module *resnet(bt_problem *self) { return (void)self, bt_nn_resnet(50, 3, CLASSES); }

static bt_tensor *loss(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *x = bt_div(bt_cast(bt_field(batch, "x"), BT_F32), 255);
    return bt_mean(bt_cross_entropy(bt_forward(self, x), bt_field(batch, "label")));
}

static const bt_problem_def resnet50 = {
    .name = "resnet", .configure_train_data = images, .configure_module = resnet, .training_step = loss};

BT_EXPORT(.problems = {&resnet50});
