/* quant.h - block codecs, and the planar layout that kernels read.
 *
 * Blocks as GGUF stores them put a scale between quants, so that quants lie at odd 2-byte offsets. Planar
 * storage separates them: all quants, then all f16 scales, then all f16 minima (types that have them),
 * each plane at a multiple of 16 bytes and padded to it. The order of blocks and of bits is unchanged.
 */
#ifndef WF_QUANT_H
#define WF_QUANT_H

#include "base.h"

typedef struct wf_quant_codec {
    weft_dtype dtype;
    int block, block_bytes;      /* elements and bytes of a block as stored in files */
    int quant_bytes;             /* of block_bytes, those that are quants; 0: not a block type */
    int n_scales;                /* f16 numbers before the quants: the scale, then the minimum */
    void (*decode)(const void *blocks, float *dst, int64_t n_blocks);
    void (*encode)(const float *src, void *blocks, int64_t n_blocks);
} wf_quant_codec;

/* F16, BF16, Q8_0, Q4_0, Q4_1; NULL for any other. Files and memory are little endian. */
const wf_quant_codec *wf_quant_find(weft_dtype dtype);

/* n elements. Errors: DTYPE (no codec), SHAPE (not a multiple of the block). */
weft_status wf_quant_decode(weft_dtype dtype, const void *src, float *dst, int64_t n);
weft_status wf_quant_encode(weft_dtype dtype, const float *src, void *dst, int64_t n);

typedef struct wf_planes {
    uint64_t quants, scales, minima; /* byte offsets; minima equals bytes where there are none */
    uint64_t bytes;                  /* of the whole, a multiple of 16 */
} wf_planes;

/* Block types only: bytes is 0 for any other dtype and for a negative or overflowing count. */
wf_planes wf_quant_planar_offsets(weft_dtype dtype, int64_t n_blocks);
uint64_t wf_quant_planar_bytes(weft_dtype dtype, int64_t n_blocks);

/* Blocks first .. first+n-1 of a planar buffer that holds n_blocks in all, from or to GGUF order, so that a
 * tensor can be converted in pieces. Padding bytes are not touched. Errors: DTYPE, VALUE (range). */
weft_status wf_quant_to_planar(weft_dtype dtype, int64_t n_blocks, const void *blocks, void *planar, int64_t first,
                               int64_t n);
weft_status wf_quant_from_planar(weft_dtype dtype, int64_t n_blocks, const void *planar, void *blocks, int64_t first,
                                 int64_t n);

/* What is larger than a device binds lies in sections of whole rows, each planar on its own and at a multiple of
 * WF_SECTION_ALIGN, so that a kernel binds one of them as it would a small tensor. */
enum { WF_SECTION_ALIGN = 256 };
/* Blocks of a section, of which a row has row_blocks; 0: one section is enough, or a row is larger than the limit. */
int64_t wf_quant_section_blocks(weft_dtype dtype, int64_t n_blocks, int64_t row_blocks, uint64_t limit_bytes);
/* Below, section_blocks 0 is one section of everything. */
uint64_t wf_quant_section_offset(weft_dtype dtype, int64_t section_blocks, int64_t index);
int64_t wf_quant_section_count(int64_t n_blocks, int64_t section_blocks, int64_t index); /* blocks in section `index` */
uint64_t wf_quant_sections_bytes(weft_dtype dtype, int64_t n_blocks, int64_t section_blocks);
/* As wf_quant_from_planar. */
weft_status wf_quant_from_sections(weft_dtype dtype, int64_t n_blocks, int64_t section_blocks, const void *planar, void *blocks,
                                   int64_t first, int64_t n);

#endif
