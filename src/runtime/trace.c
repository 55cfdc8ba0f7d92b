/* trace.c - a Chrome trace (the "JSON Array Format" of the Trace Event specification): one event a
 * kernel and an evaluation, in microseconds of this machine's monotonic clock.
 */
#include "runtime.h"

#include <errno.h>
#include <stdio.h>

void wf_trace_add(wf_trace *t, const char *name, const char *category, uint64_t begin_ns, uint64_t end_ns)
{
    if (!t->path)
        return;
    wf_str_addf(&t->events, "%s{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f}",
                t->events.len ? ",\n" : "", name, category, (double)(begin_ns - t->start_ns) / 1e3, (double)(end_ns - begin_ns) / 1e3);
}

weft_status wf_trace_open(wf_trace *t, const char *path)
{
    FILE *f = fopen(path, "w"); /* now, not after the work, says whether it can be written */
    if (!f)
        return wf_fail(WEFT_E_IO, "trace: cannot write %s: %s", path, strerror(errno));
    fclose(f);
    t->start_ns = wf_now_ns();
    t->path = wf_strdup(path);
    return t->path ? WEFT_OK : wf_fail_oom(strlen(path));
}

void wf_trace_write(wf_trace *t)
{
    if (!t->path)
        return;
    FILE *f = fopen(t->path, "w");
    if (!f) {
        wf_log(WEFT_LOG_ERROR, "trace: cannot write %s", t->path);
    } else {
        fprintf(f, "[\n%s\n]\n", t->events.ptr ? t->events.ptr : "");
        bool bad = ferror(f) != 0;
        if (fclose(f) != 0 || bad)
            wf_log(WEFT_LOG_ERROR, "trace: %s was not written whole", t->path);
    }
    wf_str_free(&t->events);
    wf_free(t->path);
    t->path = NULL;
}
