/* data/png.c: reads PNG images with libpng. On a broken image it exits by longjmp, which stays within this file. */
#include "data/read.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>

typedef struct reading { /* all that is needed after a longjmp is here, not in local variables */
    bt_source *source;
    png_structp png;
    png_infop info;
    bt_picture_fn *place;
    void *user;
    char why[128];
    bt_status status; /* of a failure that was reported already */
} reading;

static void broken(png_structp png, png_const_charp why)
{
    reading *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", why);
    png_longjmp(png, 1);
}

static void nothing(png_structp png, png_const_charp warning)
{
    (void)png;
    (void)warning;
}

static void *get_memory(png_structp png, png_alloc_size_t size)
{
    (void)png;
    return bt_alloc(size);
}

static void free_memory(png_structp png, void *memory)
{
    (void)png;
    bt_free(memory);
}

static void get_bytes(png_structp png, png_bytep to, size_t size)
{
    reading *r = png_get_io_ptr(png);
    int64_t got;
    r->status = bt_source_read(r->source, to, (int64_t)size, &got);
    if (r->status != BT_OK || (size_t)got < size)
        png_error(png, "the file ends too early");
}

/* Asks for 8 bits per channel, palettes and 1, 2 or 4 bits expanded, no alpha; 1 or 3 channels. */
static void ask_for_bytes(reading *r)
{
    png_byte kind = png_get_color_type(r->png, r->info), bits = png_get_bit_depth(r->png, r->info);
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    if (kind == PNG_COLOR_TYPE_GRAY && bits < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    if (bits == 16)
        png_set_scale_16(r->png);
    png_set_strip_alpha(r->png); /* also that of a palette */
}

/* So that a short file with large sizes in its header takes no memory: deflate compresses at most 1032 bytes into
 * one. */
static void check_length(reading *r, const bt_picture *found)
{
    const int64_t row = (int64_t)png_get_rowbytes(r->png, r->info), most = bt_source_most(r->source);
    if (most < INT64_MAX / 1032 && row >= most * 1032 / found->height)
        png_error(r->png, "the file is too short for the sizes in its header");
}

static void read_rows(reading *r)
{
    bt_picture found = {.height = png_get_image_height(r->png, r->info),
                        .width = png_get_image_width(r->png, r->info),
                        .channels = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1,
                        .deep = png_get_bit_depth(r->png, r->info) == 16,
                        .transparent = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_ALPHA ||
                                       png_get_valid(r->png, r->info, PNG_INFO_tRNS)},
               due = found;
    uint8_t *pixels = NULL;
    check_length(r, &found);
    r->status = r->place(r->user, &found, &due.channels, &pixels);
    if (r->status != BT_OK)
        return;
    if (found.channels == 1 && due.channels == 3)
        png_set_gray_to_rgb(r->png);
    const int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    const size_t row = png_get_rowbytes(r->png, r->info);
    if (row != (size_t)(due.width * due.channels))
        png_error(r->png, "a row has the wrong length");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < due.height; y++)
            png_read_row(r->png, pixels + (size_t)y * row, NULL);
    png_read_end(r->png, NULL);
}

static void read_image(reading *r)
{
    if (setjmp(png_jmpbuf(r->png)))
        return;
    png_set_read_fn(r->png, r, get_bytes);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* texts, colour profiles, times, ... */
    png_read_info(r->png, r->info);
    ask_for_bytes(r);
    read_rows(r);
}

bt_status bt_read_png(bt_source *source, bt_picture_fn *place, void *user)
{
    reading r = {.source = source, .place = place, .user = user};
    const bt_status before = bt_error_status();
    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, broken, nothing, NULL, get_memory, free_memory);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (r.info)
        read_image(&r);
    if (r.status == BT_OK && bt_error_status() != before) /* an allocation failed */
        r.status = bt_error_status();
    else if (r.status == BT_OK && (!r.info || *r.why))
        r.status = bt_fail(BT_ERROR_DATA, "%s: not a complete PNG image: %s", bt_source_path(source),
                           r.info ? r.why : "libpng cannot start");
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return r.status;
}
