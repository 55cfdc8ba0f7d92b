/* ref_array.c - strided arrays of f64 and their views. */
#include "ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next;
    double align;
} block;
static block *blocks; /* everything since the last ref_reset */

void *ref_alloc(size_t size_bytes)
{
    block *b = calloc(1, sizeof *b + size_bytes);
    if (!b) {
        fprintf(stderr, "reference: no memory for %zu bytes\n", size_bytes);
        exit(1);
    }
    b->next = blocks;
    blocks = b;
    return b + 1;
}

void ref_reset(void)
{
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

int64_t ref_count(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int k = 0; k < rank; k++)
        n *= shape[k];
    return n;
}

int64_t ref_numel(const ref_array *a)
{
    return ref_count(a->rank, a->shape);
}

ref_array ref_new(int rank, const int64_t *shape)
{
    ref_array a = {.rank = rank};
    int64_t stride = 1;
    for (int k = rank - 1; k >= 0; k--) {
        a.shape[k] = shape[k];
        a.strides[k] = stride;
        stride *= shape[k];
    }
    a.data = ref_alloc(sizeof(double) * (size_t)(stride > 0 ? stride : 1));
    return a;
}

ref_array ref_like(const ref_array *a)
{
    return ref_new(a->rank, a->shape);
}

ref_array ref_scalar(double value)
{
    ref_array a = ref_new(0, NULL);
    a.data[0] = value;
    return a;
}

void ref_index(int rank, const int64_t *shape, int64_t i, int64_t *index)
{
    for (int k = rank - 1; k >= 0; k--) {
        index[k] = i % shape[k];
        i /= shape[k];
    }
}

double *ref_at(const ref_array *a, const int64_t *index)
{
    double *p = a->data;
    for (int k = 0; k < a->rank; k++)
        p += index[k] * a->strides[k];
    return p;
}

double *ref_item(const ref_array *a, int64_t i)
{
    int64_t index[REF_MAX_RANK];
    ref_index(a->rank, a->shape, i, index);
    return ref_at(a, index);
}

ref_array ref_permute(ref_array a, const int *axes)
{
    ref_array r = {.data = a.data, .rank = a.rank};
    for (int k = 0; k < a.rank; k++) {
        r.shape[k] = a.shape[axes[k]];
        r.strides[k] = a.strides[axes[k]];
    }
    return r;
}

ref_array ref_swap(ref_array a, int axis0, int axis1)
{
    int axes[REF_MAX_RANK];
    for (int k = 0; k < a.rank; k++)
        axes[k] = k == axis0 ? axis1 : k == axis1 ? axis0 : k;
    return ref_permute(a, axes);
}

ref_array ref_slice(ref_array a, int axis, int64_t first, int64_t count, int64_t step)
{
    a.data += first * a.strides[axis];
    a.shape[axis] = count;
    a.strides[axis] *= step;
    return a;
}

ref_array ref_expand(ref_array a, int rank, const int64_t *shape)
{
    ref_array r = {.data = a.data, .rank = rank};
    for (int k = 0; k < rank; k++) {
        int from = k - (rank - a.rank);
        r.shape[k] = shape[k];
        r.strides[k] = from < 0 || a.shape[from] != shape[k] ? 0 : a.strides[from];
    }
    return r;
}

ref_array ref_copy(const ref_array *a)
{
    ref_array r = ref_like(a);
    for (int64_t i = 0, n = ref_numel(a); i < n; i++)
        r.data[i] = *ref_item(a, i);
    return r;
}
