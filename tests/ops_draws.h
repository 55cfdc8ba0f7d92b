/* ops_draws.h - cases of the random node: each of its forms against the generator of philox.h. */
#ifndef OPS_DRAWS_H
#define OPS_DRAWS_H

#include "ops_case.h"
#include "philox.h"

static void random_case(const ops_row *op, int form, uint64_t seed, uint64_t offset, int64_t n)
{
    ref_dtype t = form == 1 ? REF_I32 : REF_F32;
    op_case c = begin(op, t, n == 0 ? EMPTY : n == 1 ? SIZE1 : CONTIGUOUS);
    snprintf(c.note, sizeof c.note, "form %d, seed %llx, offset %llx, %lld values", form, (unsigned long long)seed, (unsigned long long)offset, (long long)n);
    weft_generator g = {seed, offset};
    ref_array want = ref_new(1, &n);
    for (int64_t i = 0; i < n; i++) {
        philox_block b = philox_at(seed, offset + (uint64_t)i);
        want.data[i] = form == 0 ? philox_uniform(b) : form == 1 ? (double)philox_below(b, 1000) - 500 : form == 2 ? philox_normal(b) : philox_exponential(b);
    }
    ref_array bound = form < 2 ? want : bounds(&c, t, 1, &want, NULL, 0, NULL);
    weft_tensor *x = form == 0   ? weft_rand(ctx, WEFT_DTYPE_F32, 1, &n, &g)
                     : form == 1 ? weft_randint(ctx, WEFT_DTYPE_I32, -500, 500, 1, &n, &g)
                     : form == 2 ? weft_randn(ctx, WEFT_DTYPE_F32, 1, &n, &g)
                                 : weft_exponential(ctx, WEFT_DTYPE_F32, 1, 1, &n, &g);
    check(&c, x, t, &want, form < 2 ? NULL : &bound, NULL);
    end(&c);
}

static void run_random(const ops_row *op)
{
    for (int form = 0; form < 4; form++) {
        random_case(op, form, 0, 0, 4099);
        random_case(op, form, 0x123456789abcdef0u, 0xfffffff0u, 1031); /* the offset carries into its high word */
        random_case(op, form, 7, 1, 1);
        random_case(op, form, 7, 1, 0);
    }
}

#endif
