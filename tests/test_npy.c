/* test_npy.c - .npy files: what is written is read back, NumPy's own are read, bad ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "data_file.h"
#include "weft/format.h"

static char path[] = "/tmp/weft_test_npy_XXXXXX";

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return wf_alloc_live() ? -1 : 0;
}

static weft_status read_back(weft_dtype *dtype, int *rank, int64_t shape[8], void **data)
{
    return weft_npy_read(path, dtype, rank, shape, data);
}

static void plain_types_round_trip_at_any_rank(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_F64, WEFT_DTYPE_I32, WEFT_DTYPE_U32,
                                       WEFT_DTYPE_I8,  WEFT_DTYPE_U8,  WEFT_DTYPE_I64, WEFT_DTYPE_BOOL};
    static const int64_t shapes[][8] = {{1}, {7}, {2, 3}, {0, 4}, {2, 1, 2, 1, 2, 1, 2, 1}};
    static const int ranks[] = {0, 1, 2, 2, 8};
    unsigned char bytes[16 * 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 3 + 1);
    for (size_t t = 0; t < WF_COUNT(types); t++)
        for (size_t k = 0; k < WF_COUNT(ranks); k++) {
            weft_dtype dtype;
            int rank;
            int64_t shape[8], numel = 1;
            void *data = NULL;
            for (int i = 0; i < ranks[k]; i++)
                numel *= shapes[k][i];
            assert_int_equal(weft_npy_write(path, types[t], ranks[k], shapes[k], bytes), WEFT_OK);
            assert_int_equal(read_back(&dtype, &rank, shape, &data), WEFT_OK);
            assert_int_equal(dtype, types[t]);
            assert_int_equal(rank, ranks[k]);
            for (int i = 0; i < rank; i++)
                assert_int_equal(shape[i], shapes[k][i]);
            assert_memory_equal(data, bytes, (size_t)numel * weft_dtype_block_bytes(dtype));
            weft_npy_free(data);
            size_t n = 0;
            char *whole = read_whole(path, &n);
            assert_int_equal((n - (size_t)numel * weft_dtype_block_bytes(dtype)) % 64, 0);
            free(whole);
        }
}

static void types_numpy_lacks_are_refused(void **state)
{
    (void)state;
    static const int64_t shape[] = {32};
    char bytes[64] = {0};
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_BF16, 1, shape, bytes), WEFT_E_DTYPE);
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_Q8_0, 1, shape, bytes), WEFT_E_DTYPE);
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_F32, 9, shape, bytes), WEFT_E_SHAPE);
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_F32, 1, (const int64_t[]){-1}, bytes), WEFT_E_SHAPE);
    assert_int_equal(weft_npy_write("/no/such/folder/x.npy", WEFT_DTYPE_F32, 1, shape, bytes), WEFT_E_IO);
}

/* The names in the directory of `path` that begin with its own. */
static int names_beside(void)
{
    int n = 0;
    DIR *d = opendir("/tmp");
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, path + 5, strlen(path + 5)) == 0;
    closedir(d);
    return n;
}

static void a_failed_write_leaves_what_was_there(void **state)
{
    (void)state;
    static const int64_t shape[1] = {4096};
    static const float values[4096] = {1};
    struct rlimit old, small;
    weft_dtype dtype;
    int rank;
    int64_t got[8];
    void *data = NULL;
    const int64_t one = 1;
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_F32, 1, &one, values), WEFT_OK);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    weft_status st = weft_npy_write(path, WEFT_DTYPE_F32, 1, shape, values);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(st, WEFT_E_IO);
    assert_non_null(strstr(weft_error_message(), strerror(EFBIG)));
    assert_int_equal(names_beside(), 1);
    assert_int_equal(read_back(&dtype, &rank, got, &data), WEFT_OK);
    assert_int_equal(got[0], 1);
    weft_npy_free(data);
    assert_int_equal(weft_npy_write("/tmp/no such folder/x.npy", WEFT_DTYPE_F32, 1, shape, values), WEFT_E_IO);
    assert_non_null(strstr(weft_error_message(), strerror(ENOENT)));
}

static void devices_are_written_to_and_stay(void **state)
{
    (void)state;
    static const int64_t shape[1] = {3};
    static const float values[3] = {1, 2, 3};
    struct stat info;
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode))
        skip();
    assert_int_equal(weft_npy_write("/dev/full", WEFT_DTYPE_F32, 1, shape, values), WEFT_E_IO);
    assert_non_null(strstr(weft_error_message(), strerror(ENOSPC)));
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_int_equal(weft_npy_write("/dev/null", WEFT_DTYPE_F32, 1, shape, values), WEFT_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* What a killed writer left goes with the next one; what a living one writes, and other names, stay. */
static void parts_of_the_dead_are_removed(void **state)
{
    (void)state;
    char dead[64], alive[64], other[64];
    float v = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(dead, sizeof dead, "%s.%ld-0.part", path, (long)child);
    snprintf(alive, sizeof alive, "%s.%ld-7.part", path, (long)getpid());
    snprintf(other, sizeof other, "%s.%ld-0.parts", path, (long)child);
    const char *const made[] = {dead, alive, other};
    for (size_t i = 0; i < WF_COUNT(made); i++)
        fclose(fopen(made[i], "wb"));
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_F32, 0, NULL, &v), WEFT_OK);
    assert_int_equal(access(dead, F_OK), -1);
    for (size_t i = 1; i < WF_COUNT(made); i++) {
        assert_int_equal(access(made[i], F_OK), 0);
        unlink(made[i]);
    }
}

