/* functions_calls_pointwise.h - calls of functions_pointwise.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_POINTWISE_H
#define WF_FUNCTIONS_CALLS_POINTWISE_H

#include "weft/ops_pointwise.h"

#endif
