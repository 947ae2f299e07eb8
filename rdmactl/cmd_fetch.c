/* SPDX-License-Identifier: MIT */
/*
 * cmd_fetch.c - fetch URI: a lease's memory by pipelined one-sided READs.
 *
 * The happy path: attach; a small pool is cut into SLOTS pieces; each piece is read into, waits
 * until all before it have been written out, is written out, and is used again. So READs are in
 * flight while we write, the output is in order (it may be a pipe), and the memory needed does not
 * grow with the lease. Any failed READ, a signal or a full disk ends it, and leaves no file.
 */
#include "rdmactl/cli.h"
#include "rdmactl/target.h"
#include <inttypes.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE (UINT64_C(1) << 20)
#define SLOTS 16u
#define LOOK_MS 100 /* how often signals and the progress bar are looked after while waiting */

struct fetch {
    const char *uri;
    struct target target;
    int signals;
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_ring *ring;
    rdmad_lease *lease;
    uint64_t bytes, pieces;
    uint64_t asked, arrived_mask, written; /* pieces asked for; which slots arrived; written out */
    char fabric[16];
    double start_s, heard_s;
    struct progress progress;
};

static uint64_t piece_size(const struct fetch *f, uint64_t piece) {
    uint64_t left = f->bytes - piece * PIECE;
    return left < PIECE ? left : PIECE;
}

static char *slot(const struct fetch *f, uint64_t piece) {
    return (char *)rdmad_pool_base(f->pool) + piece % SLOTS * PIECE;
}

static uint64_t bytes_written(const struct fetch *f) {
    return f->written * PIECE < f->bytes ? f->written * PIECE : f->bytes;
}

static int fetch_open(struct fetch *f) {
    int code = cli_session_open("rdmactl-fetch", -1, &f->session);
    if (code)
        return code;
    patience_begin("attach to the lease", PATIENCE_ACT_MS);
    int rc = rdmad_lease_attach(f->session, f->uri, 0, &f->lease);
    patience_end();
    if (rc)
        return cli_fail_rdmad(f->session, rc);
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(f->lease, &info);
    snprintf(f->fabric, sizeof(f->fabric), "%s", info.fabric);
    f->bytes = info.length;
    f->pieces = (f->bytes + PIECE - 1) / PIECE;
    uint64_t slots = f->pieces < SLOTS ? f->pieces : SLOTS;
    patience_begin("make a pool and a ring", PATIENCE_ACT_MS);
    rc = rdmad_pool_create(f->session, slots ? slots * PIECE : 1, 0, &f->pool);
    if (!rc)
        rc = rdmad_ring_create(f->session, SLOTS, &f->ring);
    patience_end();
    return rc ? cli_fail_rdmad(f->session, rc) : EXIT_GOOD;
}

/* Asks for as many pieces as there are free slots. */
static int fetch_ask(struct fetch *f) {
    uint64_t before = f->asked;
    while (f->asked < f->pieces && f->asked < f->written + SLOTS) {
        struct rdmad_sqe *sqe = rdmad_ring_reserve(f->ring);
        if (!sqe)
            break;
        int rc = rdmad_prep_read(f->ring, sqe, f->lease, f->asked * PIECE, slot(f, f->asked),
                                 piece_size(f, f->asked), f->asked);
        if (rc)
            return cli_fail_rdmad(f->session, rc);
        f->asked++;
    }
    if (f->asked == before)
        return EXIT_GOOD;
    f->heard_s =
        cli_now_s(); /* until now it had nothing to answer: the output may have been blocked */
    int rc = rdmad_ring_submit(f->ring);
    return rc < 0 ? cli_fail_rdmad(f->session, rc) : EXIT_GOOD;
}

/* A daemon that lives ends each READ by its deadline. */
static int fetch_silent(const struct fetch *f) {
    char state[160], span[CELL_MAX];
    return cli_fail("RDMAD_E_TIMEOUT",
                    "rdmad in %s does not answer: no READ has ended for %s, after %" PRIu64
                    " of %" PRIu64 " bytes; %s",
                    cli.dir, cli_human_seconds(span, cli_now_s() - f->heard_s), f->written * PIECE,
                    f->bytes, daemon_state(state, sizeof(state)));
}

