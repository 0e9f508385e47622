/* backend/cpu/conv.h: how a convolution is cut into blocks, and what its inner loops are given.
 *
 * conv and conv_dx are one sum over places: each pixel of the result takes a window of the images, times packed
 * weights. conv_dw takes the same windows, times the pixels of g. What of an image lies outside of it is read as zeros:
 * a block of images, or of an image's rows, is first copied between zeros, unless all reads stay inside. conv_dx with
 * stride is one such sum for each class of pixels of equal residue, which see the same taps. */
#ifndef BT_CPU_CONV_H
#define BT_CPU_CONV_H

#include "backend/cpu/cpu.h"

typedef enum bt_conv_kind { BT_CONV, BT_CONV_DX, BT_CONV_DW } bt_conv_kind;

enum { BT_CONV_POINTS = 256 }; /* pixels that conv_dw sums in registers: their part of g stays in the first cache */

/* One class of result pixels along one axis: number i of them, at to_first + i to_step, takes tap t, which is
 * number tap_first + t tap_step of the window, from from_first + i from_step + t from_tap. */
typedef struct bt_conv_axis {
    int64_t count, to_first, to_step;
    int64_t taps, tap_first, tap_step;
    int64_t from_first, from_step, from_tap;
} bt_conv_axis;

typedef struct bt_conv_plan {
    bt_conv_kind kind;
    bt_dtype dtype;
    bool depthwise; /* one channel in each group, on both sides */
    bt_conv_attr attr;
    int64_t n, groups, window[2];
    int64_t from[2], to[2];   /* heights and widths: conv x to y, conv_dx g to x, conv_dw x to g */
    int64_t inner, outer;     /* channels of each group: of `from`, of `to` */
    int64_t strides[4];       /* of `from`, in elements */
    int64_t other_strides[4]; /* of the weights, or of g */
    int64_t classes[2];

    /* planned */
    bool copied;            /* into scratch; else `from` is read where it is */
    int64_t rows;           /* of the result in a block: all, or a piece of one image */
    int64_t images;         /* in a block */
    int64_t low, width;     /* the columns of `from` that are held */
    int64_t height;         /* rows of `from` that are held, at most */
    int64_t pitch[3];       /* elements from image to image, row to row, pixel to pixel of what is read */
    int64_t points;         /* most pixels of a block */
    int64_t units, threads; /* pieces of work; of conv_dw: tiles */
    size_t packed, block, table, list, own, scratch; /* bytes of scratch: own is what each thread has */
} bt_conv_plan;

/* A block: images from image on, rows of the result from row on; `first` of its rows of `from` is held first. */
typedef struct bt_conv_block {
    int64_t image, images, row, rows, first, height;
} bt_conv_block;

/* ---- conv_plan.c: the same for all instruction sets ---- */

bool bt_conv_accepts(const bt_call *call);
/* rows: tile height of conv_dw; columns: width of a panel. */
void bt_conv_plan_of(const bt_call *call, int64_t columns, int64_t rows, bt_conv_plan *plan);
bt_conv_axis bt_conv_axis_of(const bt_conv_plan *plan, int axis, int64_t class);
bt_conv_block bt_conv_block_of(const bt_conv_plan *plan, int64_t unit, int64_t unit_end);
int64_t bt_conv_block_units(const bt_conv_plan *plan, const bt_conv_block *block);
/* Where the block's pixels of a class read and are written; either may be NULL. Returns how many there are. */
int64_t bt_conv_table(const bt_conv_plan *plan, const bt_conv_block *block, const bt_conv_axis *axes, int64_t *from,
                      int64_t *to);
/* Where a class's taps and channels of a group lie, from its pixels' places on; returns how many there are. */
int64_t bt_conv_list(const bt_conv_plan *plan, const bt_conv_axis *axes, int64_t *list);
size_t bt_conv_columns(int64_t outer, int64_t columns); /* of packed weights, with the last panel's padding */

/* ---- conv_template.h: for one element type of one instruction set ---- */

typedef struct bt_conv_panel { /* pixels times one panel of weights */
    const void *from, *weights, *bias;
    void *to;
    const int64_t *at_from, *at_to; /* of each pixel */
    const int64_t *list;            /* what is read for each row of weights, from a pixel's place on */
    int64_t points, rows, columns;
} bt_conv_panel;

typedef struct bt_conv_sum { /* windows times pixels, summed over pixels: rows of conv_dw's result */
    const void *from, *g;
    void *to;
    const int64_t *at_from, *list; /* as above */
    int64_t points, pitch;         /* of g, from pixel to pixel */
    int64_t to_pitch, row, row_end, columns;
    bool add;
} bt_conv_sum;

typedef struct bt_conv_type {
    int64_t columns, rows; /* of a panel; of a tile of conv_dw */
    void (*copy)(const bt_conv_plan *plan, const bt_conv_block *block, const void *from, void *to);
    void (*pack)(const bt_conv_plan *plan, const void *weights, void *to);
    void (*panel)(const bt_conv_panel *panel);
    void (*sum)(const bt_conv_sum *sum);
    void (*pack_g)(const bt_conv_plan *plan, const bt_conv_block *block, const void *g, int64_t first, int64_t points,
                   int64_t columns, void *packed);
    void (*depthwise)(const bt_conv_panel *panel);
    void (*depthwise_sum)(const bt_conv_sum *sum);
} bt_conv_type;

extern const bt_conv_type BT_ISA(bt_conv_f32), BT_ISA(bt_conv_f64);

#endif
