/* log.c - the levelled log callback. Off until the caller installs one. */
#include <pthread.h>
#include <stdio.h>

#include "base.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_log_fn log_fn;
static void *log_user;
static atomic_int log_level = -1; /* -1: off; read first, so that a silent log costs one load */

void weft_set_log(weft_log_fn fn, void *user, weft_log_level level)
{
    pthread_mutex_lock(&lock);
    log_fn = fn;
    log_user = user;
    atomic_store(&log_level, fn ? (int)level : -1);
    pthread_mutex_unlock(&lock);
}

void wf_log(weft_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
        return;
    char text[WF_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    pthread_mutex_lock(&lock);
    weft_log_fn fn = log_fn;
    void *user = log_user;
    pthread_mutex_unlock(&lock);
    if (fn)
        fn(user, level, text);
}
