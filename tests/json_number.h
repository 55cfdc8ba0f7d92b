/* json_number.h - whole numbers of a report that is JSON. */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include <stdio.h>

#include "device_context.h"

/* The first member of this name; a test without it fails. */
static inline long long json_number(const char *json, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(json, key);
    if (!at)
        fail_msg("no %s in %s", name, json);
    return atoll(at + strlen(key));
}

#endif
