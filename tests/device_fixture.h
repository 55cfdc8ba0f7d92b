/* device_fixture.h - one context for all tests of a program: the set-up and tear-down of its group. */
#ifndef DEVICE_FIXTURE_H
#define DEVICE_FIXTURE_H

#include "device_context.h"

static weft_ctx *ctx;

static int open_ctx(void **state)
{
    (void)state;
    return (ctx = open_test_ctx()) ? 0 : -1;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

#endif
