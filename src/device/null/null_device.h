/* null_device.h - the null device beyond hal.h. */
#ifndef WF_NULL_DEVICE_H
#define WF_NULL_DEVICE_H

#include "hal.h"

void wf_null_describe(weft_device_info *info);

#endif
