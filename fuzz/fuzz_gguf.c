/* fuzz_gguf.c - any bytes opened as a GGUF file, through a callback and in memory, and asked everything.
 * Seeds: the GGUF files of tests/data/malformed. */
#include "../tests/file_bytes.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Every input takes the GGUF way; the first four bytes are the same in all good files. */
    unsigned char *bytes = malloc(size + 4);
    unsigned sums[2] = {0, 0};
    weft_status st[2];
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (size >= 4)
        memcpy(bytes, "GGUF", 4);
    for (int mapped = 0; mapped < 2; mapped++) {
        byte_source source;
        weft_file *f = NULL;
        st[mapped] = open_bytes(&source, bytes, size, mapped, &f);
        if (f)
            sums[mapped] = touch_file(f);
        if (st[mapped] != WEFT_OK && st[mapped] != WEFT_E_FORMAT)
            abort();
        weft_file_close(f);
    }
    if (st[0] != st[1] || sums[0] != sums[1])
        abort();
    free(bytes);
    return 0;
}
