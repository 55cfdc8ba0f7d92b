/* thread.c - mutexes and the pool.
 *
 * A job is published by one 64-bit word: an epoch, an open bit, and the number of workers inside. A
 * worker enters by adding itself while the bit is set; the caller clears the bit when no part is left
 * and waits only for those inside. A worker that sleeps, or that the scheduler took away, therefore
 * never delays a job that the others have finished.
 */
#include <signal.h>

#include "thread.h"

#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() atomic_signal_fence(memory_order_seq_cst)
#endif

void wf_mutex_init(wf_mutex *m, bool recursive)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    pthread_mutex_init(m, &attr);
    pthread_mutexattr_destroy(&attr);
}

#define OPEN ((uint64_t)1)
#define INSIDE ((uint64_t)2)
#define INSIDE_MASK ((uint64_t)0xfffffffe)
#define EPOCH ((uint64_t)1 << 32)

/* About 20 us of pauses (40 cycles each on Zen): longer than the gap between the kernels of one command list. */
enum { SPIN_ROUNDS = 2000, MAX_THREADS = 1024 };

typedef struct worker {
    wf_pool *pool;
    pthread_t thread;
    int index; /* 1 .. n_threads-1; 0 is the caller */
} worker;

struct wf_pool {
    int n_threads, n_started, spin_rounds;
    wf_mutex run_lock; /* one job at a time */
    wf_task_fn fn;
    void *user;
    int64_t count;
    /* Cache lines of their own: every worker polls `state` while others count parts in `next`. Padding, since
     * allocators promise 16 bytes of alignment only. */
    char pad0[64];
    _Atomic uint64_t state;
    char pad1[64];
    _Atomic int64_t next;
    char pad2[64];
    atomic_int sleepers;
    atomic_bool caller_sleeps, quit;
    pthread_mutex_t sleep_lock;
    pthread_cond_t work, done;
    worker workers[];
};

/* The tasks this thread is inside of: a nested run on the same pool must not wait for itself. */
typedef struct frame {
    const wf_pool *pool;
    int worker;
    struct frame *outer;
} frame;
static _Thread_local frame *innermost;

static void run_parts(wf_pool *p, int worker_index)
{
    frame here = {p, worker_index, innermost};
    innermost = &here;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (i >= p->count)
            break;
        p->fn(p->user, i, p->count, worker_index);
    }
    innermost = here.outer;
}

/* Enter the open job, if there is one that this worker has not been in. */
static bool enter(wf_pool *p, uint64_t *seen)
{
    uint64_t s = atomic_load(&p->state);
    while ((s & OPEN) && s >> 32 != *seen)
        if (atomic_compare_exchange_weak(&p->state, &s, s + INSIDE)) {
            *seen = s >> 32;
            return true;
        }
    return false;
}

static void leave(wf_pool *p)
{
    uint64_t s = atomic_fetch_sub(&p->state, INSIDE) - INSIDE;
    if (!(s & (OPEN | INSIDE_MASK)) && atomic_load(&p->caller_sleeps)) {
        pthread_mutex_lock(&p->sleep_lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->sleep_lock);
    }
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    wf_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        bool in = enter(p, &seen);
        for (int i = 0; !in && i < p->spin_rounds && !atomic_load_explicit(&p->quit, memory_order_relaxed); i++) {
            RELAX();
            in = enter(p, &seen);
        }
        if (!in) {
            pthread_mutex_lock(&p->sleep_lock);
            atomic_fetch_add(&p->sleepers, 1); /* before the look: the caller publishes, then counts sleepers */
            while (!atomic_load(&p->quit) && !(in = enter(p, &seen)))
                pthread_cond_wait(&p->work, &p->sleep_lock);
            atomic_fetch_sub(&p->sleepers, 1);
            pthread_mutex_unlock(&p->sleep_lock);
            if (!in)
                return NULL;
        }
        run_parts(p, w->index);
        leave(p);
    }
}

