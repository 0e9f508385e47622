/* engine/command/mpi.c: ranks as processes on any machines, by MPI. MPI_SUM promises no order, so sums do not use it:
 * the parts go to the rank that adds them up, in the order of ranks. */
#include "engine/command/mpi.h"

#include "engine/command/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int own = -1; /* the rank of this process */

bool bt_mpi_follows(void) { return own > 0; }

/* The variables that launchers set: Open MPI; MPICH and its derivatives, Slurm with PMI. */
static bool is_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < BT_COUNT_OF(sizes); i++)
        if (getenv(sizes[i]) && atoi(getenv(sizes[i])) > 1)
            return true;
    return false;
}

#if BT_HAVE_MPI
#include <mpi.h>

static int all = 1; /* the number of ranks */

enum { PART = 1 << 18 }; /* bytes of each rank exchanged at once */

typedef struct member {
    bt_transport transport;
    char *near;          /* room for a part from each rank */
    const char **parts;  /* by rank */
    int *counts, *begin; /* of an exchange: bytes of each rank, and their offsets */
} member;

static bt_status check(int result)
{
    char text[MPI_MAX_ERROR_STRING];
    int size = 0;
    if (result == MPI_SUCCESS)
        return BT_OK;
    MPI_Error_string(result, text, &size);
    return bt_fail(BT_ERROR_DEVICE, "MPI: %.*s", size, text);
}

/* Checks that all ranks are at the same call. */
static bt_status meet(member *m, uint64_t what)
{
    uint64_t *calls = (uint64_t *)(void *)m->near;
    BT_TRY(check(MPI_Allgather(&what, sizeof what, MPI_BYTE, calls, sizeof what, MPI_BYTE, MPI_COMM_WORLD)));
    for (int r = 0; r < all; r++)
        if (calls[r] != what)
            return bt_transport_parted(own, r);
    return BT_OK;
}

static bt_status gather(bt_transport *transport, uint64_t what, const void *mine, size_t given, void *to, size_t bytes)
{
    member *m = (member *)transport;
    BT_TRY(meet(m, what));
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PART ? bytes - at : PART;
        const size_t left = at < given ? given - at : 0, has = left < some ? left : some;
        char *place = m->near + (size_t)own * some;
        memcpy(place, (const char *)mine + (has ? at : 0), has);
        memset(place + has, 0, some - has);
        BT_TRY(check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, m->near, (int)some, MPI_BYTE, MPI_COMM_WORLD)));
        for (int r = 0; r < all; r++)
            memcpy((char *)to + (size_t)r * bytes + at, m->near + (size_t)r * some, some);
    }
    return BT_OK;
}

static void share(member *m, size_t bytes)
{
    for (int r = 0; r < all; r++) {
        m->begin[r] = (int)bt_transport_share(bytes, r, all);
        m->counts[r] = (int)bt_transport_share(bytes, r + 1, all) - m->begin[r];
    }
}

static bt_status reduce_part(member *m, const bt_folding *how, const char *from, char *to, size_t bytes)
{
    int *counts = m->counts + all, *begin = m->begin + all; /* of what arrives here */
    share(m, bytes);
    for (int r = 0; r < all; r++) {
        counts[r] = m->counts[own];
        begin[r] = r * counts[r];
        m->parts[r] = m->near + begin[r];
    }
    BT_TRY(check(MPI_Alltoallv(from, m->counts, m->begin, MPI_BYTE, m->near, counts, begin, MPI_BYTE, MPI_COMM_WORLD)));
    if (m->counts[own])
        BT_TRY(how->fold(how, m->parts, (size_t)m->counts[own], to + m->begin[own]));
    return check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, m->counts, m->begin, MPI_BYTE, MPI_COMM_WORLD));
}

