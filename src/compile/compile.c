/* compile.c - from an evaluation's nodes to a plan. */
#include "explain_notes.h"

void wf_plan_free(wf_plan *plan)
{
    if (!plan)
        return;
    wf_arena_free(&plan->arena);
    wf_free(plan->key);
    wf_free(plan);
}

static weft_status attempt(wf_compile_state *s)
{
    weft_status st;
    s->plan = wf_calloc(1, sizeof *s->plan);
    if (!s->plan)
        return wf_fail_oom(sizeof *s->plan);
    WF_TRY_GOTO(st, wf_cgraph_build(s), done);
    WF_TRY_GOTO(st, wf_fuse(s), done);
    st = wf_lower(s);
done:
    wf_arena_free(&s->scratch);
    wf_arena_free(&s->kernel);
    if (st != WEFT_OK)
        wf_plan_free(s->plan);
    return st;
}

weft_status wf_compile(const wf_compile_env *env, wf_node *const *order, int32_t n, const bool *stealable,
                       const int32_t *targets, int n_targets, wf_plan **out)
{
    static const int bounds[] = {64, 16, 4, 1};
    weft_status st = WEFT_E_INTERNAL;
    for (size_t i = 0; i < WF_COUNT(bounds); i++) {
        wf_compile_state s = {.env = env, .order = order, .n_order = n, .stealable = stealable, .targets = targets,
                              .n_targets = n_targets, .max_group_nodes = bounds[i]};
        if (env->explain)
            wf_explain_reset(env->explain);
        if (env->pass)
            wf_tune_pass_begin(env->pass);
        st = attempt(&s);
        if (st == WEFT_OK)
            *out = s.plan;
        if (st != WEFT_E_UNSUPPORTED)
            break;
    }
    return st;
}
