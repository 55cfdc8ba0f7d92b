/* test_thread.c - the pool runs every part once, whoever calls, and threads are counted as the kernel allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu_count.h"
#include "thread.h"

typedef struct tally {
    wf_pool *pool;
    atomic_int parts[64];
    atomic_int busy[64]; /* by worker: two tasks at once on one worker index would share its scratch */
    atomic_int clashes, bad_index;
} tally;

static void tally_part(void *user, int64_t i, int64_t count, int worker)
{
    tally *t = user;
    if (worker < 0 || worker >= wf_pool_size(t->pool) || i < 0 || i >= count)
        atomic_fetch_add(&t->bad_index, 1);
    if (atomic_fetch_add(&t->busy[worker], 1) != 0)
        atomic_fetch_add(&t->clashes, 1);
    atomic_fetch_add(&t->parts[i], 1);
    atomic_fetch_sub(&t->busy[worker], 1);
}

static void every_part_runs_once_on_any_size(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n += 2)
        for (int64_t count = 0; count <= 64; count += count < 4 ? 1 : 20) {
            tally t = {0};
            assert_int_equal(wf_pool_create(n, &t.pool), WEFT_OK);
            assert_int_equal(wf_pool_size(t.pool), n);
            for (int round = 1; round <= 50; round++) {
                wf_pool_run(t.pool, tally_part, &t, count);
                for (int64_t i = 0; i < count; i++)
                    assert_int_equal(t.parts[i], round);
            }
            assert_int_equal(t.clashes, 0);
            assert_int_equal(t.bad_index, 0);
            wf_pool_destroy(t.pool);
        }
    assert_int_equal(wf_alloc_live(), 0);
}

static void work_after_a_pause_wakes_sleepers(void **state)
{
    (void)state;
    tally t = {0};
    assert_int_equal(wf_pool_create(4, &t.pool), WEFT_OK);
    for (int round = 1; round <= 20; round++) {
        usleep(2000); /* far longer than the workers spin */
        wf_pool_run(t.pool, tally_part, &t, 16);
        for (int i = 0; i < 16; i++)
            assert_int_equal(t.parts[i], round);
    }
    wf_pool_destroy(t.pool);
}

static void nested_part(void *user, int64_t i, int64_t count, int worker)
{
    (void)i, (void)count, (void)worker;
    tally *t = user;
    wf_pool_run(t->pool, tally_part, t, 8);
}

static void a_task_may_run_the_pool(void **state)
{
    (void)state;
    tally t = {0};
    assert_int_equal(wf_pool_create(3, &t.pool), WEFT_OK);
    wf_pool_run(t.pool, nested_part, &t, 20);
    for (int i = 0; i < 8; i++)
        assert_int_equal(t.parts[i], 20);
    assert_int_equal(t.clashes, 0);
    wf_pool_run(t.pool, nested_part, &t, 1);
    assert_int_equal(t.parts[0], 21);
    wf_pool_destroy(t.pool);
}

static void *run_often(void *user)
{
    tally *t = user;
    for (int i = 0; i < 500; i++)
        wf_pool_run(t->pool, tally_part, t, i % 5);
    return NULL;
}

static void several_threads_may_call_at_once(void **state)
{
    (void)state;
    tally t = {0};
    pthread_t callers[6];
    assert_int_equal(wf_pool_create(3, &t.pool), WEFT_OK);
    for (int i = 0; i < 6; i++)
        pthread_create(&callers[i], NULL, run_often, &t);
    for (int i = 0; i < 6; i++)
        pthread_join(callers[i], NULL);
    assert_int_equal(t.parts[0], 6 * 400);
    assert_int_equal(t.parts[3], 6 * 100);
    assert_int_equal(t.clashes, 0); /* also between the single-part calls, which run on the caller */
    wf_pool_destroy(t.pool);
}

