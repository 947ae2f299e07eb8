/* SPDX-License-Identifier: MIT */
/*
 * cmd_bench.c - bench nop, read, write, send, cas and fadd: sets a measurement up, runs it, prints
 * what came out, always with the fabric and the route that were used.
 */
#include "rdmactl/bench_messages.h"
#include "rdmactl/bench_stop.h"
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int parse_poll(const char *text, enum bench_poll *out) {
    static const char *const names[] = {"busy", "adaptive", "event"};
    for (unsigned i = 0; i < 3; i++) {
        if (!strcmp(text, names[i])) {
            *out = (enum bench_poll)i;
            return ARGS_RUN;
        }
    }
    return cli_usage_error("--poll: \"%s\" is none of busy, adaptive, event", text);
}

/* Reads the head of the lease: is it a bench serve's, and large enough? */
static int bench_check_lease(struct bench_run *run) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    const struct bench_head *head = rdmad_pool_base(run->pool);
    rdmad_lease_get_info(run->lease, &info);
    if (info.length < BENCH_HEAD_BYTES)
        return cli_fail("RDMAD_E_INVAL", "lease %llu is not one of bench serve",
                        (unsigned long long)info.id);
    int rc = rdmad_read(run->lease, 0, rdmad_pool_base(run->pool), sizeof(*head));
    if (rc)
        return cli_fail_rdmad(run->session, rc);
    if (head->magic != BENCH_MAGIC)
        return cli_fail("RDMAD_E_INVAL", "lease %llu is not one of bench serve",
                        (unsigned long long)info.id);
    run->max_message = head->max_message;
    snprintf(run->service, sizeof(run->service), "%s", head->service);
    snprintf(run->atomics, sizeof(run->atomics), "%s", head->atomics);
    if (run->op != BENCH_NOP && run->span > head->data_bytes)
        return cli_fail(
            "RDMAD_E_RANGE",
            "%llu bytes are asked for, bench serve has %llu: start it with a larger -s or "
            "--span",
            (unsigned long long)run->span, (unsigned long long)head->data_bytes);
    if (run->op == BENCH_SEND && run->bytes > head->max_message)
        return cli_fail(
            "RDMAD_E_RANGE",
            "messages of %llu bytes are asked for, bench serve takes up to %llu: start it "
            "with a larger -s",
            (unsigned long long)run->bytes, (unsigned long long)head->max_message);
    return EXIT_GOOD;
}

static int use_atomics(struct bench_run *run) {
    rdmad_lease_free(run->lease);
    run->lease = NULL;
    int rc = rdmad_lease_attach(run->session, run->atomics, 0, &run->lease);
    return rc ? cli_fail_rdmad(run->session, rc) : EXIT_GOOD;
}

static int bench_set_up(struct bench_run *run) {
    int code = cli_session_open("rdmactl-bench", bench_spin_us(run->poll), &run->session);
    if (code)
        return code;
    /* A ping-pong needs three buffers after the head, each large enough for a request, too. */
    uint64_t buffers = 3 * (run->stride + sizeof(struct bench_head));
    uint64_t local = run->local_span > buffers ? run->local_span : buffers;
    patience_begin("set up the measurement", 0);
    int rc = rdmad_pool_create(run->session, BENCH_HEAD_BYTES + local, 0, &run->pool);
    if (!rc)
        rc = rdmad_ring_create(run->session, (uint32_t)(run->depth < 16 ? 16 : run->depth),
                               &run->ring);
    if (!rc && run->uri)
        rc = rdmad_lease_attach(run->session, run->uri, 0, &run->lease);
    patience_end();
    if (rc)
        return cli_fail_rdmad(run->session, rc);
    code = run->uri ? bench_check_lease(run) : EXIT_GOOD;
    return !code && (run->op == BENCH_CAS || run->op == BENCH_FADD) ? use_atomics(run) : code;
}

static double us(uint64_t ns) {
    return (double)ns / 1e3;
}

