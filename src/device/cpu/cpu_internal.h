/* cpu_internal.h - what the files of the CPU device share beside cpu.h. */
#ifndef WF_CPU_INTERNAL_H
#define WF_CPU_INTERNAL_H

#include "kir_exec.h"

void wf_cpu_brand(char name[64]);                              /* the processor's name */
void wf_cpu_copy(wf_pool *pool, void *dst, const void *src, size_t n); /* on all threads; may overlap */

#endif
