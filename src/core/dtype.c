/* dtype.c - the table of element types and the promotion rule. */
#include "node.h"

typedef enum kind { BOOLEAN, UNSIGNED, SIGNED, FLOATING, BLOCKS } kind;

static const struct dtype_row {
    const char *name;
    kind kind;
    int block, block_bytes;
} table[] = {
    [WEFT_DTYPE_F32] = {"f32", FLOATING, 1, 4},
    [WEFT_DTYPE_F16] = {"f16", FLOATING, 1, 2},
    [WEFT_DTYPE_BF16] = {"bf16", FLOATING, 1, 2},
    [WEFT_DTYPE_F64] = {"f64", FLOATING, 1, 8},
    [WEFT_DTYPE_I32] = {"i32", SIGNED, 1, 4},
    [WEFT_DTYPE_U32] = {"u32", UNSIGNED, 1, 4},
    [WEFT_DTYPE_I8] = {"i8", SIGNED, 1, 1},
    [WEFT_DTYPE_U8] = {"u8", UNSIGNED, 1, 1},
    [WEFT_DTYPE_I64] = {"i64", SIGNED, 1, 8},
    [WEFT_DTYPE_BOOL] = {"bool", BOOLEAN, 1, 1},
    [WEFT_DTYPE_Q8_0] = {"q8_0", BLOCKS, 32, 34},
    [WEFT_DTYPE_Q4_0] = {"q4_0", BLOCKS, 32, 18},
    [WEFT_DTYPE_Q4_1] = {"q4_1", BLOCKS, 32, 20},
};
_Static_assert(WF_COUNT(table) == WEFT_DTYPE_COUNT, "every dtype has a row");

bool wf_dtype_known(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return wf_dtype_known(dtype) ? table[dtype].name : "?";
}

weft_status weft_dtype_parse(const char *name, weft_dtype *out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "dtype_parse: out must not be NULL");
    for (unsigned i = 0; name && i < WEFT_DTYPE_COUNT; i++)
        if (strcmp(name, table[i].name) == 0) {
            *out = (weft_dtype)i;
            return WEFT_OK;
        }
    wf_str known = WF_STR_INIT;
    for (unsigned i = 0; i < WEFT_DTYPE_COUNT; i++)
        wf_str_addf(&known, " %s", table[i].name);
    weft_status st = wf_fail(WEFT_E_DTYPE, "dtype: \"%s\" is none of%s", name ? name : "", known.ptr ? known.ptr : "");
    wf_str_free(&known);
    return st;
}

int weft_dtype_block(weft_dtype dtype)
{
    return wf_dtype_known(dtype) ? table[dtype].block : 1;
}

size_t weft_dtype_block_bytes(weft_dtype dtype)
{
    return wf_dtype_known(dtype) ? (size_t)table[dtype].block_bytes : 0;
}

size_t wf_dtype_bytes(weft_dtype dtype, int64_t numel)
{
    if (!wf_dtype_known(dtype) || numel <= 0)
        return 0;
    return (size_t)(numel / table[dtype].block) * (size_t)table[dtype].block_bytes;
}

bool weft_dtype_is_float(weft_dtype dtype)
{
    return wf_dtype_known(dtype) && table[dtype].kind == FLOATING;
}

bool weft_dtype_is_integer(weft_dtype dtype)
{
    return wf_dtype_known(dtype) && (table[dtype].kind == SIGNED || table[dtype].kind == UNSIGNED);
}

bool weft_dtype_is_quantised(weft_dtype dtype)
{
    return wf_dtype_known(dtype) && table[dtype].kind == BLOCKS;
}

/* Two integers: the wider; at mixed signs the smallest signed type that holds both. */
static weft_dtype promote_integers(weft_dtype a, weft_dtype b)
{
    const struct dtype_row *ra = &table[a], *rb = &table[b];
    if (ra->kind == rb->kind)
        return ra->block_bytes >= rb->block_bytes ? a : b;
    weft_dtype s = ra->kind == SIGNED ? a : b, u = ra->kind == SIGNED ? b : a;
    if (table[s].block_bytes > table[u].block_bytes)
        return s;
    return u == WEFT_DTYPE_U8 ? WEFT_DTYPE_I32 : WEFT_DTYPE_I64; /* there is no i16 */
}

static weft_dtype promote_floats(weft_dtype a, weft_dtype b)
{
    if (table[a].block_bytes == table[b].block_bytes)
        return WEFT_DTYPE_F32; /* f16 with bf16: neither holds the other */
    return table[a].block_bytes > table[b].block_bytes ? a : b;
}

weft_status weft_dtype_promote(weft_dtype a, weft_dtype b, weft_dtype *out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "dtype_promote: out must not be NULL");
    if (!wf_dtype_known(a) || !wf_dtype_known(b))
        return wf_fail(WEFT_E_DTYPE, "promote: dtype numbers %d and %d, known are 0 .. %d", (int)a, (int)b,
                       WEFT_DTYPE_COUNT - 1);
    kind ka = table[a].kind, kb = table[b].kind;
    if (ka == BLOCKS || kb == BLOCKS)
        return wf_fail(WEFT_E_DTYPE, "promote: %s with %s: block types do not promote", table[a].name, table[b].name);
    if (a == b)
        *out = a;
    else if (ka == FLOATING && kb == FLOATING)
        *out = promote_floats(a, b);
    else if (ka == FLOATING || kb == BOOLEAN)
        *out = a;
    else if (kb == FLOATING || ka == BOOLEAN)
        *out = b;
    else
        *out = promote_integers(a, b);
    return WEFT_OK;
}
