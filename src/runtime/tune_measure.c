/* tune_measure.c - times of the rows of one kernel.
 *
 * Each row's commands come from a plan of the whole graph, so the kernel has its views and what was fused to it. Leaves are
 * read where they lie; everything else is a scratch buffer of ordinary numbers. A list repeats the commands until a run takes a few
 * milliseconds, and the rows are run in turn, so that what else the machine does meets all of them.
 */
#include "tuner.h"

#include <stdio.h>

enum { SLOTS_MAX = 64, COPIES_MAX = 64, DEFAULT_REPEATS = 5, CHUNK_WORDS = 16384 };
#define LIST_NS 4000000u  /* a list takes about this long */
#define HOPELESS 4        /* a row that needs so many times the fastest is timed once */

typedef struct slot {
    uint32_t kind, index;
    uint64_t first, end;
} slot;

typedef struct row_list {
    const wf_plan *plan;
    wf_cmd *cmds;             /* `copies` times the row's commands */
    uint32_t n, copies;
    uint64_t key;
    slot slots[SLOTS_MAX];    /* values that are not leaves, in the order of their first use */
    int n_slots;
    bool alive;
} row_list;

typedef struct scratch {
    uint32_t buffer[SLOTS_MAX];
    uint64_t size[SLOTS_MAX];
    int n;
} scratch;

/* The buffer of a leaf that has bytes; 0: none. */
static uint32_t leaf_buffer(const weft_ctx *ctx, const wf_plan *plan, const wf_patch *p)
{
    return p->kind == WF_MEM_LEAF ? ctx->order[plan->leaf_order[p->index]]->storage->buffer : 0;
}

static int slot_of(row_list *l, const wf_patch *p)
{
    for (int i = 0; i < l->n_slots; i++)
        if (l->slots[i].kind == p->kind && l->slots[i].index == p->index)
            return i;
    if (l->n_slots == SLOTS_MAX)
        return -1;
    l->slots[l->n_slots] = (slot){p->kind, p->index, UINT64_MAX, 0};
    return l->n_slots++;
}

static bool find_slots(const weft_ctx *ctx, row_list *l, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < l->plan->n_patches; i++) {
        const wf_patch *p = &l->plan->patches[i];
        if (p->cmd < first || p->cmd >= first + count || leaf_buffer(ctx, l->plan, p))
            continue;
        const wf_bind *b = &l->plan->cmds[p->cmd].bind[p->bind];
        int s = slot_of(l, p);
        if (s < 0)
            return false;
        l->slots[s].first = WF_MIN(l->slots[s].first, b->offset);
        l->slots[s].end = WF_MAX(l->slots[s].end, b->offset + b->size);
    }
    return true;
}

/* Words that are small positive numbers in f32, f16 and bf16. */
static weft_status fill(weft_ctx *ctx, uint32_t buffer, uint64_t size)
{
    uint32_t *words = wf_alloc(4 * CHUNK_WORDS), state = 1;
    weft_status st = words ? WEFT_OK : wf_fail_oom(4 * CHUNK_WORDS);
    for (int i = 0; words && i < CHUNK_WORDS; i++) {
        state = state * 1664525u + 1013904223u; /* Numerical Recipes, 7.1 */
        words[i] = 0x38003800u | (state >> 8 & 0x03ff03ffu);
    }
    for (uint64_t at = 0; st == WEFT_OK && at < size; at += 4 * CHUNK_WORDS)
        st = ctx->dev->vt->write(ctx->dev, buffer, at, words, WF_MIN(size - at, 4 * CHUNK_WORDS));
    wf_free(words);
    return st;
}

static weft_status make_scratch(weft_ctx *ctx, const row_list *lists, int n_rows, scratch *s)
{
    for (int r = 0; r < n_rows; r++)
        for (int i = 0; lists[r].alive && i < lists[r].n_slots; i++) {
            s->n = WF_MAX(s->n, i + 1);
            s->size[i] = WF_MAX(s->size[i], wf_align_up(lists[r].slots[i].end - lists[r].slots[i].first, 4));
        }
    for (int i = 0; i < s->n; i++) {
        WF_TRY(wf_buffer_new(ctx, s->size[i], &s->buffer[i]));
        WF_TRY(fill(ctx, s->buffer[i], s->size[i]));
    }
    return WEFT_OK;
}

/* The row's commands, `copies` times, over the leaves and the scratch buffers. */
static weft_status make_list(weft_ctx *ctx, row_list *l, const scratch *s, uint32_t first, uint32_t count, uint32_t copies)
{
    size_t n = (size_t)count * copies;
    wf_cmd *cmds = wf_alloc(n * sizeof *cmds);
    if (!cmds)
        return wf_fail_oom(n * sizeof *cmds);
    memcpy(cmds, l->plan->cmds + first, count * sizeof *cmds);
    for (uint32_t i = 0; i < l->plan->n_patches; i++) {
        const wf_patch *p = &l->plan->patches[i];
        if (p->cmd < first || p->cmd >= first + count)
            continue;
        wf_bind *b = &cmds[p->cmd - first].bind[p->bind];
        b->buffer = leaf_buffer(ctx, l->plan, p);
        if (b->buffer)
            continue;
        int at = slot_of(l, p);
        b->buffer = s->buffer[at];
        b->offset -= l->slots[at].first;
    }
    for (uint32_t c = 1; c < copies; c++)
        memcpy(cmds + (size_t)c * count, cmds, count * sizeof *cmds);
    wf_free(l->cmds);
    l->cmds = cmds;
    l->n = (uint32_t)n;
    l->copies = copies;
    l->key = ctx->next_list_key++;
    return WEFT_OK;
}

