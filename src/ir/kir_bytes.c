/* kir_bytes.c - kernels as bytes, for the wire and for hashing.
 *
 * Little-endian, only the parts in use, every field that means nothing written as 0: equal kernels
 * give equal bytes. Layout: magic and version, header, bindings, stages with their accumulators,
 * instructions. Reading ends with the verifier, so what comes out is safe to run.
 */
#include "kir.h"

enum { MAGIC = 0x31524b57 /* "WKR1" */ };

static void put(wf_str *out, uint64_t value, int n_bytes)
{
    char bytes[8];
    for (int i = 0; i < n_bytes; i++)
        bytes[i] = (char)(value >> 8 * i & 0xff);
    wf_str_addn(out, bytes, (size_t)n_bytes);
}

static void put_header(const wf_kir *k, wf_str *out)
{
    put(out, MAGIC, 4);
    put(out, k->n_outer, 1);
    put(out, k->n_inner, 1);
    put(out, k->n_bind, 1);
    put(out, k->n_stages, 1);
    put(out, k->strategy, 1);
    put(out, k->has_error, 1);
    put(out, k->vec > 1 ? k->vec : 1, 1);
    put(out, k->n_instr, 2);
    put(out, k->n_static, 2);
    put(out, k->extent_slot, 2);
}

static void put_stage(const wf_kstage *stage, wf_str *out)
{
    put(out, stage->kind, 1);
    put(out, stage->n_acc, 1);
    put(out, stage->count, 2);
    for (int i = 0; i < stage->n_acc; i++) {
        put(out, stage->acc[i].rop, 1);
        put(out, stage->acc[i].type, 1);
        put(out, (uint16_t)stage->acc[i].value, 2);
    }
}

/* Whether an operation reads slot and imm; the others write zeros there. */
static bool uses_slot(unsigned op) { return op >= WF_KOP_STATIC && op <= WF_KOP_CHECK && op != WF_KOP_IN; }
static bool uses_imm(unsigned op)
{
    return op == WF_KOP_CONST || op == WF_KOP_UNRAVEL || op == WF_KOP_ACC || op == WF_KOP_ROUND16 ||
           op == WF_KOP_LIBM || op == WF_KOP_CHECK;
}

weft_status wf_kir_write(const wf_kir *k, wf_str *out)
{
    WF_TRY(wf_kir_verify(k));
    put_header(k, out);
    for (int i = 0; i < k->n_bind; i++) {
        const wf_kbind *b = &k->bind[i];
        put(out, b->dtype, 1);
        put(out, b->access, 1);
        put(out, (uint64_t)(b->layout | b->linear << 1 | b->wide << 2), 1);
        put(out, b->plane_slot, 2);
        put(out, b->chunks, 1);
        put(out, b->chunk_slot, 2);
    }
    for (int s = 0; s < k->n_stages; s++)
        put_stage(&k->stages[s], out);
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        const int16_t operand[3] = {in->a, in->b, in->c};
        put(out, in->op, 1);
        put(out, in->type, 1);
        for (int j = 0; j < wf_kop_operands[in->op]; j++)
            put(out, (uint16_t)operand[j], 2);
        if (uses_slot(in->op))
            put(out, in->slot, 2);
        if (uses_imm(in->op))
            put(out, in->imm, in->type == WF_KTY_F64 || in->type == WF_KTY_I64 ? 8 : 4);
    }
    return out->oom ? wf_fail_oom(out->len) : WEFT_OK;
}

/* ---- reading ---- */

typedef struct cursor {
    const uint8_t *p;
    size_t left;
    bool bad; /* ran past the end */
} cursor;

static uint64_t get(cursor *c, int n_bytes)
{
    uint64_t value = 0;
    if (c->left < (size_t)n_bytes) {
        c->bad = true;
        c->left = 0;
        return 0;
    }
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)c->p[i] << 8 * i;
    c->p += n_bytes;
    c->left -= (size_t)n_bytes;
    return value;
}

