/* hash.c - 128 bits over any bytes, for cache keys: fast and well mixed, not safe against an adversary.
 *
 * The step is a 64 x 64 -> 128 multiply folded by xor. Every 16 bytes enter two chains with the roles
 * of their halves exchanged, so that a collision has to happen in both. Two such pairs alternate,
 * which hides the latency of the multiply.
 */
#include "base.h"

/* Odd constants with balanced bits: the fractional parts of sqrt(2), sqrt(3), sqrt(5), sqrt(7). */
#define K0 0x6a09e667f3bcc909u
#define K1 0xbb67ae8584caa73bu
#define K2 0x3c6ef372fe94f82bu
#define K3 0xa54ff53a5f1d36f1u

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

typedef struct lanes { uint64_t a, b, c, d; } lanes;

static inline void step(lanes *s, const unsigned char *p)
{
    uint64_t w0 = load64(p), w1 = load64(p + 8), w2 = load64(p + 16), w3 = load64(p + 24);
    /* The added word keeps a chain alive when a factor happens to be zero. */
    s->a = fold(w0 ^ K0, w1 ^ s->a) + w1;
    s->b = fold(w1 ^ K1, w0 ^ s->b) + w0;
    s->c = fold(w2 ^ K2, w3 ^ s->c) + w3;
    s->d = fold(w3 ^ K3, w2 ^ s->d) + w2;
}

wf_hash128 wf_hash(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *p = data;
    lanes s = {seed ^ K1, seed + K2, (seed << 32 | seed >> 32) ^ K3, ~seed ^ K0};
    size_t left = n;
    for (; left >= 32; left -= 32, p += 32)
        step(&s, p);
    if (left) {
        unsigned char tail[32] = {0};
        memcpy(tail, p, left);
        step(&s, tail); /* zero padding is told apart by the length below */
    }
    uint64_t lo = fold(s.a ^ K2, s.c ^ (uint64_t)n ^ K0);
    uint64_t hi = fold(s.b ^ K3, s.d + (uint64_t)n * K1);
    return (wf_hash128){.lo = fold(lo ^ K1, hi + K0) + s.a, .hi = fold(hi ^ K2, lo + K3) + s.d};
}
