/* base/team.h: the threads of the process that share the work of kernels. There is one team; it grows as needed, and
 * ends with the library. A thread without work sleeps. */
#ifndef BT_TEAM_H
#define BT_TEAM_H

enum { BT_TEAM_MOST = 1024 }; /* parts of one piece of work */

/* Does one part of `parts` of the work, on whichever thread; it must not wait for another part. */
typedef void bt_part_fn(const void *work, int part, int parts);

/* Does all parts, each once, and returns when all are done. This thread does every part that no other thread has begun,
 * so it never waits for a thread that gets no processor or could not be started. The division into parts never depends
 * on the threads. May be called on several threads at once, and within a part. */
void bt_team_do(bt_part_fn *part, const void *work, int parts);

#endif
