/* An image as PNG, PGM, PPM or JPEG. The first byte selects the format, whether to read it in colour, and whether to
 * fix the check sums of a PNG first; otherwise almost no input would get past them. */
#include "fuzz.h"

#include "data/read.h"
#include <string.h>
#include <zlib.h>

static volatile unsigned sum; /* so that each pixel is read */
static uint8_t *image;
static size_t room;
static int64_t channels_asked;

static bt_status place(void *user, const bt_picture *found, int64_t *channels, uint8_t **pixels)
{
    (void)user;
    fuzz_check(found->height > 0 && found->width > 0 && (found->channels == 1 || found->channels == 3), "no image");
    *channels = found->channels > channels_asked ? found->channels : channels_asked;
    if (!bt_mul_size((size_t)(found->height * found->width), (size_t)*channels, &room) || room > 1 << 26)
        return bt_fail(BT_ERROR_DATA, "too large");
    *pixels = image = bt_alloc(room);
    return image ? BT_OK : BT_ERROR_MEMORY;
}

static void repair(uint8_t *bytes, size_t size)
{
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        size_t length =
            (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 | (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (length > size - 12 - at)
            return;
        uint32_t sum = (uint32_t)crc32(crc32(0, NULL, 0), bytes + at + 4, (unsigned)length + 4);
        for (int i = 0; i < 4; i++)
            bytes[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static uint8_t content[1 << 16];
    const int how = size ? data[0] : 0;
    data += size > 0;
    size -= size > 0;
    size = size < sizeof content ? size : sizeof content;
    memcpy(content, data, size);
    if (how & 4)
        repair(content, size);
    image = NULL;
    channels_asked = how & 2 ? 3 : 1;
    const char *path = fuzz_file(0, content, size);
    bt_source *source = bt_source_open(path);
    fuzz_check(source != NULL, "the file cannot be opened");
    bt_status status = how & 8   ? bt_read_jpeg(source, place, NULL)
                       : how & 1 ? bt_read_pnm(source, place, NULL)
                                 : bt_read_png(source, place, NULL);
    bt_source_close(source);
    for (size_t i = 0; image && i < room; i++)
        sum += image[i];
    bt_free(image);
    fuzz_refused(status != BT_OK);
}
