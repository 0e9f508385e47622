/* runtime/page.c: a transport between processes of one machine, through shared memory. */
#include "runtime/transport.h"

#include "base/team.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PART = 1 << 16 }; /* bytes per rank that are exchanged at once */
enum { SPINS = 10000, ALONE = 100, NAP = 50 };

/* Each part is exchanged in the slots of one turn, while slow ranks may still read those of the turn before. */
struct bt_page {
    int ranks;
    size_t size;
    char *fields;             /* memory of each rank that all ranks reach; NULL: there was no room for it */
    size_t field;             /* bytes per rank */
    atomic_uint failed, told; /* told: message and code are complete */
    int code;
    char message[4096];
    _Alignas(BT_ALIGN) atomic_uint arrived;
    _Alignas(BT_ALIGN) atomic_uint met; /* how often all ranks have met */
    atomic_uint asleep;
    _Alignas(BT_ALIGN) char memory[]; /* by turn and rank: its call and whether it has ended; then all slots */
};

typedef struct member { /* one rank */
    bt_transport transport;
    bt_page *page;
    int turn;
    int spins;
    size_t lent; /* bytes lent of its field; 0: it is free */
} member;

static uint64_t *call_of(bt_page *page, int turn, int rank)
{
    return (uint64_t *)(void *)(page->memory + (size_t)(turn * page->ranks + rank) * BT_ALIGN);
}

static char *slot_of(bt_page *page, int turn, int rank)
{
    return page->memory + 2 * (size_t)page->ranks * BT_ALIGN + (size_t)(turn * page->ranks + rank) * PART;
}

/* Zeros, which take memory only when written; NULL: there is no room. */
static void *share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A field is as large as the machine's memory: no rank needs more, and the actual need is not known yet. */
bt_page *bt_page_new(int ranks)
{
    const size_t each = 2 * ((size_t)BT_ALIGN + PART), size = sizeof(bt_page) + (size_t)ranks * each;
    bt_page *page = share(size);
    if (!page) {
        bt_fail(BT_ERROR_MEMORY, "there is no memory of %zu bytes for %d ranks to share: %s", size, ranks,
                strerror(errno));
        return NULL;
    }
    page->ranks = ranks;
    page->size = size;
    page->field = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    page->fields = share((size_t)ranks * page->field);
    return page;
}

void bt_page_free(bt_page *page)
{
    if (!page)
        return;
    if (page->fields)
        munmap(page->fields, (size_t)page->ranks * page->field);
    munmap(page, page->size);
}

static void futex(atomic_uint *at, int operation, unsigned value, const struct timespec *time)
{
    syscall(SYS_futex, at, operation, value, time, NULL, 0);
}

void bt_page_fail(bt_page *page, const char *message, int code)
{
    if (atomic_exchange(&page->failed, 1) == 0) {
        page->code = code;
        strncpy(page->message, message, sizeof page->message - 1);
        atomic_store(&page->told, 1);
    }
    futex(&page->met, FUTEX_WAKE, INT32_MAX, NULL);
}

static atomic_uint *end_of(bt_page *page, int rank)
{
    return (atomic_uint *)(void *)(call_of(page, 0, rank) + 1); /* beside its call */
}

void bt_page_end(bt_page *page, int rank) { atomic_store(end_of(page, rank), 1); }

bool bt_page_ended(bt_page *page, int rank) { return atomic_load(end_of(page, rank)); }

const char *bt_page_failure(const bt_page *page, int *code)
{
    if (!atomic_load(&page->told))
        return NULL;
    *code = page->code;
    return page->message;
}

/* ---- meeting ---- */

/* Leaves the core to its other hardware thread. */
static void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Waits until `met` changes or a rank has failed. It wakes up regularly by itself, as there may be nobody left to wake
 * it. */