static json_t *bench_result(const struct bench_run *run, const char *op, const char *fabric) {
    const struct hist *h = &run->hist;
    double seconds = run->elapsed_ns ? (double)run->elapsed_ns / 1e9 : 1e-9;
    json_t *lat = json_pack("{s:f, s:f, s:f, s:f, s:f}", "min", us(h->count ? h->min : 0), "p50",
                            us(hist_percentile(h, 0.5)), "p99", us(hist_percentile(h, 0.99)),
                            "p999", us(hist_percentile(h, 0.999)), "max", us(h->max));
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:f, s:f, s:o, s:I}", "op", op, "bytes",
                     (json_int_t)run->bytes, "depth", (json_int_t)run->depth, "iterations",
                     (json_int_t)run->done, "fabric", fabric, "route",
                     strcmp(fabric, "local") != 0 ? "link" : "local", "bw_gbytes_s",
                     (double)run->bytes * (double)run->done / seconds / 1e9, "msg_rate_mops",
                     (double)run->done / seconds / 1e6, "lat_us", lat, "errors",
                     (json_int_t)run->errors);
}

/* perftest's columns: those of its latency tests, then those of its bandwidth tests. */
static void bench_print(const struct bench_run *run, const json_t *r) {
    const json_t *lat = json_object_get(r, "lat_us");
    const char *fabric = json_string_value(json_object_get(r, "fabric"));
    bool half = (run->op == BENCH_WRITE || run->op == BENCH_SEND) && run->depth == 1;
    printf("%s, fabric %s, route %s, depth %llu%s%s\n", json_string_value(json_object_get(r, "op")),
           fabric, json_string_value(json_object_get(r, "route")), (unsigned long long)run->depth,
           strcmp(fabric, "tcp") != 0 ? "" : " (RDMA over TCP, no RDMA hardware used)",
           half ? ", latency is half a ping-pong" : "");
    printf("%10s %12s %11s %15s %19s %21s %11s\n", "#bytes", "#iterations", "t_min[usec]",
           "t_typical[usec]", "99% percentile[usec]", "99.9% percentile[usec]", "t_max[usec]");
    printf("%10llu %12llu %11.2f %15.2f %19.2f %21.2f %11.2f\n", (unsigned long long)run->bytes,
           (unsigned long long)run->done, cli_number(lat, "min"), cli_number(lat, "p50"),
           cli_number(lat, "p99"), cli_number(lat, "p999"), cli_number(lat, "max"));
    printf("%10s %12s %18s %14s\n", "#bytes", "#iterations", "BW average[GB/sec]", "MsgRate[Mpps]");
    printf("%10llu %12llu %18.3f %14.6f\n", (unsigned long long)run->bytes,
           (unsigned long long)run->done, cli_number(r, "bw_gbytes_s"),
           cli_number(r, "msg_rate_mops"));
    char why[sizeof(run->why)];
    if (run->errors)
        printf("%llu ops failed, the first one: %s\n", (unsigned long long)run->errors,
               cli_safe_text(why, sizeof(why), run->why));
}

static int bench_measure(struct bench_run *run, const char *op) {
    int code = bench_set_up(run);
    if (code)
        return code;
    bool pingpong = run->op == BENCH_WRITE && run->depth == 1;
    int rc = run->op == BENCH_SEND ? bench_messages(run, run->service)
             : pingpong            ? bench_pingpong(run)
                                   : bench_stream(run);
    if (rc) {
        bench_stop_said(EXIT_FAILED);
        return cli_fail(run->why_code, "%s", run->why);
    }
    char fabric[16] = "local"; /* a nop goes no further than the own daemon */
    if (run->op != BENCH_NOP) {
        struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
        rdmad_lease_get_info(run->lease, &info);
        snprintf(fabric, sizeof(fabric), "%s", info.fabric);
    }
    json_t *r = bench_result(run, op, fabric);
    bench_stop_said(run->errors ? EXIT_FAILED : EXIT_GOOD);
    if (run->errors)
        json_object_set_new(r, "error",
                            json_pack("{s:s, s:s}", "code", run->why_code, "text", run->why));
    if (cli.json) {
        cli_print_json(r);
    } else {
        bench_print(run, r);
        json_decref(r);
    }
    return run->errors ? EXIT_FAILED : EXIT_GOOD;
}

