// A few rows of x (MR) times a block-type matrix (Q8_0, Q4_0, Q4_1, planar layout): c[m, n] = x[m, :] . w[n, :].
// Each weight is read once, 16 bytes at a time (half a block of Q8_0, a block of the others), and used as
// scale * q (+ minimum) in f32.
//
// A work group makes GROUPS * NR columns; SPLIT invocations share a column. Partial sums meet in a fixed
// tree in workgroup memory, or (SUBGROUP) in a subgroup sum. Bindings: b0 x, b1 w, then the epilogue's.
// Static words 0..11: kernel_table.h. Columns past the end are read as the last one and not stored.
// Reference: dequantise, then a f64 triple loop (tests/test_kernel_table.c).
{{#if !SUBGROUP}}
var<workgroup> part: array<f32, {{=MR * NR * WG}}>;
{{/if}}

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let m_end = p(0u);
    let n_end = p(1u);
    let tile = i32(wg.x + wg.y * nw.x);
    let n0 = tile * {{=GROUPS * NR}};
    if (n0 >= n_end) {
        return;
    }
    let lane = t % {{SPLIT}};
    let col = n0 + (t / {{SPLIT}}) * {{NR}};
{{#for R=0..NR}}
    let w_row{{R}} = p(3u) + min(col + {{R}}, n_end - 1) * p(10u);
{{/for}}
{{#for M=0..MR}}
    let a_row{{M}} = p(4u) + min({{M}}, m_end - 1) * p(5u);
{{#for R=0..NR}}
    var s{{M}}_{{R}} = 0.0;
{{/for}}
{{/for}}
    // Chunks of 16 bytes: two a block for Q8_0, one for the 4-bit types.
    let chunks = p(2u) / {{=QUANT == 8 ? 16 : 32}};
    for (var i = lane; i < chunks; i += {{SPLIT}}) {
{{#if QUANT == 8}}
        let k = i * 16;
        let block = i / 2;
{{#else}}
        let k = i * 32;
        let block = i;
{{/if}}
{{#for R=0..NR}}
        let q{{R}} = {{#if QUANT == 8}}b1[(w_row{{R}} + block) * 2 + i % 2]{{#else}}b1[w_row{{R}} + block]{{/if}};
        let d{{R}} = w_scale(w_row{{R}} + block);
{{#if QUANT == 5}}
        let o{{R}} = w_minimum(w_row{{R}} + block);
{{/if}}
{{/for}}
{{#for M=0..MR}}
        {
{{#for Q=0..QUANT == 8 ? 4 : 8}}
            let v{{Q}} = x4(a_row{{M}}, k + {{=4 * Q}});
{{/for}}
{{#if QUANT == 5}}
            let sum4 = ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7));
            let sum = (sum4.x + sum4.y) + (sum4.z + sum4.w);
{{/if}}
{{#for R=0..NR}}
            {
{{#if QUANT == 8}}
                var v = v0 * quad8(q{{R}}.x);
                v = fma(v1, quad8(q{{R}}.y), v);
                v = fma(v2, quad8(q{{R}}.z), v);
                v = fma(v3, quad8(q{{R}}.w), v);
{{#else}}
                var v = v0 * quad_low(q{{R}}.x);
                v = fma(v1, quad_low(q{{R}}.y), v);
                v = fma(v2, quad_low(q{{R}}.z), v);
                v = fma(v3, quad_low(q{{R}}.w), v);
                v = fma(v4, quad_high(q{{R}}.x), v);
                v = fma(v5, quad_high(q{{R}}.y), v);
                v = fma(v6, quad_high(q{{R}}.z), v);
                v = fma(v7, quad_high(q{{R}}.w), v);
{{/if}}
                s{{M}}_{{R}} = fma(d{{R}}, (v.x + v.y) + (v.z + v.w), s{{M}}_{{R}});
{{#if QUANT == 5}}
                s{{M}}_{{R}} = fma(o{{R}}, sum, s{{M}}_{{R}});
{{/if}}
            }
{{/for}}
        }
{{/for}}
    }
{{#if SUBGROUP}}
{{#for M=0..MR}}
{{#for R=0..NR}}
    {
        let total = subgroupAdd(s{{M}}_{{R}});
        if (lane == 0 && {{M}} < m_end && col + {{R}} < n_end) {
            epilogue(total, 0, {{M}}, col + {{R}});
        }
    }
{{/for}}
{{/for}}
{{#else}}
{{#for M=0..MR}}
{{#for R=0..NR}}
    part[{{=(M * NR + R) * WG}} + t] = s{{M}}_{{R}};
{{/for}}
{{/for}}
    for (var s = {{=SPLIT / 2}}; s > 0; s = s / 2) {
        workgroupBarrier();
        if (lane < s) {
            for (var v = 0; v < {{=MR * NR}}; v++) {
                part[v * {{WG}} + t] += part[v * {{WG}} + t + s];
            }
        }
    }
    workgroupBarrier();
    for (var o = t; o < {{=MR * NR * GROUPS}}; o += {{WG}}) {
        let row = o / {{=NR * GROUPS}};
        let c = o % {{=NR * GROUPS}};
        if (row < m_end && n0 + c < n_end) {
            epilogue(part[(row * {{NR}} + c % {{NR}}) * {{WG}} + (c / {{NR}}) * {{SPLIT}}], 0, row, n0 + c);
        }
    }
{{/if}}
}
