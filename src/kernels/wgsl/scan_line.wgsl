// Running fold along the lines of a tensor. A work group has one block of a line, an invocation a run of the block: the runs
// are folded apart, every invocation then folds what lies before its own run, and walks the run again, storing.
//
// FOLD 0, CARRY 0: a line is one block. Long lines take three dispatches: FOLD 1 stores what each block folds to, the plain
// form runs over those in place, and CARRY 1 begins each block with what lies before it.
// Block, block_of, value_at, fold, store_at, carry and TYPE come from the row: sums of floats as (sum, error), of integers and
// products in i32 or f32, log-sum-exp in f32, extremes as (key, index). Static words 0..26: kernel_table.h; 27 the bits of -infinity. Reference: tests/test_reduction.c.
var<workgroup> part: array<{{TYPE}}, {{WG}}>;

@compute @workgroup_size({{WG}})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {
    let t = i32(lid);
    let b = block_of(i32(wg.x + wg.y * nw.x));
    if (b.line >= p(0u)) {
        return;
    }
    let first = min(b.begin + t * b.run, b.end);
    let end = min(first + b.run, b.end);
    if (first < end) {
        var acc = value_at(b.x + first * p(3u), first);
        for (var i = first + 1; i < end; i++) {
            acc = fold(acc, value_at(b.x + i * p(3u), i));
        }
        part[t] = acc;
    }
    workgroupBarrier();
{{#if FOLD}}
    if (t == 0) {
        var all = part[0];
        for (var s = 1; b.begin + s * b.run < b.end; s++) {
            all = fold(all, part[s]);
        }
        carry[b.line * p(28u) + b.index] = all;
    }
{{#else}}
    if (first < end) {
        var acc = value_at(b.x + first * p(3u), first);
        if (t > 0) {
            var before = part[0];
            for (var s = 1; s < t; s++) {
                before = fold(before, part[s]);
            }
            acc = fold(before, acc);
        }
{{#if CARRY}}
        if (b.index > 0) {
            acc = fold(carry[b.line * p(28u) + b.index - 1], acc);
        }
{{/if}}
        store_at(b.out + first * p(4u), acc);
        for (var i = first + 1; i < end; i++) {
            acc = fold(acc, value_at(b.x + i * p(3u), i));
            store_at(b.out + i * p(4u), acc);
        }
    }
{{/if}}
}
