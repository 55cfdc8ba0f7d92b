/* kir_plan.c - what the block interpreter prepares once for a program: the stage of each instruction,
 * how long each value lives, and so which block slot it takes. */
#include "kir_exec.h"

static uint8_t element_bytes(uint8_t type) { return type == WF_KTY_F64 || type == WF_KTY_I64 ? 8 : 4; }

static int operands_of(const wf_kinstr *in, int16_t out[3])
{
    out[0] = in->a;
    out[1] = in->b;
    out[2] = in->c;
    return wf_kop_operands[in->op];
}

/* Last instruction that uses each value; n_instr for one that outlives its stage. */
static void last_uses(const wf_kir *k, kx_info *info, int *last)
{
    for (int i = 0; i < k->n_instr; i++) {
        last[i] = i;
        int16_t ops[3];
        int n = operands_of(&k->instr[i], ops);
        for (int o = 0; o < n; o++) {
            info[ops[o]].uses += info[ops[o]].uses < 255;
            last[ops[o]] = info[ops[o]].stage == info[i].stage && last[ops[o]] < k->n_instr ? i : k->n_instr;
        }
    }
    for (int s = 0; s < k->n_stages; s++) { /* folded after the last instruction of the stage */
        const wf_kstage *st = &k->stages[s];
        for (int a = 0; a < st->n_acc; a++) {
            int v = st->acc[a].value;
            info[v].uses += info[v].uses < 255;
            last[v] = info[v].stage == s && last[v] < k->n_instr ? st->first + st->count : k->n_instr;
        }
    }
}

/* Rows that an index picks are moved by the LOAD, or by the STORE behind it: what the index is the sum of lives until then. */
static void keep_picks(const wf_kir *k, const kx_info *info, int *last)
{
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        const wf_kinstr *load = in->op == WF_KOP_STORE ? &k->instr[in->b] : in;
        if (load->op != WF_KOP_LOAD || k->instr[load->a].op != WF_KOP_ADD)
            continue;
        const int16_t operand[2] = {k->instr[load->a].a, k->instr[load->a].b};
        for (int o = 0; o < 2; o++)
            if (info[operand[o]].stage == info[i].stage)
                last[operand[o]] = WF_MAX(last[operand[o]], i);
    }
}

/* A value's slot is taken before those of its operands are given back: loops never overlap. */
static int assign_slots(const wf_kir *k, kx_info *info, const int *last)
{
    bool taken[WF_KIR_MAX_INSTR] = {false};
    int n_slots = 0;
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *st = &k->stages[s];
        for (int i = st->first; i < st->first + st->count; i++) {
            int slot = 0;
            while (taken[slot])
                slot++;
            taken[slot] = true;
            info[i].slot = (int16_t)slot;
            n_slots = WF_MAX(n_slots, slot + 1);
            for (int j = st->first; j <= i; j++)
                if (last[j] == i)
                    taken[info[j].slot] = false;
        }
        for (int j = st->first; j < st->first + st->count; j++)
            if (last[j] == st->first + st->count)
                taken[info[j].slot] = false;
    }
    return n_slots;
}

/* The table has a loop for every instruction and accumulator. The verifier settles types; this keeps a gap
 * in the table from being called. */
static bool runnable(const wf_kir *k, const wf_vec_ops *ops, const char **what)
{
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        int n = wf_kop_operands[in->op];
        *what = wf_kop_name[in->op];
        if (in->op == WF_KOP_FMA && !ops->fma[in->type])
            return false;
        if (in->op >= WF_KOP_ADD && in->op < WF_KOP_SELECT && n == 2 && !ops->binary[in->op][k->instr[in->a].type])
            return false;
        if (in->op >= WF_KOP_ADD && in->op < WF_KOP_SELECT && n == 1 && !ops->unary[in->op][in->type])
            return false;
        if (in->op == WF_KOP_STORE && weft_dtype_block((weft_dtype)k->bind[in->slot].dtype) != 1)
            return false;
    }
    for (int s = 0; s < k->n_stages; s++)
        for (int j = 0; j < k->stages[s].n_acc; j++) {
            const wf_kacc *a = &k->stages[s].acc[j];
            *what = "an accumulator";
            bool arg = a->rop >= WF_KROP_ARGMAX;
            if (arg ? !ops->arg_row[a->rop - WF_KROP_ARGMAX][a->type] : !ops->fold_row[a->rop][a->type])
                return false;
        }
    return true;
}

static bool is_costly(uint8_t op)
{
    switch (op) {
    case WF_KOP_EXP:
    case WF_KOP_LOG:
    case WF_KOP_SIN:
    case WF_KOP_COS:
    case WF_KOP_TANH:
    case WF_KOP_ERF:
    case WF_KOP_POW: return true;
    default: return false;
    }
}

/* The same form: equal but for the numbers of static words, whose contents a run compares. */
static bool same_form(const wf_kir *k, const int16_t *root, int i, int j)
{
    const wf_kinstr *a = &k->instr[i], *b = &k->instr[j];
    if (a->op != b->op || a->type != b->type || a->imm != b->imm)
        return false;
    bool words = a->op == WF_KOP_AFFINE || a->op == WF_KOP_STATIC || a->op == WF_KOP_STEP;
    if (!words && a->slot != b->slot)
        return false;
    if (a->op == WF_KOP_STORE || a->op == WF_KOP_CHECK || a->op == WF_KOP_UNRAVEL)
        return false;
    if (a->op == WF_KOP_LOAD && k->bind[a->slot].access != WF_ACCESS_READ)
        return false;
    int16_t oa[3], ob[3];
    int n = operands_of(a, oa);
    operands_of(b, ob);
    for (int o = 0; o < n; o++)
        if (root[oa[o]] != root[ob[o]])
            return false;
    return true;
}

