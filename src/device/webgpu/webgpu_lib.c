/* webgpu_lib.c - finds a WebGPU library at run time and the functions used from it.
 *
 * Where it comes from, first match wins:
 *   opts->webgpu_get_proc, opts->webgpu_lib     what the caller gave
 *   WEFT_WEBGPU_PROC                            hexadecimal address of a wgpuGetProcAddress in this process
 *   WEFT_WEBGPU_LIB                             a path
 *   weft/libwgpu_native.so                      beside the file that holds this code: an installed one
 *   ../wgpu/libwgpu_native-release.so           the same, in a build folder
 *   libwgpu_native.so, libwebgpu_dawn.so        the system's
 *
 * A library that was named and does not load is an error; nothing else is tried in its place.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "webgpu_device.h"

/* The first wgpu-native whose webgpu.h has today's numbers. */
enum { OLDEST_NATIVE_MAJOR = 29 };

#if defined(__APPLE__)
static const char *const usual_names[] = {"libwgpu_native.dylib", "libwebgpu_dawn.dylib"};
#else
static const char *const usual_names[] = {"libwgpu_native.so", "libwebgpu_dawn.so"};
#endif

void wf_wgpu_sv_copy(WGPUStringView v, char *dst, size_t cap)
{
    size_t n = !v.data ? 0 : v.length == WGPU_STRLEN ? strlen(v.data) : v.length, used = 0;
    for (size_t i = 0; i < n && used + 1 < cap; i++) {
        char c = v.data[i];
        if (c == '\n' || c == '\t' || c == '\r')
            c = ' ';
        if (c == ' ' && (used == 0 || dst[used - 1] == ' '))
            continue;
        dst[used++] = c;
    }
    while (used > 0 && dst[used - 1] == ' ')
        used--;
    dst[used] = '\0';
}

void *wf_wgpu_lib_symbol(const wf_wgpu_lib *lib, const char *name)
{
    return lib->get_proc ? lib->get_proc(wf_wgpu_sv(name)) : dlsym(lib->handle, name);
}

void wf_wgpu_lib_close(wf_wgpu_lib *lib)
{
    if (lib->handle)
        dlclose(lib->handle);
    lib->handle = NULL;
}

/* Loading with NODELETE: unloading a WebGPU library pulls the code from under its own threads and
 * exit handlers, so it stays mapped once loaded. */
static bool load(wf_wgpu_lib *lib, const char *path)
{
    lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return lib->handle != NULL;
}

static weft_status load_named(wf_wgpu_lib *lib, const char *path)
{
    if (load(lib, path))
        return WEFT_OK;
    const char *why = dlerror();
    return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: cannot load %s: %s", path, why ? why : "unknown reason");
}

static weft_status load_usual(wf_wgpu_lib *lib)
{
    Dl_info here;
    char path[1024];
    static const char *const beside[] = {"weft/libwgpu_native.so", "../wgpu/libwgpu_native-release.so",
                                         "../../../wgpu/libwgpu_native-release.so" /* the Python package of a build folder */};
    bool known = dladdr((const void *)(uintptr_t)&load_named, &here) && here.dli_fname;
    for (size_t i = 0; known && i < WF_COUNT(beside); i++) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash ? (int)(slash - here.dli_fname) + 1 : 0;
        if (snprintf(path, sizeof path, "%.*s%s%s", folder, here.dli_fname, folder ? "" : "./", beside[i]) < (int)sizeof path && access(path, R_OK) == 0)
            return load_named(lib, path);
    }
    for (size_t i = 0; i < WF_COUNT(usual_names); i++)
        if (load(lib, usual_names[i]))
            return WEFT_OK;
    return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: no WebGPU library found (%s, %s); WEFT_WEBGPU_LIB names one by its path",
                   usual_names[0], usual_names[1]);
}

static weft_status locate(const weft_ctx_opts *opts, wf_wgpu_lib *lib)
{
    const char *path = getenv("WEFT_WEBGPU_LIB"), *address = getenv("WEFT_WEBGPU_PROC");
    void *get_proc = opts ? opts->webgpu_get_proc : NULL;
    if (!get_proc && opts && opts->webgpu_lib)
        return load_named(lib, opts->webgpu_lib);
    if (!get_proc && address && *address) {
        char *end;
        get_proc = (void *)(uintptr_t)strtoull(address, &end, 16); /* NOLINT: an address in this process */
        if (*end || !get_proc)
            return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: WEFT_WEBGPU_PROC is \"%s\", expected a hexadecimal address", address);
    }
    if (get_proc) {
        memcpy(&lib->get_proc, &get_proc, sizeof get_proc);
        return WEFT_OK;
    }
    return path && *path ? load_named(lib, path) : load_usual(lib);
}

static weft_status bind_functions(wf_wgpu_lib *lib)
{
    const char *missing = NULL;
    void *p;
#define X(name)                                        \
    p = wf_wgpu_lib_symbol(lib, "wgpu" #name);         \
    memcpy(&lib->name, &p, sizeof p);                  \
    if (!p && !missing)                                \
        missing = "wgpu" #name;
    WF_WGPU_FNS(X)
#undef X
    if (missing)
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: the library lacks %s: too old, or not a WebGPU library", missing);
#define X(name)                                \
    p = wf_wgpu_lib_symbol(lib, "wgpu" #name); \
    memcpy(&lib->name, &p, sizeof p);
    WF_WGPU_NATIVE_FNS(X)
#undef X
    return WEFT_OK;
}

static weft_status identify(wf_wgpu_lib *lib)
{
    if (lib->GetVersion && lib->DevicePoll) {
        uint32_t v = lib->GetVersion();
        lib->impl = WF_WGPU_NATIVE;
        snprintf(lib->name, sizeof lib->name, "wgpu-native %u.%u.%u.%u", v >> 24, (v >> 16) & 255, (v >> 8) & 255, v & 255);
        if (v >> 24 < OLDEST_NATIVE_MAJOR)
            return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: %s is too old, %d or newer is needed", lib->name, OLDEST_NATIVE_MAJOR);
        if (lib->SetLogLevel)
            lib->SetLogLevel(WGPULogLevel_Off); /* what matters arrives as an error */
        return WEFT_OK;
    }
    /* Dawn has no version function. Before this one came, features were numbered differently. */
    if (!wf_wgpu_lib_symbol(lib, "wgpuGetInstanceFeatures"))
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: this Dawn is older than the webgpu.h of 2026 and numbers its features differently");
    const char *given = getenv("WEFT_WEBGPU_NAME");
    lib->impl = WF_WGPU_DAWN;
    snprintf(lib->name, sizeof lib->name, "%s", lib->get_proc && given && *given ? given : "Dawn");
    return WEFT_OK;
}

weft_status wf_wgpu_lib_open(const weft_ctx_opts *opts, wf_wgpu_lib *out)
{
    wf_wgpu_lib lib = {0};
    weft_status st;
    WF_TRY_GOTO(st, locate(opts, &lib), fail);
    WF_TRY_GOTO(st, bind_functions(&lib), fail);
    WF_TRY_GOTO(st, identify(&lib), fail);
    *out = lib;
    return WEFT_OK;
fail:
    wf_wgpu_lib_close(&lib);
    return st;
}
