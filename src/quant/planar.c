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

/* ---- sections ---- */

int64_t wf_quant_section_blocks(weft_dtype dtype, int64_t n_blocks, int64_t row_blocks, uint64_t limit_bytes)
{
    uint64_t all = wf_quant_planar_bytes(dtype, n_blocks), row = wf_quant_planar_bytes(dtype, row_blocks);
    if (all <= limit_bytes || row_blocks <= 0 || row == 0)
        return 0;
    int64_t rows = (int64_t)(limit_bytes / row);
    /* The planes of many rows are padded less than those of one. */
    while (wf_quant_planar_bytes(dtype, (rows + 1) * row_blocks) <= limit_bytes / WF_SECTION_ALIGN * WF_SECTION_ALIGN)
        rows++;
    return rows * row_blocks;
}

uint64_t wf_quant_section_offset(weft_dtype dtype, int64_t section_blocks, int64_t index)
{
    return (uint64_t)index * wf_align_up(wf_quant_planar_bytes(dtype, section_blocks), WF_SECTION_ALIGN);
}

int64_t wf_quant_section_count(int64_t n_blocks, int64_t section_blocks, int64_t index)
{
    return section_blocks ? WF_MIN(section_blocks, n_blocks - index * section_blocks) : n_blocks;
}

uint64_t wf_quant_sections_bytes(weft_dtype dtype, int64_t n_blocks, int64_t section_blocks)
{
    int64_t last = section_blocks ? (n_blocks - 1) / section_blocks : 0;
    return wf_quant_section_offset(dtype, section_blocks, last) +
           wf_quant_planar_bytes(dtype, wf_quant_section_count(n_blocks, section_blocks, last));
}

weft_status wf_quant_from_sections(weft_dtype dtype, int64_t n_blocks, int64_t section_blocks, const void *planar, void *blocks,
                                   int64_t first, int64_t n)
{
    if (!section_blocks)
        return wf_quant_from_planar(dtype, n_blocks, planar, blocks, first, n);
    uint8_t *to = blocks;
    while (n > 0) {
        int64_t index = first / section_blocks, at = first % section_blocks, held = wf_quant_section_count(n_blocks, section_blocks, index);
        int64_t some = WF_MIN(n, held - at);
        WF_TRY(wf_quant_from_planar(dtype, held, (const uint8_t *)planar + wf_quant_section_offset(dtype, section_blocks, index), to, at, some));
        to += (size_t)some * weft_dtype_block_bytes(dtype);
        first += some;
        n -= some;
    }
    return WEFT_OK;
}