/* What the options mean together. */
static int complete(struct bench_run *run, const char *verb) {
    static const char *const verbs[] = {
        [BENCH_NOP] = "nop",   [BENCH_READ] = "read", [BENCH_WRITE] = "write",
        [BENCH_SEND] = "send", [BENCH_CAS] = "cas",   [BENCH_FADD] = "fadd"};
    while (strcmp(verb, verbs[run->op]) != 0)
        run->op++;
    if (run->op == BENCH_NOP)
        run->bytes = 0;
    if (run->op == BENCH_CAS || run->op == BENCH_FADD)
        run->bytes = 8;
    if (run->op != BENCH_NOP && !run->uri)
        return cli_usage_error("URI is missing: rdmactl bench serve on the other side prints it");
    if (run->op == BENCH_WRITE && run->depth == 1 && !run->bytes)
        return cli_usage_error("a ping-pong needs at least one byte (-s 1), or a depth (-q 2)");
    run->stride = run->bytes ? (run->bytes + 63) & ~UINT64_C(63) : 64;
    if (run->span < run->stride)
        run->span = run->stride;
    run->local_span = run->span;
    if (run->op == BENCH_READ && run->local_span < run->depth * run->stride)
        run->local_span = run->depth * run->stride;
    if (!run->iterations)
        run->iterations = run->bytes > 65536 ? 1000 : 10000;
    return ARGS_RUN;
}

int cmd_bench(const struct command *self, int argc, char **argv) {
    static struct bench_run run = {.bytes = 8, .depth = 1, .poll = POLL_ADAPTIVE};
    const char *poll = "adaptive";
    const struct opt opts[] = {
        {"size", 's', OPT_BYTES, &run.bytes, 0, UINT64_C(1) << 40, "BYTES", "of an op (8)"},
        {"iterations", 'n', OPT_COUNT, &run.iterations, 1, UINT64_C(1) << 40, "ITERS",
         "how many ops (10000; 1000 of more than 64K)"},
        {"duration", 'D', OPT_TIME, &run.seconds_ms, 1, 86400000, "SECONDS", "instead of -n"},
        {"depth", 'q', OPT_COUNT, &run.depth, 1, 4096, "DEPTH", "ops in flight (1)"},
        {"span", 0, OPT_BYTES, &run.span, 1, UINT64_C(1) << 40, "BYTES",
         "walk through so much memory instead of using the same again"},
        {"poll", 'p', OPT_TEXT, &poll, 0, 0, "HOW",
         "busy, adaptive (as the daemon advises), event"},
        {0},
    };
    struct positionals pos = {.names = "URI", .max = 1, .values = &run.uri};
    int code = args_parse(self, opts, &pos, argc, argv);
    if (code == ARGS_RUN)
        code = parse_poll(poll, &run.poll);
    if (code == ARGS_RUN)
        code = complete(&run, self->verb);
    if (code != ARGS_RUN)
        return code;
    int signals = signals_catch();
    bench_stop_watch(signals, "interrupted, and what was under way did not end; the end of the "
                              "session ends it");
    code = bench_measure(&run, self->verb);
    if (!code && !bench_asked()) { /* else the session's end gives them back, without an answer to
                                      wait for */
        patience_done();
        patience_begin("take ring and lease back", PATIENCE_LOOK_MS);
        rdmad_ring_destroy(run.ring);
        rdmad_lease_free(run.lease);
        patience_end();
    }
    rdmad_close(run.session);
    return code;
}
