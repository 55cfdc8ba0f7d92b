// Joins the parts that sdpa_row made of each row: with M the largest maximum, out = sum of exp(m_s - M) *
// row_s over sum of exp(m_s - M) * l_s. One work group a row (b, h); splits in order, so the bits do not
// depend on scheduling. Bindings: b0 scratch [B, Hq, splits, E + 2], [kv_len], [sinks], then the output.
// Static words as sdpa_row.
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let row = i32(wg.x + wg.y * nw.x);
    if (row >= p(0u) * p(1u)) {
        return;
    }
    let e_end = p(34u);
    let stride = e_end + 2;
    let base = row * p(30u) * stride;
    // The query stands at the last key; its window leaves out the splits before it.
    let length = kv_len();
    let first = max(length - 1 - p(32u), 0) / {{CHUNK}};
    let n = (length + {{=CHUNK - 1}}) / {{CHUNK}};
    let head = row % p(1u);
    var m = begin_max(head);
    for (var s = first; s < n; s++) {
        m = max(m, part1(base + s * stride));
    }
    var l = begin_sum(head, m);
    for (var s = first; s < n; s++) {
        l = fma(exp(part1(base + s * stride) - m), part1(base + s * stride + 1), l);
    }
    for (var d = i32(lid); d < e_end; d += {{WG}}) {
        var v = 0.0;
        for (var s = first; s < n; s++) {
            v = fma(exp(part1(base + s * stride) - m), part1(base + s * stride + 2 + d), v);
        }
        store_out(row * e_end + d, select(v / l, 0.0, l == 0.0));
    }
}
