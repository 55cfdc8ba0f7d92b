/* cpu_count.c - threads by affinity, cgroup quota and core kind.
 *
 * A quota is rounded down: one thread more than the quota pays for is throttled for the rest of each
 * period, and the whole pool waits for it. Slow cores are left out for the same reason.
 */
#define _GNU_SOURCE /* CPU_ISSET */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include "cpu_count.h"
#include "thread.h"

static bool read_text(const char *root, const char *path, char *buf, size_t n)
{
    char full[PATH_MAX];
    int len = snprintf(full, sizeof full, "%s%s", root, path);
    if (len < 0 || (size_t)len >= sizeof full)
        return false;
    FILE *f = fopen(full, "re");
    if (!f)
        return false;
    size_t got = fread(buf, 1, n - 1, f);
    fclose(f);
    buf[got] = '\0';
    return got > 0;
}

/* Whole CPUs that a quota allows; 0: no bound. */
static int quota_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = quota / period;
    return n < 1 ? 1 : n > WF_CPU_MAX ? 0 : (int)n;
}

static int quota_v2(const char *root, const char *dir)
{
    char path[PATH_MAX], text[128];
    long long quota, period = 100000;
    int len = snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (len < 0 || (size_t)len >= sizeof path || !read_text(root, path, text, sizeof text))
        return 0;
    return sscanf(text, "%lld %lld", &quota, &period) >= 1 ? quota_cpus(quota, period) : 0;
}

static int quota_v1(const char *root, const char *dir)
{
    char path[PATH_MAX], text[64];
    int len = snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (len < 0 || (size_t)len >= sizeof path || !read_text(root, path, text, sizeof text))
        return 0;
    long long quota = atoll(text);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (!read_text(root, path, text, sizeof text))
        return 0;
    return quota_cpus(quota, atoll(text));
}

static void tighten(int *least, int n)
{
    if (n > 0 && (*least == 0 || n < *least))
        *least = n;
}

/* The quota of a group and of every group above it: each bounds what is below. Inside a container the
 * group's path may not exist, and then only the mount point itself is seen. */
static void walk(const char *root, const char *mount, const char *group,
                 int (*quota)(const char *, const char *), int *least)
{
    char dir[PATH_MAX];
    int len = snprintf(dir, sizeof dir, "%s%s", mount, group);
    if (len < 0 || (size_t)len >= sizeof dir)
        return;
    size_t stop = strlen(mount);
    for (;;) {
        tighten(least, quota(root, dir));
        if (strlen(dir) <= stop)
            return;
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < stop)
            return;
        *slash = '\0';
    }
}

static bool lists_cpu(const char *controllers)
{
    for (const char *p = controllers; p;) {
        if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == '\0'))
            return true;
        p = strchr(p, ',');
        p = p ? p + 1 : NULL;
    }
    return false;
}

static int cgroup_quota(const char *root)
{
    static const char *const v1_mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char text[4096];
    int least = 0;
    if (!read_text(root, "/proc/self/cgroup", text, sizeof text))
        return 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = '\0';
        *group++ = '\0';
        if (*controllers == '\0')
            walk(root, "/sys/fs/cgroup", group, quota_v2, &least);
        else if (lists_cpu(controllers))
            for (size_t i = 0; i < WF_COUNT(v1_mounts); i++)
                walk(root, v1_mounts[i], group, quota_v1, &least);
    }
    return least;
}

/* "0-3,8,10-11"; false when the text is not such a list. */
static bool parse_cpu_list(const char *text, bool out[WF_CPU_MAX])
{
    memset(out, 0, WF_CPU_MAX * sizeof *out);
    bool any = false;
    for (const char *p = text; *p >= '0' && *p <= '9';) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && i < WF_CPU_MAX; i++)
            out[i] = any = true;
        if (*end != ',')
            break;
        p = end + 1;
    }
    return any;
}

/* x86 names its performance cores; elsewhere a core counts as slow below half of the largest capacity. */
static void performance_cores(const char *root, const bool allowed[WF_CPU_MAX], bool out[WF_CPU_MAX])
{
    char text[1024];
    if (read_text(root, "/sys/devices/cpu_core/cpus", text, sizeof text) && parse_cpu_list(text, out))
        return;
    int capacity[WF_CPU_MAX], most = 0;
    for (int i = 0; i < WF_CPU_MAX; i++) {
        char path[80];
        capacity[i] = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", i);
        if (allowed[i] && read_text(root, path, text, sizeof text))
            capacity[i] = atoi(text);
        most = WF_MAX(most, capacity[i]);
    }
    for (int i = 0; i < WF_CPU_MAX; i++)
        out[i] = 2 * capacity[i] >= most;
}

int wf_cpu_count_below(const char *root, const bool allowed[WF_CPU_MAX])
{
    bool fast[WF_CPU_MAX];
    int n_allowed = 0, n_fast = 0;
    performance_cores(root, allowed, fast);
    for (int i = 0; i < WF_CPU_MAX; i++) {
        n_allowed += allowed[i];
        n_fast += allowed[i] && fast[i];
    }
    int n = n_fast ? n_fast : n_allowed; /* pinned to slow cores: use them */
    int quota = cgroup_quota(root);
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : n;
}

static int detect(void)
{
    bool allowed[WF_CPU_MAX] = {false};
    bool known = false;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        known = true;
        for (int i = 0; i < WF_CPU_MAX && i < CPU_SETSIZE; i++)
            allowed[i] = CPU_ISSET(i, &set);
    }
#endif
    if (!known) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        for (long i = 0; i < n && i < WF_CPU_MAX; i++)
            allowed[i] = true;
    }
    return wf_cpu_count_below("", allowed);
}

weft_status wf_thread_wanted(int *out)
{
    const char *text = getenv("WEFT_THREADS");
    if (!text || !*text) {
        *out = detect();
        return WEFT_OK;
    }
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > WF_CPU_MAX)
        return wf_fail(WEFT_E_VALUE, "WEFT_THREADS is \"%s\", expected a whole number from 1 to %d", text, WF_CPU_MAX);
    *out = (int)n;
    return WEFT_OK;
}

int wf_thread_default(void)
{
    int n;
    return wf_thread_wanted(&n) == WEFT_OK ? n : detect();
}
