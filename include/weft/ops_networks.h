/* weft/ops_networks.h - see weft/ops.h for what all operations share. */
#ifndef WEFT_OPS_NETWORKS_H
#define WEFT_OPS_NETWORKS_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