/* For values of REDUCE and MAP stages, the first instruction of an earlier such stage with the same form. */
static void find_twins(wf_cpu_kernel *ck)
{
    const wf_kir *k = ck->k;
    int16_t root[WF_KIR_MAX_INSTR]; /* the first of its form */
    for (int i = 0; i < k->n_instr; i++) {
        int s = ck->info[i].stage;
        ck->twin[i] = -1;
        root[i] = (int16_t)i;
        if (k->stages[s].kind == WF_KSTAGE_OUTER)
            continue;
        for (int j = 0; j < k->stages[s].first && ck->twin[i] < 0; j++)
            if (k->stages[ck->info[j].stage].kind != WF_KSTAGE_OUTER && same_form(k, root, i, j)) {
                ck->twin[i] = (int16_t)j;
                root[i] = root[j];
            }
        ck->has_twins |= ck->twin[i] >= 0 && is_costly(k->instr[i].op);
    }
}

bool wf_kx_costly(const wf_cpu_kernel *k, int i) { return is_costly(k->k->instr[i].op); }

/* One LOAD, one STORE that takes it as it is, and nothing else but indices: rows may go past the blocks. */
static void find_moves(wf_cpu_kernel *ck)
{
    const wf_kir *k = ck->k;
    const wf_kinstr *store = NULL;
    if (k->n_inner || k->n_stages != 1)
        return;
    for (int i = 0; i < k->n_instr; i++) {
        if (k->instr[i].op == WF_KOP_STORE && store)
            return;
        if (k->instr[i].op == WF_KOP_STORE)
            store = &k->instr[i];
    }
    if (!store || k->instr[store->b].op != WF_KOP_LOAD || ck->info[store->b].uses != 1)
        return;
    const wf_kinstr *load = &k->instr[store->b], *index = &k->instr[load->a];
    const wf_kbind *from = &k->bind[load->slot];
    ck->moves = from->access == WF_ACCESS_READ && from->dtype == k->bind[store->slot].dtype && weft_dtype_block((weft_dtype)from->dtype) == 1 &&
                weft_dtype_block_bytes((weft_dtype)from->dtype) >= 4;
    ck->picks_rows = ck->moves && index->op == WF_KOP_ADD && k->instr[index->a].op == WF_KOP_AFFINE && k->instr[index->b].op != WF_KOP_AFFINE;
}

static bool is_loop(const wf_kir *k, const wf_kinstr *in)
{
    if (in->op == WF_KOP_LOAD) {
        weft_dtype dtype = (weft_dtype)k->bind[in->slot].dtype;
        return weft_dtype_block(dtype) != 1 || weft_dtype_block_bytes(dtype) < 4;
    }
    return in->op >= WF_KOP_STORE;
}

weft_status wf_cpu_kernel_create(const wf_kir *k, wf_cpu_kernel **out)
{
    const char *what;
    if (!runnable(k, wf_vec_ops_get(), &what))
        return wf_fail(WEFT_E_UNSUPPORTED, "cpu: %s has no loop for its type", what);
    size_t kir_bytes = offsetof(wf_kir, instr) + (size_t)k->n_instr * sizeof k->instr[0];
    wf_cpu_kernel *ck = wf_calloc(1, sizeof *ck);
    wf_kir *copy = wf_alloc(kir_bytes);
    kx_info *info = wf_calloc((size_t)k->n_instr + 1, sizeof *info);
    int16_t *twin = wf_calloc((size_t)k->n_instr + 1, sizeof *twin);
    if (!ck || !copy || !info || !twin) {
        wf_free(ck);
        wf_free(copy);
        wf_free(info);
        wf_free(twin);
        return WEFT_E_OOM;
    }
    memcpy(copy, k, kir_bytes);
    ck->k = copy;
    ck->info = info;
    ck->twin = twin;
    ck->bare_rows = true;
    ck->ops = wf_vec_ops_get();
    ck->slot_esize = 4;
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *st = &k->stages[s];
        for (int i = st->first; i < st->first + st->count; i++) {
            info[i].stage = (uint8_t)s;
            info[i].esize = element_bytes(k->instr[i].type);
            ck->slot_esize = WF_MAX(ck->slot_esize, info[i].esize);
            ck->bare_rows &= st->kind == WF_KSTAGE_OUTER || !is_loop(k, &k->instr[i]);
            bool memory = k->instr[i].op == WF_KOP_LOAD || k->instr[i].op == WF_KOP_STORE;
            if (memory && k->instr[k->instr[i].a].op == WF_KOP_AFFINE)
                info[k->instr[i].a].weight += k->instr[i].op == WF_KOP_STORE ? 2 : 1;
            if (memory && wf_kty_of_dtype(k->bind[k->instr[i].slot].dtype) >= WF_KTY_F64)
                ck->slot_esize = 8;
        }
        ck->acc_first[s] = ck->n_accs;
        ck->n_accs += st->n_acc;
        ck->n_row_stages += st->kind != WF_KSTAGE_OUTER;
    }
    int last[WF_KIR_MAX_INSTR];
    last_uses(k, info, last);
    keep_picks(k, info, last);
    ck->n_slots = assign_slots(k, info, last);
    find_moves(ck);
    if (ck->n_row_stages > 1)
        find_twins(ck);
    *out = ck;
    return WEFT_OK;
}

void wf_cpu_kernel_destroy(wf_cpu_kernel *k)
{
    if (!k)
        return;
    wf_free(k->k);
    wf_free(k->info);
    wf_free(k->twin);
    wf_free(k);
}
