/* functions_calls_algebra.h - calls of functions_algebra.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_ALGEBRA_H
#define WF_FUNCTIONS_CALLS_ALGEBRA_H

#include "weft/ops_algebra.h"

#endif
