/* merge.c - see merge.h. A list of symbols and a heap of candidate pairs; pairs that a join has made stale
 * stay in the heap and are recognised when they come up. */
#include "merge.h"

weft_status wf_merger_add(wf_merger *m, uint32_t at, uint32_t n, int32_t id)
{
    WF_TRY(wf_grow((void **)&m->symbols, &m->cap_symbols, m->n_symbols + 1, sizeof *m->symbols));
    int32_t i = (int32_t)m->n_symbols++;
    m->symbols[i] = (wf_symbol){at, n, i - 1, -1, id};
    if (i > 0)
        m->symbols[i - 1].next = i;
    return WEFT_OK;
}

static void sift_up(wf_pair *heap, size_t hole, wf_pair moved)
{
    for (size_t parent; hole > 0 && heap[parent = (hole - 1) / 2].key > moved.key; hole = parent)
        heap[hole] = heap[parent];
    heap[hole] = moved;
}

static void sift_down(wf_pair *heap, size_t n, wf_pair moved)
{
    size_t hole = 0;
    for (size_t child; (child = 2 * hole + 1) < n; hole = child) {
        if (child + 1 < n && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[child].key >= moved.key)
            break;
        heap[hole] = heap[child];
    }
    heap[hole] = moved;
}

static weft_status note_pair(wf_merger *m, const weft_tokenizer *t, const char *text, wf_pair_fn may_join, int32_t left,
                             int32_t right)
{
    uint32_t priority;
    wf_pair p;
    if (left < 0 || right < 0)
        return WEFT_OK;
    const wf_symbol *a = &m->symbols[left], *b = &m->symbols[right];
    if (!may_join(t, text, a, b, &priority, &p.id))
        return WEFT_OK;
    p.key = (uint64_t)priority << 32 | (uint32_t)left;
    p.n = a->n + b->n;
    p.left = left;
    p.right = right;
    WF_TRY(wf_grow((void **)&m->heap, &m->cap_heap, m->n_heap + 1, sizeof *m->heap));
    sift_up(m->heap, m->n_heap++, p);
    return WEFT_OK;
}

weft_status wf_merger_run(wf_merger *m, const weft_tokenizer *t, const char *text, wf_pair_fn may_join)
{
    m->n_heap = 0;
    for (size_t i = 1; i < m->n_symbols; i++)
        WF_TRY(note_pair(m, t, text, may_join, (int32_t)i - 1, (int32_t)i));
    while (m->n_heap) {
        wf_pair p = m->heap[0];
        m->n_heap--;
        sift_down(m->heap, m->n_heap, m->heap[m->n_heap]);
        wf_symbol *a = &m->symbols[p.left], *b = &m->symbols[p.right];
        if (!a->n || !b->n || a->n + b->n != p.n)
            continue;
        a->n = p.n;
        a->id = p.id;
        a->next = b->next;
        b->n = 0;
        if (b->next >= 0)
            m->symbols[b->next].prev = p.left;
        WF_TRY(note_pair(m, t, text, may_join, a->prev, p.left));
        WF_TRY(note_pair(m, t, text, may_join, p.left, a->next));
    }
    return WEFT_OK;
}

void wf_merger_free(wf_merger *m)
{
    wf_free(m->symbols);
    wf_free(m->heap);
}
