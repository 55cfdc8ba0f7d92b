/* webgpu_kept.c - compiled pipelines kept between runs, where the implementation hands them out as bytes: Dawn does, through two
 * functions in the device's descriptor; wgpu-native 29 has a feature of that name and no function for it.
 *
 * Dawn asks for the size of a value first and then for its bytes, which by then must still be those: what was found for the
 * first question is held for the second of the same thread, whatever becomes of the file meanwhile. Dawn may ask from threads
 * of its own. Its keys hold its version, the device and its toggles; ours adds the names of both and the driver's.
 */
#include "disk_cache.h"
#include "webgpu_device.h"

typedef struct held_value {
    struct held_value *next;
    pthread_t thread;
    void *bytes;
    size_t n;
} held_value;

struct wf_wgpu_kept {
    wf_mutex lock;
    wf_disk_cache *disk; /* NULL once the device is closed */
    wf_str prefix;       /* of every key */
    held_value *held;
};

wf_wgpu_kept *wf_wgpu_kept_new(wf_disk_cache *disk, const wf_wgpu_lib *lib, const weft_device_info *info)
{
    if (!disk || lib->impl != WF_WGPU_DAWN)
        return NULL;
    wf_wgpu_kept *k = wf_calloc(1, sizeof *k);
    if (!k)
        return NULL; /* nothing is kept then */
    k->disk = disk;
    wf_mutex_init(&k->lock, false);
    wf_str_addf(&k->prefix, "pipeline\n%s\n%s\n%s\n%s\n", lib->name, info->name, info->driver, info->backend);
    if (k->prefix.oom) {
        wf_wgpu_kept_free(k);
        return NULL;
    }
    return k;
}

void wf_wgpu_kept_free(wf_wgpu_kept *k)
{
    if (!k)
        return;
    while (k->held) {
        held_value *h = k->held;
        k->held = h->next;
        wf_free(h->bytes);
        wf_free(h);
    }
    pthread_mutex_destroy(&k->lock);
    wf_str_free(&k->prefix);
    wf_free(k);
}

/* What this thread holds, taken out of the list; NULL: nothing. */
static held_value *take_held(wf_wgpu_kept *k)
{
    for (held_value **at = &k->held; *at; at = &(*at)->next)
        if (pthread_equal((*at)->thread, pthread_self())) {
            held_value *h = *at;
            *at = h->next;
            return h;
        }
    return NULL;
}

static bool whole_key(const wf_wgpu_kept *k, const void *key, size_t n, wf_str *out)
{
    wf_str_addn(out, k->prefix.ptr, k->prefix.len);
    wf_str_addn(out, (const char *)key, n);
    return k->disk && !out->oom;
}

static size_t hold(wf_wgpu_kept *k, const void *key, size_t key_bytes)
{
    wf_str whole = WF_STR_INIT;
    held_value *h = take_held(k); /* of a question that was not followed up */
    if (!h)
        h = wf_calloc(1, sizeof *h);
    if (!h)
        return 0;
    wf_free(h->bytes);
    *h = (held_value){.next = k->held, .thread = pthread_self()};
    k->held = h;
    if (whole_key(k, key, key_bytes, &whole) && !wf_disk_find(k->disk, whole.ptr, whole.len, &h->bytes, &h->n))
        h->n = 0;
    wf_str_free(&whole);
    return h->n;
}

/* Before callbacks were given as structures, the descriptor of this number held two functions and one pointer for both: such a
 * Dawn finds no function to load, and this one where that to store was, which was called with key and size the other way round.
 * No key is larger than its address. Then nothing is kept. */
static size_t load(size_t key_bytes, const uint8_t *key, size_t value_bytes, uint8_t *value, void *user, void *unused)
{
    wf_wgpu_kept *k = user;
    size_t n = 0;
    (void)unused;
    if ((uintptr_t)key < key_bytes)
        return 0;
    wf_lock(&k->lock);
    if (!value) {
        n = hold(k, key, key_bytes);
    } else {
        held_value *h = take_held(k);
        if (h && h->n && h->n <= value_bytes) {
            n = h->n;
            memcpy(value, h->bytes, n);
        }
        if (h)
            wf_free(h->bytes);
        wf_free(h);
    }
    wf_unlock(&k->lock);
    return n;
}

static void store(size_t key_bytes, const uint8_t *key, size_t value_bytes, const uint8_t *value, void *user, void *unused)
{
    wf_wgpu_kept *k = user;
    (void)unused;
    wf_str whole = WF_STR_INIT;
    wf_lock(&k->lock);
    if (whole_key(k, key, key_bytes, &whole))
        wf_disk_store(k->disk, whole.ptr, whole.len, value, value_bytes);
    wf_str_free(&whole);
    wf_unlock(&k->lock);
}

void wf_wgpu_kept_attach(wf_wgpu_kept *k, wf_dawn_cache *chained, WGPUDeviceDescriptor *desc)
{
    if (!k)
        return;
    *chained = (wf_dawn_cache){.chain = {.next = (void *)desc->nextInChain, .sType = (WGPUSType)WF_DAWN_STYPE_CACHE}, .isolation_key = wf_wgpu_sv(k->prefix.ptr),
                               .load = {.call = load, .user = k}, .store = {.call = store, .user = k}};
    desc->nextInChain = &chained->chain;
}

void wf_wgpu_kept_detach(wf_wgpu_kept *k)
{
    if (!k)
        return;
    wf_lock(&k->lock);
    k->disk = NULL;
    wf_unlock(&k->lock);
}
