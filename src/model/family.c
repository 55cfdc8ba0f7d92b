/* family.c - one row per model family: how its files name it, where its numbers and tensors are, and
 * the function that records its blocks. To add a family, add a row. */
#include "mdl.h"

#include <stdio.h>

static const mdl_tensor_name llama_names[] = {
    {MDL_EMBED, "token_embd.weight", "model.embed_tokens.weight", true, MDL_DIM_VOCAB, MDL_DIM_WIDTH},
    {MDL_OUT_NORM, "output_norm.weight", "model.norm.weight", true, MDL_DIM_NONE, MDL_DIM_WIDTH},
    {MDL_OUTPUT, "output.weight", "lm_head.weight", false, MDL_DIM_VOCAB, MDL_DIM_WIDTH},
    {MDL_ROPE_FREQS, "rope_freqs.weight", NULL, false, MDL_DIM_NONE, MDL_DIM_HALF_ROPE},
    {MDL_ATTN_NORM, "blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", true, MDL_DIM_NONE, MDL_DIM_WIDTH},
    {MDL_Q, "blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight", true, MDL_DIM_HEADS, MDL_DIM_WIDTH},
    {MDL_K, "blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight", true, MDL_DIM_KV, MDL_DIM_WIDTH},
    {MDL_V, "blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight", true, MDL_DIM_KV, MDL_DIM_WIDTH},
    {MDL_O, "blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", true, MDL_DIM_WIDTH, MDL_DIM_HEADS},
    {MDL_Q_BIAS, "blk.%d.attn_q.bias", "model.layers.%d.self_attn.q_proj.bias", false, MDL_DIM_NONE, MDL_DIM_HEADS},
    {MDL_K_BIAS, "blk.%d.attn_k.bias", "model.layers.%d.self_attn.k_proj.bias", false, MDL_DIM_NONE, MDL_DIM_KV},
    {MDL_V_BIAS, "blk.%d.attn_v.bias", "model.layers.%d.self_attn.v_proj.bias", false, MDL_DIM_NONE, MDL_DIM_KV},
    {MDL_O_BIAS, "blk.%d.attn_output.bias", "model.layers.%d.self_attn.o_proj.bias", false, MDL_DIM_NONE, MDL_DIM_WIDTH},
    {MDL_FFN_NORM, "blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", true, MDL_DIM_NONE, MDL_DIM_WIDTH},
    {MDL_GATE, "blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight", true, MDL_DIM_FFN, MDL_DIM_WIDTH},
    {MDL_UP, "blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight", true, MDL_DIM_FFN, MDL_DIM_WIDTH},
    {MDL_DOWN, "blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", true, MDL_DIM_WIDTH, MDL_DIM_FFN},
};
_Static_assert(sizeof llama_names / sizeof llama_names[0] == MDL_ROLE_COUNT, "one name a role");

static const mdl_family families[] = {
    {"llama", "llama", "LlamaForCausalLM", mdl_config_gguf, mdl_config_hf, llama_names, MDL_ROLE_COUNT, mdl_llama_build},
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* Names come from files: unprintable bytes are shown as '?' so that the sentence stays one line. */
static void printable(const char *name, size_t n, char out[64])
{
    size_t i;
    for (i = 0; i < n && i < 63; i++)
        out[i] = name[i] >= 32 && name[i] < 127 ? name[i] : '?';
    out[i] = 0;
}

static weft_status find(const char *name, size_t n, bool hf, const mdl_family **out)
{
    char known[512] = "", shown[64];
    size_t used = 0;
    for (int i = 0; i < N_FAMILIES; i++) {
        const char *mine = hf ? families[i].hf : families[i].gguf;
        if (strlen(mine) == n && memcmp(mine, name, n) == 0) {
            *out = &families[i];
            return WEFT_OK;
        }
        int w = snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", mine);
        if (w > 0 && used + (size_t)w < sizeof known)
            used += (size_t)w;
    }
    printable(name, n, shown);
    return weft_fail(WEFT_E_UNSUPPORTED, "model: architecture \"%s\" is not known; known: %s", shown, known);
}

weft_status mdl_family_by_gguf(const char *name, size_t n, const mdl_family **out)
{
    return find(name, n, false, out);
}

weft_status mdl_family_by_hf(const char *name, const mdl_family **out)
{
    return find(name, strlen(name), true, out);
}
