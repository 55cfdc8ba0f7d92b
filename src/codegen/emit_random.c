/* emit_random.c - random numbers as instructions: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011, Parallel random
 * numbers: as easy as 1, 2, 3), and normal and exponential deviates of its words.
 *
 * Element i of a draw at offset o takes the four words of counter (o + i, 0, 0) under the key, which is the seed: o + i
 * is 64 bits. Whatever needs more words of an element shares the rounds, since equal instructions are made once.
 * Words are integer arithmetic, so every device gives the same. Floats are made of at most 24 bits, which converts exactly.
 */
#include "emit.h"

static int two(wf_kb *b, wf_kop op, int x, int y)
{
    return wf_kb_op(b, op, WF_KTY_U32, x, y, -1);
}

static int word(wf_kb *b, uint32_t w)
{
    int32_t bits;
    memcpy(&bits, &w, sizeof bits);
    return wf_kb_static(b, WF_KTY_U32, bits);
}

static int f32(wf_kb *b, wf_kop op, int x, int y)
{
    return wf_kb_op(b, op, WF_KTY_F32, x, y, -1);
}

static int number(wf_kb *b, double v) { return wf_kb_const(b, WF_KTY_F32, v); }
static int to_f32(wf_kb *b, int x) { return f32(b, WF_KOP_CAST, x, -1); }
static int less(wf_kb *b, int x, int y) { return wf_kb_op(b, WF_KOP_LT, WF_KTY_BOOL, x, y, -1); }

/* Inputs of the node: seed low and high word, offset low and high word. */
static bool philox(wf_emit *e, int32_t id, const wf_pos *pos, int c[4])
{
    wf_kb *b = &e->b;
    const wf_pos origin = {.affine = true};
    int in[4];
    for (int i = 0; i < 4; i++) {
        int v = wf_emit_input(e, id, i, &origin);
        in[i] = v < 0 ? v : wf_kb_op(b, WF_KOP_BITCAST, WF_KTY_U32, v, -1, -1);
        if (in[i] < 0)
            return false;
    }
    int at = wf_pos_linear_value(e, &e->g->nodes[id], pos);
    if (at < 0)
        return false;
    at = wf_kb_op(b, WF_KOP_BITCAST, WF_KTY_U32, at, -1, -1);
    int zero = word(b, 0), one = word(b, 1);
    c[0] = two(b, WF_KOP_ADD, at, in[2]);
    int wrapped = less(b, c[0], at);
    c[1] = two(b, WF_KOP_ADD, in[3], wf_kb_op(b, WF_KOP_SELECT, WF_KTY_U32, wrapped, one, zero));
    c[2] = c[3] = zero;
    int key0 = in[0], key1 = in[1], m0 = word(b, 0xd2511f53u), m1 = word(b, 0xcd9e8d57u);
    for (int round = 0; round < 10; round++) {
        int low0 = two(b, WF_KOP_MUL, m0, c[0]), high0 = two(b, WF_KOP_MULHI, m0, c[0]);
        int low1 = two(b, WF_KOP_MUL, m1, c[2]), high1 = two(b, WF_KOP_MULHI, m1, c[2]);
        c[0] = two(b, WF_KOP_XOR, two(b, WF_KOP_XOR, high1, c[1]), key0);
        c[2] = two(b, WF_KOP_XOR, two(b, WF_KOP_XOR, high0, c[3]), key1);
        c[1] = low1;
        c[3] = low0;
        key0 = two(b, WF_KOP_ADD, key0, word(b, 0x9e3779b9u));
        key1 = two(b, WF_KOP_ADD, key1, word(b, 0xbb67ae85u));
    }
    return true;
}

/* -ln u of u in (0, 1]. 24 bits of a word, all 32 where it is small, so that the tail is fine and the conversion exact. */
static int minus_log(wf_kb *b, int w)
{
    int one = word(b, 1);
    int coarse = f32(b, WF_KOP_MUL, to_f32(b, two(b, WF_KOP_ADD, two(b, WF_KOP_SHR, w, word(b, 8)), one)), number(b, 0x1p-24));
    int fine = two(b, WF_KOP_ADD, two(b, WF_KOP_AND, w, word(b, 0xffffff)), one);
    fine = f32(b, WF_KOP_MUL, to_f32(b, fine), number(b, 0x1p-32));
    int u = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_F32, less(b, w, word(b, 1u << 24)), fine, coarse);
    return f32(b, WF_KOP_SUB, number(b, 0), f32(b, WF_KOP_LOG, u, -1)); /* a difference: 0 of 1, not -0 */
}

