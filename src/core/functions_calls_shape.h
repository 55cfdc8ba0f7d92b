/* functions_calls_shape.h - calls of functions_shape.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_SHAPE_H
#define WF_FUNCTIONS_CALLS_SHAPE_H

#include "weft/ops_shape.h"

#endif
