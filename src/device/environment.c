/* environment.c - the variables of the environment that a device listens to, read before one is opened: a value that nobody
 * knows is an error then, not a default. The files that use a variable read it themselves.
 */
#include <stdlib.h>

#include "hal.h"
#include "thread.h"

/* "1", "0" or nothing. */
static weft_status check_switch(const char *name)
{
    const char *v = getenv(name);
    if (!v || !*v || strcmp(v, "0") == 0 || strcmp(v, "1") == 0)
        return WEFT_OK;
    return wf_fail(WEFT_E_VALUE, "%s is \"%.40s\"; known: 0, 1", name, v);
}

/* Words between commas; empty ones are nothing. */
static weft_status check_words(const char *name, const char *const *known, size_t n, const char *list)
{
    const char *v = getenv(name);
    for (const char *at = v; at && *at;) {
        size_t len = strcspn(at, ","), i = 0;
        while (i < n && (strlen(known[i]) != len || memcmp(known[i], at, len) != 0))
            i++;
        if (len && i == n)
            return wf_fail(WEFT_E_VALUE, "%s names \"%.*s\"; known: %s", name, (int)WF_MIN(len, (size_t)40), at, list);
        at += len + (at[len] == ',');
    }
    return WEFT_OK;
}

/* The features that a WebGPU device can leave off: the rows of webgpu_feature.c, which not every build has. */
static weft_status check_features(void)
{
    static const char *const known[] = {"all", "f16", "subgroups", "subgroup-matrix", "unchecked", "timestamp-query"};
    return check_words("WEFT_WEBGPU_OFF", known, WF_COUNT(known), "f16, subgroups, subgroup-matrix, unchecked, timestamp-query, all");
}

static weft_status check_threads(int n_threads)
{
    int n;
    return n_threads > 0 ? WEFT_OK : wf_thread_wanted(&n);
}

weft_status wf_environment_check(int n_threads)
{
    static const char *const switches[] = {"WEFT_NULL_REPLAY", "WEFT_WEBGPU_NULL", "WEFT_FUSE"};
    for (size_t i = 0; i < WF_COUNT(switches); i++)
        WF_TRY(check_switch(switches[i]));
    WF_TRY(check_features());
    WF_TRY(check_threads(n_threads));
    return wf_cpu_environment_check(); /* every device has the CPU beside it */
}
