/* runtime/card.h: a card that is not in the machine, as a text describes it: what a plan for it is based on. */
#ifndef BT_CARD_H
#define BT_CARD_H

#include "base/base.h"

typedef struct bt_card {
    char name[128];     /* "NVIDIA H100 80GB HBM3" */
    int64_t memory;     /* bytes */
    int64_t processors; /* multiprocessors */
    int64_t capability; /* compute capability: 900 is 9.0 */
    char *text;         /* JSON, as cuDNN takes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); owned */
} bt_card;

/* From JSON: a text, or a file. `from` stands for it in errors, which name the field, what was found and expected.
 * Fields beside the known ones may be there. *card is written only if all is well. */
bt_status bt_card_parse(const char *from, const char *text, size_t size, bt_card *card);
bt_status bt_card_read(const char *path, bt_card *card);
void bt_card_free(bt_card *card);

#endif
