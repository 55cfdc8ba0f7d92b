/* philox.h - Philox 4x32-10 on the host, written from the paper (Salmon, Moraes, Dror and Shaw 2011), and the numbers that random
 * operations make of its words, in double.
 */
#ifndef PHILOX_H
#define PHILOX_H

#include <math.h>
#include <stdint.h>

typedef struct philox_block {
    uint32_t w[4];
} philox_block;

static inline philox_block philox(const uint32_t counter[4], uint32_t key0, uint32_t key1)
{
    philox_block x = {{counter[0], counter[1], counter[2], counter[3]}};
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        uint64_t left = (uint64_t)0xD2511F53u * x.w[0], right = (uint64_t)0xCD9E8D57u * x.w[2];
        philox_block next = {{(uint32_t)(right >> 32) ^ x.w[1] ^ key0, (uint32_t)right, (uint32_t)(left >> 32) ^ x.w[3] ^ key1, (uint32_t)left}};
        x = next;
    }
    return x;
}

/* The block of value `place` of the stream of a seed. */
static inline philox_block philox_at(uint64_t seed, uint64_t place)
{
    uint32_t counter[4] = {(uint32_t)place, (uint32_t)(place >> 32), 0, 0};
    return philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

static inline double philox_uniform(philox_block b) { return (b.w[0] >> 8) * 0x1p-24; }

static inline uint32_t philox_below(philox_block b, uint64_t range)
{
    uint64_t low = (uint64_t)b.w[1] * range >> 32;
    return (uint32_t)(((uint64_t)b.w[0] * range + low) >> 32);
}

static inline double philox_exponential(philox_block b)
{
    double u = b.w[0] < 1u << 24 ? (b.w[0] + 1.0) * 0x1p-32 : ((b.w[0] >> 8) + 1.0) * 0x1p-24;
    return 0.0 - log(u);
}

static inline double philox_normal(philox_block b)
{
    double turns = (b.w[1] >> 8) * 0x1p-24, wave;
    if (fmod(turns, 0.5) == 0)
        wave = 0;
    else if (fabs(turns - 0.5) < 0.125) /* sin loses digits near pi, which is no double */
        wave = sin(6.283185307179586477 * (0.5 - turns));
    else if (turns > 0.875)
        wave = -sin(6.283185307179586477 * (1 - turns));
    else
        wave = sin(6.283185307179586477 * turns);
    return sqrt(2 * philox_exponential(b)) * wave;
}

#endif
