/* cmd_devices.c - weft devices: what can be opened here, and for each feature that is off, why. */
#include "cli.h"

static json_t *device_json(const weft_device_info *d)
{
    json_t *features = json_array();
    for (int i = 0; i < d->n_features; i++) {
        const weft_device_feature *f = &d->features[i];
        json_t *j = json_pack("{s:o, s:b}", "name", cli_json_str(f->name), "on", (int)f->on);
        if (!f->on)
            json_object_set_new(j, "reason", cli_json_str(f->reason));
        json_array_append_new(features, j);
    }
    json_t *limits = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "max_buffer_bytes", (json_int_t)d->max_buffer_bytes,
                               "max_binding_bytes", (json_int_t)d->max_binding_bytes, "max_storage_buffers",
                               (json_int_t)d->max_storage_buffers, "max_workgroup_invocations",
                               (json_int_t)d->max_workgroup_invocations, "max_workgroup_bytes",
                               (json_int_t)d->max_workgroup_bytes, "max_workgroups", (json_int_t)d->max_workgroups);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "spec", cli_json_str(d->spec), "kind",
                     cli_json_str(d->kind), "name", cli_json_str(d->name), "driver", cli_json_str(d->driver), "implementation",
                     cli_json_str(d->implementation), "backend", cli_json_str(d->backend),
                     "memory_bytes", (json_int_t)d->memory_bytes, "threads", (json_int_t)d->n_threads, "limits", limits,
                     "features", features);
}

static void print_device(const weft_device_info *d)
{
    char a[32], b[32];
    printf("%s  %s\n", d->spec, d->name);
    printf("  kind            %s\n  implementation  %s%s%s\n", d->kind, d->implementation, d->backend[0] ? ", " : "", d->backend);
    if (d->driver[0])
        printf("  driver          %s\n", d->driver);
    if (d->n_threads)
        printf("  threads         %u\n", d->n_threads);
    if (d->memory_bytes) {
        cli_format_bytes(d->memory_bytes, a);
        printf("  memory          %s\n", a);
    }
    cli_format_bytes(d->max_buffer_bytes, a);
    cli_format_bytes(d->max_binding_bytes, b);
    printf("  limits          buffer %s, binding %s, %u storage buffers, workgroup %u invocations and %u bytes, %u workgroups\n", a, b,
           d->max_storage_buffers, d->max_workgroup_invocations, d->max_workgroup_bytes, d->max_workgroups);
    for (int i = 0; i < d->n_features; i++)
        printf("  %-15s %-24s %s%s%s\n", i ? "" : "features", d->features[i].name, d->features[i].on ? "on" : "off",
               d->features[i].on ? "" : ": ", d->features[i].reason);
}

int cmd_devices(int argc, char **argv)
{
    bool json = false;
    const cli_option options[] = {{"--json", CLI_FLAG, &json, 0, 0, NULL, "print {devices: [..], note, cache}"}};
    int code = cli_parse(cli_command_named("devices"), argc, argv, options, 1, NULL, 0, 0);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    weft_ctx_opts opts = cli_ctx_opts(NULL, 0, NULL);
    weft_device_info *list = NULL;
    int n = 0, webgpu = 0;
    if (weft_device_list(&opts, &list, &n) != WEFT_OK)
        return cli_fail_last();
    for (int i = 0; i < n; i++)
        webgpu += strncmp(list[i].spec, "webgpu", 6) == 0;
    const char *note = webgpu ? "" : weft_error_message(); /* why WebGPU offers nothing */
    if (json) {
        json_t *devices = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(devices, device_json(&list[i]));
        code = cli_json_print(json_pack("{s:o, s:o, s:o}", "devices", devices, "note", cli_json_str(note), "cache", cli_json_str(cli_cache_dir())));
    } else {
        for (int i = 0; i < n; i++)
            print_device(&list[i]);
        if (note[0])
            printf("%s\n", note);
        printf("cache on disk: %s\n", cli_cache_dir()[0] ? cli_cache_dir() : "none");
    }
    weft_device_list_free(list);
    return code;
}
