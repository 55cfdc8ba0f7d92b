/* tune_pass.c - kinds of kernels of a graph and the rows they could take. */
#include "tune_pass.h"

#include <stdio.h>

void wf_tune_pass_begin(wf_tune_pass *p)
{
    p->open = -1;
    for (size_t i = 0; i < p->n; i++) {
        wf_tune_kernel *k = &p->kernels[i];
        k->n_uses = p->round ? k->n_uses : 0;
        if (p->round < k->n_rows)
            k->made[p->round] = false;
    }
}

static wf_tune_kernel *find(wf_tune_pass *p, const wf_tune_key *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (memcmp(&p->kernels[i].key, key, sizeof *key) == 0)
            return &p->kernels[i];
    return NULL;
}

weft_status wf_tune_pass_open(wf_tune_pass *p, const wf_tune_key *key, const char *const *rows, int n_rows, const char **want)
{
    *want = NULL;
    p->open = -1;
    p->taken = NULL;
    wf_tune_kernel *k = find(p, key);
    if (n_rows < 2 || (p->round && !k))
        return WEFT_OK;
    if (!k) {
        WF_TRY(wf_grow((void **)&p->kernels, &p->cap, p->n + 1, sizeof *p->kernels));
        k = &p->kernels[p->n++];
        memset(k, 0, sizeof *k);
        k->key = *key;
        k->n_rows = n_rows;
        memcpy(k->rows, rows, sizeof *rows * (size_t)n_rows);
    }
    k->n_uses += p->round == 0;
    if (p->round >= k->n_rows || k->made[p->round] || k->why[p->round][0])
        return WEFT_OK; /* its commands are known */
    p->open = (int)(k - p->kernels);
    *want = p->round ? k->rows[p->round] : NULL;
    return WEFT_OK;
}

void wf_tune_pass_refused(wf_tune_pass *p, const char *why)
{
    if (p->open < 0)
        return;
    snprintf(p->kernels[p->open].why[p->round], sizeof p->kernels[p->open].why[0], "%s", why);
    p->open = -1;
}

void wf_tune_pass_close(wf_tune_pass *p, uint32_t first_cmd, uint32_t n_cmds)
{
    wf_tune_kernel *k = p->open >= 0 ? &p->kernels[p->open] : NULL;
    p->open = -1;
    if (!k || !n_cmds || !p->taken)
        return;
    int r = p->round;
    for (int i = 1; r == 0 && i < k->n_rows; i++)
        if (strcmp(k->rows[i], p->taken) == 0) { /* what is taken without measuring comes first */
            memmove(&k->rows[1], &k->rows[0], sizeof k->rows[0] * (size_t)i);
            k->rows[0] = p->taken;
        }
    if (strcmp(k->rows[r], p->taken) != 0)
        return;
    k->made[r] = true;
    k->first[r] = first_cmd;
    k->count[r] = n_cmds;
}

void wf_tune_pass_free(wf_tune_pass *p)
{
    wf_free(p->kernels);
    memset(p, 0, sizeof *p);
}
