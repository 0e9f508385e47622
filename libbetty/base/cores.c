/* base/cores.c: the cores that this process may use, by its affinity and by the quota of its control groups, as
 * containers set it. A quota of two and a half cores counts as two: a third thread would mostly wait. */
#include "base/cores.h"

#include "base/base.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

/* Reads up to two numbers from the first line of a file. Returns how many there are. */
static int read_numbers(const char *folder, const char *name, double numbers[2])
{
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    int count = file ? fscanf(file, "%lf %lf", &numbers[0], &numbers[1]) : 0;
    if (file)
        fclose(file);
    return count > 0 ? count : 0;
}

/* The quota of one group in cores; 0: no limit, written as "max 100000" or -1. */
static double quota_of(const char *folder)
{
    double numbers[2], period[2];
    if (read_numbers(folder, "cpu.max", numbers) == 2)
        return numbers[1] > 0 ? numbers[0] / numbers[1] : 0;
    if (read_numbers(folder, "cpu.cfs_quota_us", numbers) && read_numbers(folder, "cpu.cfs_period_us", period))
        return numbers[0] > 0 && period[0] > 0 ? numbers[0] / period[0] : 0;
    return 0;
}

/* The smallest quota of the group and its ancestors, up to the mount point. */
static int least_above(const char *mounted, const char *path, int most)
{
    char folder[PATH];
    size_t root = strlen(mounted);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mounted, path) >= sizeof folder)
        return most;
    for (char *end = folder + strlen(folder); end; end = strrchr(folder + root, '/')) {
        *end = 0;
        double quota = quota_of(folder);
        if (quota > 0 && quota < most)
            most = quota < 1 ? 1 : (int)quota;
    }
    return most;
}

/* "4:cpu,cpuacct:/user" in version 1, "0::/user" in version 2. */
static int least_of_line(char *line, const char *mounted, int most)
{
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    char inside[PATH];
    if (!path)
        return most;
    *path++ = 0;
    if (!*++controllers)
        return least_above(mounted, path, most);
    const char *list = controllers, *word;
    size_t length;
    while ((word = bt_word_next(&list, ',', &length)) != NULL)
        if (length == 3 && memcmp(word, "cpu", 3) == 0) {
            const char *names[] = {"cpu", controllers}; /* if both exist, one is a link to the other */
            for (int i = 0; i < 2; i++)
                if ((size_t)snprintf(inside, sizeof inside, "%s/%s", mounted, names[i]) < sizeof inside)
                    most = least_above(inside, path, most);
        }
    return most;
}

int bt_cores_of_groups(const char *groups, const char *mounted, int most)
{
    char line[PATH];
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        most = least_of_line(line, mounted, most);
    }
    if (file)
        fclose(file);
    return most;
}

int bt_cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return bt_cores_of_groups("/proc/self/cgroup", "/sys/fs/cgroup", count < 1 ? 1 : count);
}
