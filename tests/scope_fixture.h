/* scope_fixture.h - a scope around each test beside the context of device_fixture.h. */
#ifndef SCOPE_FIXTURE_H
#define SCOPE_FIXTURE_H

#include "device_fixture.h"

static weft_scope *scope;

static int begin(void **state)
{
    (void)state;
    scope = weft_scope_begin(ctx);
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    weft_scope_end(scope);
    return 0;
}

#endif
