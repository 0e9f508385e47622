/* A tokenizer.json; or GPT-2's vocab.json and merges.txt, separated by a zero byte. If it can be read, it encodes a
 * text. */
#include "fuzz.h"

#include "data/tokenizer.h"
#include <string.h>

#define TEXT "a b ab abc, The caf\xC3\xA9 1 22\n\n \xE4\xBB\x8A\xF0\x9F\x98\x80 don't [MASK]<s>"

void fuzz_one(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : size;
    const char *path = fuzz_file(0, data, first);
    bt_tokenizer *t = zero ? bt_read_gpt2(path, fuzz_file(1, zero + 1, size - first - 1)) : bt_read_tokenizer(path);
    fuzz_refused(!t);
    if (!t)
        return;
    int32_t ids[512];
    char text[512];
    const int64_t count = bt_tokenizer_encode(t, TEXT, -1, true, ids, BT_COUNT_OF(ids));
    fuzz_refused(count < 0);
    for (int64_t i = 0; i < count && i < BT_COUNT_OF(ids); i++)
        fuzz_check(ids[i] >= 0 && ids[i] < bt_tokenizer_size(t) && bt_tokenizer_token(t, ids[i]), "an id is no token");
    if (count > 0 && count <= BT_COUNT_OF(ids))
        fuzz_check(bt_tokenizer_decode(t, ids, count, true, text, BT_COUNT_OF(text)) >= 0, "tokens are no text");
    for (int which = 0; which < BT_SPECIALS; which++)
        fuzz_check(bt_tokenizer_special(t, (bt_special)which) < bt_tokenizer_size(t), "a special token is none");
    bt_tokenizer_free(t);
}
