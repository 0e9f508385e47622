/* base/team.h: the threads of the process that share the work of kernels. There is one team; it grows to what is asked
 * of it, and goes with the library. A thread of it that has nothing to do sleeps. */
#ifndef BT_TEAM_H
#define BT_TEAM_H

enum { BT_TEAM_MOST = 1024 }; /* parts of one piece of work */

/* Does one part of `parts` of the work, on whichever thread; it must not wait for another part. */
typedef void bt_part_fn(const void *work, int part, int parts);

/* Does all parts, each once, and returns when all are done. This thread does every part that no other one has begun, so
 * that it never waits for a thread that gets no processor, or could not be started. What parts there are never depends
 * on the threads. May be called on several threads at once, and in a part. */
void bt_team_do(bt_part_fn *part, const void *work, int parts);

#endif
