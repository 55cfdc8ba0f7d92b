/* cpu_pages.c - memory of large buffers: straight from the system, on 2 MiB pages where it gives them. */
#include "cpu.h"

#if defined(_WIN32)
#include <windows.h>

void *wf_cpu_map_pages(size_t size_bytes)
{
    return VirtualAlloc(NULL, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void wf_cpu_unmap_pages(void *ptr, size_t size_bytes)
{
    (void)size_bytes;
    if (ptr)
        VirtualFree(ptr, 0, MEM_RELEASE);
}
#else
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Reserves up to one large page more than asked and gives the ends back, so that the start is aligned. */
void *wf_cpu_map_pages(size_t size_bytes)
{
    size_t size = (size_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (size < size_bytes || size > SIZE_MAX - HUGE_PAGE)
        return NULL;
    char *p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(p, skip);
    if (HUGE_PAGE - skip)
        munmap(p + skip + size, HUGE_PAGE - skip);
    p += skip;
#if defined(MADV_HUGEPAGE)
    madvise(p, size, MADV_HUGEPAGE); /* advice: a refusal costs speed only */
#endif
    return p;
}

void wf_cpu_unmap_pages(void *ptr, size_t size_bytes)
{
    if (ptr)
        munmap(ptr, (size_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}
#endif
