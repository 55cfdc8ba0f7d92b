// Attention, four components of one result row an invocation, with an online softmax over the keys in order.
// Repeats each score D / 4 times, but has no workgroup memory and takes any shape: the row that stands
// behind the other ones, and the quick one to compile on software adapters.
// Bindings, static words and rules as sdpa_row. Reference: f64 loops (tests/test_kernel_webgpu.c).
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let index = i32((wg.x + wg.y * nw.x) * {{WG}}u + lid);
    let hq = p(1u);
    let tq = p(3u);
    let e_end = p(34u);
    let quads = (e_end + 3) / 4;
    let row = index / quads;
    if (row >= p(0u) * hq * tq) {
        return;
    }
    let d0 = (index % quads) * 4;
    let head = row % hq;
    let i = (row / hq) % tq;
    let batch = row / hq / tq;
    let kv_head = head / (hq / p(2u));
    let keys = keys_of(batch, head, i, kv_len());
    let q_base = p(8u) + batch * p(9u) + head * p(10u) + i * p(11u);
    let k_base = p(13u) + batch * p(14u) + kv_head * p(15u);
    let v_base = p(18u) + batch * p(19u) + kv_head * p(20u);
    var m = begin_max(head);
    var l = begin_sum(head, m);
    var o = vec4<f32>();
    for (var j = keys.first; j <= keys.last; j++) {
        var sum = vec4<f32>();
        for (var d = 0; d < p(5u); d += 4) {
            sum = fma(q_at(q_base, d), k_at(k_base + j * p(16u), d), sum);
        }
        let s = score((sum.x + sum.y) + (sum.z + sum.w), keys, j);
        let m_new = max(m, s);
        let alpha = exp(m - m_new);
        let w = weight(s, m_new);
        l = fma(l, alpha, w);
        o = fma(vec4<f32>(w), v_at(v_base + j * p(21u), d0), o * alpha);
        m = m_new;
    }
    for (var c = 0; c < 4; c++) {
        if (d0 + c < e_end) {
            store_out(row * e_end + d0 + c, select(o[c] / l, 0.0, l == 0.0));
        }
    }
}
