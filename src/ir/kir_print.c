/* kir_print.c - a kernel as text, for people: one line an instruction. Nothing parses it. */
#include "kir.h"

#include <inttypes.h>

static const char *const kty_name[WF_KTY_COUNT] = {"f32", "i32", "u32", "bool", "f64", "i64"};
static const char *const stage_name[] = {"outer", "reduce", "map"};
static const char *const rop_name[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
static const char *const strategy_name[] = {"thread", "group", "lanes"};
static const char *const access_name[] = {"none", "read", "write", "read write"};

static const char *name_at(const char *const *names, size_t n, unsigned i) { return i < n ? names[i] : "?"; }
#define NAME(table, i) name_at(table, WF_COUNT(table), i)

static void print_const(const wf_kinstr *in, wf_str *out)
{
    if (in->type == WF_KTY_F32) {
        uint32_t bits = (uint32_t)in->imm;
        float f;
        memcpy(&f, &bits, sizeof f);
        wf_str_addf(out, " %.9g", (double)f);
    } else if (in->type == WF_KTY_F64) {
        double d;
        memcpy(&d, &in->imm, sizeof d);
        wf_str_addf(out, " %.17g", d);
    } else if (in->type == WF_KTY_I32) {
        wf_str_addf(out, " %" PRId32, (int32_t)(uint32_t)in->imm);
    } else if (in->type == WF_KTY_I64) {
        wf_str_addf(out, " %" PRId64, (int64_t)in->imm);
    } else {
        wf_str_addf(out, " %" PRIu64, in->imm);
    }
}

static const char *const libm_name[WF_LIBM_COUNT] = {
#define X(name) [WF_LIBM_##name] = #name,
    WF_LIBM_ONE(X) WF_LIBM_TWO(X)
#undef X
};

/* What an operation takes beside its operands. */
static void print_immediate(const wf_kinstr *in, wf_str *out)
{
    switch (in->op) {
    case WF_KOP_CONST: print_const(in, out); break;
    case WF_KOP_STATIC:
    case WF_KOP_AFFINE:
    case WF_KOP_CHECK: wf_str_addf(out, " p[%d]%s", in->slot, in->imm ? " strict" : ""); break;
    case WF_KOP_STEP: wf_str_addf(out, " step[p[%d]]", in->slot); break;
    case WF_KOP_AXIS: wf_str_addf(out, " %d", in->slot); break;
    case WF_KOP_UNRAVEL: wf_str_addf(out, " p[%d] rank %" PRIu64, in->slot, in->imm); break;
    case WF_KOP_LOAD:
    case WF_KOP_STORE: wf_str_addf(out, " b%d", in->slot); break;
    case WF_KOP_ACC: wf_str_addf(out, " stage %d.%" PRIu64, in->slot, in->imm); break;
    case WF_KOP_LIBM: wf_str_addf(out, " %s", in->imm < WF_LIBM_COUNT ? libm_name[in->imm] : "?"); break;
    case WF_KOP_ROUND16: wf_str_addf(out, " %s", weft_dtype_name((weft_dtype)in->imm)); break;
    default: break;
    }
}

static void print_instruction(const wf_kir *k, int at, wf_str *out)
{
    const wf_kinstr *in = &k->instr[at];
    if (in->op >= WF_KOP_COUNT) {
        wf_str_addf(out, "    %%%d = ?%d\n", at, in->op);
        return;
    }
    if (in->op == WF_KOP_STORE)
        wf_str_addf(out, "    store");
    else
        wf_str_addf(out, "    %%%d: %s = %s", at, NAME(kty_name, in->type), wf_kop_name[in->op]);
    print_immediate(in, out);
    const int16_t operand[3] = {in->a, in->b, in->c};
    for (int i = 0; i < wf_kop_operands[in->op]; i++)
        wf_str_addf(out, " %%%d", operand[i]);
    wf_str_add(out, "\n");
}

void wf_kir_print(const wf_kir *k, wf_str *out)
{
    wf_str_addf(out, "kernel: %d outer, %d inner axes, extents p[%d], %d static words, %s", k->n_outer, k->n_inner,
                k->extent_slot, k->n_static, NAME(strategy_name, k->strategy));
    wf_str_addf(out, "%s, vec %d\n", k->has_error ? ", error word" : "", k->vec > 1 ? k->vec : 1);
    for (int i = 0; i < k->n_bind && i < WF_KIR_MAX_BIND; i++) {
        const wf_kbind *b = &k->bind[i];
        wf_str_addf(out, "  b%d: %s %s%s%s", i, weft_dtype_name((weft_dtype)b->dtype), NAME(access_name, b->access),
                    b->linear ? " linear" : "", b->wide ? " wide" : "");
        if (weft_dtype_is_quantised((weft_dtype)b->dtype))
            wf_str_addf(out, b->layout == WF_LAYOUT_PLANAR ? " planar p[%d]" : " plain", b->plane_slot);
        wf_str_add(out, "\n");
    }
    for (int s = 0; s < k->n_stages && s < WF_KIR_MAX_STAGES; s++) {
        const wf_kstage *stage = &k->stages[s];
        wf_str_addf(out, "  stage %d %s\n", s, NAME(stage_name, stage->kind));
        for (int i = stage->first; i < stage->first + stage->count && i < WF_KIR_MAX_INSTR; i++)
            print_instruction(k, i, out);
        for (int i = 0; i < stage->n_acc && i < WF_KIR_MAX_ACC; i++)
            wf_str_addf(out, "    fold %d: %s %%%d\n", i, NAME(rop_name, stage->acc[i].rop), stage->acc[i].value);
    }
}
