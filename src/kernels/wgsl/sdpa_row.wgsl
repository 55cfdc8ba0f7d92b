// Attention a row at a time: a work group takes HEADS query heads that share one key head, at one query
// position, and walks the keys WG at a time with an online softmax (Dao et al. 2022, algorithm 1).
//
// One invocation scores one key; then the invocations lie DL a row of V (4 components each) and take
// every NG-th key. SPLIT 0 walks all keys and stores the result: the plain row. SPLIT 1 (one query position)
// takes CHUNK keys, work group x of them, and stores maximum, sum and unnormalised row to scratch
// [B, Hq, splits, E + 2]; sdpa_combine joins them. The number of work groups then follows kv_len.
// Excluded keys have weight 0 exactly; a row without keys gives zeros. Keys from kv_len on and outside the window are not
// read. Bindings: b0 q, b1 k, b2 v, then mask, kv_len, slopes and sinks where present, then the result. Static words:
// kernel_table.h. Reference: f64 loops (tests/test_kernel_table.c).
var<workgroup> sq: array<vec4<f32>, {{=HEADS * D4}}>;
var<workgroup> sp: array<f32, {{=HEADS * WG}}>;
var<workgroup> red: array<f32, {{=HEADS * WG}}>;
var<workgroup> sacc: array<vec4<f32>, {{WG}}>;

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let hq = p(1u);
    let share = hq / p(2u);
{{#if SPLIT}}
    let split = i32(wg.x);
    let row = i32(wg.y);
    let batch = row / p(2u);
    let head = (row % p(2u)) * share + i32(wg.z) * {{HEADS}};
    let i = 0;
{{#else}}
    let row = i32(wg.x + wg.y * nw.x);
    if (row >= p(0u) * hq * p(3u)) {
        return;
    }
    let head = row % hq;
    let i = (row / hq) % p(3u);
    let batch = row / hq / p(3u);
{{/if}}
    let length = kv_len();
{{#for G=0..HEADS}}
    let keys{{G}} = keys_of(batch, head + {{G}}, i, length);
{{/for}}
{{#if SPLIT}}
    let begin = max(split * {{CHUNK}}, keys0.first);
    let end = min(keys0.last + 1, split * {{CHUNK}} + {{CHUNK}});
    if (begin >= end) {
        return;
    }
{{#else}}
    let begin = keys0.first;
    let end = keys0.last + 1;
{{/if}}
    let q_base = p(8u) + batch * p(9u) + head * p(10u) + i * p(11u);
    let k_base = p(13u) + batch * p(14u) + (head / share) * p(15u);
    let v_base = p(18u) + batch * p(19u) + (head / share) * p(20u);
    for (var e = t; e < {{=HEADS * D4}}; e += {{WG}}) {
        sq[e] = q_at(q_base + (e / {{D4}}) * p(10u), (e % {{D4}}) * 4);
    }
    workgroupBarrier();

    let lane = t % {{DL}};
    let part = t / {{DL}};
{{#for G=0..HEADS}}
    var m{{G}} = begin_max(head + {{G}});
    var l{{G}} = select(0.0, begin_sum(head + {{G}}, m{{G}}), t == 0);
{{#for N=0..NV}}
    var o{{G}}_{{N}} = vec4<f32>();
{{/for}}
{{/for}}
    for (var j0 = begin; j0 < end; j0 += {{WG}}) {
        let j = j0 + t;
{{#for G=0..HEADS}}
        var s{{G}} = bitcast<f32>(p(31u));
{{/for}}
        if (j < end) {
            let k_row = k_base + j * p(16u);
{{#for G=0..HEADS}}
            var d{{G}} = vec4<f32>();
{{/for}}
            for (var e = 0; e * 4 < p(5u); e++) {
                let k = k_at(k_row, e * 4);
{{#for G=0..HEADS}}
                d{{G}} = fma(sq[{{=G * D4}} + e], k, d{{G}});
{{/for}}
            }
{{#for G=0..HEADS}}
            s{{G}} = score((d{{G}}.x + d{{G}}.y) + (d{{G}}.z + d{{G}}.w), keys{{G}}, j);
{{/for}}
        }
{{#for G=0..HEADS}}
        red[{{=G * WG}} + t] = s{{G}};
{{/for}}
        for (var s = {{=WG / 2}}; s > 0; s = s / 2) {
            workgroupBarrier();
            if (t < s) {
{{#for G=0..HEADS}}
                red[{{=G * WG}} + t] = max(red[{{=G * WG}} + t], red[{{=G * WG}} + t + s]);
{{/for}}
            }
        }
        workgroupBarrier();
{{#for G=0..HEADS}}
        {
            let m_new = max(m{{G}}, red[{{=G * WG}}]);
            let alpha = exp(m{{G}} - m_new);
            let w = weight(s{{G}}, m_new);
            sp[{{=G * WG}} + t] = w;
            l{{G}} = fma(l{{G}}, alpha, w);
            m{{G}} = m_new;
{{#for N=0..NV}}
            o{{G}}_{{N}} = o{{G}}_{{N}} * alpha;
{{/for}}
        }
{{/for}}
        workgroupBarrier();
        let count = min({{WG}}, end - j0);
        for (var e = part; e < count; e += {{=WG / DL}}) {
            let v_row = v_base + (j0 + e) * p(21u);
{{#for N=0..NV}}
            {
                let v = v_at(v_row, (lane + {{=N * DL}}) * 4);
{{#for G=0..HEADS}}
                o{{G}}_{{N}} = fma(vec4<f32>(sp[{{=G * WG}} + e]), v, o{{G}}_{{N}});
{{/for}}
            }
{{/for}}
        }
        workgroupBarrier();
    }

{{#for G=0..HEADS}}
    red[{{=G * WG}} + t] = l{{G}};
{{/for}}
    for (var s = {{=WG / 2}}; s > 0; s = s / 2) {
        workgroupBarrier();
        if (t < s) {
{{#for G=0..HEADS}}
            red[{{=G * WG}} + t] += red[{{=G * WG}} + t + s];
{{/for}}
        }
    }
    workgroupBarrier();
{{#for G=0..HEADS}}
    {
        let l = red[{{=G * WG}}];
{{#if SPLIT}}
        let out = ((batch * hq + head + {{G}}) * p(30u) + split) * (p(34u) + 2);
        if (t == 0) {
            store_out(out, m{{G}});
            store_out(out + 1, l);
        }
{{#else}}
        let out = ((batch * p(3u) + i) * hq + head) * p(34u);
{{/if}}
{{#for N=0..NV}}
        sacc[t] = o{{G}}_{{N}};
        workgroupBarrier();
        if (t < {{DL}}) {
            var v = sacc[t];
            for (var e = 1; e < {{=WG / DL}}; e++) {
                v += sacc[t + e * {{DL}}];
            }
            let d = (t + {{=N * DL}}) * 4;
            for (var c = 0; c < 4; c++) {
                if (d + c < p(34u)) {
{{#if SPLIT}}
                    store_out(out + 2 + d + c, v[c]);
{{#else}}
                    store_out(out + d + c, select(v[c] / l, 0.0, l == 0.0));
{{/if}}
                }
            }
        }
        workgroupBarrier();
{{/for}}
    }
{{/for}}
}
