/* SPDX-License-Identifier: MIT */
/*
 * cmd_fetch.c - fetch URI: a lease's memory into a file, a directory or a stream.
 *
 * The happy path: attach; learn from the footer what it is (contents.h); open where it goes
 * (target.h); of what an earlier fetch has left there, find by their checksums the pieces that are
 * right; read the others (reading.h), each compared with its checksum before it is written. So what
 * was fetched is equal to what was shared, or the command fails. A daemon that is lost is waited
 * for (fetch.h); any other failed READ, a signal or a full disk ends it, and what there is is kept
 * for the next time.
 */
#include "common/errors.h"
#include "rdmactl/cli.h"
#include "rdmactl/fetch.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name without a daemon is one of the own daemon's: what was shared elsewhere is not found. */
static int fetch_fail_attach(const struct fetch *f, int rc) {
    static const char own[] = "rdmad:///";
    const char *name = strncmp(f->uri, own, sizeof(own) - 1) ? f->uri : f->uri + sizeof(own) - 1;
    if (rc != RDMAD_E_NO_LEASE || strchr(name, '/'))
        return cli_fail_rdmad(f->session, rc);
    return cli_fail(rdmad_errname(rc),
                    "%s (a name alone is looked for at this machine's daemon; at "
                    "another one it is rdmad://HOST:PORT/%s)",
                    rdmad_last_error(f->session), name);
}

static int fetch_open(struct fetch *f) {
    int code = cli_session_open("rdmactl-fetch", -1, &f->session);
    if (code)
        return code;
    patience_begin("attach to the lease", PATIENCE_ACT_MS);
    int rc = rdmad_lease_attach(f->session, f->uri, 0, &f->lease);
    patience_end();
    if (rc)
        return fetch_fail_attach(f, rc);
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(f->lease, &info);
    snprintf(f->fabric, sizeof(f->fabric), "%s", info.fabric);
    f->lease_id = info.id;
    f->length = info.length;
    code = reading_open(&f->reading, f->session, f->lease);
    return code ? code
                : contents_learn(&f->contents, &f->reading, info.length, (uint32_t)f->max_entries,
                                 (unsigned)f->max_depth);
}

int fetch_interrupted(const struct fetch *f) {
    return cli_fail("RDMAD_E_CANCELED", "interrupted after %" PRIu64 " of %" PRIu64 " bytes",
                    f->bytes, f->contents.bytes);
}

static int fetch_open_target(struct fetch *f) {
    char sum[BUNDLE_TEXT];
    const struct contents *c = &f->contents;
    const struct target_terms terms = {.bytes = c->bytes,
                                       .tree = c->directory ? &c->tree : NULL,
                                       .sum = c->summed && !f->no_resume ? bundle_text(sum, c->root)
                                                                         : NULL,
                                       .signals = f->signals};
    int code = target_open(&f->target, f->file, &terms);
    return f->target.interrupted ? fetch_interrupted(f) : code;
}

static uint64_t fetch_piece_bytes(const struct contents *c, uint64_t piece) {
    uint64_t left = c->bytes - piece * c->piece;
    return left < c->piece ? left : c->piece;
}

/* Finds what an earlier fetch has left and is right. */
static int fetch_resume(struct fetch *f, uint64_t *missing) {
    const struct contents *c = &f->contents;
    uint64_t pieces = c->bytes / c->piece + (c->bytes % c->piece != 0);
    char *piece = malloc(c->piece);
    f->wanted = calloc(pieces ? pieces : 1, sizeof(*f->wanted));
    *missing = 0;
    if (!piece || !f->wanted) {
        free(piece);
        return cli_fail("RDMAD_E_NOMEM", "out of memory");
    }
    for (uint64_t i = 0; i < pieces; i++) {
        if (signals_take(f->signals)) {
            free(piece);
            return fetch_interrupted(f);
        }
        uint64_t size = fetch_piece_bytes(c, i);
        if (target_get(&f->target, i * c->piece, piece, size) && contents_match(c, i, piece, size))
            f->bytes += size;
        else
            f->wanted[(*missing)++] = i;
    }
    free(piece);
    f->before = f->bytes;
    char size[CELL_MAX], total[CELL_MAX];
    if (f->before && !cli.json)
        fprintf(stderr, "%s of %s are there from an earlier fetch\n",
                cli_human_bytes(size, (double)f->before), cli_human_bytes(total, (double)c->bytes));
    return EXIT_GOOD;
}

static int fetch_take(void *arg, uint64_t piece, const void *data, uint64_t size) {
    struct fetch *f = arg;
    const struct contents *c = &f->contents;
    if (c->summed && !contents_match(c, piece, data, size))
        return cli_fail("RDMAD_E_PROTOCOL",
                        "bytes %" PRIu64 " to %" PRIu64
                        " have not the checksum that their owner made: what came is not what was "
                        "shared",
                        piece * c->piece, piece * c->piece + size - 1);
    int code = target_put(&f->target, piece * c->piece, data, size);
    f->bytes += code ? 0 : size;
    return f->target.interrupted ? fetch_interrupted(f) : code;
}