static void bad_sizes_and_failing_allocations_are_reported(void **state)
{
    (void)state;
    wf_pool *p = NULL;
    assert_int_equal(wf_pool_create(0, &p), WEFT_E_VALUE);
    assert_int_equal(wf_pool_create(-1, &p), WEFT_E_VALUE);
    assert_int_equal(wf_pool_create(1 << 20, &p), WEFT_E_VALUE);
    wf_alloc_fail_nth(1);
    assert_int_equal(wf_pool_create(2, &p), WEFT_E_OOM);
    assert_null(p);
    wf_pool_destroy(NULL);
}

/* ---- counting, on made-up machines ---- */

static char root[] = "/tmp/weft_test_cpu_XXXXXX";

static void put(const char *path, const char *text)
{
    char full[600];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int count_with(int n_allowed)
{
    bool allowed[WF_CPU_MAX] = {false};
    for (int i = 0; i < n_allowed; i++)
        allowed[i] = true;
    return wf_cpu_count_below(root, allowed);
}

static void sweep(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        print_error("cannot remove %s\n", root);
}

static void the_machine_is_read_as_the_kernel_shows_it(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(count_with(6), 6); /* nothing known but affinity */
    assert_int_equal(count_with(0), 1);

    put("/proc/self/cgroup", "0::/a/b\n"); /* version 2, the bound lies in the parent */
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    assert_int_equal(count_with(6), 3);
    assert_int_equal(count_with(2), 2);
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(count_with(6), 1);

    put("/proc/self/cgroup", "0::/elsewhere\n"); /* inside a container: only the mount point is there */
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(count_with(6), 4);

    put("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/x\n3:cpuset:/\n"); /* version 1 */
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(count_with(6), 2);
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(count_with(6), 6);

    put("/sys/devices/cpu_core/cpus", "0-1,4\n"); /* performance cores by name */
    assert_int_equal(count_with(6), 3);
    assert_int_equal(count_with(1), 1);
    put("/sys/devices/cpu_core/cpus", "8-9\n"); /* none of ours: use what there is */
    assert_int_equal(count_with(6), 6);
    put("/sys/devices/cpu_core/cpus", "\n");
    for (int i = 0; i < 6; i++) { /* by capacity */
        char path[80];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", i);
        put(path, i < 4 ? "400\n" : "1024\n");
    }
    assert_int_equal(count_with(6), 2);
    assert_int_equal(count_with(4), 4); /* pinned to the small ones */
    put("/proc/self/cgroup", "\n:\n::\n0::\ngarbage");
    assert_int_equal(count_with(6), 2);
    sweep();
}

static void the_environment_sets_the_number(void **state)
{
    (void)state;
    static const char *const bad[] = {"many", "0", "-2", "4x", " ", "1025", "99999999999999999999"};
    int n = 0;
    setenv("WEFT_THREADS", "3", 1);
    assert_int_equal(wf_thread_default(), 3);
    assert_int_equal(wf_thread_wanted(&n), WEFT_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < WF_COUNT(bad); i++) {
        setenv("WEFT_THREADS", bad[i], 1);
        assert_int_equal(wf_thread_wanted(&n), WEFT_E_VALUE);
        assert_int_equal(n, 3);
        assert_non_null(strstr(weft_error_message(), "WEFT_THREADS"));
        assert_true(wf_thread_default() >= 1);
    }
    unsetenv("WEFT_THREADS");
    assert_int_equal(wf_thread_wanted(&n), WEFT_OK);
    assert_true(n >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once_on_any_size),
        cmocka_unit_test(work_after_a_pause_wakes_sleepers),
        cmocka_unit_test(a_task_may_run_the_pool),
        cmocka_unit_test(several_threads_may_call_at_once),
        cmocka_unit_test(bad_sizes_and_failing_allocations_are_reported),
        cmocka_unit_test(the_machine_is_read_as_the_kernel_shows_it),
        cmocka_unit_test(the_environment_sets_the_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
