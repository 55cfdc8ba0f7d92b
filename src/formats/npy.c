/* npy.c - NumPy's .npy files: written as format 1.0, read as 1.0 to 3.0, C order, little endian.
 * Source: numpy.lib.format, the format's own description. */
#include "parsed_file.h"
#include "write_file.h"

static const struct descr {
    const char *name;
    weft_dtype dtype;
} descrs[] = {
    {"<f4", WEFT_DTYPE_F32}, {"<f2", WEFT_DTYPE_F16}, {"<f8", WEFT_DTYPE_F64}, {"<i4", WEFT_DTYPE_I32},
    {"<u4", WEFT_DTYPE_U32}, {"|i1", WEFT_DTYPE_I8},  {"|u1", WEFT_DTYPE_U8},  {"<i8", WEFT_DTYPE_I64},
    {"|b1", WEFT_DTYPE_BOOL},
};

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, MAX_RANK = 8, ALIGN = 64 };
#define MAX_HEADER_BYTES ((uint64_t)1 << 20)

/* Bytes of a whole tensor, or false when a product overflows or an extent is negative. */
static bool total_bytes(weft_dtype dtype, int rank, const int64_t *shape, size_t *out)
{
    size_t n = weft_dtype_block_bytes(dtype);
    for (int k = 0; k < rank; k++)
        if (shape[k] < 0 || (uint64_t)shape[k] > SIZE_MAX || !wf_mul_size(n, (size_t)shape[k], &n))
            return false;
    *out = n;
    return true;
}

/* ---- write ---- */

static void add_header(wf_str *s, const char *descr, int rank, const int64_t *shape)
{
    wf_str_addn(s, magic, MAGIC_BYTES);
    wf_str_addn(s, "\x01\x00\x00\x00", 4); /* version, then the length, filled in below */
    wf_str_addf(s, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int k = 0; k < rank; k++)
        wf_str_addf(s, rank == 1 ? "%lld," : k ? ", %lld" : "%lld", (long long)shape[k]);
    wf_str_add(s, "), }");
    while (!s->oom && (s->len + 1) % ALIGN)
        wf_str_add(s, " ");
    wf_str_add(s, "\n");
    if (!s->oom) {
        s->ptr[8] = (char)((s->len - 10) & 255);
        s->ptr[9] = (char)((s->len - 10) >> 8);
    }
}

weft_status weft_npy_write(const char *path, weft_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    const char *descr = NULL;
    size_t n;
    for (size_t i = 0; i < WF_COUNT(descrs); i++)
        if (descrs[i].dtype == dtype)
            descr = descrs[i].name;
    if (!descr)
        return wf_fail(WEFT_E_DTYPE, "npy: %s has no NumPy type", weft_dtype_name(dtype));
    if (!path || (rank > 0 && !shape))
        return wf_fail(WEFT_E_CONTEXT, "npy: path and shape are required");
    if (rank < 0 || rank > MAX_RANK || !total_bytes(dtype, rank, shape, &n))
        return wf_fail(WEFT_E_SHAPE, "npy: rank %d or its extents are out of range", rank);
    if (n && !data)
        return wf_fail(WEFT_E_CONTEXT, "npy: data is required");
    wf_str header = WF_STR_INIT;
    add_header(&header, descr, rank, shape);
    const wf_bytes parts[] = {{header.ptr, header.len}, {data, n}};
    weft_status st = header.oom ? WEFT_E_OOM : wf_write_file(path, parts, WF_COUNT(parts));
    wf_str_free(&header);
    return st;
}

/* ---- read: the header is the text of a Python dictionary with three known keys ---- */

typedef struct header {
    weft_dtype dtype;
    int rank;
    int64_t shape[MAX_RANK];
} header;

typedef struct text {
    const char *p, *end;
} text;

static void skip_blanks(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r'))
        t->p++;
}

static bool accept(text *t, const char *word)
{
    skip_blanks(t);
    size_t n = strlen(word);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0)
        return false;
    t->p += n;
    return true;
}

