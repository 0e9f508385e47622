/* backend/cpu/conv.h: how a convolution is cut into blocks, and what its inner loops are given.
 *
 * conv and conv_dx are one sum over places: each pixel of the result takes a window of the images, times packed
 * weights. conv_dw takes the same windows, times the pixels of g. Pixels that see the same taps of the window are done
 * together: by their residue, where conv_dx has a stride, and by which taps lie outside of the image. Where that would
 * leave too few in each class, a block of images is copied between zeros instead, and the taps outside count as well.
 */
#ifndef BT_CPU_CONV_H
#define BT_CPU_CONV_H

#include "backend/cpu/cpu.h"

typedef enum bt_conv_kind { BT_CONV, BT_CONV_DX, BT_CONV_DW } bt_conv_kind;

/* One class of result pixels along one axis: number i of them, at to_first + i to_step, takes tap t at from_first + i
 * from_step + t from_tap. All pixels of one residue have the same packed weights: of `packed` taps, the first of which
 * is number window_first of the window, and the next window_step further; the class begins with number `skipped`. */
typedef struct bt_conv_axis {
    int64_t count, to_first, to_step;
    int64_t taps, from_first, from_step, from_tap;
    int64_t packed, skipped, window_first, window_step;
} bt_conv_axis;

typedef struct bt_conv_plan {
    bt_conv_kind kind;
    bt_dtype dtype;
    bool depthwise; /* one channel in each group, on both sides */
    bool narrow;    /* few channels of the result, from whole vectors of channels: conv_narrow.h */
    bt_conv_attr attr;
    int64_t n, groups, window[2];
    int64_t from[2], to[2];   /* heights and widths: conv x to y, conv_dx g to x, conv_dw x to g */
    int64_t inner, outer;     /* channels of each group: of `from`, of `to` */
    int64_t strides[4];       /* of `from`, in elements */
    int64_t other_strides[4]; /* of the weights, or of g */
    int64_t to_strides[3];    /* from image to image, row to row, pixel to pixel of the result, or of g */
    int64_t residues[2];

    /* planned */
    bool split;             /* taps outside of the image are left out; else they read zeros */
    bool copied;            /* into scratch; else `from` is read where it is */
    int64_t rows;           /* of the result in a block: all, or a piece of one image */
    int64_t images;         /* in a block */
    int64_t low, width;     /* the columns of `from` that are held */
    int64_t height;         /* rows of `from` that are held, at most */
    int64_t pitch[3];       /* elements from image to image, row to row, pixel to pixel of what is read */
    int64_t points;         /* most pixels of a block */
    int64_t part;           /* of them, conv_dw sums so many at a time */
    int64_t units, threads; /* pieces of work; of conv_dw: rows of panels */
    int64_t across;         /* columns of a group's packed weights, with the last panel's padding */
    size_t block, table, list, own, packed, scratch; /* bytes of scratch: own is what each thread has */
} bt_conv_plan;

/* A block: images from image on, rows of the result from row on; `first` of its rows of `from` is held first. */
typedef struct bt_conv_block {
    int64_t image, images, row, rows, first, height;
} bt_conv_block;

/* ---- conv_plan.c: the same for all instruction sets ---- */

bool bt_conv_accepts(const bt_call *call);
/* Whether groups have so few channels that at least half of each vector, of columns / 2, would stay empty. */
bool bt_conv_leaves_half(const bt_call *call, int64_t columns);
/* tile: how many pixels, or rows of conv_dw's result, are done at a time; columns: width of a panel. */
void bt_conv_plan_of(const bt_call *call, int64_t tile, int64_t columns, bt_conv_plan *plan);
/* All pixels of one residue; of these, the class that begins with number i. */
bt_conv_axis bt_conv_residue(const bt_conv_plan *plan, int axis, int64_t residue);
bt_conv_axis bt_conv_class(const bt_conv_plan *plan, int axis, const bt_conv_axis *all, int64_t i);
bt_conv_block bt_conv_block_of(const bt_conv_plan *plan, int64_t unit, int64_t unit_end);
int64_t bt_conv_block_units(const bt_conv_plan *plan, const bt_conv_block *block);
/* Where the block's pixels of a class read and are written (conv_dw: where g's are); NULL: only counts them. */
int64_t bt_conv_table(const bt_conv_plan *plan, const bt_conv_block *block, const bt_conv_axis *axes, int64_t *from,
                      int64_t *to);
/* Where a class's taps and channels of a group lie, from its pixels' places on, and which row of conv_dw's result each
 * is; only those with begin <= row < end. Returns how many. rows may be NULL. */
int64_t bt_conv_list(const bt_conv_plan *plan, const bt_conv_axis *axes, int64_t begin, int64_t end, int64_t *list,
                     int64_t *rows);
int64_t bt_conv_columns(int64_t outer, int64_t columns); /* of packed weights, with the last panel's padding */

/* ---- conv_template.h: for one element type of one instruction set ---- */

typedef struct bt_conv_ahead { /* what the next block reads and writes: fetched line by line while this one is done */
    struct {
        const char *line, *end;
        int64_t due, step; /* 1024ths of a byte: due now, and with each pixel of each tile */
    } part[2];
} bt_conv_ahead;

typedef struct bt_conv_panel { /* pixels times one panel of weights */
    const void *from, *weights, *bias;
    void *to;
    const int64_t *at_from, *at_to; /* of each pixel */
    const int64_t *list;            /* what is read for each row of weights, from a pixel's place on */
    int64_t points, columns;
    int64_t runs, run, row, step; /* rows of weights: so many runs of so many, the first from row on, each by step on */
    int64_t packed;               /* of all of them */
    bt_conv_ahead *ahead;
} bt_conv_panel;

typedef struct bt_conv_sum { /* windows times pixels, summed over pixels: rows of conv_dw's result */
    const void *from, *g;
    void *to;
    const int64_t *at_from, *at_g; /* of each pixel */
    const int64_t *list, *rows;    /* what is read for each row, from a pixel's place on; its place in the result */
    int64_t points, count;         /* pixels; rows */
    int64_t pitch, columns;        /* of the result */
    bt_conv_ahead *ahead;
} bt_conv_sum;

typedef struct bt_conv_type {
    int64_t tile, columns; /* pixels, or rows of conv_dw's result, in a tile; width of a panel */
    void (*copy)(const bt_conv_plan *plan, const bt_conv_block *block, const void *from, void *to);
    void (*pack)(const bt_conv_plan *plan, const void *weights, void *to);
    void (*panel)(const bt_conv_panel *panel);
    void (*narrow)(const bt_conv_panel *panel);
    void (*sum)(const bt_conv_sum *sum); /* adds to the result */
    /* `columns` channels of pixels, side by side with zeros up to a whole panel */
    void (*pack_g)(const void *g, int64_t channel_stride, const int64_t *at, int64_t points, int64_t columns, void *to);
    void (*depthwise)(const bt_conv_panel *panel);
    void (*depthwise_sum)(const bt_conv_sum *sum);
} bt_conv_type;

extern const bt_conv_type BT_ISA(bt_conv_f32), BT_ISA(bt_conv_f64);

#endif
