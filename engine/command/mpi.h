/* engine/command/mpi.h: the ranks of a run as processes started by mpirun or Slurm, on any machines. */
#ifndef BT_MPI_H
#define BT_MPI_H

#include "runtime/transport.h"

/* If a launcher started this process as one of several, it becomes one of *ranks ranks; otherwise *ranks is 1.
 * BT_ERROR_UNSUPPORTED: it was started so, but this build has no MPI. */
bt_status bt_mpi_begin(int *ranks);
void bt_mpi_end(void); /* in every process, at the end; does nothing in a process that is not a rank */

bt_status bt_mpi_start(int ranks, bt_transport **transport); /* bt_front.spread */

/* In a rank: prints why it fails, and ends all ranks with this exit code. Returns if this process is not a rank. */
void bt_mpi_fail(const char *message, int code);
bool bt_mpi_follows(void); /* a rank other than 0, which prints nothing */

#endif
