/* write_file.h - writing a whole file so that a failure leaves what was there before. */
#ifndef WF_WRITE_FILE_H
#define WF_WRITE_FILE_H

#include "base.h"

typedef struct wf_bytes {
    const void *ptr;
    size_t n;
} wf_bytes;

/* The file at `path` becomes these parts, one after another. A regular file is replaced by a finished new
 * one (links are followed, the mode is kept); a device or a pipe is written to directly.
 * Errors: IO, with the system's reason. */
weft_status wf_write_file(const char *path, const wf_bytes *parts, int n_parts);

#endif
