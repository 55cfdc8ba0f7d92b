/* op_table.c - the op registry as data, one row for each line of op.def. */
#include "node.h"

const wf_op_info wf_op_table[WF_OP_COUNT] = {
#define WF_OP(id, name, n_in, klass, diff, bound, doc) \
    [WF_OP_##id] = {name, n_in, WF_CLASS_##klass, diff, bound, doc},
#include "op.def"
#undef WF_OP
};
