/* test_algebra.c - products and einsum against sums over all indices in double. */
#include <math.h>
#include <stdio.h>

#include "scope_fixture.h"

static uint64_t seed = 7;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

#define EPS 5.9604644775390625e-08 /* 2^-24 */
enum { MOST = 8192 };

static void fill(float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((int32_t)draw(20001) - 10000) / 7919.0f;
}

static weft_tensor *tensor(int rank, const int64_t *shape, const float *v)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, v);
}

static void expect(const char *what, weft_tensor *t, int64_t n, const double *want, const double *m, double factor)
{
    static float got[MOST];
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s: %s", what, weft_tensor_message(t));
    assert_int_equal(weft_tensor_numel(t), n);
    if (weft_read_as(t, WEFT_DTYPE_F32, got, (size_t)n * 4) != WEFT_OK)
        fail_msg("%s: %s", what, weft_error_message());
    for (int64_t i = 0; i < n; i++) {
        double bound = factor * EPS * (m ? m[i] : fabs(want[i]));
        if (!(fabs(got[i] - want[i]) <= bound))
            fail_msg("%s: element %lld is %.9g, expected %.9g within %.3g", what, (long long)i, got[i], want[i], bound);
    }
}

/* ---- einsum by its definition ---- */

typedef struct reference {
    double want[MOST], m[MOST];
    int64_t n, folded;
} reference;

/* Letters a .. z only; operand i has the letters in[i] and the extents of its tensor. Extent 1 broadcasts. */
static void einsum_reference(int n, const char *const *in, const char *out, const float *const *x, int64_t shape[][8], reference *r)
{
    int64_t extent[26], at[26] = {0}, total = 1;
    for (int l = 0; l < 26; l++)
        extent[l] = 1;
    for (int i = 0; i < n; i++)
        for (int d = 0; in[i][d]; d++)
            if (shape[i][d] != 1)
                extent[in[i][d] - 'a'] = shape[i][d];
    r->n = 1;
    for (int d = 0; out[d]; d++)
        r->n *= extent[out[d] - 'a'];
    for (int l = 0; l < 26; l++)
        total *= extent[l];
    memset(r->want, 0, sizeof r->want);
    memset(r->m, 0, sizeof r->m);
    r->folded = r->n ? total / r->n : 0;
    for (int64_t k = 0; k < total; k++) {
        int64_t rest = k, o = 0;
        for (int l = 0; l < 26; l++) {
            at[l] = rest % extent[l];
            rest /= extent[l];
        }
        double p = 1;
        for (int i = 0; i < n; i++) {
            int64_t e = 0;
            for (int d = 0; in[i][d]; d++)
                e = e * shape[i][d] + (shape[i][d] == 1 ? 0 : at[in[i][d] - 'a']);
            p *= x[i][e];
        }
        for (int d = 0; out[d]; d++)
            o = o * extent[out[d] - 'a'] + at[out[d] - 'a'];
        r->want[o] += p;
        r->m[o] += fabs(p);
    }
}

static void run_random_einsum(int n)
{
    char in[4][8], out[8] = "", equation[64] = "";
    const char *names[4];
    const float *data[4];
    static float x[4][1024];
    static reference r;
    int64_t extent[6], shape[4][8];
    weft_tensor *t[4];
    for (int l = 0; l < 6; l++)
        extent[l] = 1 + draw(4);
    bool used[6] = {false};
    for (int i = 0; i < n; i++) {
        int rank = (int)draw(5);
        int64_t count = 1;
        for (int d = 0; d < rank; d++) {
            int l = (int)draw(6);
            in[i][d] = (char)('a' + l);
            bool again = memchr(in[i], 'a' + l, (size_t)d) != NULL;
            shape[i][d] = !again && draw(8) == 0 ? 1 : extent[l];
            for (int b = 0; b < d; b++) /* a diagonal has one extent */
                if (in[i][b] == in[i][d])
                    shape[i][d] = shape[i][b];
            used[l] = true;
            count *= shape[i][d];
        }
        in[i][rank] = '\0';
        fill(x[i], count);
        t[i] = tensor(rank, shape[i], x[i]);
        names[i] = in[i];
        data[i] = x[i];
        strcat(strcat(equation, i ? "," : ""), in[i]);
    }
    int n_out = 0, turn = (int)draw(6), step = draw(2) ? 5 : 1;
    for (int k = 0; k < 6; k++) { /* a random subset, forwards or backwards from somewhere */
        int l = (k * step + turn) % 6;
        if (used[l] && draw(2))
            out[n_out++] = (char)('a' + l);
    }
    out[n_out] = '\0';
    strcat(strcat(equation, draw(2) ? "->" : " -> "), out);
    einsum_reference(n, names, out, data, shape, &r);
    expect(equation, weft_einsum(equation, t, n), r.n, r.want, r.m, (double)r.folded + 8 * n);
}

