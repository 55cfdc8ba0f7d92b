/* kern_bytes.c - the row matmul_i8: products with a right operand of i8, read as it is.
 *
 * i8 times i8 gives i32, exactly (sums wrap beyond 2^31): bytes are widened to pairs of i16 while they are packed, and the
 * panels and tiles of the packed product are walked with a word of two numbers in the place of a float. f32, f16 or bf16
 * times i8, or times rows of two or four numbers a byte: they become f32 while they are packed.
 */
#include "kern.h"

typedef struct bytes_job {
    wf_kern_mat t; /* k: what the packed product counts, pairs or numbers */
    int64_t k;     /* numbers */
    float numbers[256][4]; /* that a byte holds */
} bytes_job;

static inline uint32_t pair_of(int8_t low, int8_t high) { return (uint16_t)low | (uint32_t)high << 16; }
/* n words from elements that lie side by side, k and k + 1 in two rows; n is a constant in the usual case. */
static inline __attribute__((always_inline)) void pair_rows(const int8_t *low, const int8_t *high, int64_t n, uint32_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = pair_of(low[i], high[i]);
}
/* Elements i `stride` apart as strips of `width`, a word (k, k + 1) each; zeros beyond the operand. */
static void pack_pairs(const int8_t *p, int64_t stride, int64_t k_stride, int64_t k_left, int64_t count, int width, int64_t kc, float *dst)
{
    static const int8_t zeros[WF_KERN_MAX_NR];
    uint32_t *out = (uint32_t *)(void *)dst;
    const int64_t whole = WF_MIN(kc, k_left / 2); /* pairs with both numbers */
    for (int64_t first = 0; first < count; first += width, out += width * kc) {
        const int64_t some = WF_MIN(width, count - first);
        const int8_t *strip = p + first * stride;
        for (int64_t k = 0; k < kc && stride == 1; k++) {
            const int8_t *low = strip + 2 * k * k_stride, *high = k < whole ? low + k_stride : zeros;
            if (some == 16)
                pair_rows(low, high, 16, out + k * width);
            else
                pair_rows(low, high, some, out + k * width);
        }
        for (int64_t i = 0; i < some && stride != 1; i++) {
            const int8_t *from = strip + i * stride;
            for (int64_t k = 0; k < whole; k++)
                out[k * width + i] = pair_of(from[2 * k * k_stride], from[(2 * k + 1) * k_stride]);
            if (whole < kc)
                out[whole * width + i] = pair_of(from[2 * whole * k_stride], 0);
        }
        for (int64_t i = some; i < width; i++)
            for (int64_t k = 0; k < kc; k++)
                out[k * width + i] = 0;
    }
}
static void pack_a_pairs(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                         int64_t kc, float *dst)
{
    (void)isa;
    const bytes_job *j = user;
    int64_t a_at, b_at;
    wf_kern_mat_at(&j->t, batch, &a_at, &b_at);
    pack_pairs((const int8_t *)j->t.a + a_at + first * j->t.a_row + 2 * k0 * j->t.a_col, j->t.a_row, j->t.a_col, j->k - 2 * k0, count, width, kc, dst);
}
static void pack_b_pairs(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                         int64_t kc, float *dst)
{
    (void)isa;
    const bytes_job *j = user;
    int64_t a_at, b_at;
    wf_kern_mat_at(&j->t, batch, &a_at, &b_at);
    pack_pairs((const int8_t *)j->t.b + b_at + first * j->t.b_col + 2 * k0 * j->t.b_row, j->t.b_col, j->t.b_row, j->k - 2 * k0, count, width, kc, dst);
}

static void pack_b_floats(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                          int64_t kc, float *dst)
{
    const bytes_job *j = user;
    const wf_kern_mat *t = &j->t;
    enum { BLOCK = 64 }; /* blocks of K begin at whole bytes: a multiple of 32 */
    float rows[WF_KERN_MAX_NR * BLOCK];
    int64_t a_at, b_at;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    const int8_t *p = (const int8_t *)t->b + b_at + first * t->b_col + k0 / t->per_byte * t->b_row;
    for (int64_t i = 0; i < count; i += width, dst += width * kc) {
        const int64_t some = WF_MIN(width, count - i);
        for (int64_t k = 0; k < kc; k += BLOCK) {
            const int64_t n = WF_MIN(BLOCK, kc - k);
            for (int64_t c = 0; c < some; c++) {
                const int8_t *from = p + (i + c) * t->b_col + k / t->per_byte * t->b_row;
                float *to = rows + c * BLOCK;
                if (t->per_byte == 4)
                    for (int64_t x = 0; x < n; x += 4, from += t->b_row)
                        memcpy(to + x, j->numbers[(uint8_t)*from], 16);
                else if (t->per_byte == 2)
                    for (int64_t x = 0; x < n; x += 2, from += t->b_row)
                        memcpy(to + x, j->numbers[(uint8_t)*from], 8);
                else if (t->b_row == 1 && n == BLOCK) /* known when compiled: vectors */
                    for (int x = 0; x < BLOCK; x++)
                        to[x] = from[x];
                else
                    for (int64_t x = 0; x < n; x++)
                        to[x] = from[x * t->b_row];
            }
            isa->weave(rows, BLOCK, some, width, n, dst + k * width);
        }
    }
}

/* i4: a number + 8 in four bits; ternary: + 1 in two; the first in the lowest. */
static void set_numbers(bytes_job *j)
{
    const int bits = 8 / j->t.per_byte, zero = j->t.per_byte == 2 ? 8 : 1;
    for (int v = 0; v < 256; v++)
        for (int i = 0; i < j->t.per_byte; i++)
            j->numbers[v][i] = (float)((v >> (bits * i) & ((1 << bits) - 1)) - zero);
}

size_t wf_kern_i8_scratch(const int32_t *words, int n_threads)
{
    wf_kern_mat t;
    if (wf_kern_mat_words("matmul_i8", words, &t) != WEFT_OK)
        return 0;
    return wf_kern_gemm_scratch(t.batch, t.m, t.n, t.a_dtype == WEFT_DTYPE_I8 ? (t.k + 1) / 2 : t.k, n_threads);
}

weft_status wf_kern_matmul_i8(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    bytes_job j;
    WF_TRY(wf_kern_mat_read("matmul_i8", run, epilogue, &j.t));
    j.k = j.t.k;
    if (j.t.per_byte > 1)
        set_numbers(&j);
    if (j.t.a_dtype != WEFT_DTYPE_I8)
        return wf_kern_packed_run(&j.t, wf_kern_mat_pack_a, &j.t, pack_b_floats, &j);
    wf_kern_isa pairs = *j.t.dest.isa;
    pairs.micro = pairs.micro_pairs;
    j.t.k = (j.k + 1) / 2;
    j.t.dest.isa = &pairs;
    j.t.dest.dtype = WEFT_DTYPE_F32; /* four bytes, stored as they are */
    return wf_kern_packed_run(&j.t, pack_a_pairs, &j, pack_b_pairs, &j);
}
