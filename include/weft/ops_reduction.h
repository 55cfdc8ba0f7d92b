/* weft/ops_reduction.h - see weft/ops.h for what all operations share. */
#ifndef WEFT_OPS_REDUCTION_H
#define WEFT_OPS_REDUCTION_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
