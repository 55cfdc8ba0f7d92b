/* cpu_count.h - how many threads are worth starting, from what the kernel says. For thread.c and its test. */
#ifndef WF_CPU_COUNT_H
#define WF_CPU_COUNT_H

#include "base.h"

enum { WF_CPU_MAX = 1024 };

/* The cores this process may use (allowed[i] is true), thinned to performance cores and bounded by the
 * cgroup quota, both read below `root` ("" on a real machine). At least 1. */
int wf_cpu_count_below(const char *root, const bool allowed[WF_CPU_MAX]);

#endif
