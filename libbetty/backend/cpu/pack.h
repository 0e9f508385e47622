/* backend/cpu/pack.h: packs panels of matrices of one element type T, with its FULL_V and TURN_ALL; included by
 * templates. */

enum { FULL = BT_VECTOR / (int)sizeof(T) }; /* lanes of the widest vector */

/* Copies `deep` rows and `count` columns of b into rows of `width`, padded with zeros. */
static void pack(T *to, const T *b, int64_t b_row, int64_t b_column, int64_t deep, int64_t count, int64_t width)
{
    if (count < width && deep) /* an empty sum has no room for panels */
        memset(to, 0, (size_t)(deep * width) * sizeof(T));
    if (b_column == 1 && count == width && width % FULL == 0) {
        for (int64_t p = 0; p < deep; p++, b += b_row, to += width)
            for (int64_t j = 0; j < width; j += FULL)
                FULL_F(store)(to + j, FULL_F(load)(b + j));
    } else if (b_column == 1) {
        for (int64_t p = 0; p < deep; p++, b += b_row, to += width)
            memcpy(to, b, (size_t)count * sizeof(T));
    } else if (b_row == 1) {
        TURN_ALL(b, b_column, to, width, count, deep);
    } else {
        for (int64_t p = 0; p < deep; p++, b += b_row, to += width)
            for (int64_t j = 0; j < count; j++)
                to[j] = b[j * b_column];
    }
}
