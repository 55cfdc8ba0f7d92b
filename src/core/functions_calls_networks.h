/* functions_calls_networks.h - calls of functions_networks.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_NETWORKS_H
#define WF_FUNCTIONS_CALLS_NETWORKS_H

#include "weft/ops_networks.h"

#endif
