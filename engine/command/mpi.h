/* engine/command/mpi.h: the ranks of a run as the processes that mpirun, or Slurm, has started on any machines. */
#ifndef BT_MPI_H
#define BT_MPI_H

#include "runtime/transport.h"

/* Whether this process is one of several that were started so; from then on it is a rank, of so many. Without MPI in
 * this build, BT_ERROR_UNSUPPORTED. */
bt_status bt_mpi_begin(int *ranks);
void bt_mpi_end(void); /* in every process, at the end; nothing where it is none of them */

bt_status bt_mpi_start(int ranks, bt_transport **transport); /* bt_front.spread */

/* In a rank: it says why it fails, and ends all of them with this exit code. Returns where this process is none. */
void bt_mpi_fail(const char *message, int code);
bool bt_mpi_follows(void); /* a rank other than 0, which says nothing */

#endif
