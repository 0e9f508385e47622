/* base/cores.h: how many cores a process may use. */
#ifndef BT_CORES_H
#define BT_CORES_H

/* The whole cores in the least processor quota of the process's control groups, at least 1; `most` where that is less,
 * or there is no quota. groups: the groups, as /proc/self/cgroup lists them; mounted: where they are, /sys/fs/cgroup.
 * Of version 1 and 2; a group counts with all that hold it. */
int bt_cores_of_groups(const char *groups, const char *mounted, int most);

#endif
