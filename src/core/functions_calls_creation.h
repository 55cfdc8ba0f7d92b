/* functions_calls_creation.h - calls of functions_creation.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_CREATION_H
#define WF_FUNCTIONS_CALLS_CREATION_H

#include "weft/ops_creation.h"

#endif
