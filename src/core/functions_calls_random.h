/* functions_calls_random.h - calls of functions_random.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_RANDOM_H
#define WF_FUNCTIONS_CALLS_RANDOM_H

#include "weft/ops_random.h"

#endif
