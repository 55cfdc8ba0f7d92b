// The stable order of short lines of a tensor, as indices: every element counts those that come before it. One invocation an
// element, no memory but the result; n comparisons each, so for lines of a few hundred elements.
//
// line_at, digits_at and order_put come from the row; the order ends in place 31 (sort_radix). Static words: kernel_table.h. Reference: tests/test_indexing.c.
@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let e = i32((wg.x + wg.y * nw.x) * {{WG}}u + lid);
    let n = p(1u);
    if (e >= p(0u) * n) {
        return;
    }
    let line = e / n;
    let i = e % n;
    let from_x = line_at(line, p(2u), 13u);
    let mine = digits_at(from_x, i);
    var place = 0;
    for (var j = 0; j < n; j++) {
        let other = digits_at(from_x, j);
        place += select(0, 1, other < mine || (other == mine && j < i));
    }
    order_put(Block(line, from_x, line_at(line, 0, 20u), 0, 0, n, n), p(31u), place, i);
}
