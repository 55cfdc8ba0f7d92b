// Joins the parts that sdpa_row made of each row: with M the largest maximum, out = sum of exp(m_s - M) *
// row_s over sum of exp(m_s - M) * l_s. One work group a row (b, h); splits in order, so the bits do not
// depend on scheduling. Bindings: b0 scratch [B, Hq, splits, D + 2], [b1 kv_len], then the output.
// Static words as sdpa_row.
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let row = i32(wg.x + wg.y * nw.x);
    if (row >= p(0u) * p(1u)) {
        return;
    }
    let d_end = p(5u);
    let stride = d_end + 2;
    let base = row * p(30u) * stride;
    let n = (kv_len() + {{=CHUNK - 1}}) / {{CHUNK}};
    var m = lowest;
    for (var s = 0; s < n; s++) {
        m = max(m, part1(base + s * stride));
    }
    var l = 0.0;
    for (var s = 0; s < n; s++) {
        l = fma(exp(part1(base + s * stride) - m), part1(base + s * stride + 1), l);
    }
    for (var d = i32(lid); d < d_end; d += {{WG}}) {
        var v = 0.0;
        for (var s = 0; s < n; s++) {
            v = fma(exp(part1(base + s * stride) - m), part1(base + s * stride + 2 + d), v);
        }
        store_out(row * d_end + d, select(v / l, 0.0, l == 0.0));
    }
}
