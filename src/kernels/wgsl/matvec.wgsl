// A few rows of x (MR of them, the last ones perhaps unused) times a matrix whose rows are contiguous in k:
// c[m, n] = sum over k of a[m, k] * w[n, k]. Reads w once; a stays in cache.
//
// A work group makes GROUPS * NR columns n. SPLIT invocations share a column's k, GRAIN elements at a
// time; their partial sums meet in workgroup memory in a fixed tree, or (SUBGROUP) in a subgroup sum.
// GRAIN 8 loads 16 or 32 bytes at once and needs k and all offsets and strides to be multiples of 8.
// Rows and columns past the end are read as the last one and not stored. Bindings: b0 a, b1 w, then the
// epilogue's. Static words: kernel_table.h. Reference: a f64 triple loop (tests/test_kernel_table.c).
{{#if !SUBGROUP}}
var<workgroup> part: array<f32, {{=MR * NR * WG}}>;
{{/if}}

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let m_end = p(0u);
    let n_end = p(1u);
    let tiles_n = (n_end + {{=GROUPS * NR - 1}}) / {{=GROUPS * NR}};
    let tile = i32(wg.x + wg.y * nw.x);
    if (tile >= tiles_n * p(3u)) {
        return;
    }
    let batch = tile / tiles_n;
    let n0 = (tile % tiles_n) * {{=GROUPS * NR}};
    let t2 = batch % p(6u);
    let t1 = (batch / p(6u)) % p(5u);
    let t0 = batch / p(6u) / p(5u);
    let a_base = p(7u) + t0 * p(10u) + t1 * p(11u) + t2 * p(12u);
    let b_base = p(13u) + t0 * p(16u) + t1 * p(17u) + t2 * p(18u);
    let lane = t % {{SPLIT}};
    let col = n0 + (t / {{SPLIT}}) * {{NR}};
{{#for R=0..NR}}
    let w_row{{R}} = b_base + min(col + {{R}}, n_end - 1) * p(15u);
{{/for}}
{{#for M=0..MR}}
    let a_row{{M}} = a_base + min({{M}}, m_end - 1) * p(8u);
{{#for R=0..NR}}
    var s{{M}}_{{R}} = {{#if GRAIN == 8}}vec4<f32>(){{#else}}0.0{{/if}};
{{/for}}
{{/for}}
    let k_end = p(2u);
    for (var k = lane * {{GRAIN}}; k < k_end; k += {{=SPLIT * GRAIN}}) {
{{#for R=0..NR}}
        let w{{R}} = {{#if GRAIN == 8}}w8{{#else}}w1{{/if}}(w_row{{R}} + k);
{{/for}}
{{#for M=0..MR}}
        {
            let a = {{#if GRAIN == 8}}a8{{#else}}a1{{/if}}(a_row{{M}} + k);
{{#for R=0..NR}}
{{#if GRAIN == 8}}
            s{{M}}_{{R}} = fma(a[1], w{{R}}[1], fma(a[0], w{{R}}[0], s{{M}}_{{R}}));
{{#else}}
            s{{M}}_{{R}} = fma(a, w{{R}}, s{{M}}_{{R}});
{{/if}}
{{/for}}
        }
{{/for}}
    }
{{#for M=0..MR}}
{{#for R=0..NR}}
    {
        let v = {{#if GRAIN == 8}}(s{{M}}_{{R}}.x + s{{M}}_{{R}}.y) + (s{{M}}_{{R}}.z + s{{M}}_{{R}}.w){{#else}}s{{M}}_{{R}}{{/if}};
{{#if SUBGROUP}}
        let total = subgroupAdd(v);
        if (lane == 0 && {{M}} < m_end && col + {{R}} < n_end) {
            let row = {{M}};
            epilogue(total, {{EPI_BATCH}}, {{EPI_ROW}}, col + {{R}});
        }
{{#else}}
        part[{{=(M * NR + R) * WG}} + t] = v;
{{/if}}
    }
{{/for}}
{{/for}}
{{#if !SUBGROUP}}
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
            epilogue(part[(row * {{NR}} + c % {{NR}}) * {{WG}} + (c / {{NR}}) * {{SPLIT}}], {{EPI_BATCH}}, {{EPI_ROW}}, n0 + c);
        }
    }
{{/if}}
}
