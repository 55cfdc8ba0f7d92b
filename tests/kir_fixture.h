/* kir_fixture.h - builds small kernels with their static words, for the tests of what reads kernels. */
#ifndef WF_TEST_KIR_FIXTURE_H
#define WF_TEST_KIR_FIXTURE_H

#include "kir.h"

typedef struct fixture {
    wf_kir k;
    int32_t words[256]; /* static block */
    int64_t extents[WF_KIR_MAX_AXES];
} fixture;

static inline int fx_axes(const fixture *f) { return f->k.n_outer + f->k.n_inner; }

static inline uint16_t fx_words(fixture *f, int n, const int32_t *words)
{
    uint16_t slot = f->k.n_static;
    for (int i = 0; i < n; i++)
        f->words[slot + i] = words[i];
    f->k.n_static = (uint16_t)(slot + n);
    return slot;
}

static inline void fx_begin(fixture *f, int n_outer, int n_inner, const int64_t *extents)
{
    memset(f, 0, sizeof *f);
    f->k.n_outer = (uint8_t)n_outer;
    f->k.n_inner = (uint8_t)n_inner;
    f->k.vec = 1;
    for (int i = 0; i < n_outer + n_inner; i++) {
        f->extents[i] = extents[i];
        f->words[i] = (int32_t)extents[i];
    }
    f->k.n_static = (uint16_t)(n_outer + n_inner);
}

static inline void fx_stage(fixture *f, wf_kstage_kind kind)
{
    wf_kstage *s = &f->k.stages[f->k.n_stages++];
    s->kind = (uint8_t)kind;
    s->first = f->k.n_instr;
}

static inline int fx_bind(fixture *f, weft_dtype dtype, int access, bool linear)
{
    f->k.bind[f->k.n_bind] = (wf_kbind){.dtype = (uint8_t)dtype, .access = (uint8_t)access, .linear = linear};
    return f->k.n_bind++;
}

static inline int fx_instr(fixture *f, wf_kinstr in)
{
    f->k.instr[f->k.n_instr] = in;
    f->k.stages[f->k.n_stages - 1].count++;
    return f->k.n_instr++;
}

static inline int fx_op(fixture *f, wf_kop op, wf_kty type, int a, int b, int c)
{
    return fx_instr(f, (wf_kinstr){.op = (uint8_t)op, .type = (uint8_t)type, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c});
}

static inline int fx_imm(fixture *f, wf_kop op, wf_kty type, int a, int slot, uint64_t imm)
{
    return fx_instr(f, (wf_kinstr){.op = (uint8_t)op, .type = (uint8_t)type, .slot = (uint16_t)slot, .a = (int16_t)a,
                                   .b = -1, .c = -1, .imm = imm});
}

static inline int fx_f32(fixture *f, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return fx_imm(f, WF_KOP_CONST, WF_KTY_F32, -1, 0, bits);
}

/* offset, then a stride for each axis */
static inline int fx_affine(fixture *f, const int32_t *offset_and_strides)
{
    return fx_imm(f, WF_KOP_AFFINE, WF_KTY_I32, -1, fx_words(f, 1 + fx_axes(f), offset_and_strides), 0);
}

/* Row-major over the first n axes, 0 along the others. */
static inline int fx_row_major(fixture *f, int n)
{
    int32_t words[1 + WF_KIR_MAX_AXES] = {0}, stride = 1;
    for (int axis = n; axis-- > 0;) {
        words[1 + axis] = stride;
        stride *= (int32_t)f->extents[axis];
    }
    return fx_affine(f, words);
}

static inline int fx_load(fixture *f, int bind, int index)
{
    wf_kty type = wf_kty_of_dtype((weft_dtype)f->k.bind[bind].dtype);
    return fx_imm(f, WF_KOP_LOAD, type, index, bind, 0);
}

static inline void fx_store(fixture *f, int bind, int index, int value)
{
    fx_instr(f, (wf_kinstr){.op = WF_KOP_STORE, .type = f->k.instr[value].type, .slot = (uint16_t)bind, .a = (int16_t)index,
                            .b = (int16_t)value, .c = -1});
}

static inline int fx_fold(fixture *f, wf_krop rop, int value)
{
    wf_kstage *s = &f->k.stages[f->k.n_stages - 1];
    s->acc[s->n_acc] = (wf_kacc){.rop = (uint8_t)rop, .type = f->k.instr[value].type, .value = (int16_t)value};
    return s->n_acc++;
}

static inline int fx_acc(fixture *f, int stage, int i)
{
    const wf_kacc *acc = &f->k.stages[stage].acc[i];
    bool arg = acc->rop == WF_KROP_ARGMAX || acc->rop == WF_KROP_ARGMIN;
    return fx_imm(f, WF_KOP_ACC, arg ? WF_KTY_I32 : (wf_kty)acc->type, -1, stage, (uint64_t)i);
}

#endif