static void links_and_modes_are_kept(void **state)
{
    (void)state;
    static const int64_t shape[1] = {3};
    static const float values[3] = {1, 2, 3};
    char link_name[64];
    struct stat info;
    snprintf(link_name, sizeof link_name, "%s.link", path);
    assert_int_equal(symlink(path, link_name), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(weft_npy_write(link_name, WEFT_DTYPE_F32, 1, shape, values), WEFT_OK);
    assert_int_equal(lstat(link_name, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(info.st_size, 128 + 12);
    unlink(link_name);
    assert_int_equal(names_beside(), 1);
}

static void numpys_own_file_is_read(void **state)
{
    (void)state;
    weft_dtype dtype;
    int rank;
    int64_t shape[8];
    void *data = NULL;
    assert_int_equal(weft_npy_read(source_path("tests/data/stories260k/ref_logits.npy"), &dtype, &rank, shape, &data),
                     WEFT_OK);
    assert_int_equal(rank, 2);
    assert_int_equal(shape[1], 512);
    weft_npy_free(data);
}

static weft_status verdict(const void *bytes, size_t n)
{
    weft_dtype dtype;
    int rank;
    int64_t shape[8];
    void *data = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    weft_status st = read_back(&dtype, &rank, shape, &data);
    weft_npy_free(data);
    return st;
}

static weft_status header_verdict(const char *header, size_t data)
{
    char bytes[600] = "\x93NUMPY\x01\x00";
    size_t n = strlen(header);
    bytes[8] = (char)n;
    bytes[9] = (char)(n >> 8);
    memcpy(bytes + 10, header, n);
    return verdict(bytes, 10 + n + data);
}

static void headers_are_read_strictly(void **state)
{
    (void)state;
    assert_int_equal(header_verdict("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8), WEFT_OK);
    assert_int_equal(header_verdict("{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"<f4\"}", 16), WEFT_OK);
    assert_int_equal(header_verdict("{'descr': '<i1', 'fortran_order': False, 'shape': (2,), }\n", 2), WEFT_OK);
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,2,2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
        "{'descr: '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr",
    };
    for (size_t i = 0; i < WF_COUNT(bad); i++)
        if (header_verdict(bad[i], 8) != WEFT_E_FORMAT)
            fail_msg("accepted: %s", bad[i]);
}

static void every_cut_and_flip_gives_a_verdict(void **state)
{
    (void)state;
    static const int64_t shape[] = {3, 2};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    size_t n = 0;
    assert_int_equal(weft_npy_write(path, WEFT_DTYPE_F32, 2, shape, data), WEFT_OK);
    char *whole = read_whole(path, &n);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(verdict(whole, cut), WEFT_E_FORMAT);
    for (size_t i = 0; i < n; i++) {
        whole[i] ^= 0x11;
        weft_status st = verdict(whole, n);
        assert_true(st == WEFT_OK || st == WEFT_E_FORMAT);
        whole[i] ^= 0x11;
    }
    free(whole);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    static const int64_t shape[] = {3, 2};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    bool done = false;
    for (uint64_t nth = 1; !done; nth++) {
        wf_alloc_fail_nth(nth);
        weft_status st = weft_npy_write(path, WEFT_DTYPE_F32, 2, shape, data);
        wf_alloc_fail_nth(0);
        done = st == WEFT_OK;
        assert_true(done || st == WEFT_E_OOM);
        assert_int_equal(wf_alloc_live(), 0);
    }
    done = false;
    for (uint64_t nth = 1; !done; nth++) {
        weft_dtype dtype;
        int rank;
        int64_t got[8];
        void *p = NULL;
        wf_alloc_fail_nth(nth);
        weft_status st = read_back(&dtype, &rank, got, &p);
        wf_alloc_fail_nth(0);
        done = st == WEFT_OK;
        assert_true(done || (st == WEFT_E_OOM && p == NULL));
        weft_npy_free(p);
        assert_int_equal(wf_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_types_round_trip_at_any_rank),
        cmocka_unit_test(types_numpy_lacks_are_refused),
        cmocka_unit_test(a_failed_write_leaves_what_was_there),
        cmocka_unit_test(devices_are_written_to_and_stay),
        cmocka_unit_test(links_and_modes_are_kept),
        cmocka_unit_test(parts_of_the_dead_are_removed),
        cmocka_unit_test(numpys_own_file_is_read),
        cmocka_unit_test(headers_are_read_strictly),
        cmocka_unit_test(every_cut_and_flip_gives_a_verdict),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