static int fetch_transfer(struct fetch *f) {
    int code = EXIT_GOOD;
    uint64_t missing = 0;
    if (f->target.resumed)
        code = fetch_resume(f, &missing);
    if (code)
        return code;
    reading_start(&f->reading, 0, f->contents.bytes, f->contents.piece);
    f->reading.take = fetch_take;
    f->reading.arg = f;
    f->reading.again = true;
    if (f->wanted) {
        f->reading.wanted = f->wanted;
        f->reading.count = missing;
    }
    progress_start(&f->progress, f->before);
    while (!code && !reading_over(&f->reading)) {
        if (signals_take(f->signals))
            return fetch_interrupted(f);
        fetch_hear(f);
        uint64_t before = f->reading.taken;
        code = reading_turn(&f->reading);
        if (!code && f->reading.taken == before)
            fetch_look(f);
        if (code == READING_LOST)
            code = fetch_again(f);
        progress_show(&f->progress, f->bytes, f->contents.bytes);
    }
    return code;
}

static int fetch_report(const struct fetch *f, double seconds) {
    const struct contents *c = &f->contents;
    double gbytes_s = seconds > 0 ? (double)(c->bytes - f->before) / seconds / 1e9 : 0;
    const char *route = strcmp(f->fabric, "local") != 0 ? "link" : "local";
    char sum[BUNDLE_TEXT], size[CELL_MAX];
    bundle_text(sum, c->root);
    if (cli.json)
        return cli_print_json(
            json_pack("{s:I, s:f, s:f, s:s, s:s, s:s?, s:I, s:I}", "bytes", (json_int_t)c->bytes,
                      "seconds", seconds, "gbytes_s", gbytes_s, "fabric", f->fabric, "route", route,
                      "checksum", c->summed ? sum : NULL, "resumed_bytes", (json_int_t)f->before,
                      "entries", (json_int_t)c->tree.count));
    fprintf(stderr, "fetched %s (%llu bytes) in %.3f s, %.2f GB/s, fabric %s, route %s, ",
            cli_human_bytes(size, (double)c->bytes), (unsigned long long)c->bytes, seconds,
            gbytes_s, f->fabric, route);
    fprintf(stderr, c->summed ? "checksum %s is right\n" : "no checksum: its owner gave none\n",
            sum);
    return EXIT_GOOD;
}

/* The name of what is kept is made of the target's and the checksum: the URI has no part in it. */
static void fetch_tell_kept(const struct fetch *f) {
    if (!f->target.kept || !f->bytes || cli.json)
        return;
    fprintf(stderr, "rdmactl: what has come is kept in %s: ", f->target.temporary);
    if (f->gone || rdmad_error_ends_lease(f->reading.failed))
        fprintf(stderr, "with a new URI of the same contents, fetch -o %s goes on there\n",
                f->file);
    else
        fprintf(stderr, "the same command goes on there\n");
}

static int fetch_run(struct fetch *f) {
    int code = fetch_open(f);
    /* Until here there is nothing to clean up: a signal may simply end us. */
    f->signals = signals_catch();
    if (!code)
        code = fetch_open_target(f);
    double start_s = cli_now_s();
    if (!code)
        code = fetch_transfer(f);
    if (!code)
        code = target_finish(&f->target);
    double seconds = cli_now_s() - start_s;
    if (code) {
        fetch_tell_kept(f);
        return code;
    }
    progress_end(&f->progress, f->contents.bytes, f->contents.bytes);
    return fetch_report(f, seconds);
}

static int fetch_check(struct fetch *f) {
    if (f->file && !strcmp(f->file, "-"))
        f->file = NULL; /* by a file's name it is ./- */
    if (f->file && !f->file[0])
        return cli_usage_error("-o needs the name of a file, and it is empty");
    if (cli.json && !f->file)
        return cli_usage_error(
            "-j is one JSON document on standard output: the bytes need -o FILE");
    if (!f->file && isatty(STDOUT_FILENO))
        return cli_usage_error("the bytes would go to the terminal: use -o FILE or a pipe");
    return EXIT_GOOD;
}

int cmd_fetch(const struct command *self, int argc, char **argv) {
    struct fetch f = {
        .target = {.fd = -1}, .signals = -1, .max_entries = TREE_ENTRIES, .max_depth = TREE_DEPTH};
    const struct opt opts[] = {
        {"output", 'o', OPT_PATH, &f.file, 0, 0, "FILE",
         "write here, a directory to where none is; - is standard output, as is nothing"},
        {"no-resume", 0, OPT_FLAG, &f.no_resume, 0, 0, NULL,
         "begin anew, and keep nothing when it fails"},
        {"max-entries", 0, OPT_COUNT, &f.max_entries, 1, UINT32_MAX - 1, "N",
         "of a directory (1000000)"},
        {"max-depth", 0, OPT_COUNT, &f.max_depth, 1, TREE_DEPTH_MAX, "N", "of a directory (64)"},
        {0},
    };
    struct positionals pos = {.names = "URI", .min = 1, .max = 1, .values = &f.uri};
    int code = args_parse(self, opts, &pos, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = fetch_check(&f);
    if (code)
        return code;
    code = fetch_run(&f);
    target_discard(&f.target, f.bytes > 0 || f.target.resumed);
    if (!code) { /* else the end of the session gives it back, without an answer to wait for */
        patience_done();
        patience_begin("take the lease back", PATIENCE_LOOK_MS);
        rdmad_lease_free(f.lease);
        patience_end();
    }
    rdmad_close(f.session);
    contents_free(&f.contents);
    free(f.wanted);
    if (f.signals >= 0)
        close(f.signals);
    return code;
}
