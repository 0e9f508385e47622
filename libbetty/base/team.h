/* base/team.h: the threads of the process that share the work of kernels. There is one team, which grows as needed and
 * ends with the library. A thread without work sleeps. */
#ifndef BT_TEAM_H
#define BT_TEAM_H

enum { BT_TEAM_MOST = 1024 }; /* maximum number of parts of one piece of work */

/* Does one of `parts` parts of the work, on any thread. It must not wait for another part. */
typedef void bt_part_fn(const void *work, int part, int parts);

/* Does every part once, and returns when all are done. The calling thread does each part that no other thread has
 * begun. So it never waits for a thread that could not be started or is not scheduled. The division into parts never
 * depends on the number of threads. Calls may come from several threads at once, and from within a part. */
void bt_team_do(bt_part_fn *part, const void *work, int parts);

#endif