/* Waits for one more READ; ARGS_RUN when none came in time. */
static int fetch_arrive(struct fetch *f) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(f->ring, LOOK_MS, &cqe);
    if (rc == RDMAD_E_TIMEOUT)
        return f->heard_s + (double)patience_ms(PATIENCE_ACT_MS) / 1e3 > cli_now_s()
                   ? ARGS_RUN
                   : fetch_silent(f);
    if (rc)
        return cli_fail_rdmad(f->session, rc);
    if (cqe->status) {
        char why[RDMAD_TEXT_MAX + 1];
        rdmad_ring_explain(f->ring, cqe, why, sizeof(why));
        return cli_fail(rdmad_errname(cqe->status), "%s", why);
    }
    f->heard_s = cli_now_s();
    f->arrived_mask |= UINT64_C(1) << cqe->user_data % SLOTS;
    rdmad_ring_seen(f->ring, cqe);
    return EXIT_GOOD;
}

/* Writes out what has arrived in order. */
static int fetch_drain(struct fetch *f) {
    int code = EXIT_GOOD;
    while (!code && f->written < f->asked &&
           (f->arrived_mask & UINT64_C(1) << f->written % SLOTS)) {
        code = target_write(&f->target, slot(f, f->written), piece_size(f, f->written));
        f->arrived_mask &= ~(UINT64_C(1) << f->written % SLOTS);
        f->written++;
    }
    return code;
}

static int fetch_transfer(struct fetch *f) {
    int code = EXIT_GOOD;
    while (!code && f->written < f->pieces) {
        if (signals_take(f->signals))
            return cli_fail("RDMAD_E_CANCELED",
                            "interrupted after %" PRIu64 " of %" PRIu64 " bytes",
                            f->written * PIECE, f->bytes);
        code = fetch_ask(f);
        if (!code)
            code = fetch_arrive(f);
        if (code == EXIT_GOOD)
            code = fetch_drain(f);
        else if (code == ARGS_RUN)
            code = EXIT_GOOD;
        progress_show(&f->progress, bytes_written(f), f->bytes);
    }
    return code;
}

static int fetch_report(const struct fetch *f, double seconds) {
    double gbytes_s = seconds > 0 ? (double)f->bytes / seconds / 1e9 : 0;
    const char *route = strcmp(f->fabric, "local") != 0 ? "link" : "local";
    if (cli.json)
        return cli_print_json(json_pack("{s:I, s:f, s:f, s:s, s:s}", "bytes", (json_int_t)f->bytes,
                                        "seconds", seconds, "gbytes_s", gbytes_s, "fabric",
                                        f->fabric, "route", route));
    char size[CELL_MAX];
    fprintf(stderr, "fetched %s (%llu bytes) in %.3f s, %.2f GB/s, fabric %s, route %s\n",
            cli_human_bytes(size, (double)f->bytes), (unsigned long long)f->bytes, seconds,
            gbytes_s, f->fabric, route);
    return EXIT_GOOD;
}

static int fetch_run(struct fetch *f, const char *file) {
    int code = fetch_open(f);
    /* Until here there is nothing to clean up: a signal may simply end us. */
    f->signals = signals_catch();
    if (!code)
        code = target_open(&f->target, file, f->bytes);
    f->start_s = f->heard_s = cli_now_s();
    progress_start(&f->progress);
    if (!code)
        code = fetch_transfer(f);
    if (!code)
        code = target_finish(&f->target);
    double seconds = cli_now_s() - f->start_s;
    if (code)
        return code;
    progress_end(&f->progress, f->bytes, f->bytes);
    return fetch_report(f, seconds);
}

int cmd_fetch(const struct command *self, int argc, char **argv) {
    struct fetch f = {.target = {.fd = -1}, .signals = -1};
    const char *file = NULL;
    const struct opt opts[] = {
        {"output", 'o', OPT_TEXT, &file, 0, 0, "FILE",
         "write here; - is standard output, as is nothing"},
        {0},
    };
    struct positionals pos = {.names = "URI", .min = 1, .max = 1, .values = &f.uri};
    int code = args_parse(self, opts, &pos, argc, argv);
    if (code != ARGS_RUN)
        return code;
    if (file && !strcmp(file, "-"))
        file = NULL; /* by a file's name it is ./- */
    if (cli.json && !file)
        return cli_usage_error(
            "-j is one JSON document on standard output: the bytes need -o FILE");
    if (!file && isatty(STDOUT_FILENO))
        return cli_usage_error("the bytes would go to the terminal: use -o FILE or a pipe");
    code = fetch_run(&f, file);
    target_discard(&f.target);
    if (!code) { /* else the end of the session gives it back, without an answer to wait for */
        patience_begin("take the lease back", PATIENCE_LOOK_MS);
        rdmad_lease_free(f.lease);
        patience_end();
    }
    rdmad_close(f.session);
    if (f.signals >= 0)
        close(f.signals);
    return code;
}