static void any_equation_equals_its_sum(void **state)
{
    (void)state;
    for (int i = 0; i < (getenv("WEFT_TEST_DEVICE") ? 12 : 300); i++)
        run_random_einsum(1 + i % 4);
}

static void run_named(const char *equation, const char *out, int n, const char *const *in, int64_t shape[][8], const char *spoken)
{
    static float x[4][1024];
    static reference r;
    const float *data[4];
    weft_tensor *t[4];
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        int rank = (int)strlen(in[i]);
        for (int d = 0; d < rank; d++)
            count *= shape[i][d];
        fill(x[i], count);
        data[i] = x[i];
        t[i] = tensor(rank, shape[i], x[i]);
    }
    einsum_reference(n, in, out, data, shape, &r);
    expect(equation, weft_einsum(spoken, t, n), r.n, r.want, r.m, (double)r.folded + 32);
}

/* The pair with the smallest loop is the outer product of the two matrices, 38 MB; the cheapest order never makes it. */
static void the_order_of_pairs_is_the_cheapest_in_all(void **state)
{
    (void)state;
    static float x[64 * 64 * 64], y[64 * 64 * 48]; /* zeros */
    weft_ctx *own = NULL;
    weft_stats stats;
    assert_int_equal(weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, &own), WEFT_OK);
    weft_scope *inside = weft_scope_begin(own);
    weft_tensor *in[3] = {weft_tensor_from(own, WEFT_DTYPE_F32, 3, (int64_t[]){64, 64, 64}, x), weft_tensor_from(own, WEFT_DTYPE_F32, 2, (int64_t[]){64, 48}, y),
                          weft_tensor_from(own, WEFT_DTYPE_F32, 2, (int64_t[]){64, 48}, y)};
    weft_tensor *r = weft_einsum("abc,bd,ce->ade", in, 3);
    assert_int_equal(weft_eval(&r, 1), WEFT_OK);
    assert_int_equal(weft_ctx_stats(own, &stats), WEFT_OK);
    assert_true(stats.bytes_peak < (uint64_t)24 << 20);
    weft_scope_end(inside);
    weft_ctx_close(own);
}

static void ellipsis_and_implicit_results(void **state)
{
    (void)state;
    run_named("matmul of batches", "xyik", 2, (const char *[]){"xyij", "yjk"}, (int64_t[][8]){{2, 3, 4, 5}, {3, 5, 2}}, "...ij,...jk");
    run_named("dots in the middle", "xyij", 1, (const char *[]){"ixyj"}, (int64_t[][8]){{4, 2, 3, 5}}, "i...j");
    run_named("dots summed", "ij", 1, (const char *[]){"ixyj"}, (int64_t[][8]){{4, 2, 3, 5}}, "i...j->ij");
    run_named("dots broadcast", "xyi", 2, (const char *[]){"xyi", "yi"}, (int64_t[][8]){{2, 3, 4}, {1, 4}}, "...i,...i->...i");
    run_named("transposed by name", "ab", 1, (const char *[]){"ba"}, (int64_t[][8]){{3, 4}}, "ba");
    run_named("trace", "", 1, (const char *[]){"ii"}, (int64_t[][8]){{4, 4}}, "ii");
    run_named("diagonal", "i", 1, (const char *[]){"ii"}, (int64_t[][8]){{4, 4}}, "ii->i");
    run_named("attention scores", "bhqk", 2, (const char *[]){"bqhd", "bkhd"}, (int64_t[][8]){{2, 3, 2, 4}, {2, 5, 2, 4}}, "bqhd,bkhd->bhqk");
    run_named("bilinear", "bo", 3, (const char *[]){"bi", "oij", "bj"}, (int64_t[][8]){{3, 4}, {2, 4, 5}, {3, 5}}, "bi,oij,bj->bo");
    run_named("no axes", "", 2, (const char *[]){"", ""}, (int64_t[][8]){{0}, {0}}, ",");
}

static void integers_multiply_exactly(void **state)
{
    (void)state;
    int32_t a[6] = {1, -2, 3, 40000, 5, 70000}, b[6] = {7, 8, 9, 10, 60000, 12}, got[4];
    weft_tensor *ta = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){2, 3}, a), *tb = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){3, 2}, b);
    weft_tensor *t = weft_mm(ta, tb);
    assert_int_equal(weft_tensor_dtype(t), WEFT_DTYPE_I32);
    assert_int_equal(weft_read(t, got, sizeof got), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        uint32_t want = 0;
        for (int k = 0; k < 3; k++)
            want += (uint32_t)a[i / 2 * 3 + k] * (uint32_t)b[k * 2 + i % 2];
        assert_int_equal((uint32_t)got[i], want);
    }
    int8_t small[4] = {100, 2, 3, -5};
    weft_tensor *ts = weft_tensor_from(ctx, WEFT_DTYPE_I8, 1, (int64_t[]){4}, small);
    assert_int_equal(weft_tensor_dtype(weft_dot(ts, ts)), WEFT_DTYPE_I8);
}

