/* main.c - the weft program: everything is in weft_main, so that other hosts can call it. */
#include <stdlib.h>

#include "cli.h"

int main(int argc, char **argv)
{
    /* Without a session Mesa's device-select layer looks for a Wayland display and prints that it found none. */
    if (!getenv("XDG_RUNTIME_DIR"))
        setenv("NODEVICE_SELECT", "1", 0);
    return weft_main(argc, argv);
}
