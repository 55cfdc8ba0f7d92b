/* kbuild.c - the kernel builder: value numbering, static words, axis merging.
 *
 * Shapes never enter the text of a kernel: extents, strides and constants go to the dispatch's static
 * words. So two graphs of the same structure give the same IR, and one pipeline serves both.
 */
#include "kbuild.h"

#include <math.h>

static void fail(wf_kb *b, weft_status st)
{
    if (b->status == WEFT_OK)
        b->status = st;
}

void wf_kb_begin(wf_kb *b, wf_arena *arena, wf_group_code *code, int n_outer, int n_inner, const int64_t *extents)
{
    memset(b, 0, sizeof *b);
    memset(code, 0, sizeof *code);
    b->code = code;
    b->arena = arena;
    b->n_outer = n_outer;
    b->n_inner = n_inner;
    b->stage = -1;
    for (int i = 0; i < n_outer + n_inner; i++)
        b->extent[i] = extents[i];
    b->affine = wf_arena_alloc(arena, sizeof *b->affine * WF_KIR_MAX_INSTR);
    b->words = wf_arena_alloc(arena, sizeof *b->words * WF_KIR_MAX_INSTR);
    b->n_words = wf_arena_alloc(arena, WF_KIR_MAX_INSTR);
    if (!b->affine || !b->words || !b->n_words)
        fail(b, wf_fail_oom(sizeof *b->affine * WF_KIR_MAX_INSTR));
}

void wf_kb_stage(wf_kb *b, wf_kstage_kind kind)
{
    wf_kir *k = &b->code->kir;
    if (k->n_stages == WF_KIR_MAX_STAGES) {
        fail(b, wf_fail(WEFT_E_INTERNAL, "codegen: more than %d stages", WF_KIR_MAX_STAGES));
        return;
    }
    b->stage = k->n_stages++;
    k->stages[b->stage].kind = (uint8_t)kind;
    k->stages[b->stage].first = k->n_instr;
}

int wf_kb_bind(wf_kb *b, int32_t src, weft_dtype dtype, uint8_t access, uint32_t layout)
{
    wf_kir *k = &b->code->kir;
    for (int i = 0; i < k->n_bind; i++)
        if (b->code->src[i] == src) {
            k->bind[i].access |= access;
            return i;
        }
    return wf_kb_bind_apart(b, src, dtype, access, layout);
}

int wf_kb_bind_apart(wf_kb *b, int32_t src, weft_dtype dtype, uint8_t access, uint32_t layout)
{
    wf_kir *k = &b->code->kir;
    if (k->n_bind == WF_KIR_MAX_BIND) {
        fail(b, wf_fail(WEFT_E_UNSUPPORTED, "codegen: a kernel needs more than %d buffers", WF_KIR_MAX_BIND));
        return 0;
    }
    int i = k->n_bind++;
    b->code->src[i] = src;
    k->bind[i] = (wf_kbind){.dtype = (uint8_t)dtype, .access = access, .layout = (uint8_t)layout};
    return i;
}

/* True when instruction i may be used from the open stage. */
static bool visible(const wf_kb *b, int i)
{
    const wf_kir *k = &b->code->kir;
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *st = &k->stages[s];
        int end = s == b->stage ? k->n_instr : st->first + st->count;
        if (i >= st->first && i < end)
            return s == b->stage || st->kind == WF_KSTAGE_OUTER;
    }
    return false;
}

