/* functions_calls_reduction.h - calls of functions_reduction.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_REDUCTION_H
#define WF_FUNCTIONS_CALLS_REDUCTION_H

#include "weft/ops_reduction.h"

#endif
