/* rows_lines.h - inside the kernel table: lines cut into blocks, for the rows of scan, sort, scatter and top-k. */
#ifndef WF_ROWS_LINES_H
#define WF_ROWS_LINES_H

#include "kernel_rows.h"
#include "line_ops.h"

typedef struct wf_line_cut {
    int64_t blocks, len; /* of one line; the last block may be shorter */
} wf_line_cut;

bool wf_line_fits_group(wf_kernel_ask *ask, int64_t bytes);
wf_line_cut wf_line_blocks(int64_t n);
bool wf_line_blocks_wanted(int64_t lines, int64_t n);
/* Words 28 and 29: blocks of a line, elements of a block. */
void wf_line_cut_words(wf_line_cut cut, wf_launch *l);
/* fn line_at; struct Block {line, x, out, index, begin, end, run} and fn block_of(group): elements begin .. end-1 of a line,
 * whose first lies at x and at out; `run` of them are an invocation's. Uses words 0 .. 29. */
void wf_text_lines(wf_str *out, int64_t group);
/* A launch that scans, in place, `lines` lines of n elements of `type`, side by side in scratch from element `offset` on. */
weft_status wf_line_scan_scratch(const wf_kernel_ask *ask, const char *type, const char *fold, int64_t lines, int64_t n, int64_t offset,
                                 wf_launch *l);

/* Sorting (rows_sort.c): launches that put the stable order of lines, by `bits` bits of fn digits_at from first_bit on, where
 * the caller says. */
typedef struct wf_sort_plan {
    const int32_t *words;     /* 0 .. 26 */
    int64_t lines, n;
    int first_bit, bits;
    bool rank, blocks;        /* every element counts those before it; long lines are cut */
    int input;                /* of the request, bound as b0 */
    bool to_output;           /* the order ends in the output, else in scratch from element 0 on */
    int64_t limit;            /* places from here on are not stored in the output; below n only with `blocks` */
    const wf_str *digits;     /* binding b0 and fn digits_at(line_x: i32, i: i32) -> u32 */
} wf_sort_plan;
enum { WF_SORT_PASSES = 8 }; /* digits of 4 bits */
/* Words of scratch it takes; -1 past 32-bit indices. */
int64_t wf_sort_words(const wf_sort_plan *plan);
/* The same by the keys of input 0, into the output: fills first_bit, bits, input, to_output and digits. */
weft_status wf_sort_keys(const wf_kernel_ask *ask, wf_sort_plan *plan, wf_kernel_choice *out);
weft_status wf_sort_launches(const wf_kernel_ask *ask, const wf_sort_plan *plan, wf_kernel_choice *out);

#endif
