// Indices of the k largest of a row, descending, equal values by lower index, NaN first: k times the best
// element after the one before. One work group a row, any n and k; the row behind topk_select.
// key_at gives values as u32 in their order, NaN highest. Bindings: b0 x, b1 out i32 [rows, k].
// Static words 0..11: kernel_table.h. Reference: a sort (tests/test_kernel_table.c).
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
var<workgroup> best_key: array<u32, {{WG}}>;
var<workgroup> best_index: array<i32, {{WG}}>;

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let row = i32(wg.x + wg.y * nw.x);
    if (row >= p(0u)) {
        return;
    }
    let base = row_base(row);
    let n = p(1u);
    let k = p(2u);
    var last_key = 0xffffffffu;
    var last_index = -1;
    for (var o = 0; o < k; o++) {
        var key = 0u;
        var index = 0x7fffffff;
        for (var i = t; i < n; i += {{WG}}) {
            let x = key_at(base + i * p(10u));
            let after = x < last_key || (x == last_key && i > last_index);
            if (after && (x > key || (x == key && i < index))) {
                key = x;
                index = i;
            }
        }
        best_key[t] = key;
        best_index[t] = index;
        for (var s = {{=WG / 2}}; s > 0; s = s / 2) {
            workgroupBarrier();
            if (t < s) {
                let x = best_key[t + s];
                let i = best_index[t + s];
                if (x > best_key[t] || (x == best_key[t] && i < best_index[t])) {
                    best_key[t] = x;
                    best_index[t] = i;
                }
            }
        }
        workgroupBarrier();
        last_key = best_key[0];
        last_index = best_index[0];
        if (t == 0) {
            b1[row * k + o] = last_index;
        }
        workgroupBarrier();
    }
}
