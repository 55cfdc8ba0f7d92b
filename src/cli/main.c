/* main.c - the weft program: everything is in weft_main, so that other hosts can call it. */
#include "cli.h"

int main(int argc, char **argv)
{
    return weft_main(argc, argv);
}