/* '...' or "..." without escapes. */
static bool take_quoted(text *t, char *out, size_t room)
{
    skip_blanks(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;
    const char *close = memchr(t->p + 1, *t->p, (size_t)(t->end - t->p - 1));
    size_t n = close ? (size_t)(close - t->p - 1) : room;
    if (n >= room)
        return false;
    memcpy(out, t->p + 1, n);
    out[n] = '\0';
    t->p = close + 1;
    return true;
}

static bool take_extent(text *t, int64_t *out)
{
    skip_blanks(t);
    int64_t v = 0;
    const char *first = t->p;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
        if (!wf_mul_i64(v, 10, &v) || !wf_add_i64(v, *t->p - '0', &v))
            return false;
    *out = v;
    return t->p > first;
}

static bool take_shape(text *t, header *h)
{
    if (!accept(t, "("))
        return false;
    for (h->rank = 0; !accept(t, ")"); h->rank++) {
        if (h->rank == MAX_RANK || !take_extent(t, &h->shape[h->rank]))
            return false;
        if (!accept(t, ",")) {
            h->rank++;
            return accept(t, ")");
        }
    }
    return true;
}

static weft_status take_descr(text *t, header *h)
{
    char name[16];
    if (!take_quoted(t, name, sizeof name))
        return wf_fail(WEFT_E_FORMAT, "npy: descr is no plain type");
    for (size_t i = 0; i < WF_COUNT(descrs); i++)
        /* '<' and '|' mean the same for one byte, and files with either exist */
        if (strcmp(descrs[i].name, name) == 0 ||
            (descrs[i].name[0] == '|' && name[0] == '<' && strcmp(descrs[i].name + 1, name + 1) == 0)) {
            h->dtype = descrs[i].dtype;
            return WEFT_OK;
        }
    return wf_fail(WEFT_E_FORMAT, "npy: descr '%s' has no weft type", name);
}

static weft_status parse_header(const char *bytes, size_t n, header *h)
{
    text t = {bytes, bytes + n};
    unsigned seen = 0;
    char key[16];
    if (!accept(&t, "{"))
        return wf_fail(WEFT_E_FORMAT, "npy: the header is no dictionary");
    while (!accept(&t, "}")) {
        if (!take_quoted(&t, key, sizeof key) || !accept(&t, ":"))
            return wf_fail(WEFT_E_FORMAT, "npy: the header breaks off at byte %zu", (size_t)(t.p - bytes));
        if (strcmp(key, "descr") == 0) {
            WF_TRY(take_descr(&t, h));
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            if (!accept(&t, "False"))
                return wf_fail(WEFT_E_FORMAT, "npy: Fortran order, expected C order");
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            if (!take_shape(&t, h))
                return wf_fail(WEFT_E_FORMAT, "npy: shape is no tuple of at most %d extents", MAX_RANK);
            seen |= 4;
        } else {
            return wf_fail(WEFT_E_FORMAT, "npy: unknown key '%s'", key);
        }
        if (!accept(&t, ",")) {
            if (!accept(&t, "}"))
                return wf_fail(WEFT_E_FORMAT, "npy: the header breaks off at byte %zu", (size_t)(t.p - bytes));
            break;
        }
    }
    return seen == 7 ? WEFT_OK : wf_fail(WEFT_E_FORMAT, "npy: descr, fortran_order or shape is missing");
}

static weft_status read_at(const weft_reader *r, uint64_t at, void *dst, uint64_t n, const char *what)
{
    if (at > r->size_bytes || n > r->size_bytes - at)
        return wf_fail(WEFT_E_FORMAT, "npy: %s at byte %llu needs %llu bytes, the file has %llu", what,
                       (unsigned long long)at, (unsigned long long)n, (unsigned long long)r->size_bytes);
    if (n && !r->read(r->user, at, dst, (size_t)n))
        return wf_fail(WEFT_E_IO, "npy: cannot read %llu bytes at %llu", (unsigned long long)n,
                       (unsigned long long)at);
    return WEFT_OK;
}

/* Where the header's text lies. */
static weft_status find_header(const weft_reader *r, uint64_t *at, uint64_t *n)
{
    uint8_t b[12] = {0};
    WF_TRY(read_at(r, 0, b, 10, "the magic"));
    if (memcmp(b, magic, MAGIC_BYTES) != 0)
        return wf_fail(WEFT_E_FORMAT, "npy: the magic is wrong");
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return wf_fail(WEFT_E_FORMAT, "npy: version %d.%d, expected 1.0 to 3.0", b[6], b[7]);
    *at = b[6] == 1 ? 10 : 12;
    WF_TRY(read_at(r, 0, b, *at, "the header's length"));
    *n = b[6] == 1 ? (uint64_t)(b[8] | b[9] << 8) : wf_load_le32(b + 8);
    return *n <= MAX_HEADER_BYTES ? WEFT_OK
                                  : wf_fail(WEFT_E_FORMAT, "npy: a header of %llu bytes", (unsigned long long)*n);
}

static weft_status read_array(const weft_reader *r, header *h, void **out)
{
    uint64_t at = 0, n = 0;
    size_t bytes;
    WF_TRY(find_header(r, &at, &n));
    if (n > r->size_bytes - at)
        return wf_fail(WEFT_E_FORMAT, "npy: a header of %llu bytes in a file of %llu", (unsigned long long)n,
                       (unsigned long long)r->size_bytes);
    char *dict = wf_alloc((size_t)n);
    if (!dict)
        return WEFT_E_OOM;
    weft_status st = read_at(r, at, dict, n, "the header");
    if (st == WEFT_OK)
        st = parse_header(dict, (size_t)n, h);
    wf_free(dict);
    WF_TRY(st);
    if (!total_bytes(h->dtype, h->rank, h->shape, &bytes) || bytes != r->size_bytes - at - n)
        return wf_fail(WEFT_E_FORMAT, "npy: the shape and the %llu bytes of data differ",
                       (unsigned long long)(r->size_bytes - at - n));
    void *data = wf_alloc(bytes);
    if (!data)
        return WEFT_E_OOM;
    st = read_at(r, at + n, data, bytes, "the data");
    if (st != WEFT_OK) {
        wf_free(data);
        return st;
    }
    *out = data;
    return WEFT_OK;
}

weft_status weft_npy_read(const char *path, weft_dtype *dtype, int *rank, int64_t shape[8], void **data)
{
    weft_reader r;
    header h = {0};
    if (!path || !dtype || !rank || !shape || !data)
        return wf_fail(WEFT_E_CONTEXT, "npy_read: every argument is required");
    WF_TRY(weft_reader_open_file(path, 0, 0, &r));
    weft_status st = read_array(&r, &h, data);
    weft_reader_close(&r);
    if (st != WEFT_OK)
        return wf_fail(st, "%s: %s", path, weft_error_message());
    *dtype = h.dtype;
    *rank = h.rank;
    memcpy(shape, h.shape, sizeof h.shape);
    return WEFT_OK;
}

void weft_npy_free(void *data)
{
    wf_free(data);
}
