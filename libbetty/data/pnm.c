/* data/pnm.c: reads images as binary PGM (grey) and PPM (colour): P5 or P6, then width, height and largest value as
 * decimal numbers, then one space and the samples. A largest value above 255 means two bytes per sample, big-endian. */
#include "data/read.h"

#include <string.h>

enum { LARGEST = 1 << 20 }; /* side of an image, in pixels */

static bt_status wrong(bt_source *source, const char *what)
{
    BT_TRY(bt_source_status(source));
    return bt_fail(BT_ERROR_DATA, "%s: %s; expected a binary PGM or PPM image (P5 or P6)", bt_source_path(source),
                   what);
}

static bool is_space(int byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* A byte of the header; a comment, from # to the end of the line, counts as a line end. */
static int header_byte(bt_source *source)
{
    int byte = bt_source_byte(source);
    for (bool comment = byte == '#'; comment; comment = byte >= 0 && byte != '\n')
        byte = bt_source_byte(source);
    return byte;
}

/* A number of the header and the single space after it. -1: there is none. */
static int64_t read_size(bt_source *source, int64_t most)
{
    int byte = header_byte(source);
    while (is_space(byte))
        byte = header_byte(source);
    int64_t value = byte >= '0' && byte <= '9' ? 0 : -1;
    for (; byte >= '0' && byte <= '9'; byte = header_byte(source))
        value = value < 0 || value * 10 + byte - '0' > most ? -1 : value * 10 + byte - '0';
    return is_space(byte) ? value : -1;
}

static bt_status too_short(bt_source *source, int64_t found, int64_t due)
{
    return bt_fail(BT_ERROR_DATA, "%s: the file has %lld bytes of pixels at most; its header promises %lld",
                   bt_source_path(source), (long long)found, (long long)due);
}

/* Expands grey pixels to three channels in place, starting from the last. */
static void spread(uint8_t *pixels, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; i--)
        memset(pixels + 3 * i, pixels[i], 3);
}

static bt_status too_light(bt_source *source, int64_t found, int64_t largest)
{
    return bt_fail(BT_ERROR_DATA, "%s: found a pixel of %lld; its header says at most %lld", bt_source_path(source),
                   (long long)found, (long long)largest);
}

static uint8_t to_byte(int64_t value, int64_t largest) { return (uint8_t)((value * 255 + largest / 2) / largest); }

/* Samples of two bytes, rounded to one. */
static bt_status read_deep(bt_source *source, int64_t size, int64_t largest, uint8_t *pixels)
{
    uint8_t piece[4096];
    for (int64_t done = 0; done < size;) {
        const int64_t left = size - done, count = left < (int64_t)sizeof piece / 2 ? left : (int64_t)sizeof piece / 2;
        int64_t got;
        BT_TRY(bt_source_read(source, piece, 2 * count, &got));
        if (got < 2 * count)
            return too_short(source, 2 * done + got, 2 * size);
        for (int64_t i = 0; i < count; i++) {
            const int64_t value = 256 * piece[2 * i] + piece[2 * i + 1];
            if (value > largest)
                return too_light(source, value, largest);
            pixels[done++] = to_byte(value, largest);
        }
    }
    return BT_OK;
}

static bt_status read_bytes(bt_source *source, const bt_picture *found, int64_t channels, int64_t largest,
                            uint8_t *pixels)
{
    const int64_t count = found->height * found->width, size = count * found->channels;
    int64_t got = size;
    BT_TRY(found->deep ? read_deep(source, size, largest, pixels) : bt_source_read(source, pixels, size, &got));
    if (got < size)
        return too_short(source, got, size);
    for (int64_t i = 0; i < size && largest < 255; i++) {
        if (pixels[i] > largest)
            return too_light(source, pixels[i], largest);
        pixels[i] = to_byte(pixels[i], largest);
    }
    if (found->channels == 1 && channels == 3)
        spread(pixels, count);
    return BT_OK;
}

bt_status bt_read_pnm(bt_source *source, bt_picture_fn *place, void *user)
{
    const int letter = bt_source_byte(source), kind = bt_source_byte(source);
    if (letter != 'P' || (kind != '5' && kind != '6'))
        return wrong(source, letter == 'P' && kind >= '1' && kind <= '4' ? "found a bitmap, or numbers as text"
                                                                         : "found something else");
    bt_picture found = {.channels = kind == '5' ? 1 : 3};
    found.width = read_size(source, LARGEST);
    found.height = found.width > 0 ? read_size(source, LARGEST) : -1;
    const int64_t largest = found.height > 0 ? read_size(source, 65535) : -1;
    if (largest < 1)
        return wrong(source, "the sizes in its header make no sense");
    found.deep = largest > 255;
    int64_t channels = found.channels, size = found.height * found.width * channels * (found.deep ? 2 : 1);
    uint8_t *pixels;
    if (bt_source_most(source) < size)
        return too_short(source, bt_source_most(source), size);
    BT_TRY(place(user, &found, &channels, &pixels));
    return read_bytes(source, &found, channels, largest, pixels);
}
