/* thread.h - mutexes, once, a thread pool, and how many threads this process may use. */
#ifndef WF_THREAD_H
#define WF_THREAD_H

#include <pthread.h>

#include "base.h"

typedef pthread_mutex_t wf_mutex;
void wf_mutex_init(wf_mutex *m, bool recursive);
static inline void wf_lock(wf_mutex *m) { pthread_mutex_lock(m); }
static inline void wf_unlock(wf_mutex *m) { pthread_mutex_unlock(m); }

/* WEFT_THREADS, else the least of affinity and the cgroup quota (v1 and v2), performance cores only
 * where the kernel tells them apart. At least 1. */
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
