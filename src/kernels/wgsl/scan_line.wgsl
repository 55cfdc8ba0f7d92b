// Running fold along the lines of a tensor: one work group a line, a run of the line for each invocation. The runs are
// folded apart, every invocation then folds what lies before its own run, and walks the run again, storing.
//
// value_at, fold and TYPE come from the row: sums and products in f32 or i32, log-sum-exp in f32, extremes as (key, index).
// Bindings: b0 x, b1 out. Static words 0..26: kernel_table.h; 27 the bits of -infinity. Reference: tests/test_reduction.c.
@group(0) @binding(1) var<storage, read_write> b1: array<{{OUT}}>;
var<workgroup> part: array<{{TYPE}}, {{WG}}>;

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let line = i32(wg.x + wg.y * nw.x);
    if (line >= p(0u)) {
        return;
    }
    let from_x = line_at(line, p(2u), 13u);
    let from_out = line_at(line, 0, 20u);
    let n = p(1u);
    let run = (n + {{=WG - 1}}) / {{WG}};
    let first = min(t * run, n);
    let end = min(first + run, n);
    if (first < end) {
        var acc = value_at(from_x + first * p(3u), first);
        for (var i = first + 1; i < end; i++) {
            acc = fold(acc, value_at(from_x + i * p(3u), i));
        }
        part[t] = acc;
    }
    workgroupBarrier();
    if (first < end) {
        var acc = value_at(from_x + first * p(3u), first);
        if (t > 0) {
            var before = part[0];
            for (var s = 1; s < t; s++) {
                before = fold(before, part[s]);
            }
            acc = fold(before, acc);
        }
        b1[from_out + first * p(4u)] = {{RESULT}};
        for (var i = first + 1; i < end; i++) {
            acc = fold(acc, value_at(from_x + i * p(3u), i));
            b1[from_out + i * p(4u)] = {{RESULT}};
        }
    }
}
