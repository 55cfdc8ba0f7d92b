/* cmd_bench.c - weft bench: runs the suites, measures the machine's limits in the same run (before and
 * after, the better of the two counts), prints values and shares. */
#include "bench.h"

#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

bool bench_wanted(const bench_run *run, const char *suite, const char *name)
{
    return (!run->suite || strcmp(run->suite, suite) == 0) && (!run->filter || strstr(name, run->filter));
}

bench_row *bench_add(bench_run *run, const char *name, const char *unit, bench_limit kind)
{
    if (run->n_rows == BENCH_MAX_ROWS)
        return NULL;
    bench_row *row = &run->rows[run->n_rows++];
    *row = (bench_row){.unit = unit, .kind = kind};
    snprintf(row->name, sizeof row->name, "%s", name);
    cli_progress(row->name, 0);
    return row;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The limit in the row's unit, or 0 where this machine's limits say nothing about it. */
static double limit_of(const bench_run *run, const bench_row *row, const bench_limits *l)
{
    if (row->kind == BENCH_NO_LIMIT || strcmp(run->device.kind, "cpu") != 0)
        return 0;
    double v = l->value[row->kind];
    return row->bytes_per_unit > 0 ? v * 1e9 / row->bytes_per_unit : v;
}

/* "model name" of the processor, where the system tells. */
static void processor_name(char out[128])
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, 128, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(out, 128, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

static json_t *machine_json(const bench_run *run, const bench_limits *l)
{
    char cpu[128];
    struct utsname u;
    processor_name(cpu);
    bool known = uname(&u) == 0;
    return json_pack("{s:o, s:o, s:o, s:i, s:I, s:I, s:s, s:b, s:I, s:o}", "processor", cli_json_str(cpu), "system",
                     cli_json_str(known ? u.sysname : ""), "release", cli_json_str(known ? u.release : ""), "threads", l->n_threads, "last_cache_bytes",
                     (json_int_t)l->cache_bytes, "limit_array_bytes", (json_int_t)l->array_bytes, "limit_isa", l->isa,
                     "huge_pages", (int)l->huge_pages, "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "device",
                     cli_json_str(run->device.name));
}

static json_t *row_json(const bench_run *run, const bench_row *row, const bench_limits *l)
{
    double limit = limit_of(run, row, l);
    json_t *samples = json_array();
    for (int i = 0; i < row->n_samples; i++)
        json_array_append_new(samples, json_real(row->samples[i]));
    return json_pack("{s:s, s:s, s:f, s:s, s:o, s:o, s:o}", "name", row->name, "device", run->device.spec, "value", row->value,
                     "unit", row->unit, "limit", limit > 0 ? json_real(limit) : json_null(), "share",
                     limit > 0 ? json_real(row->value / limit) : json_null(), "samples", samples);
}

static int print_json(const bench_run *run, const bench_limits *l)
{
    json_t *rows = json_array(), *limits = json_object();
    for (int i = 0; i < run->n_rows; i++)
        if (!run->rows[i].failed)
            json_array_append_new(rows, row_json(run, &run->rows[i], l));
    for (int i = 0; i < BENCH_N_LIMITS; i++)
        json_object_set_new(limits, bench_limit_names[i],
                            json_pack("{s:f, s:s}", "value", l->value[i], "unit", i == BENCH_FMA ? "GFLOP/s" : "GB/s"));
    return cli_json_print(json_pack("{s:o, s:o, s:o}", "machine", machine_json(run, l), "limits", limits, "rows", rows));
}

static void print_limits(const bench_limits *l, const char *when)
{
    printf("limits %s, %d threads: read %.1f, copy %.1f, triad %.1f GB/s, multiply-add %.1f GFLOP/s (%s)\n", when, l->n_threads,
           l->value[BENCH_READ], l->value[BENCH_COPY], l->value[BENCH_TRIAD], l->value[BENCH_FMA], l->isa);
}

/* A line as soon as the row is done, against the limits measured before; --json waits for both. */
static void print_row(const bench_run *run, const bench_row *row)
{
    double limit = limit_of(run, row, &run->limits);
    printf("%-58s %9.1f %-8s", row->name, row->value, row->unit);
    if (limit > 0)
        printf(" %5.2f of %s", row->value / limit, bench_limit_names[row->kind]);
    putchar('\n');
    fflush(stdout);
}

void bench_done(bench_run *run, bench_row *row, weft_status st)
{
    double sorted[BENCH_MAX_SAMPLES];
    memcpy(sorted, row->samples, (size_t)row->n_samples * sizeof *sorted);
    row->value = bench_median(sorted, row->n_samples);
    cli_progress(NULL, -1);
    if (st != WEFT_OK || row->n_samples == 0)
        row->failed = true;
    else if (!run->json)
        print_row(run, row);
}

static int measured(bench_run *run, int n_threads)
{
    if (bench_measure_limits(n_threads, &run->limits) != WEFT_OK)
        return cli_fail_last();
    int ops, decode;
    if (!run->json)
        print_limits(&run->limits, "before");
    fflush(stdout);
    ops = bench_ops(run);
    decode = bench_decode(run);
    if (run->n_rows == 0 && ops == CLI_OK && decode == CLI_OK)
        return cli_usage("bench: no row matches \"%s\"", run->filter ? run->filter : "");
    if (bench_measure_limits(n_threads, &run->limits) != WEFT_OK)
        return cli_fail_last();
    int printed = CLI_OK;
    if (run->json)
        printed = print_json(run, &run->limits);
    else
        print_limits(&run->limits, "at best");
    return ops != CLI_OK ? ops : decode != CLI_OK ? decode : printed;
}

static int run_suites(bench_run *run)
{
    weft_ctx_opts opts = cli_ctx_opts(run->device_spec, run->threads, NULL);
    opts.cache_dir = ""; /* what an earlier run kept must not decide what is measured */
    if (weft_ctx_open(&opts, &run->ctx) != WEFT_OK)
        return cli_fail_last();
    cli_interrupt_begin(run->ctx);
    int code;
    if (weft_ctx_device(run->ctx, &run->device) != WEFT_OK)
        code = cli_fail_last();
    else
        code = measured(run, run->device.n_threads ? (int)run->device.n_threads : (int)sysconf(_SC_NPROCESSORS_ONLN));
    if (cli_interrupted() && code == CLI_OK)
        code = cli_fail("cancelled");
    cli_interrupt_end();
    weft_ctx_close(run->ctx);
    return code;
}

/* NULL means all of them. */
static int check_suite(const char *name)
{
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; name && i < bench_n_suites; i++) {
        if (strcmp(name, bench_suites[i]) == 0)
            return CLI_OK;
        int w = snprintf(known + used, sizeof known - used, " %s", bench_suites[i]);
        used += w > 0 && (size_t)w < sizeof known - used ? (size_t)w : 0;
    }
    return name ? cli_usage("bench: \"%s\" is no suite; known:%s", name, known) : CLI_OK;
}

int cmd_bench(int argc, char **argv)
{
    bench_run *run = calloc(1, sizeof *run);
    if (!run)
        return cli_fail("out of memory");
    const cli_option options[] = {
        {"--filter", CLI_STR, &run->filter, 0, 0, "S", "only rows whose name holds S"},
        {"--device", CLI_STR, &run->device_spec, 0, 0, "SPEC", "auto, cpu, webgpu, webgpu:N or null"},
        {"--threads", CLI_INT, &run->threads, 0, 1024, "N", "CPU threads (0: what the process may use)"},
        {"--json", CLI_FLAG, &run->json, 0, 0, NULL, "print {machine, limits, rows}"},
    };
    int code = cli_parse(cli_command_named("bench"), argc, argv, options, sizeof options / sizeof options[0], &run->suite, 0, 1);
    if (code == CLI_OK)
        code = check_suite(run->suite);
    if (code == CLI_OK)
        code = run_suites(run);
    free(run);
    return code == CLI_HELP ? CLI_OK : code;
}
