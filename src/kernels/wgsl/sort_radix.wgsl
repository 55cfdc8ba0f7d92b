// The stable order of the lines of a tensor, as indices, least digit of 4 bits first. An invocation owns a run of a block of
// the line: it counts the digits of its run, learns where its elements of each digit go, and moves them in order, so the
// result does not depend on scheduling.
//
// PHASE 0: a line is one block and one work group makes all PASSES, moving the order to and fro between two places (an even
// number of times). Long lines take three dispatches a digit: PHASE 1 counts the digits of each block, a scan of the counts
// (scan_line) says where they go, PHASE 2 moves.
// Block, block_of, digits_at, order_at, order_put and the array order come from the row. A place is an offset in `order`; -1
// the order before the first pass; -2 the output. Static words: 30 shift 31 place to read 32 place to write 33 counts
// [line][digit][block]; PHASE 0 ends in place 31. Workgroup memory: 68 * WG bytes. Reference: tests/test_indexing.c.
var<workgroup> bins: array<u32, {{=16 * WG}}>;  // [digit][invocation]
var<workgroup> sums: array<u32, {{WG}}>;

fn digit_of(b: Block, e: i32, shift: u32) -> i32 {
    return select(i32((digits_at(b.x, e) >> min(shift, 31u)) & 15u), 0, shift > 31u);
}

fn count_run(b: Block, first: i32, end: i32, t: i32, from_place: i32, shift: u32) {
    for (var d = 0; d < 16; d++) {
        bins[d * {{WG}} + t] = 0u;
    }
    for (var i = first; i < end; i++) {
        bins[digit_of(b, order_at(b, from_place, i), shift) * {{WG}} + t] += 1u;
    }
}

// Counts become places: an invocation has 16 of them side by side. Its own begin at `base`, after those of invocations from
// `before` on.
fn place_counts(t: i32, before: i32, base: u32) {
    var sum = 0u;
    for (var k = 0; k < 16; k++) {
        sum += bins[t * 16 + k];
    }
    sums[t] = sum;
    workgroupBarrier();
    var at = base;
    for (var s = before; s < t; s++) {
        at += sums[s];
    }
    for (var k = 0; k < 16; k++) {
        let count = bins[t * 16 + k];
        bins[t * 16 + k] = at;
        at += count;
    }
}

fn move_run(b: Block, first: i32, end: i32, t: i32, from_place: i32, to_place: i32, shift: u32) {
    for (var i = first; i < end; i++) {
        let e = order_at(b, from_place, i);
        let bin = digit_of(b, e, shift) * {{WG}} + t;
        order_put(b, to_place, i32(bins[bin]), e);
        bins[bin] += 1u;
    }
}

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
{{#if PHASE == 0}}
    for (var pass_no = 0; pass_no < {{PASSES}}; pass_no++) {
        let shift = u32(p(30u)) + u32(pass_no) * 4u;
        let odd = (pass_no & 1) != 0;
        let from_place = select(select(p(31u), p(32u), odd), -1, pass_no == 0);
        count_run(b, first, end, t, from_place, shift);
        workgroupBarrier();
        place_counts(t, 0, 0u);
        workgroupBarrier();
        move_run(b, first, end, t, from_place, select(p(32u), p(31u), odd), shift);
        storageBarrier();
        workgroupBarrier();
    }
{{#else}}
    count_run(b, first, end, t, p(31u), u32(p(30u)));
    workgroupBarrier();
{{#if PHASE == 1}}
    if (t < 16) {
        var sum = 0u;
        for (var s = 0; s < {{WG}}; s++) {
            sum += bins[t * {{WG}} + s];
        }
        order[p(33u) + (b.line * 16 + t) * p(28u) + b.index] = i32(sum);
    }
{{#else}}
    let digit = t / {{=WG / 16}};
    let at = digit * p(28u) + b.index;
    var base = 0u;
    if (at > 0) {
        base = u32(order[p(33u) + b.line * 16 * p(28u) + at - 1]);
    }
    place_counts(t, digit * {{=WG / 16}}, base);
    workgroupBarrier();
    move_run(b, first, end, t, p(31u), p(32u), u32(p(30u)));
{{/if}}
{{/if}}
}