static int push(wf_kb *b, wf_kinstr in, const wf_affine *affine, const int32_t *words, int n_words)
{
    wf_kir *k = &b->code->kir;
    if (b->status != WEFT_OK)
        return -1;
    bool pure = in.op != WF_KOP_STORE && in.op != WF_KOP_CHECK && !(b->unshared && (in.op == WF_KOP_AFFINE || in.op == WF_KOP_UNRAVEL));
    if (pure)
        for (int i = 0; i < k->n_instr; i++) {
            if (memcmp(&k->instr[i], &in, sizeof in) != 0 || b->n_words[i] != n_words)
                continue;
            if (n_words && memcmp(b->words[i], words, sizeof *words * (size_t)n_words) != 0)
                continue;
            if (affine && memcmp(&b->affine[i], affine, sizeof *affine) != 0)
                continue;
            /* An AFFINE of an OUTER stage has the inner coordinates at 0. */
            if (affine && k->stages[b->stage].kind != WF_KSTAGE_OUTER && i < k->stages[b->stage].first) {
                bool inner = false;
                for (int a = b->n_outer; a < b->n_outer + b->n_inner; a++)
                    inner |= affine->stride[a] != 0;
                if (inner)
                    continue;
            }
            if (visible(b, i))
                return i;
        }
    if (k->n_instr == WF_KIR_MAX_INSTR) {
        fail(b, wf_fail(WEFT_E_UNSUPPORTED, "codegen: a kernel needs more than %d instructions", WF_KIR_MAX_INSTR));
        return -1;
    }
    int i = k->n_instr++;
    k->instr[i] = in;
    if (affine)
        b->affine[i] = *affine;
    if (n_words)
        memcpy(b->words[i], words, sizeof *words * (size_t)n_words);
    b->n_words[i] = (uint8_t)n_words;
    k->stages[b->stage].count = (uint16_t)(k->n_instr - k->stages[b->stage].first);
    return i;
}


int wf_kb_op(wf_kb *b, wf_kop op, wf_kty type, int a, int bb, int c)
{
    wf_kinstr in = {.op = (uint8_t)op, .type = (uint8_t)type, .a = (int16_t)a, .b = (int16_t)bb, .c = (int16_t)c};
    return push(b, in, NULL, NULL, 0);
}

int wf_kb_imm(wf_kb *b, wf_kop op, wf_kty type, int a, int slot, uint64_t imm)
{
    wf_kinstr in = {.op = (uint8_t)op, .type = (uint8_t)type, .slot = (uint16_t)slot,
                    .a = (int16_t)a, .b = -1, .c = -1, .imm = imm};
    return push(b, in, NULL, NULL, 0);
}

int wf_kb_op_imm(wf_kb *b, wf_kop op, wf_kty type, int a, int bb, uint64_t imm)
{
    wf_kinstr in = {.op = (uint8_t)op, .type = (uint8_t)type, .a = (int16_t)a, .b = (int16_t)bb, .c = -1, .imm = imm};
    return push(b, in, NULL, NULL, 0);
}

int wf_kb_static(wf_kb *b, wf_kty type, int32_t word)
{
    return push(b, (wf_kinstr){.op = WF_KOP_STATIC, .type = (uint8_t)type, .a = -1, .b = -1, .c = -1}, NULL, &word, 1);
}

int wf_kb_step(wf_kb *b, wf_kty type, int32_t step_word)
{
    return push(b, (wf_kinstr){.op = WF_KOP_STEP, .type = (uint8_t)type, .a = -1, .b = -1, .c = -1}, NULL, &step_word, 1);
}

int wf_kb_const(wf_kb *b, wf_kty type, double value)
{
    switch (type) {
    case WF_KTY_F32: {
        float f = (float)value;
        int32_t word;
        memcpy(&word, &f, sizeof word);
        return wf_kb_static(b, type, word);
    }
    case WF_KTY_I32:
        return wf_kb_static(b, type, value >= 2147483647.0 ? INT32_MAX : value <= -2147483648.0 ? INT32_MIN : value != value ? 0 : (int32_t)value);
    case WF_KTY_U32:
        return wf_kb_static(b, type, (int32_t)(value >= 4294967295.0 ? UINT32_MAX : value > 0 ? (uint32_t)value : 0u));
    case WF_KTY_BOOL:
        return wf_kb_imm(b, WF_KOP_CONST, type, -1, 0, value != 0);
    case WF_KTY_F64: {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return wf_kb_imm(b, WF_KOP_CONST, type, -1, 0, bits);
    }
    default: {
        int64_t i = value >= 9223372036854775807.0 ? INT64_MAX : value <= -9223372036854775808.0 ? INT64_MIN : value != value ? 0 : (int64_t)value;
        return wf_kb_imm(b, WF_KOP_CONST, type, -1, 0, (uint64_t)i);
    }
    }
}

