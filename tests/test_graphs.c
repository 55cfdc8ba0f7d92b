/* test_graphs.c - random graphs against the reference, exactly: views, fusion, reductions, joins, updates in place,
 * shared nodes and several targets, on the device WEFT_TEST_DEVICE names (default: cpu).
 *
 * All values are whole numbers of at most LIMIT (what may grow is clamped), so that every dtype, every order of
 * summation and every fusion gives the same bits. A failure prints its seed and the steps of its graph.
 *   WEFT_GRAPHS=N       how many graphs (default 600; 60 on a software adapter, where each is new pipelines)
 *   WEFT_GRAPHS_SEED=S  the seed of the first
 */
#include "device_context.h"
#include "graph_steps.h"

static bool equal(const graph *g, int i)
{
    const operand *o = &g->node[i];
    if (weft_tensor_status(o->t) != WEFT_OK) {
        print_message("node %d: %s\n", i, weft_tensor_message(o->t));
        return false;
    }
    int64_t n = ref_numel(&o->r);
    bool same = weft_tensor_rank(o->t) == o->r.rank;
    for (int k = 0; same && k < o->r.rank; k++)
        same = weft_tensor_shape(o->t)[k] == o->r.shape[k];
    float *got = ref_alloc(sizeof *got * (size_t)(n + 1));
    weft_status st = same ? weft_read(o->t, got, sizeof *got * (size_t)n) : WEFT_E_SHAPE;
    if (st != WEFT_OK) {
        print_message("node %d: %s %s\n", i, weft_status_name(st), same ? weft_error_message() : "");
        return false;
    }
    for (int64_t k = 0; k < n; k++)
        if (got[k] != (float)*ref_item(&o->r, k)) {
            print_message("node %d, element %lld: %g, expected %g\n", i, (long long)k, (double)got[k], *ref_item(&o->r, k));
            return false;
        }
    return true;
}

static bool run_graph(uint64_t seed)
{
    graph *g = ref_alloc(sizeof *g);
    rng_state = seed * 0xd1342543de82ef95u;
    for (int i = 0; i < 3; i++)
        leaf(g);
    for (int i = 0; i < STEPS; i++) {
        steps[rng_below(sizeof steps / sizeof *steps)](g);
        int spent = (int)rng_below(g->n); /* handles go before the evaluation, which may then reuse what they held */
        if (rng_below(2) && spent < g->n - 3 && g->n > 6 && g->held[spent]) {
            weft_tensor_release(g->node[spent].t);
            g->held[spent] = false;
        }
    }
    weft_tensor *targets[4];
    int n_targets = 0;
    for (int i = g->n - 1; i >= 0 && n_targets < 4; i--)
        if (g->held[i] && (i == g->n - 1 || rng_below(3) == 0))
            targets[n_targets++] = g->node[i].t;
    weft_status st = weft_eval(targets, n_targets);
    bool ok = st == WEFT_OK;
    if (!ok)
        print_message("%s: %s\n", weft_status_name(st), weft_error_message());
    for (int i = 0; i < g->n; i++) { /* the targets, and then what was no target */
        ok = ok && (!g->held[i] || equal(g, i));
        if (g->held[i])
            weft_tensor_release(g->node[i].t);
    }
    if (!ok)
        print_message("seed %llu\n%s", (unsigned long long)seed, g->text);
    ref_reset();
    return ok;
}

static int open_ctx(void **state)
{
    (void)state;
    weft_device_info info;
    ctx = open_test_ctx();
    if (!ctx || weft_ctx_device(ctx, &info) != WEFT_OK)
        return -1;
    on_gpu = strcmp(info.kind, "cpu") != 0;
    thrifty = strcmp(info.kind, "software") == 0 && !getenv("WEFT_TEST_LONG");
    return 0;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static void random_graphs_equal_their_reference(void **state)
{
    (void)state;
    const char *count = getenv("WEFT_GRAPHS"), *first = getenv("WEFT_GRAPHS_SEED");
    int n = count ? atoi(count) : thrifty ? 60 : 600, failed = 0;
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    for (int i = 0; i < n && failed < 3; i++)
        failed += !run_graph(seed + (uint64_t)i);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_equal_their_reference)};
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
