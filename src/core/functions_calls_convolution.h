/* functions_calls_convolution.h - calls of functions_convolution.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_CONVOLUTION_H
#define WF_FUNCTIONS_CALLS_CONVOLUTION_H

#include "weft/ops_convolution.h"

#endif
