/* backend/cuda/profile.c: selects a card that is not present, by the name of a built-in description or by a file. */
#include "backend/cuda/profile.h"

#include "runtime/backend.h"
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bt_card card; /* no text: none */
static bool chosen;  /* by bt_cuda_profile */
static int number;

static const bt_cuda_built_in *built_in(const char *name)
{
    for (const bt_cuda_built_in *b = bt_cuda_profiles; b->name; b++)
        if (strcmp(b->name, name) == 0)
            return b;
    return NULL;
}

static bt_status unknown(const char *name)
{
    bt_text names = {0};
    for (const bt_cuda_built_in *b = bt_cuda_profiles; b->name; b++)
        bt_text_add(&names, "%s%s", b == bt_cuda_profiles ? "" : ", ", b->name);
    bt_fail(BT_ERROR_CONFIG, "there is no device profile \"%s\": built in: %s; else give a file, as DIR/NAME.json",
            name, bt_text_get(&names));
    bt_text_free(&names);
    return BT_ERROR_CONFIG;
}

static bt_status read_card(const char *name_or_file, bt_card *made)
{
    const bt_cuda_built_in *b = built_in(name_or_file);
    if (b)
        return bt_card_parse(b->name, b->text, strlen(b->text), made);
    if (!strchr(name_or_file, '/') && !strchr(name_or_file, '.'))
        return unknown(name_or_file);
    return bt_card_read(name_or_file, made);
}

bt_status bt_cuda_profile(const char *name_or_file)
{
    bt_card made = {0};
    if (!name_or_file || !*name_or_file)
        return bt_fail(BT_ERROR_ARGUMENT, "a device profile is a name or a file; none is given");
    BT_TRY(read_card(name_or_file, &made));
    const bt_status status = bt_cuda_card_known(name_or_file, &made);
    if (status != BT_OK) {
        bt_card_free(&made);
        return status;
    }
    pthread_mutex_lock(&lock);
    bt_card_free(&card);
    card = made;
    chosen = true;
    number++;
    pthread_mutex_unlock(&lock);
    return BT_OK;
}

const bt_card *bt_cuda_planned_card(bool device, int *which)
{
    const bt_card *planned = NULL;
    pthread_mutex_lock(&lock);
    if (!device && !chosen && !card.text && read_card(bt_cuda_profiles[0].name, &card) == BT_OK)
        number++;
    if (chosen || !device)
        planned = card.text ? &card : NULL;
    *which = planned ? number : 0;
    pthread_mutex_unlock(&lock);
    return planned;
}

const bt_card *bt_cuda_card(void)
{
    int which;
    return bt_cuda_planned_card(false, &which);
}