static bool fits32(int64_t v)
{
    return v >= INT32_MIN && v <= INT32_MAX;
}

int wf_kb_affine(wf_kb *b, const wf_affine *a)
{
    wf_affine canon = {.offset = a->offset};
    int64_t lo = a->offset, hi = a->offset;
    bool ok = fits32(a->offset);
    for (int k = 0; k < b->n_outer + b->n_inner; k++) {
        if (b->extent[k] <= 1)
            continue;
        canon.stride[k] = a->stride[k];
        int64_t move = a->stride[k] * (b->extent[k] - 1);
        lo += move < 0 ? move : 0;
        hi += move > 0 ? move : 0;
        ok &= fits32(a->stride[k]);
    }
    ok &= fits32(lo) && fits32(hi);
    if (!ok) {
        fail(b, wf_fail(WEFT_E_UNSUPPORTED, "a kernel would reach elements %lld to %lld of one operand, and indices in kernels have 32 bits: "
                                            "split the tensor", (long long)lo, (long long)hi));
        return -1;
    }
    return push(b, (wf_kinstr){.op = WF_KOP_AFFINE, .type = WF_KTY_I32, .a = -1, .b = -1, .c = -1}, &canon, NULL, 0);
}

int wf_kb_unravel(wf_kb *b, int index, int rank, const int64_t *shape, int64_t offset, const int64_t *strides)
{
    int32_t words[2 * WEFT_MAX_RANK + 2];
    bool ok = fits32(offset);
    for (int k = 0; k < rank; k++) {
        ok &= fits32(shape[k]) && fits32(strides[k]);
        words[k] = (int32_t)shape[k];
        words[rank + 1 + k] = (int32_t)strides[k];
    }
    words[rank] = (int32_t)offset;
    if (!ok) {
        fail(b, wf_fail(WEFT_E_UNSUPPORTED, "codegen: an index does not fit 32 bits"));
        return -1;
    }
    wf_kinstr in = {.op = WF_KOP_UNRAVEL, .type = WF_KTY_I32, .a = (int16_t)index, .b = -1, .c = -1, .imm = (uint64_t)rank};
    return push(b, in, NULL, words, 2 * rank + 1);
}

int wf_kb_check(wf_kb *b, int index, int64_t extent, bool strict)
{
    int32_t word = (int32_t)extent;
    if (!fits32(extent)) {
        fail(b, wf_fail(WEFT_E_UNSUPPORTED, "codegen: an axis of %lld does not fit 32 bits", (long long)extent));
        return -1;
    }
    b->code->kir.has_error = 1;
    return push(b, (wf_kinstr){.op = WF_KOP_CHECK, .type = WF_KTY_I32, .a = (int16_t)index, .b = -1, .c = -1, .imm = strict}, NULL, &word, 1);
}

void wf_kb_store(wf_kb *b, int bind, int index, int value)
{
    if (b->status != WEFT_OK)
        return;
    wf_kinstr in = {.op = WF_KOP_STORE, .type = b->code->kir.instr[value].type, .slot = (uint16_t)bind,
                    .a = (int16_t)index, .b = (int16_t)value, .c = -1};
    push(b, in, NULL, NULL, 0);
}

void wf_kb_acc(wf_kb *b, wf_krop rop, wf_kty type, int value)
{
    wf_kstage *st = &b->code->kir.stages[b->stage];
    if (st->n_acc == WF_KIR_MAX_ACC) {
        fail(b, wf_fail(WEFT_E_INTERNAL, "codegen: more than %d accumulators", WF_KIR_MAX_ACC));
        return;
    }
    st->acc[st->n_acc++] = (wf_kacc){.rop = (uint8_t)rop, .type = (uint8_t)type, .value = (int16_t)value};
}

