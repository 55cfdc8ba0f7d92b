/* bench.h - what the files of `weft bench` share. */
#ifndef WEFT_CLI_BENCH_H
#define WEFT_CLI_BENCH_H

#include "cli.h"

/* What this machine can do on n_threads, measured here and now. GB/s count 10^9 bytes. */
typedef enum bench_limit { BENCH_READ, BENCH_COPY, BENCH_TRIAD, BENCH_FMA, BENCH_N_LIMITS, BENCH_NO_LIMIT } bench_limit;
typedef struct bench_limits {
    double value[BENCH_N_LIMITS]; /* GB/s, GB/s, GB/s, GFLOP/s */
    size_t array_bytes, cache_bytes;
    bool huge_pages; /* asked for 2 MiB pages, and the kernel gives them on request */
    const char *isa;
    int n_threads;
} bench_limits;
extern const char *const bench_limit_names[BENCH_N_LIMITS];
/* Keeps the larger of what `l` holds and what is measured. */
weft_status bench_measure_limits(int n_threads, bench_limits *l);

enum { BENCH_MAX_SAMPLES = 50, BENCH_MAX_ROWS = 96 };
typedef struct bench_row {
    char name[96];
    const char *unit;      /* "GB/s", "GFLOP/s", "tokens/s" */
    double value;          /* median */
    bench_limit kind;
    double bytes_per_unit; /* tokens/s: bytes that one token must read; 0 otherwise */
    int n_samples;
    bool failed; /* not reported */
    double samples[BENCH_MAX_SAMPLES];
} bench_row;

typedef struct bench_run {
    const char *suite, *filter; /* NULL: all */
    weft_ctx *ctx;
    weft_device_info device;
    bench_row rows[BENCH_MAX_ROWS];
    int n_rows;
    int64_t threads;
    const char *device_spec;
    bool json;
    bench_limits limits;
} bench_run;

double bench_median(double *values, int n); /* sorts them; 0 of none */
bool bench_wanted(const bench_run *run, const char *suite, const char *name);
/* A new row, or NULL when the table is full. */
bench_row *bench_add(bench_run *run, const char *name, const char *unit, bench_limit kind);
/* The median; prints the row, or marks it failed. */
void bench_done(bench_run *run, bench_row *row, weft_status st);

/* bench_ops.c: suites of single operations; bench_decode.c: a random model. Return an exit code. */
int bench_ops(bench_run *run);
int bench_decode(bench_run *run);
extern const char *const bench_suites[];
extern const int bench_n_suites;

#endif
