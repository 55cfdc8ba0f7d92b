/* weft/weft.h - the whole public interface of libweft, a tensor runtime in C. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/apply.h"
#include "weft/device.h"
#include "weft/dtype.h"
#include "weft/explain.h"
#include "weft/ops.h"
#include "weft/ops_pointwise.h"
#include "weft/ops_creation.h"
#include "weft/ops_random.h"
#include "weft/ops_shape.h"
#include "weft/ops_indexing.h"
#include "weft/ops_reduction.h"
#include "weft/ops_networks.h"
#include "weft/ops_convolution.h"
#include "weft/ops_algebra.h"
#include "weft/ops_quantised.h"
#include "weft/quantize.h"
#include "weft/stats.h"
#include "weft/status.h"
#include "weft/tap.h"
#include "weft/tensor.h"
#include "weft/tune.h"
#include "weft/warm.h"
/* The parts a build may leave out (WEFT_MODEL=OFF) are included by name: weft/format.h, weft/text.h,
 * weft/model.h. So is weft/webgpu.h, which few programs need. */

/* Version of these headers. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif
/* The version of the library that runs, such as "0.1.0", which can differ from the header's. Static. */
WEFT_API const char *weft_version(void);
#ifdef __cplusplus
}
#endif
#endif