/* Axes k and k+1 can be walked as one when every index moves along them as along one. */
static bool mergeable(const wf_kb *b, int k, const int64_t *extent)
{
    const wf_kir *kir = &b->code->kir;
    for (int i = 0; i < kir->n_instr; i++)
        if (kir->instr[i].op == WF_KOP_AFFINE && b->affine[i].stride[k] != b->affine[i].stride[k + 1] * extent[k + 1])
            return false;
    return fits32(extent[k] * extent[k + 1]);
}

static void drop_axis(wf_kb *b, int k)
{
    wf_kir *kir = &b->code->kir;
    int n = b->n_outer + b->n_inner;
    for (int j = k; j + 1 < n; j++)
        b->extent[j] = b->extent[j + 1];
    for (int i = 0; i < kir->n_instr; i++)
        if (kir->instr[i].op == WF_KOP_AFFINE) {
            for (int j = k; j + 1 < n; j++)
                b->affine[i].stride[j] = b->affine[i].stride[j + 1];
            b->affine[i].stride[n - 1] = 0;
        }
    if (k < b->n_outer)
        b->n_outer--;
    else
        b->n_inner--;
}

static void merge_axes(wf_kb *b)
{
    for (int k = b->n_outer + b->n_inner - 1; k >= 0; k--) {
        bool outer = k < b->n_outer;
        if (b->extent[k] == 1 && (outer ? b->n_outer : b->n_inner) > 1)
            drop_axis(b, k);
    }
    for (int k = b->n_outer + b->n_inner - 2; k >= 0; k--) {
        if (k == b->n_outer - 1) /* the border between outer and inner axes */
            continue;
        if (!mergeable(b, k, b->extent))
            continue;
        int64_t merged = b->extent[k] * b->extent[k + 1];
        drop_axis(b, k);
        b->extent[k] = merged;
    }
}

weft_status wf_kb_finish(wf_kb *b)
{
    wf_group_code *c = b->code;
    wf_kir *k = &c->kir;
    if (b->status != WEFT_OK)
        return b->status;
    if (!b->fixed_axes)
        merge_axes(b);
    int n_axes = b->n_outer + b->n_inner, n = 0;
    k->n_outer = (uint8_t)b->n_outer;
    k->n_inner = (uint8_t)b->n_inner;
    k->vec = 1;
    k->extent_slot = 0;
    c->n_axes = n_axes;
    for (int i = 0; i < n_axes; i++) {
        if (!fits32(b->extent[i]))
            return wf_fail(WEFT_E_UNSUPPORTED, "codegen: an extent of %lld does not fit 32 bits", (long long)b->extent[i]);
        c->extents[i] = b->extent[i];
        c->statics[n++] = (int32_t)b->extent[i];
    }
    for (int i = 0; i < k->n_bind; i++)
        if (weft_dtype_is_quantised(k->bind[i].dtype) && k->bind[i].layout == WF_LAYOUT_PLANAR) {
            k->bind[i].plane_slot = (uint16_t)n; /* filled by the compiler, which knows the storage */
            n += 2;
        }
    for (int i = 0; i < k->n_instr; i++) {
        int need = k->instr[i].op == WF_KOP_AFFINE ? 1 + n_axes : b->n_words[i];
        if (!need)
            continue;
        if (n + need > WF_STATIC_WORDS_MAX)
            return wf_fail(WEFT_E_UNSUPPORTED, "codegen: a kernel needs more than %d parameter words", WF_STATIC_WORDS_MAX);
        k->instr[i].slot = (uint16_t)n;
        if (k->instr[i].op == WF_KOP_AFFINE) {
            c->statics[n++] = (int32_t)b->affine[i].offset;
            for (int j = 0; j < n_axes; j++)
                c->statics[n++] = (int32_t)b->affine[i].stride[j];
        } else {
            memcpy(&c->statics[n], b->words[i], sizeof(int32_t) * (size_t)need);
            n += need;
        }
    }
    k->n_static = (uint16_t)n;
    if (k->has_error)
        c->src[k->n_bind] = WF_SRC_ERROR;
    return WEFT_OK;
}
