// Matrix product, one output an invocation: c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n].
// Any strides, any extents; f32 accumulation, k in order. The row that stands behind every other one.
// Static words 0..19: kernel_table.h. Reference: a f64 triple loop (tests/test_kernel_table.c).
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let index = i32((wg.x + wg.y * nw.x) * {{WG}}u + lid);
    let n_end = p(1u);
    let m_end = p(0u);
    if (index >= m_end * n_end * p(3u)) {
        return;
    }
    let n = index % n_end;
    let m = (index / n_end) % m_end;
    let batch = index / n_end / m_end;
    let t2 = batch % p(6u);
    let t1 = (batch / p(6u)) % p(5u);
    let t0 = batch / p(6u) / p(5u);
    var ia = p(7u) + t0 * p(10u) + t1 * p(11u) + t2 * p(12u) + m * p(8u);
    var ib = p(13u) + t0 * p(16u) + t1 * p(17u) + t2 * p(18u) + n * p(15u);
    let step_a = p(9u);
    let step_b = p(14u);
    var acc = 0.0;
    for (var k = p(2u); k > 0; k--) {
        acc = fma(a1(ia), w1(ib), acc);
        ia += step_a;
        ib += step_b;
    }
    epilogue(acc, {{EPI_BATCH}}, {{EPI_ROW}}, n);
}
