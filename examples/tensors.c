/* tensors.c - multiply, add, softmax and read back on any device: ./tensors [auto | cpu | webgpu | ..] */
#include <stdio.h>
#include <weft/weft.h>

int main(int argc, char **argv)
{
    weft_ctx *ctx;
    if (weft_ctx_open(&(weft_ctx_opts){.device = argc > 1 ? argv[1] : NULL}, &ctx) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        return 1;
    }
    weft_device_info device;
    if (weft_ctx_device(ctx, &device) == WEFT_OK)
        printf("on %s\n", device.name);

    const float a_data[] = {1, 2, 3, 4, 5, 6}, b_data[] = {1, 0, 0, 1, 1, 1}, c_data[] = {0.5f, 0};
    float out[4];

    /* Operations only record; weft_read runs them as one graph and copies the result. */
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *a = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (const int64_t[]){2, 3}, a_data);
    weft_tensor *b = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (const int64_t[]){3, 2}, b_data);
    weft_tensor *c = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (const int64_t[]){2}, c_data);
    weft_tensor *y = weft_softmax(weft_add(weft_matmul(a, b), c), -1); /* [2, 2]; c is broadcast over the rows */
    weft_status st = weft_read(y, out, sizeof out);
    weft_scope_end(scope);

    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_message());
    else
        printf("%.6f %.6f\n%.6f %.6f\n", out[0], out[1], out[2], out[3]);
    weft_ctx_close(ctx);
    return st == WEFT_OK ? 0 : 1;
}
