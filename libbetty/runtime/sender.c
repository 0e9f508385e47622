/* runtime/sender.c: calls waiting for their turn are kept in a ring. */
#include "runtime/sender.h"

#include <pthread.h>
#include <signal.h>

enum { ROOM = 64 };

typedef struct errand {
    const bt_call *call;
    uint64_t at;
} errand;

struct bt_sender {
    bt_joint *joint;
    pthread_t thread;
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t changed;
    errand errands[ROOM];
    int64_t given, done;
    bool stop;
    bt_status status; /* of the first call that failed */
    char *message;    /* its message */
};

static void fail(bt_sender *s, bt_status status)
{
    s->status = status;
    s->message = bt_strdup(bt_error());
    bt_error_clear();
}

static void make_next(bt_sender *s)
{
    const errand next = s->errands[s->done % ROOM];
    if (s->status == BT_OK) {
        pthread_mutex_unlock(&s->lock);
        bt_status status = bt_joint_call(s->joint, next.call, next.at);
        pthread_mutex_lock(&s->lock);
        if (status != BT_OK)
            fail(s, status);
    }
    s->done++;
    pthread_cond_broadcast(&s->changed);
}

static void *work(void *sender)
{
    bt_sender *s = sender;
    pthread_mutex_lock(&s->lock);
    while (!s->stop)
        if (s->done < s->given)
            make_next(s);
        else
            pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bt_sender *bt_sender_new(bt_joint *joint)
{
    sigset_t all, before;
    bt_sender *s = bt_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->joint = joint;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    sigfillset(&all); /* signals go to the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return s;
    bt_fail(BT_ERROR_MEMORY,
            "no thread could be started to send what ranks exchange: allow the process more threads, or set overlap = "
            "false");
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    bt_free(s);
    return NULL;
}

void bt_sender_free(bt_sender *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    bt_free(s->message);
    bt_free(s);
}

/* Call with the lock held. */
static void wait_for(bt_sender *s, int64_t done)
{
    while (s->done < done)
        pthread_cond_wait(&s->changed, &s->lock);
}

int64_t bt_sender_give(bt_sender *s, const bt_call *call, uint64_t at)
{
    pthread_mutex_lock(&s->lock);
    wait_for(s, s->given + 1 - ROOM);
    s->errands[s->given % ROOM] = (errand){call, at};
    const int64_t number = ++s->given;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return number;
}

bt_status bt_sender_wait(bt_sender *s, int64_t number)
{
    bt_status status = BT_OK;
    pthread_mutex_lock(&s->lock);
    wait_for(s, number);
    if (s->status != BT_OK)
        status = bt_fail(s->status, "%s", s->message ? s->message : "another rank has failed");
    pthread_mutex_unlock(&s->lock);
    return status;
}

void bt_sender_drain(bt_sender *s)
{
    pthread_mutex_lock(&s->lock);
    wait_for(s, s->given);
    s->given = s->done = 0;
    s->status = BT_OK;
    bt_free(s->message);
    s->message = NULL;
    pthread_mutex_unlock(&s->lock);
}
