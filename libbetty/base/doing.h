/* base/doing.h: the long task that this thread is busy with, so that a signal handler can report it. */
#ifndef BT_DOING_H
#define BT_DOING_H

typedef struct bt_doing { /* texts that live until the next bt_doing_set; both empty: no long task */
    const char *what;     /* "reading the data of" */
    const char *whose;    /* "classifier" */
} bt_doing;
void bt_doing_set(const char *what, const char *whose);
bt_doing bt_doing_now(void); /* may be called in a signal handler */

#endif