/* a[0] + z a[1] + z^2 a[2] .. */
static int polynomial(wf_kb *b, int z, const double *a, int n)
{
    int r = number(b, a[n - 1]);
    for (int k = n - 2; k >= 0; k--)
        r = f32(b, WF_KOP_ADD, f32(b, WF_KOP_MUL, r, z), number(b, a[k]));
    return r;
}

/* Taylor's coefficients in squared turns, to 2^-28 at an eighth. The first of the sine, 2 pi, is the nearest f32 and what that lacks. */
static const double sine_of_turns[] = {-1.7484556025237907e-07, -41.341702240399755, 81.605249276075043, -76.705859753061361, 42.058693944897634};
static const double cosine_of_turns[] = {1, -19.739208802178716, 64.939394022668282, -85.456817206693714, 60.244641371876639, -26.426256783374388};

/* Box and Muller 1958: sqrt(-2 ln u) sin(2 pi v). The turn is brought to an eighth on either side of a quarter in
 * integers, where sums of few terms have small relative errors. */
static int normal(wf_kb *b, int w0, int w1)
{
    int radius = f32(b, WF_KOP_SQRT, f32(b, WF_KOP_MUL, minus_log(b, w0), number(b, 2)), -1);
    int turn = two(b, WF_KOP_SHR, w1, word(b, 8));                              /* in 2^-24 */
    int quarter = two(b, WF_KOP_SHR, two(b, WF_KOP_ADD, turn, word(b, 1u << 21)), word(b, 22));
    int rest = two(b, WF_KOP_SUB, turn, two(b, WF_KOP_SHL, quarter, word(b, 22))); /* -2^21 .. 2^21 - 1 */
    int x = to_f32(b, wf_kb_op(b, WF_KOP_BITCAST, WF_KTY_I32, rest, -1, -1));
    x = f32(b, WF_KOP_MUL, x, number(b, 0x1p-24)); /* exact */
    int z = f32(b, WF_KOP_MUL, x, x);
    int sine = f32(b, WF_KOP_ADD, polynomial(b, z, sine_of_turns, (int)WF_COUNT(sine_of_turns)), number(b, 6.2831854820251465));
    sine = f32(b, WF_KOP_MUL, sine, x);
    int cosine = polynomial(b, z, cosine_of_turns, (int)WF_COUNT(cosine_of_turns));
    int one = word(b, 1), two_ = word(b, 2), zero = word(b, 0);
    int odd = wf_kb_op(b, WF_KOP_EQ, WF_KTY_BOOL, two(b, WF_KOP_AND, quarter, one), one, -1);
    int wave = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_F32, odd, cosine, sine);
    int up = wf_kb_op(b, WF_KOP_EQ, WF_KTY_BOOL, two(b, WF_KOP_AND, quarter, two_), zero, -1);
    wave = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_F32, up, wave, f32(b, WF_KOP_NEG, wave, -1));
    return f32(b, WF_KOP_MUL, radius, wave);
}

/* The high word of range times 64 random bits: 0 .. range - 1, biased by at most range / 2^64. */
static int below(wf_kb *b, int high, int low, uint32_t range)
{
    if (range == 0)
        return high;
    int n = word(b, range);
    int carry_in = two(b, WF_KOP_MULHI, low, n), part = two(b, WF_KOP_MUL, high, n);
    int sum = two(b, WF_KOP_ADD, part, carry_in);
    int carry = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_U32, less(b, sum, part), word(b, 1), word(b, 0));
    return two(b, WF_KOP_ADD, two(b, WF_KOP_MULHI, high, n), carry);
}

int wf_emit_random(wf_emit *e, int32_t id, const wf_pos *pos)
{
    wf_kb *b = &e->b;
    const wf_attrs *a = &e->g->nodes[id].attrs;
    int c[4];
    if (!philox(e, id, pos, c))
        return -1;
    switch (a->random.form) {
    case WF_RANDOM_BELOW:
        return below(b, c[0], c[1], a->random.range);
    case WF_RANDOM_NORMAL:
        return normal(b, c[0], c[1]);
    case WF_RANDOM_EXPONENTIAL:
        return minus_log(b, c[0]);
    default:
        return a->random.range ? two(b, WF_KOP_SHR, c[a->random.word], word(b, a->random.range)) : c[a->random.word];
    }
}
