// The stable order of the lines of a tensor, as indices: one work group a line, least digit of 4 bits first. An invocation
// owns a run of the line: it counts the digits of its run, learns where its elements of each digit go, and moves them in
// order, so the result does not depend on scheduling. The order is moved to and fro between two places, PASSES (even) times.
//
// digits_at and the places (get_first, put_first, get_second, put_second) come from the row. Workgroup memory: 64 * WG bytes
// and one word an invocation. Bindings and words: rows_lines.c, kernel_table.h. Reference: tests/test_indexing.c.
var<workgroup> bins: array<u32, {{=16 * WG}}>;  // [digit][invocation]
var<workgroup> sums: array<u32, {{WG}}>;

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let line = i32(wg.x + wg.y * nw.x);
    if (line >= p(0u)) {
        return;
    }
    let from_x = line_at(line, p(2u), 13u);
    let to = line_at(line, 0, 20u);
    let n = p(1u);
    let run = (n + {{=WG - 1}}) / {{WG}};
    let first = min(t * run, n);
    let end = min(first + run, n);
    for (var pass_no = 0; pass_no < {{PASSES}}; pass_no++) {
        let shift = min({{FIRST_BIT}}u + u32(pass_no) * 4u, 31u);
        let beyond = pass_no >= {{DIGITS}};
        let to_first = (pass_no & 1) != 0;
        for (var d = 0; d < 16; d++) {
            bins[d * {{WG}} + t] = 0u;
        }
        for (var i = first; i < end; i++) {
            var e = i;
            if (pass_no > 0) {
                if (to_first) {
                    e = get_second(line, i);
                } else {
                    e = get_first(line, to, i);
                }
            }
            let d = select(i32((digits_at(from_x, e) >> shift) & 15u), 0, beyond);
            bins[d * {{WG}} + t] += 1u;
        }
        workgroupBarrier();
        // Exclusive sums over all counts, digit by digit: 16 a invocation, then what lies before them.
        var sum = 0u;
        for (var k = 0; k < 16; k++) {
            sum += bins[t * 16 + k];
        }
        sums[t] = sum;
        workgroupBarrier();
        var at = 0u;
        for (var s = 0; s < t; s++) {
            at += sums[s];
        }
        for (var k = 0; k < 16; k++) {
            let count = bins[t * 16 + k];
            bins[t * 16 + k] = at;
            at += count;
        }
        workgroupBarrier();
        for (var i = first; i < end; i++) {
            var e = i;
            if (pass_no > 0) {
                if (to_first) {
                    e = get_second(line, i);
                } else {
                    e = get_first(line, to, i);
                }
            }
            let d = select(i32((digits_at(from_x, e) >> shift) & 15u), 0, beyond);
            let place = i32(bins[d * {{WG}} + t]);
            bins[d * {{WG}} + t] += 1u;
            if (to_first) {
                put_first(line, to, place, e);
            } else {
                put_second(line, place, e);
            }
        }
        storageBarrier();
        workgroupBarrier();
    }
}
