/* planar.c - between blocks as files have them and the planes that kernels read. See quant.h. */
#include "quant.h"

wf_planes wf_quant_planar_offsets(weft_dtype dtype, int64_t n_blocks)
{
    const wf_quant_codec *c = wf_quant_find(dtype);
    if (!c || !c->quant_bytes || n_blocks < 0 || n_blocks > (INT64_MAX - 64) / c->block_bytes)
        return (wf_planes){0, 0, 0, 0};
    uint64_t n = (uint64_t)n_blocks;
    wf_planes p = {0, 0, 0, 0};
    p.scales = wf_align_up(n * (uint64_t)c->quant_bytes, 16);
    p.minima = p.scales + wf_align_up(2 * n, 16);
    p.bytes = c->n_scales > 1 ? p.minima + wf_align_up(2 * n, 16) : p.minima;
    return p;
}

uint64_t wf_quant_planar_bytes(weft_dtype dtype, int64_t n_blocks)
{
    return wf_quant_planar_offsets(dtype, n_blocks).bytes;
}

static weft_status check(weft_dtype dtype, int64_t n_blocks, int64_t first, int64_t n, const wf_quant_codec **codec)
{
    const wf_quant_codec *c = wf_quant_find(dtype);
    if (!c || !c->quant_bytes)
        return wf_fail(WEFT_E_DTYPE, "planar: dtype number %d is no block type", (int)dtype);
    if (n_blocks < 0 || n_blocks > (INT64_MAX - 64) / c->block_bytes || first < 0 || n < 0 || first > n_blocks - n)
        return wf_fail(WEFT_E_VALUE, "planar: blocks %lld + %lld of %lld", (long long)first, (long long)n,
                       (long long)n_blocks);
    *codec = c;
    return WEFT_OK;
}

/* One loop for each size of quants, so that the copy is a few vector moves. */
#define COPY_QUANTS(bytes)                                                                  \
    for (int64_t i = 0; i < n; i++)                                                         \
        memcpy(to_planar ? q + i * (bytes) : b + i * stride + skip,                         \
               to_planar ? b + i * stride + skip : q + i * (bytes), (bytes))

static void copy_blocks(const wf_quant_codec *c, const wf_planes *at, uint8_t *b, uint8_t *planar, int64_t first,
                        int64_t n, bool to_planar)
{
    int64_t stride = c->block_bytes, skip = 2 * c->n_scales;
    uint8_t *q = planar + at->quants + first * c->quant_bytes;
    if (c->quant_bytes == 32)
        COPY_QUANTS(32);
    else
        COPY_QUANTS(16);
    for (int k = 0; k < c->n_scales; k++) {
        uint8_t *plane = planar + (k ? at->minima : at->scales) + 2 * first;
        for (int64_t i = 0; i < n; i++)
            memcpy(to_planar ? plane + 2 * i : b + i * stride + 2 * k,
                   to_planar ? b + i * stride + 2 * k : plane + 2 * i, 2);
    }
}

weft_status wf_quant_to_planar(weft_dtype dtype, int64_t n_blocks, const void *blocks, void *planar, int64_t first,
                               int64_t n)
{
    const wf_quant_codec *c;
    WF_TRY(check(dtype, n_blocks, first, n, &c));
    wf_planes at = wf_quant_planar_offsets(dtype, n_blocks);
    copy_blocks(c, &at, (uint8_t *)blocks, planar, first, n, true);
    return WEFT_OK;
}

weft_status wf_quant_from_planar(weft_dtype dtype, int64_t n_blocks, const void *planar, void *blocks, int64_t first,
                                 int64_t n)
{
    const wf_quant_codec *c;
    WF_TRY(check(dtype, n_blocks, first, n, &c));
    wf_planes at = wf_quant_planar_offsets(dtype, n_blocks);
    copy_blocks(c, &at, blocks, (uint8_t *)planar, first, n, false);
    return WEFT_OK;
}
