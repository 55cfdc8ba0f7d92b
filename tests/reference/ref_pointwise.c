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

static const struct {
    const char *name;
    ref_fn fn;
} functions[] = {
#define ROW(name) {#name, fn_##name}
    ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(pow), ROW(maximum), ROW(minimum), ROW(eq), ROW(ne), ROW(lt), ROW(le),
    ROW(gt), ROW(ge), ROW(where), ROW(neg), ROW(abs), ROW(exp), ROW(log), ROW(sqrt), ROW(rsqrt), ROW(sin), ROW(cos),
    ROW(tanh), ROW(erf), ROW(floor), ROW(sigmoid), ROW(silu), ROW(gelu), ROW(gelu_tanh), ROW(relu), ROW(copy),
};

ref_fn ref_pointwise(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].fn;
    return NULL;
}
