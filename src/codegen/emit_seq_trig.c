/* emit_seq_trig.c - tangent, inverse trigonometric functions and the hypotenuse of F32 as instructions. See
 * emit_seq_exp.c for the polynomials and their errors.
 */
#include "emit_sequence.h"

/* pi and pi/2 in two parts. */
#define PI_HI 3.14159274f
#define PI_LO -8.74227766e-8f
#define HALF_PI_HI 1.57079637f
#define HALF_PI_LO -4.37113883e-8f

/* hi + lo - x, for x of about the size of hi */
static int from_constant(wf_kb *b, float hi, float lo, int x)
{
    return seq_sub(b, seq_num(b, hi), seq_sub(b, x, seq_num(b, lo)));
}

/* ---- tangent ---- */

/* 1 / (2 pi) after 32 zero bits. */
static const uint32_t turn_words[] = {0, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau};

typedef struct turn {
    int high, low; /* U32: the fraction of a turn, 64 bits */
} turn;

/* The fraction of |x| / (2 pi) from the bits u of |x| >= 1/2 (Payne and Hanek 1983): whole turns drop out of the product
 * of the significand and those bits of 1 / (2 pi) that matter. A float comes no closer to a multiple of pi/2 than 2^-30
 * of itself, so that 64 bits leave a rounding of f32 behind. */
static turn turn_of(wf_kb *b, int u)
{
    int m = seq_wor(b, seq_wand(b, u, seq_word(b, 0x7fffffu)), seq_word(b, 0x800000u));
    int at = seq_wsub(b, seq_wshr(b, u, seq_word(b, 23)), seq_word(b, 118));
    int first = seq_wshr(b, at, seq_word(b, 5)), s = seq_wand(b, at, seq_word(b, 31)), rest = seq_wsub(b, seq_word(b, 31), s);
    int t[4], w[3], is[5];
    for (int i = 1; i < 5; i++)
        is[i] = wf_kb_op(b, WF_KOP_EQ, WF_KTY_BOOL, first, seq_word(b, (uint32_t)i), -1);
    for (int j = 0; j < 4; j++) {
        t[j] = seq_word(b, turn_words[j]);
        for (int i = 1; i < 5; i++)
            t[j] = seq_wpick(b, is[i], seq_word(b, i + j < 8 ? turn_words[i + j] : 0), t[j]);
    }
    for (int j = 0; j < 3; j++)
        w[j] = seq_wor(b, seq_wshl(b, t[j], s), seq_wshr(b, seq_wshr(b, t[j + 1], seq_word(b, 1)), rest));
    int more = seq_wmulhi(b, m, w[2]);
    int low = seq_wadd(b, seq_wmul(b, m, w[1]), more);
    int carry = seq_wpick(b, wf_kb_op(b, WF_KOP_LT, WF_KTY_BOOL, low, more, -1), seq_word(b, 1), seq_word(b, 0));
    int high = seq_wadd(b, seq_wadd(b, seq_wmul(b, m, w[0]), seq_wmulhi(b, m, w[1])), carry);
    return (turn){high, low};
}

/* The nearest quarter is taken off; what is left has a sign and a magnitude up to 1/8 turn. */
int wf_seq_tan(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), u = seq_as_word(b, a), zero = seq_word(b, 0), one = seq_word(b, 1);
    turn t = turn_of(b, u);
    int quarters = seq_wshr(b, seq_wadd(b, t.high, seq_word(b, 0x20000000u)), seq_word(b, 30));
    int high = seq_wsub(b, t.high, seq_wshl(b, quarters, seq_word(b, 30)));
    int negative = wf_kb_op(b, WF_KOP_GT, WF_KTY_BOOL, high, seq_word(b, 0x7fffffffu), -1);
    int borrow = seq_wpick(b, wf_kb_op(b, WF_KOP_EQ, WF_KTY_BOOL, t.low, zero, -1), zero, one);
    high = seq_wpick(b, negative, seq_wsub(b, seq_wsub(b, zero, high), borrow), high);
    int low = seq_wpick(b, negative, seq_wsub(b, zero, t.low), t.low);
    int sum = seq_fma(b, seq_to_float(b, low), seq_num(b, 0x1p-32f), seq_to_float(b, high));
    int far = seq_mul(b, sum, seq_num(b, 1.46291808e-9f)); /* 2 pi / 2^32 */

    int near = seq_lt(b, a, seq_num(b, 0.785398185f));
    int r = seq_pick(b, near, a, far), z = seq_mul(b, r, r);
    int p = SEQ_POLY(b, z, 0.00941108633f, 0.00307724741f, 0.0244562756f, 0.0534040891f, 0.133388847f, 0.333331525f); /* 1.8e-8 */
    int v = seq_fma(b, seq_mul(b, p, z), r, r);
    int odd = seq_wpick(b, near, zero, seq_wand(b, quarters, one));
    int is_odd = wf_kb_op(b, WF_KOP_EQ, WF_KTY_BOOL, odd, one, -1);
    v = seq_pick(b, is_odd, seq_div(b, seq_num(b, 1.0f), v), v);
    int flip = seq_wpick(b, near, zero, seq_wpick(b, negative, one, zero));
    flip = seq_wshl(b, wf_kb_op(b, WF_KOP_XOR, WF_KTY_U32, flip, odd, -1), seq_word(b, 31));
    int sign = wf_kb_op(b, WF_KOP_XOR, WF_KTY_U32, seq_wand(b, seq_as_word(b, x), seq_word(b, 0x80000000u)), flip, -1);
    v = seq_as_float(b, seq_wor(b, seq_as_word(b, v), sign));
    v = seq_tiny(b, a, 0x1p-12f, x, v);
    return seq_pick(b, seq_lt(b, a, seq_bits(b, SEQ_INF)), v, seq_bits(b, SEQ_NAN));
}

