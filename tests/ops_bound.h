/* ops_bound.h - evaluates the error bounds of op.def.
 *
 * A bound is a sum of products of numbers, parentheses and named quantities; the names are those of the table
 * below, and the case gives their values. Anything else is an error, and fails the test.
 */
#ifndef OPS_BOUND_H
#define OPS_BOUND_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum bound_name {
    BOUND_EPS, BOUND_N, BOUND_S, BOUND_X, BOUND_PAIR, BOUND_SUM_X, BOUND_MEAN_X, BOUND_SUM_AB, BOUND_SUM_XW, BOUND_MAX_X,
    BOUND_STD, BOUND_MAX_V, BOUND_MAX_S, BOUND_TINY, BOUND_NAMES
} bound_name;

/* Longer names come before those they begin with. */
static const struct {
    const char *text;
    bound_name name;
} bound_texts[] = {
    {"sum|a||b|", BOUND_SUM_AB}, {"sum|x||w|", BOUND_SUM_XW}, {"sum|x|", BOUND_SUM_X}, {"mean|x|", BOUND_MEAN_X},
    {"max|x|", BOUND_MAX_X}, {"max|v|", BOUND_MAX_V}, {"max|s|", BOUND_MAX_S}, {"|pair|", BOUND_PAIR}, {"|x|", BOUND_X},
    {"tiny", BOUND_TINY}, {"eps", BOUND_EPS}, {"std", BOUND_STD}, {"n", BOUND_N}, {"S", BOUND_S},
};

/* NAN: the case does not give this quantity, and a bound that names it cannot be evaluated. */
typedef struct bound_values {
    double v[BOUND_NAMES];
} bound_values;

/* tiny: the smallest number above 0 of the dtype on the device. */
static bound_values bound_given(double eps, double tiny, double n)
{
    bound_values b;
    for (int i = 0; i < BOUND_NAMES; i++)
        b.v[i] = NAN;
    b.v[BOUND_EPS] = eps;
    b.v[BOUND_TINY] = tiny;
    b.v[BOUND_N] = n;
    return b;
}

typedef struct bound_reader {
    const char *p;
    const bound_values *given;
    bool bad;
} bound_reader;

static double bound_sum(bound_reader *r);

static void bound_space(bound_reader *r)
{
    while (*r->p == ' ')
        r->p++;
}

static double bound_factor(bound_reader *r)
{
    bound_space(r);
    if (*r->p == '(') {
        r->p++;
        double v = bound_sum(r);
        bound_space(r);
        if (*r->p != ')') {
            r->bad = true;
            return 0;
        }
        r->p++;
        return v;
    }
    if (*r->p >= '0' && *r->p <= '9') {
        char *end;
        double v = strtod(r->p, &end);
        r->p = end;
        return v;
    }
    for (size_t i = 0; i < sizeof bound_texts / sizeof *bound_texts; i++) {
        size_t n = strlen(bound_texts[i].text);
        if (strncmp(r->p, bound_texts[i].text, n) == 0) {
            r->p += n;
            return r->given->v[bound_texts[i].name];
        }
    }
    r->bad = true;
    return 0;
}

static double bound_product(bound_reader *r)
{
    double v = bound_factor(r);
    for (bound_space(r); !r->bad && (*r->p == '*' || *r->p == '/'); bound_space(r)) {
        bool divides = *r->p++ == '/';
        double w = bound_factor(r);
        v = divides ? v / w : v * w;
    }
    return v;
}

static double bound_sum(bound_reader *r)
{
    double v = bound_product(r);
    for (bound_space(r); !r->bad && *r->p == '+'; bound_space(r)) {
        r->p++;
        v += bound_product(r);
    }
    return v;
}

/* False when the text is no bound. */
static bool bound_value(const char *text, const bound_values *given, double *out)
{
    bound_reader r = {text, given, false};
    *out = bound_sum(&r);
    bound_space(&r);
    return !r.bad && *r.p == 0;
}

#endif
