/* data/jpeg.c: reads JPEG images with libjpeg-turbo. On a broken image it exits by longjmp, which stays within this
 * file. */
#include "data/read.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { MOST_SCANS = 500 };         /* of a progressive image: each scan processes all pixels */
enum { PIXELS_PER_BYTE = 64 * 8 }; /* upper bound: a block of 8 x 8 takes at least one bit */

typedef struct reading {          /* all that is needed after a longjmp is here, not in local variables */
    struct jpeg_error_mgr errors; /* must be first: libjpeg knows only this address */
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    jmp_buf back;
    uint8_t *line; /* with four channels, before conversion to colour */
    char why[JMSG_LENGTH_MAX];
    bt_status status; /* of a failure that was reported already */
} reading;

static void leave(reading *r, const char *why)
{
    snprintf(r->why, sizeof r->why, "%s", why);
    longjmp(r->back, 1);
}

static void broken(j_common_ptr jpeg)
{
    reading *r = (reading *)jpeg->err;
    char why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    leave(r, why);
}

/* Ignores warnings about flaws that every viewer tolerates, but not a missing end. */
static void warned(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF)
        broken(jpeg);
}

static void advanced(j_common_ptr jpeg)
{
    if (((j_decompress_ptr)jpeg)->input_scan_number > MOST_SCANS)
        leave((reading *)jpeg->err, "it has too many scans");
}

/* Converts a line of cyan, magenta, yellow and black to red, green and blue; Adobe's programs store the four
 * inverted. */
static void print_colours(const uint8_t *line, int64_t width, bool adobe, uint8_t *to)
{
    for (int64_t x = 0; x < width; x++, line += 4)
        for (int c = 0; c < 3; c++) {
            const int ink = adobe ? line[c] : 255 - line[c], black = adobe ? line[3] : 255 - line[3];
            *to++ = (uint8_t)((ink * black + 127) / 255);
        }
}

static void read_lines(reading *r, int64_t channels, uint8_t *pixels)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    const bool inks = jpeg->out_color_space == JCS_CMYK;
    const size_t row = (size_t)jpeg->output_width * (size_t)channels;
    if (jpeg->output_components != (inks ? 4 : (int)channels))
        leave(r, "its lines have the wrong length");
    if (inks && !(r->line = bt_alloc((size_t)jpeg->output_width * 4))) {
        r->status = BT_ERROR_MEMORY;
        return;
    }
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = pixels + (size_t)jpeg->output_scanline * row, *line = inks ? r->line : to;
        jpeg_read_scanlines(jpeg, &line, 1);
        if (inks)
            print_colours(line, jpeg->output_width, jpeg->saw_Adobe_marker, to);
    }
    jpeg_finish_decompress(jpeg);
}

static void read_image(reading *r, const char *bytes, int64_t size, bt_picture_fn *place, void *user)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    if (setjmp(r->back))
        return;
    jpeg_create_decompress(jpeg);
    jpeg->progress = &r->progress;
    jpeg_mem_src(jpeg, (const unsigned char *)bytes, (unsigned long)size);
    jpeg_read_header(jpeg, TRUE);
    const int64_t width = jpeg->image_width, height = jpeg->image_height;
    if (!jpeg->arith_code && width * height / PIXELS_PER_BYTE > size)
        leave(r, "the file is too short for the sizes in its header");
    bt_picture found = {.height = height, .width = width, .channels = jpeg->num_components == 1 ? 1 : 3};
    int64_t channels = found.channels;
    uint8_t *pixels = NULL;
    r->status = place(user, &found, &channels, &pixels);
    if (r->status != BT_OK)
        return;
    jpeg->out_color_space = jpeg->num_components == 4 ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(jpeg);
    read_lines(r, channels, pixels);
}

bt_status bt_read_jpeg(bt_source *source, bt_picture_fn *place, void *user)
{
    char *bytes = NULL;
    int64_t size = 0;
    reading *r = bt_alloc(sizeof *r);
    if (!r)
        return BT_ERROR_MEMORY;
    bt_status status = bt_source_rest(source, &bytes, &size);
    if (status == BT_OK) {
        r->jpeg.err = jpeg_std_error(&r->errors);
        r->errors.error_exit = broken;
        r->errors.emit_message = warned;
        r->progress.progress_monitor = advanced;
        read_image(r, bytes, size, place, user);
        jpeg_destroy_decompress(&r->jpeg);
        status = r->status == BT_OK && *r->why
                     ? bt_fail(BT_ERROR_DATA, "%s: not a complete JPEG image: %s", bt_source_path(source), r->why)
                     : r->status;
    }
    bt_free(r->line);
    bt_free(bytes);
    bt_free(r);
    return status;
}