static weft_status get_header(cursor *c, wf_kir *k)
{
    if (get(c, 4) != MAGIC)
        return wf_fail(WEFT_E_FORMAT, "kernel: no kernel bytes of this version");
    k->n_outer = (uint8_t)get(c, 1);
    k->n_inner = (uint8_t)get(c, 1);
    k->n_bind = (uint8_t)get(c, 1);
    k->n_stages = (uint8_t)get(c, 1);
    k->strategy = (uint8_t)get(c, 1);
    k->has_error = (uint8_t)get(c, 1);
    k->vec = (uint8_t)get(c, 1);
    k->n_instr = (uint16_t)get(c, 2);
    k->n_static = (uint16_t)get(c, 2);
    k->extent_slot = (uint16_t)get(c, 2);
    if (k->n_bind > WF_KIR_MAX_BIND || k->n_stages > WF_KIR_MAX_STAGES || k->n_instr > WF_KIR_MAX_INSTR)
        return wf_fail(WEFT_E_FORMAT, "kernel: %d bindings, %d stages, %d instructions", k->n_bind, k->n_stages,
                       k->n_instr);
    return WEFT_OK;
}

static weft_status get_stage(cursor *c, int s, uint16_t *next, wf_kir *k)
{
    wf_kstage *stage = &k->stages[s];
    stage->kind = (uint8_t)get(c, 1);
    stage->n_acc = (uint8_t)get(c, 1);
    stage->first = *next;
    stage->count = (uint16_t)get(c, 2);
    if (stage->n_acc > WF_KIR_MAX_ACC || stage->count > WF_KIR_MAX_INSTR)
        return wf_fail(WEFT_E_FORMAT, "kernel: stage %d: %d accumulators, %d instructions", s, stage->n_acc,
                       stage->count);
    *next = (uint16_t)(*next + stage->count);
    for (int i = 0; i < stage->n_acc; i++) {
        stage->acc[i].rop = (uint8_t)get(c, 1);
        stage->acc[i].type = (uint8_t)get(c, 1);
        stage->acc[i].value = (int16_t)get(c, 2);
    }
    return WEFT_OK;
}

static weft_status get_instruction(cursor *c, int at, wf_kinstr *in)
{
    int16_t operand[3] = {-1, -1, -1};
    in->op = (uint8_t)get(c, 1);
    in->type = (uint8_t)get(c, 1);
    if (in->op >= WF_KOP_COUNT)
        return wf_fail(WEFT_E_FORMAT, "kernel: instruction %d: operation %d", at, in->op);
    for (int j = 0; j < wf_kop_operands[in->op]; j++)
        operand[j] = (int16_t)get(c, 2);
    in->a = operand[0];
    in->b = operand[1];
    in->c = operand[2];
    if (uses_slot(in->op))
        in->slot = (uint16_t)get(c, 2);
    if (uses_imm(in->op))
        in->imm = get(c, in->type == WF_KTY_F64 || in->type == WF_KTY_I64 ? 8 : 4);
    return WEFT_OK;
}

weft_status wf_kir_read(const void *bytes, size_t n, wf_kir *out)
{
    cursor c = {bytes, n, false};
    wf_kir *k = wf_calloc(1, sizeof *k); /* too large for the stack of a small thread */
    weft_status st;
    uint16_t next = 0;

    if (!k)
        return wf_fail_oom(sizeof *k);
    WF_TRY_GOTO(st, get_header(&c, k), done);
    for (int i = 0; i < k->n_bind; i++) {
        wf_kbind *b = &k->bind[i];
        b->dtype = (uint8_t)get(&c, 1);
        b->access = (uint8_t)get(&c, 1);
        unsigned flags = (unsigned)get(&c, 1);
        b->layout = flags & 1;
        b->linear = flags >> 1 & 1;
        b->wide = flags >> 2 & 1;
        b->plane_slot = (uint16_t)get(&c, 2);
        b->chunks = (uint8_t)get(&c, 1);
        b->chunk_slot = (uint16_t)get(&c, 2);
    }
    for (int s = 0; s < k->n_stages; s++)
        WF_TRY_GOTO(st, get_stage(&c, s, &next, k), done);
    for (int i = 0; i < k->n_instr; i++)
        WF_TRY_GOTO(st, get_instruction(&c, i, &k->instr[i]), done);
    if (c.bad || c.left) {
        st = wf_fail(WEFT_E_FORMAT, c.bad ? "kernel: %zu bytes are cut short" : "kernel: %zu bytes and more follow", n);
        goto done;
    }
    WF_TRY_GOTO(st, wf_kir_verify(k), done);
    *out = *k;
done:
    wf_free(k);
    return st;
}
