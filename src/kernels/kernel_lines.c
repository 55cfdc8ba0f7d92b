/* kernel_lines.c - what the kernels along one axis share: their words, and elements as keys in their order. */
#include "kernel_rows.h"

enum { LEAD = WEFT_MAX_RANK - 1 };

static weft_status out_of_range(const char *who, const wf_view *v)
{
    int64_t lo, hi;
    bool fits = wf_view_extent(v, &lo, &hi) && lo >= 0 && hi <= INT32_MAX - 64;
    for (int d = 0; d < v->rank && fits; d++)
        fits = v->shape[d] <= INT32_MAX && v->strides[d] <= INT32_MAX && v->strides[d] >= INT32_MIN;
    return fits ? WEFT_OK : wf_fail(WEFT_E_UNSUPPORTED, "%s: an operand is empty or goes beyond 32-bit indices", who);
}

weft_status wf_line_words_of(const char *who, const wf_kernel_req *req, wf_line_words *out)
{
    const wf_view *x = &req->in[0].view;
    const int axis = req->attrs.line.axis;
    wf_view y;
    if (req->epilogue || req->n_in != 1 || x->rank < 1 || axis < 0 || axis >= x->rank || weft_dtype_is_quantised(req->in[0].dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %s of rank %d", who, weft_dtype_name(req->in[0].dtype), x->rank);
    WF_TRY(out_of_range(who, x));
    WF_TRY(wf_view_contiguous(who, x->rank, x->shape, &y));
    WF_TRY(out_of_range(who, &y));
    memset(out, 0, sizeof *out);
    out->n = x->shape[axis];
    out->lines = 1;
    for (int k = 0; k < LEAD; k++)
        out->word[6 + k] = 1;
    for (int d = x->rank - 1, k = LEAD - 1; d >= 0; d--) {
        if (d == axis)
            continue;
        out->lines *= x->shape[d];
        out->word[6 + k] = (int32_t)x->shape[d];
        out->word[13 + k] = (int32_t)x->strides[d];
        out->word[20 + k--] = (int32_t)y.strides[d];
    }
    out->word[0] = (int32_t)out->lines;
    out->word[1] = (int32_t)out->n;
    out->word[2] = (int32_t)x->offset;
    out->word[3] = (int32_t)x->strides[axis];
    out->word[4] = (int32_t)y.strides[axis];
    out->word[5] = (int32_t)req->attrs.line.kind;
    return WEFT_OK;
}

weft_status wf_scatter_words_of(const wf_kernel_req *req, wf_scatter_words *out)
{
    const wf_view *x = &req->in[0].view;
    if (req->epilogue || req->n_in != 3 || x->rank < 1 || weft_dtype_is_quantised(req->in[0].dtype) || req->in[1].dtype != WEFT_DTYPE_I32)
        return wf_fail(WEFT_E_UNSUPPORTED, "scatter: %s of rank %d", weft_dtype_name(req->in[0].dtype), x->rank);
    memset(out, 0, sizeof *out);
    const int lead = WEFT_MAX_RANK - x->rank;
    int64_t numel = wf_view_numel(x);
    for (int i = 0; i < 3; i++) {
        const wf_view *v = &req->in[i].view;
        if (v->rank != x->rank || req->in[i].step_slot >= 0)
            return wf_fail(WEFT_E_UNSUPPORTED, "scatter: operand %d has rank %d, operand 0 %d", i, v->rank, x->rank);
        WF_TRY(out_of_range("scatter", v));
        for (int d = 0; d < WEFT_MAX_RANK; d++) {
            int32_t extent = d < lead ? 1 : (int32_t)v->shape[d - lead];
            if (i < 2)
                out->word[5 + 8 * i + d] = extent;
            out->word[21 + 8 * i + d] = d < lead ? 0 : (int32_t)v->strides[d - lead];
        }
        out->word[45 + i] = (int32_t)v->offset;
    }
    if (numel > INT32_MAX - 64)
        return wf_fail(WEFT_E_UNSUPPORTED, "scatter: a result of %lld elements", (long long)numel);
    out->word[0] = (int32_t)numel;
    out->word[1] = req->attrs.line.axis + lead;
    out->word[2] = (int32_t)req->attrs.line.kind;
    return WEFT_OK;
}

void wf_key_bits(weft_dtype dtype, int *first, int *count)
{
    *count = 8 * (int)weft_dtype_block_bytes(dtype);
    *first = *count == 16 ? 16 : 0;
}

weft_status wf_text_key(const char *who, wf_str *out, weft_dtype dtype)
{
    static const char *const half = "    let w = (b0[u32(i) >> 1u] >> ((u32(i) & 1u) * 16u)) << 16u;\n";
    static const char *const byte = "    let w = (b0[u32(i) >> 2u] >> ((u32(i) & 3u) * 8u)) & 255u;\n";
    const char *load = "    let w = b0[i];\n", *give = NULL, *nan = NULL;
    switch (dtype) {
    case WEFT_DTYPE_F32: nan = "0x7f800000u"; break;
    case WEFT_DTYPE_BF16: nan = "0x7f800000u"; load = half; break;
    case WEFT_DTYPE_F16: nan = "0x7c000000u"; load = half; break;
    case WEFT_DTYPE_I32: give = "w ^ 0x80000000u"; break;
    case WEFT_DTYPE_U32: give = "w"; break;
    case WEFT_DTYPE_I8: give = "w ^ 0x80u"; load = byte; break;
    case WEFT_DTYPE_U8: case WEFT_DTYPE_BOOL: give = "w"; load = byte; break;
    default: return wf_fail(WEFT_E_UNSUPPORTED, "%s: no WGSL kernel reads %s", who, weft_dtype_name(dtype));
    }
    wf_str_addf(out, "@group(0) @binding(0) var<storage, read> b0: array<u32>;\nfn key_at(i: i32) -> u32 {\n%s", load);
    if (give)
        wf_str_addf(out, "    return %s;\n}\n", give);
    else
        wf_str_addf(out,
                    "    if ((w & 0x7fffffffu) > %s) {\n        return 0xffffffffu;\n    }\n"
                    "    let z = select(w, 0u, w == 0x80000000u);\n"
                    "    return select(z | 0x80000000u, ~z, (z & 0x80000000u) != 0u);\n}\n", nan);
    return WEFT_OK;
}
