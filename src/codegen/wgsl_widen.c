/* wgsl_widen.c - how many elements an invocation takes, and which bindings it may load as vectors.
 *
 * Strides and offsets are run-time words, so the text cannot know that a load is contiguous; whoever
 * fills the static block does. The two facts it proves, `vec` and `wide`, become part of the structure.
 */
#include "wgsl.h"

/* Whether the elements that a LOAD takes are `vec` in a row from a multiple of vec, at every point. */
static bool is_run(const wf_kir *k, const wf_kinstr *load, const int32_t *words, int vec)
{
    const wf_kinstr *at = &k->instr[load->a];
    if (at->op != WF_KOP_AFFINE || words[at->slot] % vec != 0)
        return false;
    for (int axis = 0; axis < k->n_outer - 1; axis++)
        if (words[at->slot + 1 + axis] % vec != 0)
            return false;
    return words[at->slot + k->n_outer] == 1;
}

void wf_wgsl_widen(wf_kir *k, const int32_t *words)
{
    bool elementwise = k->n_inner == 0 && k->n_outer > 0;
    for (int s = 0; s < k->n_stages; s++)
        elementwise &= k->stages[s].kind == WF_KSTAGE_OUTER;
    int32_t last = elementwise ? words[k->extent_slot + k->n_outer - 1] : 1;
    k->vec = last % 4 == 0 ? 4 : last % 2 == 0 ? 2 : 1;
    for (int i = 0; i < k->n_bind; i++)
        k->bind[i].wide = k->vec > 1 && k->bind[i].chunks <= 1;
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        if (in->op == WF_KOP_LOAD && k->vec > 1 && !is_run(k, in, words, k->vec))
            k->bind[in->slot].wide = 0;
    }
}
