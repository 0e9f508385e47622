/* data/endless.c: the examples of a set as one endless sequence, epoch after epoch. */
#include "data/endless.h"

#include "base/random.h"

bt_endless bt_endless_of(int64_t count, uint64_t seed, uint32_t part)
{
    return (bt_endless){.count = count, .seed = seed, .part = part, .epoch = {-1, -1}};
}

bt_status bt_endless_shuffle(bt_endless *row, int64_t orders)
{
    row->orders = orders;
    for (int64_t i = 0; i < orders; i++)
        if (!(row->order[i] = bt_alloc_array((size_t)row->count, sizeof *row->order[i])))
            return BT_ERROR_MEMORY;
    return BT_OK;
}

void bt_endless_close(bt_endless *row)
{
    bt_free(row->order[0]);
    bt_free(row->order[1]);
}

static const int32_t *order_of(bt_endless *row, int64_t epoch)
{
    int64_t k = epoch % row->orders, n = row->count;
    if (row->epoch[k] != epoch) {
        for (int64_t i = 0; i < n; i++)
            row->order[k][i] = (int32_t)i;
        bt_random random = bt_random_begin(row->seed, BT_FOR_SHUFFLE, row->part, (uint64_t)epoch);
        bt_shuffle(row->order[k], n, &random);
        row->epoch[k] = epoch;
    }
    return row->order[k];
}

void bt_endless_places(bt_endless *row, int64_t from, int64_t count, int32_t *places)
{
    int64_t n = row->count;
    while (count > 0) {
        int64_t at = from % n, piece = n - at < count ? n - at : count;
        const int32_t *order = row->orders ? order_of(row, from / n) : NULL;
        for (int64_t i = 0; i < piece; i++)
            places[i] = order ? order[at + i] : (int32_t)(at + i);
        places += piece;
        from += piece;
        count -= piece;
    }
}
