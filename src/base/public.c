/* public.c - failing and allocating for code that sees only the public headers. */
#include "base.h"

#include <stdio.h>

weft_status weft_fail(weft_status status, const char *format, ...)
{
    char text[WF_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return wf_fail(status, "%s", text);
}

void *weft_realloc(void *ptr, size_t size_bytes)
{
    return ptr ? wf_realloc(ptr, size_bytes) : wf_alloc(size_bytes);
}

void weft_free(void *ptr)
{
    wf_free(ptr);
}
