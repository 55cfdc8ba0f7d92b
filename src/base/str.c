/* str.c - a string that grows. A failed append sets `oom`; the caller looks once, at the end. */
#include <stdio.h>

#include "base.h"

static bool reserve(wf_str *s, size_t extra)
{
    size_t need;
    if (s->oom)
        return false;
    if (!wf_add_size(s->len, extra, &need) || !wf_add_size(need, 1, &need) ||
        wf_grow((void **)&s->ptr, &s->cap, need, 1) != WEFT_OK)
        s->oom = true;
    return !s->oom;
}

void wf_str_addn(wf_str *s, const char *bytes, size_t n)
{
    if (!reserve(s, n))
        return;
    if (n)
        memcpy(s->ptr + s->len, bytes, n);
    s->len += n;
    s->ptr[s->len] = '\0';
}

void wf_str_add(wf_str *s, const char *text)
{
    wf_str_addn(s, text, strlen(text));
}

void wf_str_addf(wf_str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t room = s->cap - s->len;
    int n = vsnprintf(s->oom || !s->ptr ? NULL : s->ptr + s->len, s->oom || !s->ptr ? 0 : room, fmt, args);
    va_end(args);
    if (n < 0) {
        s->oom = true;
    } else if (!s->oom && (size_t)n < room && s->ptr) {
        s->len += (size_t)n;
    } else if (reserve(s, (size_t)n)) {
        vsnprintf(s->ptr + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    } else if (s->ptr) {
        s->ptr[s->len] = '\0'; /* the first attempt may have written a part */
    }
    va_end(again);
}

void wf_str_clear(wf_str *s)
{
    s->len = 0;
    s->oom = false;
    if (s->ptr)
        s->ptr[0] = '\0';
}

void wf_str_free(wf_str *s)
{
    wf_free(s->ptr);
    *s = (wf_str)WF_STR_INIT;
}
