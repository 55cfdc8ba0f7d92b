// Indices of the k largest of a row, descending, equal values by lower index, NaN first; k <= K_PAD.
//
// One work group of 256 a row. Radix selection: four histograms of 8 bits narrow down the k-th largest key;
// if more elements than needed equal it, INDEX_PASSES further ones narrow down the index, lower first. Then
// the k winners are gathered in any order and sorted by (key, index) in workgroup memory, so the result does
// not depend on scheduling. length_of, element (a value as u32 in its order, NaN highest) and put come from the row: long rows
// take two dispatches, the k largest of each block and then of those, which stand in the order of their indices where equal.
// Bindings: b0 x, b1 out i32 [rows, k]. Static words 0..11: kernel_table.h.
// Workgroup memory: 8 * K_PAD + 2,064 bytes. Reference: a sort (tests/test_kernel_table.c).
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
var<workgroup> bins: array<atomic<u32>, 256>;
var<workgroup> above: array<u32, 257>;
var<workgroup> found: array<u32, 3>;
var<workgroup> n_taken: atomic<u32>;
var<workgroup> win_key: array<u32, {{K_PAD}}>;
var<workgroup> win_index: array<u32, {{K_PAD}}>;

// From the histogram: found = the bin in which the want-th element from the top lies, how many lie in
// higher bins, how many in it.
fn find_bin(t: u32, want: u32) {
    workgroupBarrier();
    above[t] = atomicLoad(&bins[t]);
    if (t == 0u) {
        above[256] = 0u;
    }
    for (var s = 1u; s < 256u; s = s * 2u) {
        workgroupBarrier();
        let v = select(0u, above[min(t + s, 256u)], t + s < 256u);
        workgroupBarrier();
        above[t] += v;
    }
    workgroupBarrier();
    if (above[t] >= want && above[t + 1u] < want) {
        found[0] = t;
        found[1] = above[t + 1u];
        found[2] = above[t] - above[t + 1u];
    }
    workgroupBarrier();
}

fn comes_first(a: u32, b: u32) -> bool {
    return win_key[a] > win_key[b] || (win_key[a] == win_key[b] && win_index[a] < win_index[b]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
    let row = i32(wg.x + wg.y * nw.x);
    if (row >= p(0u)) {
        return;
    }
    let n = length_of(row);
    let k = u32(p(2u));
    var want = k;
    var key = 0u;
    var low = 0u;   // of the elements equal to key: all ones minus index, so that lower indices are larger
    var tied = 0u;  // n while more elements than wanted equal key, else 0
    // Passes 0 to 3 take 8 bits of the key each, the later ones 8 bits of the index.
    for (var pass_no = 0u; pass_no < {{=4 + INDEX_PASSES}}u; pass_no++) {
        let by_index = pass_no >= 4u;
        let shift = select(24u - 8u * min(pass_no, 3u), {{=8 * (3 + INDEX_PASSES)}}u - 8u * pass_no, by_index);
        let upper = (select(key, low, by_index) >> shift) >> 8u;
        let end = select(n, tied, by_index);
        atomicStore(&bins[t], 0u);
        workgroupBarrier();
        for (var i = t; i < end; i += 256u) {
            let x = element(row, i);
            let digits = select(x, {{INDEX_ONES}}u - i, by_index) >> shift;
            if ((digits >> 8u) == upper && (!by_index || x == key)) {
                atomicAdd(&bins[digits & 255u], 1u);
            }
        }
        find_bin(t, want);
        if (!by_index) {
            key = key | (found[0] << shift);
            want -= found[1];
            tied = select(0u, n, found[2] > want);
        } else if (tied > 0u) {
            low = low | (found[0] << shift);
            want -= found[1];
        }
        workgroupBarrier();
    }
    // Of the elements equal to key, those whose index is at most edge are taken.
    let edge = select(0xffffffffu, {{INDEX_ONES}}u - low, tied > 0u);
    for (var e = t; e < {{K_PAD}}u; e += 256u) {
        win_key[e] = 0u;
        win_index[e] = 0xffffffffu;
    }
    if (t == 0u) {
        atomicStore(&n_taken, 0u);
    }
    workgroupBarrier();
    for (var i = t; i < n; i += 256u) {
        let x = element(row, i);
        if (x > key || (x == key && i <= edge)) {
            let at = atomicAdd(&n_taken, 1u);
            if (at < {{K_PAD}}u) {
                win_key[at] = x;
                win_index[at] = i;
            }
        }
    }
    // Bitonic sort, best first.
    for (var size = 2u; size <= {{K_PAD}}u; size = size * 2u) {
        for (var s = size / 2u; s > 0u; s = s / 2u) {
            workgroupBarrier();
            for (var e = t; e < {{K_PAD}}u; e += 256u) {
                let other = e ^ s;
                if (other > e && comes_first(other, e) == ((e & size) == 0u)) {
                    let x = win_key[e];
                    let i = win_index[e];
                    win_key[e] = win_key[other];
                    win_index[e] = win_index[other];
                    win_key[other] = x;
                    win_index[other] = i;
                }
            }
        }
    }
    workgroupBarrier();
    for (var e = t; e < k; e += 256u) {
        put(row, e, win_index[e]);
    }
}
