/* rows_reduce.c - the rows of generated reductions (sums, softmax, norms): how a device with work groups spreads their lines.
 * The same kernel IR serves all; a line's sum is added in another order by each, so floats differ in their last bits, while
 * maxima, minima, their places and sums of integers are equal.
 */
#include "rows_reduce.h"

static const char *const names[] = {[WF_KSTRAT_THREAD] = "thread", [WF_KSTRAT_GROUP] = "group", [WF_KSTRAT_LANES] = "lanes"};

bool wf_reduce_is(const wf_kir *k)
{
    for (int s = 0; s < k->n_stages; s++)
        if (k->stages[s].kind == WF_KSTAGE_REDUCE)
            return true;
    return false;
}

const char *wf_reduce_row_name(unsigned strategy) { return strategy < WF_COUNT(names) ? names[strategy] : "?"; }

int wf_reduce_row_named(const char *name)
{
    for (size_t i = 0; i < WF_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static int64_t product(const int64_t *extents, int first, int last)
{
    int64_t n = 1;
    for (int i = first; i < last; i++)
        if (!wf_mul_i64(n, extents[i], &n))
            return INT64_MAX;
    return n;
}

bool wf_reduce_admissible(const wf_caps *caps, const wf_kir *k, const int64_t *extents, int strategy, char why[WF_WHY_MAX])
{
    int64_t inner = product(extents, k->n_outer, k->n_outer + k->n_inner);
    int64_t width = strategy == WF_KSTRAT_THREAD ? 1 : strategy == WF_KSTRAT_LANES ? WF_KSTRAT_LANES_WIDTH : 256, rounds, loops = 0;
    wf_kernel_ask ask = {.caps = caps};
    if (strategy != WF_KSTRAT_THREAD)
        width = WF_MIN(width, wf_group_limit(caps));
    for (int s = 0; s < k->n_stages; s++) /* a MAP stage may go through its words and their elements */
        loops += k->stages[s].kind == WF_KSTAGE_REDUCE ? 1 : k->stages[s].kind == WF_KSTAGE_MAP ? 2 : 0;
    bool ok = wf_mul_i64(inner / width + 16, loops, &rounds);
    ok = wf_kernel_rounds(&ask, ok ? rounds : INT64_MAX);
    memcpy(why, ask.why, WF_WHY_MAX);
    return ok;
}

/* Strides of the first input along the last axis of the line and along the last of the others. */
static uint32_t stride_facts(const wf_kir *k, const int32_t *words)
{
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        if (in->op != WF_KOP_LOAD || in->a < 0 || k->instr[in->a].op != WF_KOP_AFFINE)
            continue;
        const int32_t *strides = &words[k->instr[in->a].slot + 1];
        return (strides[k->n_outer + k->n_inner - 1] == 1) | (strides[k->n_outer - 1] == 1) << 1;
    }
    return 4;
}

bool wf_reduce_tune_key(const wf_kir *k, const int64_t *extents, const int32_t *words, wf_tune_key *key)
{
    uint8_t passes = 0, loads = 0, folds = WF_KROP_SUM, type = 0;
    if (!wf_reduce_is(k) || !k->n_bind || !k->n_outer || !k->n_inner)
        return false;
    for (int s = k->n_stages - 1; s >= 0; s--) {
        passes += k->stages[s].kind != WF_KSTAGE_OUTER;
        if (k->stages[s].kind == WF_KSTAGE_REDUCE) {
            folds = k->stages[s].acc[0].rop;
            type = k->stages[s].acc[0].type;
        }
    }
    for (int i = 0; i < k->n_instr; i++)
        loads += k->instr[i].op == WF_KOP_LOAD;
    int out = k->n_bind - 1;
    while (out > 0 && !(k->bind[out].access & WF_ACCESS_WRITE))
        out--;
    memset(key, 0, sizeof *key);
    key->op = WF_TUNE_REDUCE;
    key->dtype[0] = k->bind[0].dtype;
    key->dtype[1] = (uint8_t)(type == WF_KTY_F32 ? WEFT_DTYPE_F32 : WEFT_DTYPE_I32);
    key->dtype[2] = k->bind[out].dtype;
    key->bucket[0] = wf_tune_bucket(product(extents, 0, k->n_outer));
    key->bucket[1] = wf_tune_bucket(product(extents, k->n_outer, k->n_outer + k->n_inner));
    key->bucket[2] = passes;
    key->bucket[3] = loads;
    key->facts = stride_facts(k, words) | (uint32_t)folds << 8;
    return true;
}
