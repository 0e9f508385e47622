/* A GPU description. The values read are within bounds, and the printed form reads back to the same. */
#include "fuzz.h"

#include "runtime/card.h"
#include <string.h>

void fuzz_one(const uint8_t *data, size_t size)
{
    bt_card card = {0}, again = {0};
    const bool refused = bt_card_parse("fuzz", (const char *)data, size, &card) != BT_OK;
    fuzz_refused(refused);
    if (refused)
        return;
    fuzz_check(card.memory > 0 && card.processors > 0 && card.capability > 0 && *card.name, "a field is empty");
    fuzz_check(bt_card_parse("again", card.text, strlen(card.text), &again) == BT_OK, "what is read is refused");
    fuzz_check(strcmp(card.text, again.text) == 0, "what is read is another card");
    bt_card_free(&card);
    bt_card_free(&again);
}
