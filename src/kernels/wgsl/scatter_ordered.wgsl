// x with elements of src set or combined at indices along an axis. Each element of the result finds its own indices, which
// lie side by side in the order that sort_radix made of the index's lines, and takes their elements of src in that order:
// by index in the line, so the bits depend on nothing else and the last of several set elements stays.
//
// One invocation a 32-bit word of the result (PER_WORD elements of BITS bits), STEP elements of src a round. x_at, src_at, bits_of and meet come from the row.
// Bindings: b0 x, b1 index i32, b2 src, b3 out, b4 the order. Static words: kernel_table.h. Reference: tests/test_indexing.c.

// The element of the index that stands at place i of its line's order.
fn index_at(base: i32, order: i32, i: i32) -> i32 {
    return i32(b1[base + b4[order + i] * p(29u + u32(p(1u)))]);
}

fn element(e: i32) -> u32 {
    let axis = u32(p(1u));
    var rest = e;
    var x = p(45u);
    var base = p(46u);
    var src = p(47u);
    var order = 0;
    var mine = 0;
    var inside = true;
    for (var d = 7u; d < 8u; d--) {
        let c = rest % p(5u + d);
        rest = rest / p(5u + d);
        x += c * p(21u + d);
        if (d == axis) {
            mine = c;
        } else {
            base += c * p(29u + d);
            src += c * p(37u + d);
            order += c * p(50u + d);
            inside = inside && c < p(13u + d);
        }
    }
    var acc = x_at(x);
    if (!inside) {
        return bits_of(acc);
    }
    // The first place that is not before the element's own indices, or with SET not before or among them.
    var low = 0;
    var high = p(49u);
    let m = high;
    while (low < high) {
        let mid = (low + high) / 2;
        if (index_at(base, order, mid) < mine + {{SET}}) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
{{#if SET}}
    if (low > 0 && index_at(base, order, max(low, 1) - 1) == mine) {
        acc = src_at(src + b4[order + low - 1] * p(37u + axis));
    }
{{#else}}
    var more = true;
    for (var i = low; more && i < m; i += {{STEP}}) {
{{#for K=0..STEP}}
        more = more && i + {{K}} < m && index_at(base, order, min(i + {{K}}, m - 1)) == mine;
        if (more) {
            acc = meet(acc, src_at(src + b4[order + i + {{K}}] * p(37u + axis)));
        }
{{/for}}
    }
{{/if}}
    return bits_of(acc);
}

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let w = i32((wg.x + wg.y * nw.x) * {{WG}}u + lid);
    let n = p(0u);
    let first = w * {{PER_WORD}};
    if (first >= n) {
        return;
    }
    var word = 0u;
    for (var k = 0; k < {{PER_WORD}}; k++) {
        if (first + k < n) {
            word |= element(first + k) << (u32(k) * {{BITS}}u);
        }
    }
    b3[w] = word;
}
