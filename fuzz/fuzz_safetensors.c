/* fuzz_safetensors.c - any bytes opened as a safetensors file, through a callback and in memory. The fuzzer
 * writes what follows the length field: half of the inputs would be refused at once otherwise.
 * Seeds: the safetensors files of tests/data/malformed. */
#include "../tests/file_bytes.h"
#include "replay_main.h"

static void run(const uint8_t *bytes, size_t size)
{
    weft_status st[2];
    unsigned sums[2] = {0, 0};
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size);
    if (size < 9 || data[8] != '{')
        return 0;
    /* The same with a header that ends at the last closing brace. */
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    uint8_t *bytes = malloc(size);
    if (!bytes || end <= 8) {
        free(bytes);
        return 0;
    }
    memcpy(bytes, data, size);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)(end - 8) >> 8 * i);
    run(bytes, size);
    free(bytes);
    return 0;
}
