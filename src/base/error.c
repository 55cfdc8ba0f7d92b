/* error.c - status names and the sentence of this thread's last failure. */
#include <stdio.h>

#include "base.h"

static _Thread_local char message[WF_MESSAGE_BYTES];

static const char *const names[] = {
    [WEFT_OK] = "WEFT_OK",
    [WEFT_E_SHAPE] = "WEFT_E_SHAPE",
    [WEFT_E_DTYPE] = "WEFT_E_DTYPE",
    [WEFT_E_VALUE] = "WEFT_E_VALUE",
    [WEFT_E_INDEX] = "WEFT_E_INDEX",
    [WEFT_E_UNSUPPORTED] = "WEFT_E_UNSUPPORTED",
    [WEFT_E_OOM] = "WEFT_E_OOM",
    [WEFT_E_DEVICE_INIT] = "WEFT_E_DEVICE_INIT",
    [WEFT_E_DEVICE_LOST] = "WEFT_E_DEVICE_LOST",
    [WEFT_E_TIMEOUT] = "WEFT_E_TIMEOUT",
    [WEFT_E_FORMAT] = "WEFT_E_FORMAT",
    [WEFT_E_IO] = "WEFT_E_IO",
    [WEFT_E_CONTEXT] = "WEFT_E_CONTEXT",
    [WEFT_E_NONFINITE] = "WEFT_E_NONFINITE",
    [WEFT_E_CANCELLED] = "WEFT_E_CANCELLED",
    [WEFT_E_INTERNAL] = "WEFT_E_INTERNAL",
};
_Static_assert(WF_COUNT(names) == WEFT_STATUS_COUNT, "every status has a name");

const char *weft_status_name(weft_status status)
{
    unsigned i = (unsigned)status;
    return i < WEFT_STATUS_COUNT ? names[i] : "WEFT_E_UNKNOWN";
}

const char *weft_error_message(void)
{
    return message;
}

weft_status wf_fail(weft_status st, const char *fmt, ...)
{
    /* An argument may be the old message, so the new one is built beside it. */
    char fresh[WF_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(fresh, sizeof fresh, fmt, args);
    va_end(args);
    if (n < 0)
        fresh[0] = '\0';
    size_t len = n < 0 ? 0 : WF_MIN((size_t)n, sizeof fresh - 1);
    memcpy(message, fresh, len + 1);
    return st;
}

weft_status wf_fail_oom(size_t size_bytes)
{
    return wf_fail(WEFT_E_OOM, "out of memory: %zu bytes", size_bytes);
}