static void products_by_their_names(void **state)
{
    (void)state;
    static float a[64], b[64], c[64];
    fill(a, 64), fill(b, 64), fill(c, 64);
    double want[64], m[64];
    weft_tensor *A = tensor(3, (int64_t[]){2, 3, 4}, a), *B = tensor(3, (int64_t[]){2, 4, 5}, b), *C = tensor(1, (int64_t[]){5}, c);
    for (int i = 0; i < 30; i++) {
        want[i] = 2 * c[i % 5];
        m[i] = fabs(want[i]);
        for (int k = 0; k < 4; k++) {
            want[i] += 0.5 * a[i / 5 * 4 + k] * b[i / 15 * 20 + k * 5 + i % 5];
            m[i] += fabs(0.5 * a[i / 5 * 4 + k] * b[i / 15 * 20 + k * 5 + i % 5]);
        }
    }
    expect("baddbmm", weft_baddbmm(C, A, B, 2, 0.5), 30, want, m, 16);
    weft_tensor *A0 = weft_squeeze(weft_slice(A, 0, 0, 1, 1), 0), *B0 = weft_squeeze(weft_slice(B, 0, 0, 1, 1), 0);
    expect("addmm", weft_addmm(C, A0, B0, 2, 0.5), 15, want, m, 16);
    for (int i = 0; i < 30; i++)
        want[i] = (want[i] - 2 * c[i % 5]) * 2;
    expect("bmm", weft_bmm(A, B), 30, want, m, 32);
    weft_tensor *nan = weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, NAN);
    expect("baddbmm beta 0", weft_baddbmm(nan, A, B, 0, 1), 30, want, m, 32);
    for (int i = 0; i < 3; i++) {
        want[i] = 0;
        m[i] = 4;
        for (int k = 0; k < 4; k++)
            want[i] += (double)a[i * 4 + k] * c[k];
    }
    expect("mv", weft_mv(A0, weft_slice(C, 0, 0, 4, 1)), 3, want, m, 32);
    for (int i = 0; i < 15; i++)
        want[i] = (double)a[i / 5] * c[i % 5];
    expect("outer", weft_outer(tensor(1, (int64_t[]){3}, a), C), 15, want, NULL, 1);
    want[0] = 0;
    for (int i = 0; i < 3; i++)
        want[0] += (double)a[i] * b[i];
    m[0] = 4;
    expect("dot", weft_dot(tensor(1, (int64_t[]){3}, a), tensor(1, (int64_t[]){3}, b)), 1, want, m, 8);
    /* inner of [2, 3, 4] and [5, 4] by rows */
    weft_tensor *D = tensor(2, (int64_t[]){5, 4}, b);
    for (int i = 0; i < 30; i++) {
        want[i] = 0;
        m[i] = 8;
        for (int k = 0; k < 4; k++)
            want[i] += (double)a[i / 5 * 4 + k] * b[i % 5 * 4 + k];
    }
    expect("inner", weft_inner(A, D), 30, want, m, 16);
    expect("tensordot", weft_tensordot(A, D, (int[]){2}, (int[]){-1}, 1), 30, want, m, 16);
    for (int i = 0; i < 9; i++) {
        const float *x = a + i / 3 * 3, *y = b + i / 3 * 3;
        int p = (i + 1) % 3, q = (i + 2) % 3;
        want[i] = (double)x[p] * y[q] - (double)x[q] * y[p];
        m[i] = fabs((double)x[p] * y[q]) + fabs((double)x[q] * y[p]);
    }
    expect("cross", weft_cross(tensor(2, (int64_t[]){3, 3}, a), tensor(2, (int64_t[]){3, 3}, b), -1), 9, want, m, 4);
}

static void powers_of_a_matrix(void **state)
{
    (void)state;
    float a[4] = {1, 1, 1, 0};
    weft_tensor *A = tensor(2, (int64_t[]){2, 2}, a);
    expect("to 10", weft_matrix_power(A, 10), 4, (double[]){89, 55, 55, 34}, NULL, 0);
    expect("to 1", weft_matrix_power(A, 1), 4, (double[]){1, 1, 1, 0}, NULL, 0);
    expect("to 0", weft_matrix_power(A, 0), 4, (double[]){1, 0, 0, 1}, NULL, 0);
}

static void is_error(weft_tensor *t, weft_status st, const char *part)
{
    if (weft_tensor_status(t) != st || !strstr(weft_tensor_message(t), part))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)weft_tensor_status(t), weft_tensor_message(t), (int)st, part);
}

