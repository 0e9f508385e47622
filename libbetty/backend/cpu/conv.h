/* backend/cpu/conv.h: how a convolution is cut into blocks, and the arguments of its inner loops.
 *
 * conv and conv_dx are the same kind of sum: each pixel of the result is a window of the images times packed weights.
 * conv_dw multiplies the same windows by the pixels of g. Pixels that see the same taps of the window are done
 * together: they have the same residue (if conv_dx has a stride) and the same taps outside the image. If that would
 * leave too few pixels in each class, a block of images is copied with a border of zeros instead, and the taps outside
 * are computed as well. */
#ifndef BT_CPU_CONV_H
#define BT_CPU_CONV_H

#include "backend/cpu/ahead.h"
#include "backend/cpu/cpu.h"

typedef enum bt_conv_kind { BT_CONV, BT_CONV_DX, BT_CONV_DW } bt_conv_kind;

/* One class of result pixels along one axis. Pixel i is at to_first + i to_step and reads tap t at from_first + i
 * from_step + t from_tap. All pixels of one residue share `packed` taps of packed weights, which begin with tap
 * window_first of the window and are window_step apart. The class begins with packed tap `skipped`. */
typedef struct bt_conv_axis {
    int64_t count, to_first, to_step;
    int64_t taps, from_first, from_step, from_tap;
    int64_t packed, skipped, window_first, window_step;
} bt_conv_axis;

typedef struct bt_conv_plan {
    bt_conv_kind kind;
    bt_dtype dtype;
    bool depthwise; /* one channel per group, in `from` and in `to` */
    bool narrow;    /* few result channels, from whole vectors of channels: conv_narrow.h */
    bt_conv_attr attr;
    int64_t n, groups, window[2];
    int64_t from[2], to[2];   /* heights and widths: conv x to y, conv_dx g to x, conv_dw x to g */
    int64_t inner, outer;     /* channels per group: of `from`, of `to` */
    int64_t strides[4];       /* of `from`, in elements */
    int64_t other_strides[4]; /* of the weights, or of g */
    int64_t to_strides[3];    /* between images, rows, pixels of the result, or of g */
    int64_t residues[2];

    /* planned */
    bool split;             /* taps outside the image are skipped; otherwise they read zeros */
    bool copied;            /* to scratch; otherwise `from` is read in place */
    int64_t rows;           /* of the result in a block: all, or part of one image */
    int64_t images;         /* in a block */
    int64_t low, width;     /* the columns of `from` that a block holds */
    int64_t height;         /* most rows of `from` that a block holds */
    int64_t pitch[3];       /* elements between images, rows, pixels of what is read */
    int64_t points;         /* most pixels in a block */
    int64_t part;           /* how many of them conv_dw sums at a time */
    int64_t units, threads; /* pieces of work; for conv_dw: rows of panels */
    int64_t across;         /* columns of a group's packed weights, with padding of the last panel */
    size_t block, table, list, own, packed, scratch; /* bytes of scratch; own: per thread */
} bt_conv_plan;

/* A block: images from `image` on, rows of the result from `row` on. It holds rows of `from` from `first` on. */
typedef struct bt_conv_block {
    int64_t image, images, row, rows, first, height;
} bt_conv_block;

/* ---- conv_plan.c: the same for all instruction sets ---- */

bool bt_conv_accepts(const bt_call *call);
/* Whether groups have so few channels that at least half of each vector (of columns / 2 lanes) would stay empty. */
bool bt_conv_leaves_half(const bt_call *call, int64_t columns);
/* tile: how many pixels, or rows of conv_dw's result, a tile has; columns: width of a panel. */
void bt_conv_plan_of(const bt_call *call, int64_t tile, int64_t columns, bt_conv_plan *plan);
/* All pixels of one residue; and the class among them that begins with pixel i. */
bt_conv_axis bt_conv_residue(const bt_conv_plan *plan, int axis, int64_t residue);
bt_conv_axis bt_conv_class(const bt_conv_plan *plan, int axis, const bt_conv_axis *all, int64_t i);
bt_conv_block bt_conv_block_of(const bt_conv_plan *plan, int64_t unit, int64_t unit_end);
int64_t bt_conv_block_units(const bt_conv_plan *plan, const bt_conv_block *block);
/* Finds where a class's pixels in the block read and are written (for conv_dw: where g's pixels are). Returns how many
 * there are; NULL: only counts them. */
int64_t bt_conv_table(const bt_conv_plan *plan, const bt_conv_block *block, const bt_conv_axis *axes, int64_t *from,
                      int64_t *to);
/* Lists the offsets, from a pixel's place, of a class's taps and channels in a group, and the row of conv_dw's result
 * for each; only those with begin <= row < end. Returns how many. rows may be NULL. */
int64_t bt_conv_list(const bt_conv_plan *plan, const bt_conv_axis *axes, int64_t begin, int64_t end, int64_t *list,
                     int64_t *rows);
int64_t bt_conv_columns(int64_t outer, int64_t columns); /* of packed weights, with padding of the last panel */

/* ---- conv_template.h: for one element type of one instruction set ---- */

typedef struct bt_conv_panel { /* pixels times one panel of weights */
    const void *from, *weights, *bias;
    void *to;
    const int64_t *at_from, *at_to; /* of each pixel */
    const int64_t *list;            /* for each row of weights: the offset from a pixel's place to read at */
    int64_t points, columns;
    int64_t runs, run, row, step; /* rows of weights: `runs` runs of `run` rows from `row` on, each `step` further */
    int64_t packed;               /* rows of weights in all */
    bt_ahead *ahead; /* two: over what the next block reads and writes; each pixel of each tile is a part */
} bt_conv_panel;

typedef struct bt_conv_sum { /* windows times pixels, summed over pixels: rows of conv_dw's result */
    const void *from, *g;
    void *to;
    const int64_t *at_from, *at_g; /* of each pixel */
    const int64_t *list, *rows; /* for each row: the offset from a pixel's place to read at; its place in the result */
    int64_t points, count;      /* pixels; rows */
    int64_t pitch, columns;     /* of the result */
    bt_ahead *ahead;            /* as above */
} bt_conv_sum;

typedef struct bt_conv_type {
    int64_t tile, columns; /* pixels, or rows of conv_dw's result, in a tile; width of a panel */
    void (*copy)(const bt_conv_plan *plan, const bt_conv_block *block, const void *from, void *to);
    void (*pack)(const bt_conv_plan *plan, const void *weights, void *to);
    void (*panel)(const bt_conv_panel *panel);
    void (*narrow)(const bt_conv_panel *panel);
    void (*sum)(const bt_conv_sum *sum); /* adds to the result */
    /* packs `columns` channels of each pixel, padded with zeros to a whole panel */
    void (*pack_g)(const void *g, int64_t channel_stride, const int64_t *at, int64_t points, int64_t columns, void *to);
    void (*depthwise)(const bt_conv_panel *panel);
    void (*depthwise_sum)(const bt_conv_sum *sum);
} bt_conv_type;

extern const bt_conv_type BT_ISA(bt_conv_f32), BT_ISA(bt_conv_f64);

#endif
