/* sample.c - choosing a token from candidates: repetition penalty, temperature, top-k, top-p, min-p, in
 * this order, then one draw.
 *
 * The draw for context position p is Philox4x32-10 (Salmon et al. 2011) with the seed as key and p as
 * counter. It has no state, so a restored or truncated session repeats itself exactly. */
#include "mdl.h"

#include <stdlib.h>

static uint32_t philox(uint64_t seed, uint64_t counter)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c[0];
}

weft_status mdl_sampling_check(const weft_sampling *p)
{
    if (!isfinite(p->temperature) || p->temperature < 0)
        return weft_fail(WEFT_E_VALUE, "sampling: temperature %g must be finite and not negative", p->temperature);
    if (p->top_k < 0)
        return weft_fail(WEFT_E_VALUE, "sampling: top_k %d must not be negative", p->top_k);
    if (!(p->top_p >= 0 && p->top_p <= 1))
        return weft_fail(WEFT_E_VALUE, "sampling: top_p %g is not in 0 .. 1", p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return weft_fail(WEFT_E_VALUE, "sampling: min_p %g is not in 0 .. 1", p->min_p);
    if (!isfinite(p->repeat_penalty) || p->repeat_penalty < 0)
        return weft_fail(WEFT_E_VALUE, "sampling: repeat_penalty %g must be finite and not negative", p->repeat_penalty);
    if (p->repeat_last < 0)
        return weft_fail(WEFT_E_VALUE, "sampling: repeat_last %d must not be negative", p->repeat_last);
    return WEFT_OK;
}

static bool penalises(const weft_sampling *p)
{
    return p->repeat_penalty != 0 && p->repeat_penalty != 1;
}

static int64_t repeat_last(const weft_sampling *p)
{
    return p->repeat_last ? p->repeat_last : 64;
}

/* A penalty above 1 only lowers logits, of at most `repeat_last` ids: the best k afterwards are among
 * the best k + repeat_last before. Below 1 it can raise any id, so the whole row is needed. */
int64_t mdl_sampling_candidates(const weft_sampling *p, int64_t vocab)
{
    int64_t k = p->temperature == 0 ? 1 : p->top_k;
    if (k == 0 || (penalises(p) && p->repeat_penalty < 1))
        return 0;
    if (penalises(p))
        k += repeat_last(p);
    return k < vocab ? k : 0;
}

static void penalise(const weft_sampling *p, mdl_candidate *c, int64_t n, const int32_t *history, int64_t n_history)
{
    int64_t last = repeat_last(p);
    if (last > n_history)
        last = n_history;
    const int32_t *recent = history + n_history - last;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < last; j++)
            if (recent[j] == c[i].id) { /* once an id, however often it occurs */
                c[i].logit = c[i].logit > 0 ? c[i].logit / p->repeat_penalty : c[i].logit * p->repeat_penalty;
                break;
            }
}

/* Descending logits, equal ones by lower id, NaN last. */
static int by_logit(const void *a, const void *b)
{
    const mdl_candidate *x = a, *y = b;
    bool nx = isnan(x->logit), ny = isnan(y->logit);
    if (nx != ny)
        return nx ? 1 : -1;
    if (!nx && x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t best(const mdl_candidate *c, int64_t n)
{
    int64_t b = 0;
    for (int64_t i = 1; i < n; i++)
        if (by_logit(&c[i], &c[b]) < 0)
            b = i;
    return c[b].id;
}

int32_t mdl_sample(const weft_sampling *p, mdl_candidate *c, int64_t n, const int32_t *history, int64_t n_history, uint64_t position)
{
    if (penalises(p))
        penalise(p, c, n, history, n_history);
    if (p->temperature == 0)
        return best(c, n);
    qsort(c, (size_t)n, sizeof *c, by_logit);
    while (n > 1 && isnan(c[n - 1].logit))
        n--;
    if (p->top_k > 0 && n > p->top_k)
        n = p->top_k;
    double total = 0, top = c[0].logit;
    if (!isfinite(top)) /* an infinite best logit takes all the probability */
        return c[0].id;
    for (int64_t i = 0; i < n; i++)
        total += exp((c[i].logit - top) / p->temperature);
    double kept = 0, need = p->top_p > 0 && p->top_p < 1 ? p->top_p * total : INFINITY;
    int64_t m = 0;
    for (; m < n; m++) { /* weights fall along the row, so each filter keeps a prefix */
        double w = exp((c[m].logit - top) / p->temperature);
        if (m > 0 && (kept >= need || w < p->min_p))
            break;
        kept += w;
    }
    double u = (philox(p->seed, position) + 0.5) * (1.0 / 4294967296.0) * kept, sum = 0;
    for (int64_t i = 0; i < m; i++) {
        sum += exp((c[i].logit - top) / p->temperature);
        if (u < sum)
            return c[i].id;
    }
    return c[m - 1].id;
}