/* ---- arc sine and cosine ---- */

/* asin s = s + the result, for s = sqrt z <= 1/2: s^3 P(s^2), 5.8e-9 */
static int asin_rest(wf_kb *b, int s, int z)
{
    int p = SEQ_POLY(b, z, 0.0421662852f, 0.0241795257f, 0.0454703756f, 0.0749529749f, 0.166667521f);
    return seq_mul(b, seq_mul(b, p, z), s);
}

/* Above 1/2, asin a = pi/2 - 2 asin sqrt((1 - a) / 2). */
static int arc_operands(wf_kb *b, int a, int *s, int *rest)
{
    int big = seq_lt(b, seq_num(b, 0.5f), a);
    int z = seq_pick(b, big, seq_half(b, seq_sub(b, seq_num(b, 1.0f), a)), seq_mul(b, a, a));
    *s = seq_pick(b, big, seq_sqrt(b, z), a);
    *rest = asin_rest(b, *s, z);
    return big;
}

static int outside_one(wf_kb *b, int x, int a, int r)
{
    return seq_through(b, x, seq_pick(b, seq_lt(b, seq_num(b, 1.0f), a), seq_bits(b, SEQ_NAN), r));
}

int wf_seq_asin(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), s, rest, big = arc_operands(b, a, &s, &rest);
    int twice = seq_fma(b, seq_num(b, 2.0f), rest, seq_num(b, -HALF_PI_LO));
    int high = seq_sub(b, seq_num(b, HALF_PI_HI), seq_fma(b, seq_num(b, 2.0f), s, twice));
    int r = seq_signed(b, seq_pick(b, big, high, seq_add(b, s, rest)), x);
    return outside_one(b, x, a, seq_tiny(b, a, 0x1p-12f, x, r));
}

int wf_seq_acos(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), s, rest, big = arc_operands(b, a, &s, &rest), two = seq_num(b, 2.0f);
    int negative = seq_lt(b, x, seq_num(b, 0.0f));
    int right = seq_mul(b, two, seq_add(b, s, rest));
    int left = seq_sub(b, seq_num(b, PI_HI), seq_fma(b, two, s, seq_fma(b, two, rest, seq_num(b, -PI_LO))));
    int tail = seq_sub(b, seq_signed(b, seq_abs(b, rest), x), seq_num(b, HALF_PI_LO));
    int middle = seq_sub(b, seq_num(b, HALF_PI_HI), seq_add(b, x, tail));
    return outside_one(b, x, a, seq_pick(b, big, seq_pick(b, negative, left, right), middle));
}

/* ---- arc tangent ---- */

/* atan t for t in [0, 1]: t + t^3 P(t^2), 1.6e-8 */
static int atan_near(wf_kb *b, int t)
{
    int z = seq_mul(b, t, t);
    int p = SEQ_POLY(b, z, -0.00179359387f, 0.0109144812f, -0.0311776139f, 0.0579573587f, -0.0840343684f, 0.109521814f,
                     -0.142642409f, 0.199985489f, -0.333332986f);
    return seq_tiny(b, t, 0x1p-12f, t, seq_fma(b, seq_mul(b, p, z), t, t));
}

int wf_seq_atan(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), one = seq_num(b, 1.0f), big = seq_lt(b, one, a);
    int r = atan_near(b, seq_pick(b, big, seq_div(b, one, a), a));
    r = seq_pick(b, big, from_constant(b, HALF_PI_HI, HALF_PI_LO, r), r);
    return seq_through(b, x, seq_tiny(b, a, 0x1p-12f, x, seq_signed(b, r, x)));
}

/* The angle of the point (y, x); here the first operand is y. */
int wf_seq_atan2(wf_kb *b, int y, int x)
{
    int ay = seq_abs(b, y), ax = seq_abs(b, x), steep = seq_lt(b, ax, ay);
    int most = seq_pick(b, steep, ay, ax), least = seq_pick(b, steep, ax, ay);
    int t = seq_div(b, least, most);
    t = seq_pick(b, seq_eq(b, most, seq_num(b, 0.0f)), seq_num(b, 0.0f), t);
    t = seq_pick(b, seq_eq(b, least, seq_bits(b, SEQ_INF)), seq_num(b, 1.0f), t);
    int r = atan_near(b, t);
    r = seq_pick(b, steep, from_constant(b, HALF_PI_HI, HALF_PI_LO, r), r);
    int behind = wf_kb_op(b, WF_KOP_LT, WF_KTY_BOOL, seq_as_int(b, x), seq_int(b, 0), -1);
    r = seq_pick(b, behind, from_constant(b, PI_HI, PI_LO, r), r);
    return seq_through(b, x, seq_through(b, y, seq_signed(b, r, y)));
}

/* m sqrt(1 + (n / m)^2), m the larger: no square exceeds 1. An infinite side wins over NaN, as in C. */
int wf_seq_hypot(wf_kb *b, int x, int y)
{
    int ax = seq_abs(b, x), ay = seq_abs(b, y), steep = seq_lt(b, ax, ay), inf = seq_bits(b, SEQ_INF), one = seq_num(b, 1.0f);
    int m = seq_pick(b, steep, ay, ax), n = seq_pick(b, steep, ax, ay);
    int t = seq_div(b, n, m), root = seq_sqrt(b, seq_fma(b, t, t, one));
    int r = seq_pick(b, seq_eq(b, n, seq_num(b, 0.0f)), m, seq_mul(b, m, root));
    r = seq_through(b, y, seq_through(b, x, r));
    return seq_pick(b, seq_either(b, seq_eq(b, ax, inf), seq_eq(b, ay, inf)), inf, r);
}
