/* parsed_file.h - what the parsers of gguf.c and safetensors.c fill and file.c answers from. */
#ifndef WF_PARSED_FILE_H
#define WF_PARSED_FILE_H

#include "base.h"
#include "weft/format.h"

/* Types of GGUF metadata values, by the number in the file. */
typedef enum wf_gguf_type {
    WF_GGUF_U8, WF_GGUF_I8, WF_GGUF_U16, WF_GGUF_I16, WF_GGUF_U32, WF_GGUF_I32, WF_GGUF_F32, WF_GGUF_BOOL,
    WF_GGUF_STRING, WF_GGUF_ARRAY, WF_GGUF_U64, WF_GGUF_I64, WF_GGUF_F64, WF_GGUF_TYPE_COUNT
} wf_gguf_type;

typedef struct wf_gguf_type_info {
    const char *name, *array_name;
    weft_meta_kind kind;
    int bytes; /* of one element; of a string, its length field */
} wf_gguf_type_info;
extern const wf_gguf_type_info wf_gguf_types[WF_GGUF_TYPE_COUNT];

typedef struct wf_meta_entry {
    const char *key;
    uint8_t type; /* wf_gguf_type of the value, or of an array's elements */
    bool is_array;
    uint64_t count;
    uint64_t at;             /* file offset of the value or the first element; strings: after the length */
    uint64_t n;              /* a single string's length */
    const uint64_t *strings; /* array of strings: file offset of each one's length field */
    const char *text;        /* a string that lies in memory, not in the file (safetensors) */
} wf_meta_entry;

/* Names to numbers: open addressing, 0 is a free slot, else the number plus one. */
typedef struct wf_name_index {
    uint32_t *slots;
    size_t mask;
} wf_name_index;

struct weft_file {
    weft_reader reader;
    const uint8_t *map;   /* the whole file, or NULL */
    uint8_t *head;        /* its first head_bytes, read as far as needed, when it is not mapped */
    size_t head_bytes, head_cap;
    const char *format;
    uint32_t version;
    wf_arena arena;       /* names, keys, texts, string offsets */
    weft_file_tensor *tensors;
    size_t n_tensors, cap_tensors;
    wf_meta_entry *metas;
    size_t n_metas, cap_metas;
    wf_name_index tensor_index, meta_index;
};

/* The bytes [at, at + n) of the beginning of the file. The pointer is valid until the next call.
 * Errors: FORMAT (past the end; `what` names what was read), IO, OOM. */
weft_status wf_file_head(weft_file *f, uint64_t at, uint64_t n, const char *what, const uint8_t **out);
/* Bytes that wf_file_head has reached before: cannot fail. */
const uint8_t *wf_file_known(const weft_file *f, uint64_t at);

weft_status wf_gguf_parse(weft_file *f);
weft_status wf_safetensors_parse(weft_file *f);

/* Every tensor's bytes lie apart from every other's. `gapless`: and cover [begin, end) wholly.
 * Errors: FORMAT, OOM. */
weft_status wf_tensors_disjoint(const weft_file *f, bool gapless, uint64_t begin, uint64_t end);

static inline uint32_t wf_load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t wf_load_le64(const uint8_t *p)
{
    return (uint64_t)wf_load_le32(p) | (uint64_t)wf_load_le32(p + 4) << 32;
}

#endif
