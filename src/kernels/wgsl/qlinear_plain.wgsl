// x [M, K] times a block-type matrix w [N, K] (Q8_0, Q4_0, Q4_1, planar layout), one output an invocation.
// Any strides of x. The row that stands behind the other quantised ones. Bindings: b0 x, b1 w, then the
// epilogue's. Static words 0..11: kernel_table.h. Reference: dequantise, then a f64 triple loop.
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let index = i32((wg.x + wg.y * nw.x) * {{WG}}u + lid);
    let n_end = p(1u);
    if (index >= p(0u) * n_end) {
        return;
    }
    let n = index % n_end;
    let m = index / n_end;
    let a_row = p(4u) + m * p(5u);
    let first = p(3u) + n * p(10u);
    let blocks = p(2u) / 32;
    var acc = 0.0;
    for (var i = 0; i < blocks; i++) {
{{#if QUANT == 8}}
        for (var j = 0; j < 8; j++) {
            acc += dot(x4(a_row, i * 32 + j * 4), w_quad(first + i, j));
        }
{{#else}}
        for (var j = 0; j < 4; j++) {
            let q = w_quad(first + i, j);
            acc += dot(x4(a_row, i * 32 + j * 4), q[0]);
            acc += dot(x4(a_row, i * 32 + 16 + j * 4), q[1]);
        }
{{/if}}
    }
    epilogue(acc, 0, m, n);
}
