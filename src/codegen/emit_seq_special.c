/* emit_seq_special.c - erfc, lgamma and roundings of F32 as instructions. See emit_seq_exp.c for the polynomials and their
 * errors.
 */
#include "emit_sequence.h"

/* Below 1/2: 1 - erf. Above: e^(-x^2) times erfcx, which is w Q(w) in w = 1 / (x + 2), 5.2e-8. The square is formed from
 * x cut to 12 bits, exactly, and what is left of it goes into the exponent's fraction. */
int wf_seq_erfc(wf_kb *b, int x, int y)
{
    int near = seq_sub(b, seq_num(b, 1.0f), seq_erf(b, x));
    int a = seq_min(b, seq_max(b, x, seq_num(b, 0.5f)), seq_num(b, 10.5f));
    int w = seq_div(b, seq_num(b, 1.0f), seq_add(b, a, seq_num(b, 2.0f)));
    int q = SEQ_POLY(b, w, -31.3590088f, 75.8617172f, -65.5604706f, 19.5856342f, -1.43417788f, 3.35628843f, 1.93192816f, 1.13028777f,
                     0.564153194f);
    int cut = seq_as_float(b, seq_iand(b, seq_as_int(b, a), seq_int(b, -4096)));
    int rest = seq_mul(b, seq_sub(b, cut, a), seq_add(b, cut, a)), n;
    int p = wf_seq_exp_parts(b, seq_neg(b, seq_mul(b, cut, cut)), rest, &n);
    int v = seq_mul(b, w, q);
    int far = wf_seq_scale(b, seq_fma(b, v, p, v), seq_to_int(b, n));
    return seq_through(b, x, seq_pick(b, seq_lt(b, x, seq_num(b, 0.5f)), near, far));
}

/* ---- ln |gamma| ---- */

/* For 1.5 <= a < 8: gamma(a) = product * gamma(t + 2), t in [-1/2, 1). */
static int step_down(wf_kb *b, int a, int *product)
{
    int one = seq_num(b, 1.0f), v = a, m = one;
    for (int i = 0; i < 5; i++) {
        int less = seq_sub(b, v, one), again = seq_le(b, seq_num(b, 3.0f), v);
        m = seq_pick(b, again, seq_mul(b, m, less), m);
        v = seq_pick(b, again, less, v);
    }
    *product = m;
    return seq_sub(b, v, seq_num(b, 2.0f));
}

/* For a >= 0: about the zeros at 1 (t P(t) on [-1/2, 1/2], 5.8e-8) and 2 (on [-1/2, 1], 2.9e-8), then Stirling's series. */
static int lgamma_positive(wf_kb *b, int a)
{
    int half = seq_num(b, 0.5f), one = seq_num(b, 1.0f), product;
    int small = seq_lt(b, a, half), low = seq_lt(b, a, seq_num(b, 1.5f)), middle = seq_lt(b, a, seq_num(b, 8.0f));
    int t = seq_pick(b, small, a, seq_sub(b, a, one));
    int p1 = SEQ_POLY(b, t, -0.157778189f, 0.179948211f, -0.0654978454f, 0.0651698783f, -0.114536233f, 0.131129101f, -0.143920884f,
                      0.169131011f, -0.207382277f, 0.270594418f, -0.400685877f, 0.82246691f, -0.577215672f);
    int u = step_down(b, a, &product);
    int p2 = SEQ_POLY(b, u, -2.05161432e-05f, 9.58224482e-05f, -0.000238649518f, 0.000517700915f, -0.00118982105f, 0.00288832746f,
                      -0.00738576474f, 0.0205810107f, -0.0673522949f, 0.322467029f, 0.422784328f);
    int l = seq_log(b, seq_pick(b, low, a, seq_pick(b, middle, product, a)));
    int w = seq_div(b, one, a);
    int s = SEQ_POLY(b, seq_mul(b, w, w), 0.000777830952f, -0.00277765538f, 0.0833333358f);
    int stirling = seq_fma(b, seq_sub(b, a, half), seq_sub(b, l, one), seq_fma(b, s, w, seq_num(b, 0.418938533f)));
    int first = seq_mul(b, t, p1);
    first = seq_pick(b, small, seq_sub(b, first, l), first);
    return seq_pick(b, low, first, seq_pick(b, middle, seq_fma(b, u, p2, l), stirling));
}

/* For x < 0: -ln(a sin(pi a) / pi) - ln gamma(a), a = -x. The sine is of the distance to the nearest whole number, r P(r^2),
 * 4.2e-8; at 0 it is a pole. Nearer to 0 than 2^-24 both signs of x give the same. */
int wf_seq_lgamma(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), positive = lgamma_positive(b, a), zero = seq_num(b, 0.0f), inf = seq_bits(b, SEQ_INF);
    int f = seq_sub(b, a, seq_floor(b, a));
    int d = seq_min(b, f, seq_sub(b, seq_num(b, 1.0f), f));
    int sine = SEQ_POLY(b, seq_mul(b, d, d), 0.0775603876f, -0.598242104f, 2.55006981f, -5.16770983f, 3.14159274f);
    int product = seq_mul(b, seq_mul(b, seq_mul(b, sine, d), seq_num(b, 0.318309886f)), a);
    int reflected = seq_sub(b, seq_neg(b, seq_log(b, product)), positive);
    reflected = seq_pick(b, seq_eq(b, f, zero), inf, reflected);
    int r = seq_pick(b, seq_lt(b, x, seq_num(b, -0x1p-24f)), reflected, positive);
    return seq_through(b, x, seq_pick(b, seq_eq(b, a, inf), inf, r));
}

/* ---- roundings: floor has the exact values, and the sign is that of x ---- */

/* Ties go to the even neighbour: floor when half of it is whole. */
int wf_seq_round(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), f = seq_floor(b, a), d = seq_sub(b, a, f), half = seq_num(b, 0.5f), up = seq_add(b, f, seq_num(b, 1.0f));
    int h = seq_mul(b, f, half), even = seq_eq(b, h, seq_floor(b, h));
    int tie = seq_pick(b, even, f, up);
    int r = seq_pick(b, seq_lt(b, half, d), up, seq_pick(b, seq_eq(b, d, half), tie, f));
    return seq_through(b, x, seq_signed(b, r, x));
}

int wf_seq_ceil(wf_kb *b, int x, int y) { return seq_through(b, x, seq_neg(b, seq_floor(b, seq_neg(b, x)))); }

int wf_seq_trunc(wf_kb *b, int x, int y) { return seq_through(b, x, seq_signed(b, seq_floor(b, seq_abs(b, x)), x)); }

int wf_seq_copysign(wf_kb *b, int x, int y) { return seq_signed(b, seq_abs(b, x), y); }
