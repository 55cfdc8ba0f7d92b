/* null_device.h - the null device beyond hal.h. */
#ifndef WF_NULL_DEVICE_H
#define WF_NULL_DEVICE_H

#include "hal.h"

void wf_null_describe(weft_device_info *info);

/* What it was asked to do since it was opened. */
typedef struct wf_null_counts {
    uint64_t buffers, programs, writes, reads, submits, dispatches, copies, fills, waits;
    uint64_t buffers_live, programs_live, bytes_live;
} wf_null_counts;
void wf_null_count(wf_device *d, wf_null_counts *out);

#endif