/* `near` has room for the parts of all ranks. */
static bt_status reduce(bt_transport *transport, uint64_t what, const bt_folding *how, const void *mine, void *to,
                        size_t bytes)
{
    member *m = (member *)transport;
    const size_t most = (size_t)PART * (size_t)(all < 64 ? all : 64);
    BT_TRY(meet(m, what));
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < most ? bytes - at : most;
        BT_TRY(reduce_part(m, how, (const char *)mine + at, (char *)to + at, some));
    }
    return BT_OK;
}

static void close_member(bt_transport *transport)
{
    member *m = (member *)transport;
    bt_free_aligned(m->near);
    bt_free(m->parts);
    bt_free(m->counts);
    bt_free(m->begin);
    bt_free(m);
}

/* A process may be bound to its own cores, or to a socket that it shares; otherwise all processes on this machine share
 * its cores. */
static int threads_of_each(int *number, int *here_too)
{
    MPI_Comm here;
    int count = 1;
    *number = 0;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, own, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
        MPI_Comm_rank(here, number);
        MPI_Comm_size(here, &count);
        MPI_Comm_free(&here);
    }
    *here_too = count;
    const int mine = bt_cores(), machine = (int)sysconf(_SC_NPROCESSORS_ONLN), part = machine / count;
    const int threads = mine == machine ? mine / count : mine < part ? mine : part;
    return threads > 0 ? threads : 1;
}

bt_status bt_mpi_start(int ranks, bt_transport **transport)
{
    (void)ranks; /* as many as were started */
    member *m = bt_alloc(sizeof *m);
    if (!m)
        return BT_ERROR_MEMORY;
    int number, here, level = MPI_THREAD_SINGLE;
    const int threads = threads_of_each(&number, &here);
    MPI_Query_thread(&level);
    *m = (member){.transport = {.rank = own,
                                .ranks = all,
                                .here = number,
                                .beside = here,
                                .threads = threads,
                                .gather = gather,
                                .reduce = reduce,
                                .close = close_member,
                                .far = here < all,
                                .one_thread = level < MPI_THREAD_SERIALIZED},
                  .near = bt_alloc_aligned((size_t)all * (PART + BT_ALIGN)),
                  .parts = bt_alloc_array((size_t)all, sizeof(const char *)),
                  .counts = bt_alloc_array(2 * (size_t)all, sizeof(int)),
                  .begin = bt_alloc_array(2 * (size_t)all, sizeof(int))};
    *transport = &m->transport;
    if (m->near && m->parts && m->counts && m->begin)
        return BT_OK;
    close_member(&m->transport);
    *transport = NULL;
    return BT_ERROR_MEMORY;
}

bt_status bt_mpi_begin(int *ranks)
{
    int level;
    *ranks = 1;
    if (!is_launched())
        return BT_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return bt_fail(BT_ERROR_DEVICE, "MPI cannot start");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    *ranks = all;
    if (own)
        bt_ranks_be_silent(false);
    return BT_OK;
}

void bt_mpi_end(void)
{
    if (own >= 0)
        MPI_Finalize();
}

/* An error that all ranks find is printed by rank 0: the others wait for it to end them. */
void bt_mpi_fail(const char *message, int code)
{
    if (own < 0)
        return;
    if (own)
        sleep(5);
    fprintf(stderr, "betty-run: rank %d of %d: %s\n", own, all, message);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
}

#else

bt_status bt_mpi_start(int ranks, bt_transport **transport)
{
    (void)ranks, (void)transport;
    return bt_fail(BT_ERROR_UNSUPPORTED, "this betty-run was built without MPI");
}

bt_status bt_mpi_begin(int *ranks)
{
    *ranks = 1;
    if (!is_launched())
        return BT_OK;
    return bt_fail(BT_ERROR_UNSUPPORTED, "several processes were started as ranks of one run, but this betty-run was "
                                         "built without MPI: build it again where libopenmpi-dev is installed");
}

void bt_mpi_end(void) {}

void bt_mpi_fail(const char *message, int code) { (void)message, (void)code; }

#endif
