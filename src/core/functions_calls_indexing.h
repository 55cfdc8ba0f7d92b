/* functions_calls_indexing.h - calls of functions_indexing.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_INDEXING_H
#define WF_FUNCTIONS_CALLS_INDEXING_H

#include "weft/ops_indexing.h"

#endif
