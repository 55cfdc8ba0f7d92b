/* utf8.c - well-formed UTF-8 as the Unicode Standard's table 3-7 has it: no surrogates, no long forms. */
#include "tokenizer.h"

static inline bool continues(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

uint32_t wf_utf8_decode(const char *text, size_t n, size_t *len)
{
    const unsigned char *p = (const unsigned char *)text;
    *len = 0;
    if (n == 0)
        return 0;
    if (p[0] < 0x80) {
        *len = 1;
        return p[0];
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf && n >= 2 && continues(p[1])) {
        *len = 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if ((p[0] & 0xf0) == 0xe0 && n >= 3 && continues(p[1]) && continues(p[2])) {
        uint32_t c = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
        *len = c >= 0x800 && (c < 0xd800 || c > 0xdfff) ? 3 : 0;
        return c;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4 && n >= 4 && continues(p[1]) && continues(p[2]) && continues(p[3])) {
        uint32_t c = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 |
                     (p[3] & 0x3f);
        *len = c >= 0x10000 && c <= 0x10ffff ? 4 : 0;
        return c;
    }
    return 0;
}

size_t wf_utf8_len(const char *p, size_t n)
{
    size_t len;
    wf_utf8_decode(p, n, &len);
    return len;
}
