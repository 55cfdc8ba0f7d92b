// Attention in tiles: a work group takes BQ query rows of one head and walks the keys 32 at a time with
// an online softmax (Dao et al. 2022, algorithm 1). Components go through workgroup memory 32 at a time,
// so its size does not depend on D; the result stays in registers, E / 32 * 16 floats an invocation.
//
// Invocation (ry, cx) has query rows 4 ry .. 4 ry + 3 and, of the scores, keys 4 cx .. 4 cx + 3; of the
// result, components 4 cx .. 4 cx + 3 of each 32. q and k are stored transposed, four rows a vector.
// Workgroup memory: 16 * (32 * BQ / 2 + 256 + 2 * BQ) bytes. Rows past Tq are computed and not stored;
// keys from kv_len on are not read. A row without keys gives zeros. Bindings and words as sdpa_row.
// Reference: f64 loops (tests/test_kernel_table.c).
var<workgroup> sq: array<vec4<f32>, {{=8 * BQ}}>;
var<workgroup> skv: array<vec4<f32>, 256>;
var<workgroup> sp: array<vec4<f32>, {{=8 * BQ}}>;
var<workgroup> red: array<vec4<f32>, {{=2 * BQ}}>;

fn score4(s: vec4<f32>, keys: Keys, j: i32) -> vec4<f32> {
    return vec4<f32>(score(s.x, keys, j), score(s.y, keys, j + 1), score(s.z, keys, j + 2), score(s.w, keys, j + 3));
}

fn weight4(s: vec4<f32>, m: f32) -> vec4<f32> {
    return vec4<f32>(weight(s.x, m), weight(s.y, m), weight(s.z, m), weight(s.w, m));
}

fn max4(s: vec4<f32>) -> f32 {
    return max(max(s.x, s.y), max(s.z, s.w));
}

fn sum4(s: vec4<f32>) -> f32 {
    return (s.x + s.y) + (s.z + s.w);
}

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let cx = t % 8;
    let ry = t / 8;
    let hq = p(1u);
    let tq = p(3u);
    let tiles = (tq + {{=BQ - 1}}) / {{BQ}};
    let tile = i32(wg.x + wg.y * nw.x);
    if (tile >= tiles * hq * p(0u)) {
        return;
    }
    let i0 = (tile % tiles) * {{BQ}};
    let head = (tile / tiles) % hq;
    let batch = tile / tiles / hq;
    let kv_head = head / (hq / p(2u));
    let length = kv_len();
    let begin = keys_of(batch, head, i0, length).first;
    let end = keys_of(batch, head, min(i0 + {{BQ}}, tq) - 1, length).last + 1;
    let q_base = p(8u) + batch * p(9u) + head * p(10u);
    let k_base = p(13u) + batch * p(14u) + kv_head * p(15u);
    let v_base = p(18u) + batch * p(19u) + kv_head * p(20u);
    let row = i0 + 4 * ry;
    var m = vec4<f32>(begin_max(head));
    var l = vec4<f32>(select(0.0, begin_sum(head, m.x), cx == 0));
{{#for C=0..NC}}
{{#for R=0..4}}
    var o{{C}}_{{R}} = vec4<f32>();
{{/for}}
{{/for}}
    for (var j0 = begin; j0 < end; j0 += 32) {
{{#for R=0..4}}
        var s{{R}} = vec4<f32>();
{{/for}}
        for (var c = 0; c < p(5u); c += 32) {
            {
                let d = c + 4 * cx;
{{#for R=0..4}}
                var q{{R}} = vec4<f32>();
                if (row + {{R}} < tq) {
                    q{{R}} = q_at(q_base + (row + {{R}}) * p(11u), d);
                }
{{/for}}
{{#for X=0..4}}
                sq[(4 * cx + {{X}}) * {{=BQ / 4}} + ry] = vec4<f32>(q0[{{X}}], q1[{{X}}], q2[{{X}}], q3[{{X}}]);
{{/for}}
            }
            if (t < 64) {
                let d = c + 4 * cx;
                let j = j0 + 4 * ry;
{{#for R=0..4}}
                var k{{R}} = vec4<f32>();
                if (j + {{R}} < length) {
                    k{{R}} = k_at(k_base + (j + {{R}}) * p(16u), d);
                }
{{/for}}
{{#for X=0..4}}
                skv[(4 * cx + {{X}}) * 8 + ry] = vec4<f32>(k0[{{X}}], k1[{{X}}], k2[{{X}}], k3[{{X}}]);
{{/for}}
            }
            workgroupBarrier();
            for (var d = 0; d < 32; d++) {
                let a = sq[d * {{=BQ / 4}} + ry];
                let b = skv[d * 8 + cx];
{{#for R=0..4}}
                s{{R}} = fma(vec4<f32>(a[{{R}}]), b, s{{R}});
{{/for}}
            }
            workgroupBarrier();
        }
        let j = j0 + 4 * cx;
{{#for R=0..4}}
        s{{R}} = score4(s{{R}}, keys_of(batch, head, min(row + {{R}}, tq - 1), length), j);
{{/for}}
        red[cx * {{=BQ / 4}} + ry] = vec4<f32>(max4(s0), max4(s1), max4(s2), max4(s3));
        workgroupBarrier();
        var m_new = m;
        for (var g = 0; g < 8; g++) {
            m_new = max(m_new, red[g * {{=BQ / 4}} + ry]);
        }
        let alpha = exp(m - m_new);
        m = m_new;
{{#for R=0..4}}
        s{{R}} = weight4(s{{R}}, m[{{R}}]);
{{/for}}
        l = fma(l, alpha, vec4<f32>(sum4(s0), sum4(s1), sum4(s2), sum4(s3)));
{{#for X=0..4}}
        sp[(4 * cx + {{X}}) * {{=BQ / 4}} + ry] = vec4<f32>(s0[{{X}}], s1[{{X}}], s2[{{X}}], s3[{{X}}]);
{{/for}}
{{#for C=0..NC}}
        for (var e = t; e < 256; e += {{WG}}) {
            var v = vec4<f32>();
            if (j0 + e / 8 < length) {
                v = v_at(v_base + (j0 + e / 8) * p(21u), {{=32 * C}} + 4 * (e % 8));
            }
            skv[e] = v;
        }
        workgroupBarrier();
{{#for R=0..4}}
        o{{C}}_{{R}} = o{{C}}_{{R}} * alpha[{{R}}];
{{/for}}
        for (var e = 0; e < 32; e++) {
            let a = sp[e * {{=BQ / 4}} + ry];
            let b = skv[e * 8 + cx];
{{#for R=0..4}}
            o{{C}}_{{R}} = fma(vec4<f32>(a[{{R}}]), b, o{{C}}_{{R}});
{{/for}}
        }
        workgroupBarrier();
{{/for}}
    }

    red[cx * {{=BQ / 4}} + ry] = l;
    workgroupBarrier();
    var total = vec4<f32>();
    for (var g = 0; g < 8; g++) {
        total += red[g * {{=BQ / 4}} + ry];
    }
{{#for R=0..4}}
    if (row + {{R}} < tq) {
        let out = ((batch * tq + row + {{R}}) * hq + head) * p(34u);
{{#for C=0..NC}}
        for (var x = 0; x < 4; x++) {
            let d = {{=32 * C}} + 4 * cx + x;
            if (d < p(34u)) {
                store_out(out + d, select(o{{C}}_{{R}}[x] / total[{{R}}], 0.0, total[{{R}}] == 0.0));
            }
        }
{{/for}}
    }
{{/for}}
}
