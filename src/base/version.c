/* version.c - the version of the library that runs. */
#include "weft/weft.h"

#define TEXT(x) #x
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *weft_version(void)
{
    return DOTTED(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
}