static weft_status run_list(weft_ctx *ctx, const row_list *l, uint64_t *ns)
{
    uint32_t step[WF_STEP_BYTES / 4];
    const wf_plan *p = l->plan;
    uint64_t fence, begin;
    if (p->step_bytes)
        wf_plan_fill_step(ctx, p, step);
    wf_cmdlist list = {.key = l->key, .cmds = l->cmds, .n_cmds = l->n, .static_buffer = p->static_buffer, .step_buffer = p->step_bytes ? ctx->step_buffer : 0,
                       .step = p->step_bytes ? step : NULL, .step_bytes = p->step_bytes, .labels = p->labels};
    begin = wf_tune_now(ctx);
    WF_TRY(ctx->dev->vt->submit(ctx->dev, &list, &fence));
    WF_TRY(ctx->dev->vt->wait(ctx->dev, fence, -1));
    *ns = WF_MAX(wf_tune_now(ctx) - begin, 1u);
    return WEFT_OK;
}

/* A failure that concerns one row alone becomes the reason why it has no time. */
static weft_status row_failed(wf_tune_result *r, row_list *l, int row, weft_status st)
{
    if (st == WEFT_OK || st == WEFT_E_OOM || st == WEFT_E_DEVICE_LOST || st == WEFT_E_CANCELLED)
        return st;
    l->alive = false;
    r->ns[row] = 0;
    snprintf(r->kernel.why[row], sizeof r->kernel.why[row], "%s", weft_error_message());
    wf_log(WEFT_LOG_WARN, "tune: %s:%s is skipped: %s", wf_tune_op_name(r->kernel.key.op), r->kernel.rows[row], weft_error_message());
    return WEFT_OK;
}

/* Once each, after a first run that makes what the device makes late. */
static weft_status time_once(weft_ctx *ctx, wf_tune_result *r, row_list *lists, const scratch *s)
{
    const wf_tune_kernel *k = &r->kernel;
    for (int i = 0; i < k->n_rows; i++) {
        if (!lists[i].alive)
            continue;
        weft_status st = make_list(ctx, &lists[i], s, k->first[i], k->count[i], 1);
        for (int again = 0; st == WEFT_OK && again < 2; again++)
            st = run_list(ctx, &lists[i], &r->ns[i]);
        WF_TRY(row_failed(r, &lists[i], i, st));
        ctx->stats.rows_measured += lists[i].alive;
    }
    return WEFT_OK;
}

static weft_status time_side_by_side(weft_ctx *ctx, const wf_tune *t, wf_tune_result *r, row_list *lists, const scratch *s)
{
    const wf_tune_kernel *k = &r->kernel;
    uint64_t best = UINT64_MAX, ns;
    int repeats = t->opts.repeats ? t->opts.repeats : DEFAULT_REPEATS;
    for (int i = 0; i < k->n_rows; i++)
        if (lists[i].alive)
            best = WF_MIN(best, r->ns[i]);
    if (best == UINT64_MAX)
        return WEFT_OK;
    uint32_t copies = (uint32_t)WF_MAX(1u, WF_MIN(COPIES_MAX, LIST_NS / best));
    for (int i = 0; i < k->n_rows; i++) {
        if (!lists[i].alive)
            continue;
        if (r->ns[i] / HOPELESS > best) {
            lists[i].alive = false; /* its one time stands */
            continue;
        }
        weft_status st = make_list(ctx, &lists[i], s, k->first[i], k->count[i], copies);
        if (st == WEFT_OK)
            st = run_list(ctx, &lists[i], &ns);
        WF_TRY(row_failed(r, &lists[i], i, st));
        r->ns[i] = lists[i].alive ? UINT64_MAX : r->ns[i];
    }
    for (int pass = 0; pass < repeats; pass++)
        for (int i = 0; i < k->n_rows; i++) {
            if (!lists[i].alive)
                continue;
            weft_status st = run_list(ctx, &lists[i], &ns);
            if (st == WEFT_OK)
                r->ns[i] = WF_MIN(r->ns[i], WF_MAX(ns / lists[i].copies, 1u));
            WF_TRY(row_failed(r, &lists[i], i, st));
        }
    return WEFT_OK;
}

weft_status wf_tune_measure(weft_ctx *ctx, const wf_tune *t, wf_plan *const *plans, wf_tune_result *r)
{
    scratch s = {0};
    row_list *lists = wf_calloc(WF_TUNE_ROWS, sizeof *lists);
    if (!lists)
        return wf_fail_oom(WF_TUNE_ROWS * sizeof *lists);
    for (int i = 0; i < r->kernel.n_rows; i++) {
        lists[i].plan = plans[i];
        lists[i].alive = r->kernel.made[i] && plans[i];
        if (lists[i].alive && !find_slots(ctx, &lists[i], r->kernel.first[i], r->kernel.count[i])) {
            lists[i].alive = false;
            snprintf(r->kernel.why[i], sizeof r->kernel.why[i], "more than %d operands", SLOTS_MAX);
        }
    }
    weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && i < r->kernel.n_rows; i++)
        if (lists[i].alive && plans[i]->step_bytes && !ctx->step_buffer)
            st = wf_buffer_new(ctx, WF_STEP_BYTES, &ctx->step_buffer);
    if (st == WEFT_OK)
        st = make_scratch(ctx, lists, r->kernel.n_rows, &s);
    if (st == WEFT_OK)
        st = time_once(ctx, r, lists, &s);
    if (st == WEFT_OK)
        st = time_side_by_side(ctx, t, r, lists, &s);
    for (int i = 0; i < s.n; i++)
        wf_buffer_drop(ctx, s.buffer[i], s.size[i]);
    for (int i = 0; i < r->kernel.n_rows; i++)
        wf_free(lists[i].cmds);
    wf_free(lists);
    return st;
}
