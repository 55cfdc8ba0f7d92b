/* functions_calls_quantised.h - calls of functions_quantised.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_QUANTISED_H
#define WF_FUNCTIONS_CALLS_QUANTISED_H

#include "weft/ops_quantised.h"

static int quantize_tensor(const wf_call *c)
{
    OUT[0] = weft_quantize_tensor(T(0), &OUT[1]);
    return 2;
}

static int quantize_rows(const wf_call *c)
{
    weft_row_format format;
    if (weft_row_format_find(S(1), &format) != WEFT_OK) {
        OUT[0] = wf_tensor_error_last(CTX, WEFT_E_VALUE);
        return 1;
    }
    OUT[0] = weft_quantize_to_rows(T(0), format, &OUT[1]);
    return 2;
}

static weft_tensor *dequantize_rows(const wf_call *c)
{
    weft_row_format format;
    if (weft_row_format_find(S(3), &format) != WEFT_OK)
        return wf_tensor_error_last(CTX, WEFT_E_VALUE);
    return weft_dequantize_from_rows(T(0), T(1), format, I(2));
}

static weft_tensor *linear_rows(const wf_call *c)
{
    weft_row_format format;
    if (weft_row_format_find(S(4), &format) != WEFT_OK)
        return wf_tensor_error_last(CTX, WEFT_E_VALUE);
    return weft_linear_rows(T(0), T(1), T(2), format, T(3));
}

#endif
