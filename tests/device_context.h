/* device_context.h - the context of tests that run on the device WEFT_TEST_DEVICE names (default: cpu). */
#ifndef DEVICE_CONTEXT_H
#define DEVICE_CONTEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "weft/weft.h"

/* A rank and its extents, as two arguments. */
#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static inline weft_ctx_opts test_opts(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    weft_ctx_opts o = {.device = device ? device : "cpu"};
    return o;
}

static inline weft_ctx *open_test_ctx(void)
{
    weft_ctx_opts o = test_opts();
    weft_ctx *c = NULL;
    if (weft_ctx_open(&o, &c) != WEFT_OK)
        print_message("%s\n", weft_error_message());
    return c;
}

#endif
