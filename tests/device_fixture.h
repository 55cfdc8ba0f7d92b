/* device_fixture.h - one context for all tests of a program: the set-up and tear-down of its group. */
#ifndef DEVICE_FIXTURE_H
#define DEVICE_FIXTURE_H

#include "device_context.h"

static weft_ctx *ctx;
static weft_scope *group_scope; /* owns what the tests make outside of scopes of their own */

static int open_ctx(void **state)
{
    (void)state;
    ctx = open_test_ctx();
    group_scope = weft_scope_begin(ctx);
    return group_scope ? 0 : -1;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_scope_end(group_scope);
    weft_ctx_close(ctx);
    return 0;
}

#endif
