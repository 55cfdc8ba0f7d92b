/* biased_lock.c - a recursive lock biased towards one thread (Kawachiya et al. 2002, "Lock Reservation").
 *
 * Recording an op takes 40 ns, and the two locked instructions of a mutex would double it: each waits until
 * every store of the op has left the store buffer. Nearly always one thread records, so it marks its sections
 * with plain stores. The first other thread revokes the bias for good: it sets `revoked` and asks the kernel
 * to run a full barrier on every thread of the process (membarrier, Linux 4.14). After that either the owner
 * sees `revoked` on its next entry, or the revoker sees its mark and waits for it to go.
 *
 * Where the barrier is not offered, and under ThreadSanitizer, which cannot see it, there is no bias.
 */
#include <sched.h>
#include <time.h>

#include "thread.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_BIAS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(__linux__) || !defined(SYS_membarrier)
#define NO_BIAS 1
#endif

#ifndef NO_BIAS
/* <linux/membarrier.h>, which old systems lack */
enum { PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

static bool barrier_offered(void)
{
    return syscall(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void barrier_everywhere(void)
{
    syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0);
}
#else
static bool barrier_offered(void) { return false; }
static void barrier_everywhere(void) {}
#endif

void wf_biased_init(wf_biased_lock *l)
{
    wf_mutex_init(&l->mutex, true);
    atomic_init(&l->held, 0);
    atomic_init(&l->revoked, false);
    l->owner = barrier_offered() ? (uintptr_t)pthread_self() : 0;
}

void wf_biased_destroy(wf_biased_lock *l)
{
    pthread_mutex_destroy(&l->mutex);
}

static void revoke_bias(wf_biased_lock *l)
{
    atomic_store(&l->revoked, true);
    barrier_everywhere();
    for (int round = 0; atomic_load_explicit(&l->held, memory_order_acquire) != 0; round++) {
        if (round < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* it may evaluate for long */
    }
}

void wf_biased_lock_slow(wf_biased_lock *l)
{
    pthread_mutex_lock(&l->mutex);
    if (l->owner && l->owner != (uintptr_t)pthread_self() && !atomic_load_explicit(&l->revoked, memory_order_relaxed))
        revoke_bias(l);
}
