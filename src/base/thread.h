/* thread.h - mutexes, once, a thread pool, and how many threads this process may use. */
#ifndef WF_THREAD_H
#define WF_THREAD_H

#include <pthread.h>

#include "base.h"

typedef pthread_mutex_t wf_mutex;
void wf_mutex_init(wf_mutex *m, bool recursive);
static inline void wf_mutex_lock(wf_mutex *m) { pthread_mutex_lock(m); }
static inline void wf_mutex_unlock(wf_mutex *m) { pthread_mutex_unlock(m); }

/* A recursive lock that costs its first thread no locked instruction: see biased_lock.c. */
typedef struct wf_biased_lock {
    uintptr_t owner;     /* the thread that initialised it; 0: no bias */
    atomic_int held;     /* written by the owner alone: depth of its fast sections */
    atomic_bool revoked; /* another thread came: everyone takes the mutex from now on */
    pthread_mutex_t mutex;
} wf_biased_lock;
void wf_biased_init(wf_biased_lock *l);
void wf_biased_destroy(wf_biased_lock *l);
void wf_biased_lock_slow(wf_biased_lock *l);

static inline void wf_biased_lock_take(wf_biased_lock *l)
{
    if (l->owner == (uintptr_t)pthread_self()) {
        int depth = atomic_load_explicit(&l->held, memory_order_relaxed);
        atomic_store_explicit(&l->held, depth + 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the revoker's membarrier is the other half */
        if (depth > 0 || !atomic_load_explicit(&l->revoked, memory_order_relaxed))
            return;
        atomic_store_explicit(&l->held, 0, memory_order_release);
    }
    wf_biased_lock_slow(l);
}

static inline void wf_biased_lock_drop(wf_biased_lock *l)
{
    int depth = atomic_load_explicit(&l->held, memory_order_relaxed);
    if (depth > 0 && l->owner == (uintptr_t)pthread_self())
        atomic_store_explicit(&l->held, depth - 1, memory_order_release);
    else
        pthread_mutex_unlock(&l->mutex);
}

/* One pair of names for both. */
#define wf_lock(m) _Generic((m), wf_biased_lock *: wf_biased_lock_take, wf_mutex *: wf_mutex_lock)(m)
#define wf_unlock(m) _Generic((m), wf_biased_lock *: wf_biased_lock_drop, wf_mutex *: wf_mutex_unlock)(m)

/* WEFT_THREADS, else the least of affinity and the cgroup quota (v1 and v2), performance cores only
 * where the kernel tells them apart. At least 1. Errors: VALUE when WEFT_THREADS is no such number. */
weft_status wf_thread_wanted(int *out);
/* The same, with a WEFT_THREADS that is no number passed over: for describing a device. */
int wf_thread_default(void);

typedef struct wf_pool wf_pool;
/* A task runs for part `index` of `count` on worker `worker` (0 .. n_threads-1). */
typedef void (*wf_task_fn)(void *user, int64_t index, int64_t count, int worker);
weft_status wf_pool_create(int n_threads, wf_pool **out);
void wf_pool_destroy(wf_pool *pool);
int wf_pool_size(const wf_pool *pool);
/* Run parts 0 .. count-1 and return when all are done; the caller works too. Parts are handed out
 * dynamically, so a task must not care which worker runs it. Workers spin briefly, then sleep. Calls
 * from several threads are serialised. count <= 1 runs here and wakes nobody. */
void wf_pool_run(wf_pool *pool, wf_task_fn fn, void *user, int64_t count);

#endif
