// Matrix product in register tiles: a work group makes TILE_M x TILE_N outputs, an invocation REG_M x REG_N
// of them, walking k in steps of TILE_K through workgroup memory, with the next step's loads in flight.
//
// Bindings: b0 a (f32, f16, bf16), b1 the right matrix (plain, or Q8_0, Q4_0, Q4_1 in planar layout, each
// block dequantised as it enters workgroup memory), then the epilogue's. Static words: kernel_table.h.
// A_MODE and B_MODE say how a matrix is read: 0 element by element, any strides; 1 four elements along k;
// 2 four elements along m or n; B_MODE 3 blocks. EXACT: extents are multiples of the tile, so nothing
// is checked; else each load is checked against the extents and gives zero outside.
// Workgroup memory: 4 * TILE_K * (TILE_M + TILE_N) bytes. Rows of tile sizes: kernels.def.
// Reference: a f64 triple loop (tests/test_kernel_table.c).
var<workgroup> sa: array<f32, {{=TILE_K * TILE_M}}>;
{{#if B_MODE == 2}}
var<workgroup> sb: array<vec4<f32>, {{=TILE_K * TILE_N / 4}}>;
{{#else}}
var<workgroup> sb: array<f32, {{=TILE_K * TILE_N}}>;
{{/if}}

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let m_end = p(0u);
    let n_end = p(1u);
    let k_end = p(2u);
    let tiles_m = (m_end + {{=TILE_M - 1}}) / {{TILE_M}};
    let tiles_n = (n_end + {{=TILE_N - 1}}) / {{TILE_N}};
    let tile = i32(wg.x + wg.y * nw.x);
{{#if QUANT}}
    let batch = 0;
    let in_batch = tile;
    if (tile >= tiles_m * tiles_n) {
        return;
    }
    let a_base = p(4u);
    let a_rs = p(5u);
    let a_cs = p(6u);
    let first_block = p(3u);
    let row_blocks = p(10u);
{{#else}}
    if (tile >= tiles_m * tiles_n * p(3u)) {
        return;
    }
    let batch = tile / (tiles_m * tiles_n);
    let in_batch = tile - batch * (tiles_m * tiles_n);
    let t2 = batch % p(6u);
    let t1 = (batch / p(6u)) % p(5u);
    let t0 = batch / p(6u) / p(5u);
    let a_base = p(7u) + t0 * p(10u) + t1 * p(11u) + t2 * p(12u);
    let a_rs = p(8u);
    let a_cs = p(9u);
    let b_base = p(13u) + t0 * p(16u) + t1 * p(17u) + t2 * p(18u);
    let b_rs = p(14u);
    let b_cs = p(15u);
{{/if}}
    let row0 = (in_batch / tiles_n) * {{TILE_M}};
    let col0 = (in_batch % tiles_n) * {{TILE_N}};
    let tx = t % {{TX}};
    let ty = t / {{TX}};
{{#for I=0..REG_M}}
{{#for J=0..REG_N / 4}}
    var c{{I}}_{{J}} = vec4<f32>();
{{/for}}
{{/for}}
{{#for I=0..LOADS_A}}
{{#if A_MODE == 0}}
    var pa{{I}} = 0.0;
{{#else}}
    var pa{{I}} = vec4<f32>();
{{/if}}
{{/for}}
{{#for I=0..LOADS_B}}
{{#if B_MODE == 0}}
    var pb{{I}} = 0.0;
{{#else}}
    var pb{{I}} = vec4<f32>();
{{/if}}
{{#if B_MODE == 3 && QUANT != 8}}
    var ph{{I}} = vec4<f32>();
{{/if}}
{{/for}}
    // One step before the first only loads; the last only multiplies.
    for (var k = -{{TILE_K}}; k < k_end; k += {{TILE_K}}) {
        if (k >= 0) {
{{#for I=0..LOADS_A}}
            {
                let e = t + {{=I * WG}};
{{#if A_MODE == 1}}
                let s = (e % {{=TILE_K / 4}}) * {{=4 * TILE_M}} + e / {{=TILE_K / 4}};
{{#for Q=0..4}}
                sa[s + {{=Q * TILE_M}}] = pa{{I}}[{{Q}}];
{{/for}}
{{/if}}
{{#if A_MODE == 2}}
{{#for Q=0..4}}
                sa[e * 4 + {{Q}}] = pa{{I}}[{{Q}}];
{{/for}}
{{/if}}
{{#if A_MODE == 0 && A_KFAST}}
                sa[(e % {{TILE_K}}) * {{TILE_M}} + e / {{TILE_K}}] = pa{{I}};
{{/if}}
{{#if A_MODE == 0 && !A_KFAST}}
                sa[e] = pa{{I}};
{{/if}}
            }
{{/for}}
{{#for I=0..LOADS_B}}
            {
                let e = t + {{=I * WG}};
{{#if B_MODE == 1 || (B_MODE == 3 && QUANT == 8)}}
                let s = (e % {{=TILE_K / 4}}) * {{=4 * TILE_N}} + e / {{=TILE_K / 4}};
{{#for Q=0..4}}
                sb[s + {{=Q * TILE_N}}] = pb{{I}}[{{Q}}];
{{/for}}
{{/if}}
{{#if B_MODE == 2}}
                sb[e] = pb{{I}};
{{/if}}
{{#if B_MODE == 0 && B_KFAST}}
                sb[(e % {{TILE_K}}) * {{TILE_N}} + e / {{TILE_K}}] = pb{{I}};
{{/if}}
{{#if B_MODE == 0 && !B_KFAST}}
                sb[e] = pb{{I}};
{{/if}}
{{#if B_MODE == 3 && QUANT != 8}}
                if (e < {{=TILE_N * 4}}) {
                    let s = (e % 4) * {{=4 * TILE_N}} + e / 4;
{{#for Q=0..4}}
                    sb[s + {{=Q * TILE_N}}] = pb{{I}}[{{Q}}];
                    sb[s + {{=(16 + Q) * TILE_N}}] = ph{{I}}[{{Q}}];
{{/for}}
                }
{{/if}}
            }
{{/for}}
        }
        workgroupBarrier();
        let kn = k + {{TILE_K}};
        if (kn < k_end) {
{{#for I=0..LOADS_A}}
            {
                let e = t + {{=I * WG}};
{{#if A_MODE == 1}}
                let row = row0 + e / {{=TILE_K / 4}};
                let kk = kn + (e % {{=TILE_K / 4}}) * 4;
{{/if}}
{{#if A_MODE == 2}}
                let row = row0 + (e % {{=TILE_M / 4}}) * 4;
                let kk = kn + e / {{=TILE_M / 4}};
{{/if}}
{{#if A_MODE == 0 && A_KFAST}}
                let row = row0 + e / {{TILE_K}};
                let kk = kn + e % {{TILE_K}};
{{/if}}
{{#if A_MODE == 0 && !A_KFAST}}
                let row = row0 + e % {{TILE_M}};
                let kk = kn + e / {{TILE_M}};
{{/if}}
{{#if !EXACT}}
{{#if A_MODE == 0}}
                pa{{I}} = 0.0;
{{#else}}
                pa{{I}} = vec4<f32>();
{{/if}}
                if (row < m_end && kk < k_end)
{{/if}}
                {
{{#if A_MODE == 0}}
                    pa{{I}} = a1(a_base + row * a_rs + kk * a_cs);
{{/if}}
{{#if A_MODE == 1}}
                    pa{{I}} = a4(a_base + row * a_rs + kk);
{{/if}}
{{#if A_MODE == 2}}
                    pa{{I}} = a4(a_base + row + kk * a_cs);
{{/if}}
                }
            }
{{/for}}
{{#for I=0..LOADS_B}}
            {
                let e = t + {{=I * WG}};
{{#if B_MODE == 1}}
                let col = col0 + e / {{=TILE_K / 4}};
                let kk = kn + (e % {{=TILE_K / 4}}) * 4;
{{/if}}
{{#if B_MODE == 2}}
                let col = col0 + (e % {{=TILE_N / 4}}) * 4;
                let kk = kn + e / {{=TILE_N / 4}};
{{/if}}
{{#if B_MODE == 0 && B_KFAST}}
                let col = col0 + e / {{TILE_K}};
                let kk = kn + e % {{TILE_K}};
{{/if}}
{{#if B_MODE == 0 && !B_KFAST}}
                let col = col0 + e % {{TILE_N}};
                let kk = kn + e / {{TILE_N}};
{{/if}}
{{#if B_MODE == 3}}
                // TILE_K is one block: word j of the block of column col.
                let col = col0 + e / {{=QUANT == 8 ? 8 : 4}};
                let j = e % {{=QUANT == 8 ? 8 : 4}};
                let block = first_block + col * row_blocks + kn / 32;
                pb{{I}} = vec4<f32>();
{{#if QUANT != 8}}
                ph{{I}} = vec4<f32>();
                if (e < {{=TILE_N * 4}} && col < n_end) {
                    let q = w_quad(block, j);
                    pb{{I}} = q[0];
                    ph{{I}} = q[1];
                }
{{#else}}
                if (col < n_end) {
                    pb{{I}} = w_quad(block, j);
                }
{{/if}}
{{#else}}
{{#if !EXACT}}
{{#if B_MODE == 0}}
                pb{{I}} = 0.0;
{{#else}}
                pb{{I}} = vec4<f32>();
{{/if}}
                if (col < n_end && kk < k_end)
{{/if}}
                {
{{#if B_MODE == 0}}
                    pb{{I}} = w1(b_base + kk * b_rs + col * b_cs);
{{/if}}
{{#if B_MODE == 1}}
                    pb{{I}} = w4(b_base + kk + col * b_cs);
{{/if}}
{{#if B_MODE == 2}}
                    pb{{I}} = w4(b_base + kk * b_rs + col);
{{/if}}
                }
{{/if}}
            }
{{/for}}
        }
        if (k >= 0) {
            for (var kk = 0; kk < {{TILE_K}}; kk++) {
                let ra = kk * {{TILE_M}} + ty * 4;
{{#for I=0..REG_M}}
                let a_{{I}} = vec4<f32>(sa[ra + {{=I / 4 * (TILE_M / (REG_M / 4)) + I % 4}}]);
{{/for}}
{{#if B_MODE == 2}}
                let rb = kk * {{=TILE_N / 4}} + tx;
{{#else}}
                let rb = kk * {{TILE_N}} + tx * 4;
{{/if}}
{{#for J=0..REG_N / 4}}
{{#if B_MODE == 2}}
                let b_{{J}} = sb[rb + {{=J * TX}}];
{{#else}}
                let b_{{J}} = vec4<f32>(sb[rb + {{=4 * J * TX}}], sb[rb + {{=4 * J * TX + 1}}], sb[rb + {{=4 * J * TX + 2}}], sb[rb + {{=4 * J * TX + 3}}]);
{{/if}}
{{#for I=0..REG_M}}
                c{{I}}_{{J}} = fma(a_{{I}}, b_{{J}}, c{{I}}_{{J}});
{{/for}}
{{/for}}
            }
        }
        workgroupBarrier();
    }
    // A loop over an array, so that the epilogue's text stands once and not REG_M * REG_N times.
    var c: array<vec4<f32>, {{=REG_M * REG_N / 4}}>;
{{#for I=0..REG_M}}
{{#for J=0..REG_N / 4}}
    c[{{=I * (REG_N / 4) + J}}] = c{{I}}_{{J}};
{{/for}}
{{/for}}
    for (var i = 0; i < {{REG_M}}; i++) {
        let row = row0 + ty * 4 + (i / 4) * {{=TILE_M / (REG_M / 4)}} + i % 4;
        for (var j = 0; j < {{REG_N}}; j++) {
            let col = col0 + (tx + (j / 4) * {{TX}}) * 4 + j % 4;
            if (row < m_end && col < n_end) {
                let v = c[i * {{=REG_N / 4}} + j / 4];
                epilogue(v[j % 4], {{EPI_BATCH}}, {{EPI_ROW}}, col);
            }
        }
    }
}