static void publish(wf_pool *p)
{
    /* Nobody is inside and the bit is clear, so only the epoch moves. Epoch 0 is "never seen". */
    uint64_t epoch = (atomic_load(&p->state) >> 32) + 1;
    epoch &= 0xffffffff;
    if (epoch == 0)
        epoch = 1;
    atomic_store(&p->state, epoch * EPOCH | OPEN);
    int wake = atomic_load(&p->sleepers);
    if (wake > 0) {
        pthread_mutex_lock(&p->sleep_lock);
        if (p->count - 1 < wake)
            for (int64_t i = 1; i < p->count; i++)
                pthread_cond_signal(&p->work);
        else
            pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->sleep_lock);
    }
}

static void close_and_wait(wf_pool *p)
{
    uint64_t s = atomic_fetch_and(&p->state, ~OPEN);
    for (int i = 0; (s & INSIDE_MASK) && i < p->spin_rounds; i++) {
        RELAX();
        s = atomic_load(&p->state);
    }
    if (!(s & INSIDE_MASK))
        return;
    pthread_mutex_lock(&p->sleep_lock);
    atomic_store(&p->caller_sleeps, true);
    while (atomic_load(&p->state) & INSIDE_MASK)
        pthread_cond_wait(&p->done, &p->sleep_lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->sleep_lock);
}

static void run_serial(wf_pool *p, wf_task_fn fn, void *user, int64_t count, int worker_index)
{
    frame here = {p, worker_index, innermost};
    innermost = &here;
    for (int64_t i = 0; i < count; i++)
        fn(user, i, count, worker_index);
    innermost = here.outer;
}

void wf_pool_run(wf_pool *p, wf_task_fn fn, void *user, int64_t count)
{
    if (count <= 0)
        return;
    for (const frame *f = innermost; f; f = f->outer)
        if (f->pool == p) {
            run_serial(p, fn, user, count, f->worker);
            return;
        }
    wf_lock(&p->run_lock);
    if (count == 1 || p->n_threads == 1) {
        run_serial(p, fn, user, count, 0);
    } else {
        p->fn = fn;
        p->user = user;
        p->count = count;
        atomic_store_explicit(&p->next, 0, memory_order_relaxed);
        publish(p);
        run_parts(p, 0);
        close_and_wait(p);
    }
    wf_unlock(&p->run_lock);
}

int wf_pool_size(const wf_pool *p)
{
    return p->n_threads;
}

void wf_pool_destroy(wf_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->sleep_lock);
    atomic_store(&p->quit, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->sleep_lock);
    for (int i = 0; i < p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->sleep_lock);
    pthread_mutex_destroy(&p->run_lock);
    wf_free(p);
}

weft_status wf_pool_create(int n_threads, wf_pool **out)
{
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return wf_fail(WEFT_E_VALUE, "threads: %d asked for, expected 1 .. %d", n_threads, MAX_THREADS);
    size_t bytes = sizeof(wf_pool) + (size_t)n_threads * sizeof(worker);
    wf_pool *p = wf_calloc(1, bytes);
    if (!p)
        return WEFT_E_OOM;
    p->n_threads = n_threads;
    /* With more threads than cores a spinning worker holds the core that another one needs. */
    p->spin_rounds = n_threads <= wf_thread_default() ? SPIN_ROUNDS : 20;
    wf_mutex_init(&p->run_lock, false);
    wf_mutex_init(&p->sleep_lock, false);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);

    /* The caller's signals stay with the caller's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = 0;
    for (int i = 1; i < n_threads && !err; i++) {
        worker *w = &p->workers[i - 1];
        w->pool = p;
        w->index = i;
        err = pthread_create(&w->thread, NULL, worker_main, w);
        p->n_started += !err;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        int n = p->n_started + 1;
        wf_pool_destroy(p);
        return wf_fail(WEFT_E_OOM, "threads: the system starts %d of %d (error %d)", n, n_threads, err);
    }
    *out = p;
    return WEFT_OK;
}
