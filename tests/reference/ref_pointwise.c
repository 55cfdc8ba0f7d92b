/* ref_pointwise.c - elementwise functions, in forms that lose no digits. */
#include "ref.h"

#include <math.h>
#include <string.h>

#define FN(name, expression)                                                       \
    static long double fn_##name(long double a, long double b, long double c)      \
    {                                                                              \
        (void)a, (void)b, (void)c;                                                 \
        return expression;                                                         \
    }

static long double sigmoid(long double x)
{
    return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
}

/* x/2 (1 + erf(x / sqrt 2)), where 1 + erf cancels for negative x and erfc does not. */
static long double gelu(long double x)
{
    return x * 0.5L * erfcl(-x * 0.707106781186547524400844362104849039L);
}

/* x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static long double gelu_tanh(long double x)
{
    return x * sigmoid(2 * 0.797884560802865355879892119868763737L * (x + 0.044715L * x * x * x));
}

/* floor(a / b) and the remainder with the sign of b; a quotient that rounds to a whole number is told by its remainder. */
static long double python_mod(long double a, long double b)
{
    long double m = fmodl(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
static long double floor_divide(long double a, long double b)
{
    long double m = fmodl(a, b), q;
    if (b == 0)
        return a / b;
    q = rintl((a - m) / b);
    q = m != 0 && (m < 0) != (b < 0) ? q - 1 : q;
    return q == 0 ? copysignl(0, a / b) : q;
}
static long double left_shift(long double a, long double b) { return b < 0 || b > 63 ? 0 : a * exp2l(b); }
static long double right_shift(long double a, long double b) { return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : floorl(a / exp2l(b)); }

FN(add, a + b)
FN(sub, a - b)
FN(mul, a * b)
FN(div, a / b)
FN(pow, powl(a, b))
FN(maximum, isnan(a) || isnan(b) ? NAN : a > b ? a : b)
FN(minimum, isnan(a) || isnan(b) ? NAN : a < b ? a : b)
FN(eq, a == b)
FN(ne, a != b)
FN(lt, a < b)
FN(le, a <= b)
FN(gt, a > b)
FN(ge, a >= b)
FN(where, a != 0 ? b : c)
FN(neg, -a)
FN(abs, fabsl(a))
FN(exp, expl(a))
FN(log, logl(a))
FN(sqrt, sqrtl(a))
FN(rsqrt, 1 / sqrtl(a))
FN(sin, sinl(a))
FN(cos, cosl(a))
FN(tanh, tanhl(a))
FN(erf, erfl(a))
FN(floor, floorl(a))
FN(sigmoid, sigmoid(a))
FN(silu, a * sigmoid(a))
FN(gelu, gelu(a))
FN(gelu_tanh, gelu_tanh(a))
FN(relu, isnan(a) ? a : a > 0 ? a : 0)
FN(copy, a)
FN(erfc, erfcl(a))
FN(lgamma, lgammal(a))
FN(expm1, expm1l(a))
FN(log1p, log1pl(a))
FN(log2, log2l(a))
FN(exp2, exp2l(a))
FN(log10, log10l(a))
FN(sinh, sinhl(a))
FN(cosh, coshl(a))
FN(tan, tanl(a))
FN(asin, asinl(a))
FN(acos, acosl(a))
FN(atan, atanl(a))
FN(asinh, asinhl(a))
FN(acosh, acoshl(a))
FN(atanh, atanhl(a))
FN(ceil, ceill(a))
FN(trunc, truncl(a))
FN(round, rintl(a))
FN(signbit, signbit(a) != 0)
FN(bitwise_not, ~(int64_t)a)
FN(atan2, atan2l(a, b))
FN(hypot, hypotl(a, b))
FN(copysign, copysignl(a, b))
FN(fmod, fmodl(a, b))
FN(remainder, python_mod(a, b))
FN(floor_divide, floor_divide(a, b))
FN(bitwise_and, (int64_t)a & (int64_t)b)
FN(bitwise_or, (int64_t)a | (int64_t)b)
FN(bitwise_xor, (int64_t)a ^ (int64_t)b)
FN(bitwise_left_shift, left_shift(a, b))
FN(bitwise_right_shift, right_shift(a, b))

static const struct {
    const char *name;
    ref_fn fn;
} functions[] = {
#define ROW(name) {#name, fn_##name}
    ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(pow), ROW(maximum), ROW(minimum), ROW(eq), ROW(ne), ROW(lt), ROW(le),
    ROW(gt), ROW(ge), ROW(where), ROW(neg), ROW(abs), ROW(exp), ROW(log), ROW(sqrt), ROW(rsqrt), ROW(sin), ROW(cos),
    ROW(tanh), ROW(erf), ROW(floor), ROW(sigmoid), ROW(silu), ROW(gelu), ROW(gelu_tanh), ROW(relu), ROW(copy),
    ROW(erfc), ROW(lgamma), ROW(expm1), ROW(log1p), ROW(log2), ROW(exp2), ROW(log10), ROW(sinh), ROW(cosh), ROW(tan),
    ROW(asin), ROW(acos), ROW(atan), ROW(asinh), ROW(acosh), ROW(atanh), ROW(ceil), ROW(trunc), ROW(round),
    ROW(signbit), ROW(bitwise_not), ROW(atan2), ROW(hypot), ROW(copysign), ROW(fmod), ROW(remainder),
    ROW(floor_divide), ROW(bitwise_and), ROW(bitwise_or), ROW(bitwise_xor), ROW(bitwise_left_shift),
    ROW(bitwise_right_shift),
};

ref_fn ref_pointwise(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].fn;
    return NULL;
}