static void wait_for(bt_page *page, unsigned met, int spins)
{
    for (int i = 0; i < spins; i++)
        if (atomic_load_explicit(&page->met, memory_order_acquire) != met)
            return;
        else
            relax();
    sched_yield();
    atomic_fetch_add(&page->asleep, 1);
    while (atomic_load(&page->met) == met && !atomic_load(&page->failed))
        futex(&page->met, FUTEX_WAIT, met, &(struct timespec){0, NAP * 1000000});
    atomic_fetch_sub(&page->asleep, 1);
}

static bt_status meet(member *m)
{
    bt_page *page = m->page;
    const unsigned met = atomic_load(&page->met);
    if (atomic_fetch_add(&page->arrived, 1) + 1 == (unsigned)page->ranks) {
        atomic_store(&page->arrived, 0);
        atomic_fetch_add(&page->met, 1);
        if (atomic_load(&page->asleep))
            futex(&page->met, FUTEX_WAKE, INT32_MAX, NULL);
        return BT_OK;
    }
    wait_for(page, met, m->spins);
    return atomic_load(&page->met) != met ? BT_OK : bt_fail(BT_ERROR_DEVICE, "another rank has failed");
}

/* Puts this rank's part into its slot and waits for the others to do so. Fails if they are at another call. */
static bt_status put(member *m, uint64_t what, const void *own, size_t bytes)
{
    bt_page *page = m->page;
    const int rank = m->transport.rank;
    m->turn = !m->turn;
    *call_of(page, m->turn, rank) = what;
    if (bytes)
        memcpy(slot_of(page, m->turn, rank), own, bytes);
    BT_TRY(meet(m));
    for (int r = 0; r < page->ranks; r++)
        if (*call_of(page, m->turn, r) != what)
            return bt_transport_parted(rank, r);
    return BT_OK;
}

static bt_status gather(bt_transport *transport, uint64_t what, const void *own, size_t mine, void *all, size_t bytes)
{
    member *m = (member *)transport;
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PART ? bytes - at : PART;
        const size_t left = at < mine ? mine - at : 0;
        BT_TRY(put(m, what, (const char *)own + at, left < some ? left : some));
        for (int r = 0; r < transport->ranks; r++)
            memcpy((char *)all + (size_t)r * bytes + at, slot_of(m->page, m->turn, r), some);
    }
    return BT_OK;
}

/* ---- memory that all reach ---- */

static char *field_of(const bt_page *page, int rank) { return page->fields + (size_t)rank * page->field; }

static char *lend(bt_transport *transport, size_t bytes)
{
    member *m = (member *)transport;
    if (!m->page->fields || m->lent || bytes > m->page->field)
        return NULL;
    m->lent = bytes;
    return field_of(m->page, transport->rank);
}

static void take_back(bt_transport *transport)
{
    member *m = (member *)transport;
    char *field = field_of(m->page, transport->rank);
    if (madvise(field, m->page->field, MADV_REMOVE) != 0)
        memset(field, 0, m->lent);
    m->lent = 0;
}

static bool reaches(const bt_transport *transport, const void *at)
{
    const bt_page *page = ((const member *)transport)->page;
    const size_t from = (size_t)((uintptr_t)at - (uintptr_t)page->fields);
    return page->fields && from < (size_t)page->ranks * page->field;
}

static bool failed(const bt_transport *transport) { return atomic_load(&((const member *)transport)->page->failed); }

static void close_member(bt_transport *transport) { bt_free(transport); }

bt_transport *bt_page_transport(bt_page *page, int rank)
{
    member *m = bt_alloc(sizeof *m);
    if (!m)
        return NULL;
    const int threads = bt_cores() / page->ranks;
    *m = (member){.transport = {.rank = rank,
                                .ranks = page->ranks,
                                .here = rank,
                                .beside = page->ranks,
                                .threads = threads ? threads : 1,
                                .gather = gather,
                                .lend = lend,
                                .take_back = take_back,
                                .reaches = reaches,
                                .failed = failed,
                                .close = close_member},
                  .page = page,
                  .spins = page->ranks <= bt_cores() ? SPINS : ALONE};
    return &m->transport;
}
