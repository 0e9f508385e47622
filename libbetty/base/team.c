/* base/team.c: threads that share work. The thread that wants a piece of work done posts it, on its own stack. Threads
 * of the team join it, claim its parts one by one, and leave. The piece is done when all parts are claimed and every
 * thread that joined has left. */
#include "base/team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORD = 64, WORDS = BT_TEAM_MOST / WORD };

typedef struct piece {
    bt_part_fn *part;
    const void *work;
    int parts, joined;               /* joined: threads of the team that work on it; needs the lock */
    atomic_int open;                 /* parts not yet claimed */
    _Atomic uint64_t claimed[WORDS]; /* one bit per part */
    struct piece *next;
} piece;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t posted, left;
    piece *pieces; /* to be done */
    pthread_t threads[BT_TEAM_MOST];
    int count, asleep;
    bool stop, watched; /* watched: after_fork is registered */
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

/* ---- claiming parts ---- */

static bool claim(piece *p, int part)
{
    uint64_t bit = (uint64_t)1 << part % WORD;
    if (atomic_fetch_or(&p->claimed[part / WORD], bit) & bit)
        return false;
    atomic_fetch_sub(&p->open, 1);
    return true;
}

/* Starts with the part of this thread's own number, as in other pieces, because its core may still hold that data. Then
 * takes any other part. */
static void take_part(piece *p, int first)
{
    for (int i = 0; i < p->parts && atomic_load(&p->open) > 0; i++) {
        int part = (first + i) % p->parts;
        if (claim(p, part))
            p->part(p->work, part, p->parts);
    }
}

/* ---- the threads ---- */

static piece *find_open(void)
{
    piece *p = team.pieces;
    while (p && atomic_load(&p->open) <= 0)
        p = p->next;
    return p;
}

static void *help(void *number)
{
    int own = (int)(intptr_t)number;
    pthread_mutex_lock(&team.lock);
    while (!team.stop) {
        piece *p = find_open();
        if (!p) {
            team.asleep++;
            pthread_cond_wait(&team.posted, &team.lock);
            team.asleep--;
            continue;
        }
        p->joined++;
        pthread_mutex_unlock(&team.lock);
        take_part(p, own);
        pthread_mutex_lock(&team.lock);
        if (--p->joined == 0)
            pthread_cond_broadcast(&team.left);
    }
    pthread_mutex_unlock(&team.lock);
    return NULL;
}

/* A forked child has none of the threads, and its copies of the locks may be held. */
static void after_fork(void)
{
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.posted, NULL);
    pthread_cond_init(&team.left, NULL);
    team.pieces = NULL;
    team.count = team.asleep = 0;
}

/* Needs the lock. The threads block all signals, which are meant for the program's own threads. */
static void grow(int count)
{
    sigset_t all, before;
    if (!team.watched)
        team.watched = pthread_atfork(NULL, NULL, after_fork) == 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team.count < count && !team.stop &&
           pthread_create(&team.threads[team.count], NULL, help, (void *)(intptr_t)(team.count + 1)) == 0)
        team.count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Runs when the library is unloaded, perhaps before the program ends: no thread may still run its code. */
__attribute__((destructor)) static void dismiss(void)
{
    pthread_mutex_lock(&team.lock);
    team.stop = true;
    int count = team.count;
    team.count = 0;
    pthread_cond_broadcast(&team.posted);
    pthread_mutex_unlock(&team.lock);
    for (int i = 0; i < count; i++)
        pthread_join(team.threads[i], NULL);
}

/* ---- a piece of work ---- */

static void post(piece *p)
{
    pthread_mutex_lock(&team.lock);
    if (team.count < p->parts - 1)
        grow(p->parts - 1);
    p->next = team.pieces;
    team.pieces = p;
    if (p->parts - 1 < team.asleep)
        for (int i = 1; i < p->parts; i++)
            pthread_cond_signal(&team.posted);
    else if (team.asleep)
        pthread_cond_broadcast(&team.posted);
    pthread_mutex_unlock(&team.lock);
}

static void take_back(piece *p)
{
    pthread_mutex_lock(&team.lock);
    piece **at = &team.pieces;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    while (p->joined > 0)
        pthread_cond_wait(&team.left, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

static void share_out(bt_part_fn *part, const void *work, int parts)
{
    piece p = {.part = part, .work = work, .parts = parts};
    atomic_init(&p.open, parts);
    post(&p);
    take_part(&p, 0);
    take_back(&p);
}

void bt_team_do(bt_part_fn *part, const void *work, int parts)
{
    if (parts < 2 || parts > BT_TEAM_MOST)
        for (int i = 0; i < parts; i++)
            part(work, i, parts);
    else
        share_out(part, work, parts);
}
