/* base/cores.h: how many cores a process may use. */
#ifndef BT_CORES_H
#define BT_CORES_H

/* The smallest processor quota of the process's control groups, in whole cores, at least 1; `most` if that is less or
 * there is no quota. groups: a list in the format of /proc/self/cgroup; mounted: the mount point, such as
 * /sys/fs/cgroup. Reads versions 1 and 2; the quotas of a group's ancestors count too. */
int bt_cores_of_groups(const char *groups, const char *mounted, int most);

#endif