static void wrong_equations_say_what_is_wrong(void **state)
{
    (void)state;
    float zeros[64] = {0};
    weft_tensor *x = tensor(2, (int64_t[]){2, 3}, zeros), *in[3] = {x, x, x};
    is_error(weft_einsum("ij,jk->ik", in, 2), WEFT_E_SHAPE, "'j' is 2 in operand 1 and 3 before");
    is_error(weft_einsum("ij->ik", in, 1), WEFT_E_VALUE, "'k' of the result is in no operand");
    is_error(weft_einsum("ij->ii", in, 1), WEFT_E_VALUE, "'i' stands twice in the result");
    is_error(weft_einsum("ii", in, 1), WEFT_E_SHAPE, "'i' is 2 and 3 in operand 0");
    is_error(weft_einsum("ij,ij", in, 1), WEFT_E_VALUE, "has 2 operands, 1 are given");
    is_error(weft_einsum("ij", in, 2), WEFT_E_VALUE, "has 1 operands, 2 are given");
    is_error(weft_einsum("ijk", in, 1), WEFT_E_SHAPE, "names 3 axes of operand 0, which is [2, 3]");
    is_error(weft_einsum("i", in, 1), WEFT_E_SHAPE, "names 1 axes");
    is_error(weft_einsum("i1->i", in, 1), WEFT_E_VALUE, "character '1' at 1");
    is_error(weft_einsum("ij-ij", in, 1), WEFT_E_VALUE, "'-' at 2 without '>'");
    is_error(weft_einsum("ij->i,j", in, 1), WEFT_E_VALUE, "goes on after its result");
    is_error(weft_einsum("...i...->i", in, 1), WEFT_E_VALUE, "two \"...\"");
    is_error(weft_einsum("ij.->i", in, 1), WEFT_E_VALUE, "character '.' at 2");
    is_error(weft_einsum(NULL, in, 1), WEFT_E_VALUE, "no equation");
    assert_int_equal(weft_tensor_status(weft_einsum("ij", NULL, 0)), WEFT_E_VALUE);
    is_error(weft_einsum("ij,kl,mn,op,qr->ijklmnopqr", (weft_tensor *[]){x, x, x, x, x}, 5), WEFT_E_SHAPE, "10 axes");
    is_error(weft_mm(x, x), WEFT_E_SHAPE, "expected [N, K] and [K, M], got [2, 3] and [2, 3]");
    is_error(weft_mv(x, x), WEFT_E_SHAPE, "[N, K] and [K]");
    is_error(weft_dot(x, x), WEFT_E_SHAPE, "vectors");
    is_error(weft_tensordot(x, x, (int[]){0}, (int[]){1}, 1), WEFT_E_SHAPE, "axis 0 of a has 2 elements, axis 1 of b 3");
    is_error(weft_tensordot(x, x, (int[]){0, 0}, (int[]){0, 1}, 2), WEFT_E_SHAPE, "twice");
    is_error(weft_cross(x, x, 0), WEFT_E_SHAPE, "has 2 elements, expected 3");
    is_error(weft_matrix_power(x, 2), WEFT_E_SHAPE, "[2, 3], expected [.., N, N]");
    is_error(weft_addmm(x, x, weft_transpose(x, 0, 1), 1, 1), WEFT_E_SHAPE, "does not broadcast");
}

/* So many terms that one invocation of some devices would not end its loop. */
static void long_products_are_whole(void **state)
{
    (void)state;
    enum { K = 150000 };
    int64_t shape[2] = {2, K}, turned[2] = {K, 3}, rows[2] = {3, K};
    weft_tensor *a = weft_ones(ctx, WEFT_DTYPE_F32, 2, shape), *b = weft_ones(ctx, WEFT_DTYPE_F32, 2, turned);
    weft_tensor *y[2] = {weft_matmul(a, b), weft_linear(a, weft_ones(ctx, WEFT_DTYPE_F32, 2, rows), NULL)};
    for (int i = 0; i < 2; i++) {
        float got[6];
        assert_int_equal(weft_read(y[i], got, sizeof got), WEFT_OK);
        for (int k = 0; k < 6; k++)
            assert_true(got[k] == K);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_equation_equals_its_sum, begin, end),
        cmocka_unit_test_setup_teardown(the_order_of_pairs_is_the_cheapest_in_all, begin, end),
        cmocka_unit_test_setup_teardown(ellipsis_and_implicit_results, begin, end),
        cmocka_unit_test_setup_teardown(integers_multiply_exactly, begin, end),
        cmocka_unit_test_setup_teardown(products_by_their_names, begin, end),
        cmocka_unit_test_setup_teardown(long_products_are_whole, begin, end),
        cmocka_unit_test_setup_teardown(powers_of_a_matrix, begin, end),
        cmocka_unit_test_setup_teardown(wrong_equations_say_what_is_wrong, begin, end),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
