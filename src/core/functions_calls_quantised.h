/* functions_calls_quantised.h - calls of functions_quantised.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_QUANTISED_H
#define WF_FUNCTIONS_CALLS_QUANTISED_H

#include "weft/ops_quantised.h"

#endif
