/* runtime/card.h: the description of a card that is not in the machine, as the basis of a plan for it. */
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

/* Reads JSON from a text or a file. `from` names it in errors, which give the field, what was found and what was
 * expected. Other fields are allowed. *card is written only on success. */
bt_status bt_card_parse(const char *from, const char *text, size_t size, bt_card *card);
bt_status bt_card_read(const char *path, bt_card *card);
void bt_card_free(bt_card *card);

#endif
