/* SPDX-License-Identifier: MIT */
/*
 * cmd_share.c - share FILE: its bytes in a pool, under a read-only lease, until it ends.
 *
 * The happy path: read the file or the directory into a pool (source.h), with checksums and a
 * footer behind it (bundle.h), grant a lease on exactly that, print its URI, wait. Any number may
 * fetch it at a time. It is over when we are interrupted, when the ttl (the whole life, it is not
 * renewed) has passed, or with --once when the one lessee released it; all three are success. A
 * lease that somebody revoked, or a daemon that is gone, is a failure.
 */
#include "rdmactl/source.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* rdmad may hang, and wakes nobody then: so often it is asked (rdmad_next_event). */
#define SLEEP_MS 30000

struct shared {
    struct source source;
    rdmad_session *session;
    rdmad_lease *lease;
};

static int share_announce(const struct shared *s) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(s->lease, &info);
    const struct source *from = &s->source;
    char size[CELL_MAX], left[CELL_MAX], sum[BUNDLE_TEXT];
    bundle_text(sum, from->footer.root);
    if (cli.json)
        return cli_print_json(json_pack("{s:s, s:I, s:I, s:f, s:s?}", "uri", info.uri, "bytes",
                                        (json_int_t)from->bytes, "lease", (json_int_t)info.id,
                                        "ttl_s", (double)info.ttl_ms / 1e3, "checksum",
                                        from->raw ? NULL : sum));
    printf("%s\n", info.uri);
    if (fflush(stdout))
        return EXIT_FAILED; /* nobody would know what to fetch; main says why */
    fprintf(stderr, "lease %llu: %s, read-only, ends in %s", (unsigned long long)info.id,
            cli_human_bytes(size, (double)from->bytes),
            cli_human_seconds(left, (double)info.ttl_ms / 1e3));
    fprintf(stderr, from->raw ? "\n" : ", checksum %s\n", sum);
    return EXIT_GOOD;
}

/* What the event means for the exit code; ARGS_RUN: go on waiting. Standard output already has its
 * one document, so what there is to say goes to standard error. */
static int share_event(const struct rdmad_event *event) {
    if (event->type == RDMAD_EVENT_SESSION_LOST) {
        cli_note("%s", event->text);
        return EXIT_FAILED;
    }
    if (event->type != RDMAD_EVENT_LEASE_ENDED)
        return ARGS_RUN;
    fprintf(stderr, "lease %llu ended: %s\n", (unsigned long long)event->lease_id,
            rdmad_strerror(event->reason));
    bool expected =
        event->reason == RDMAD_E_LEASE_EXPIRED || event->reason == RDMAD_E_LEASE_RELEASED;
    return expected ? EXIT_GOOD : EXIT_FAILED;
}

/* Who still reads is told that its owner took it back. */
static int share_take_back(const struct shared *s) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(s->lease, &info);
    patience_begin("take the lease back", PATIENCE_ACT_MS);
    int rc = rdmad_lease_revoke(s->lease);
    patience_end();
    if (rc)
        return cli_fail_rdmad(s->session, rc);
    fprintf(stderr, "lease %llu ended: taken back, nobody can read it any more\n",
            (unsigned long long)info.id);
    return EXIT_GOOD;
}

static int share_hold(const struct shared *s) {
    struct pollfd wait[2] = {{.fd = s->source.signals, .events = POLLIN},
                             {.fd = rdmad_session_fd(s->session), .events = POLLIN}};
    for (;;) {
        struct rdmad_event event = RDMAD_EVENT_INIT;
        while (!rdmad_next_event(s->session, 0, &event)) {
            int code = share_event(&event);
            if (code != ARGS_RUN)
                return code;
        }
        if (poll(wait, 2, SLEEP_MS) > 0 && wait[0].revents && signals_take(s->source.signals))
            return share_take_back(s);
    }
}

static void tell_left_out(const struct source *from) {
    char path[PATH_MAX];
    if (from->scan.left_out)
        fprintf(stderr, "rdmactl: left out of %s, neither file nor directory: %s%s, %u in all\n",
                from->file, cli_safe_text(path, sizeof(path), from->scan.first_left_out),
                from->scan.left_out > 1 ? ", ..." : "", from->scan.left_out);
}

static int share(struct shared *s, const struct rdmad_lease_terms *terms) {
    struct source *from = &s->source;
    int code = source_open(from);
    if (code)
        return code;
    tell_left_out(from);
    code = cli_session_open("rdmactl-share", -1, &s->session);
    if (code)
        return code;
    /* Until here there is nothing to take back: a signal may simply end us. */
    from->signals = signals_catch();
    from->session = s->session;
    code = source_load(from);
    if (!code && from->interrupted && cli.json)
        return cli_fail("RDMAD_E_CANCELED", "interrupted while %s was read: nothing is shared",
                        from->file);
    if (code || from->interrupted)
        return code;
    patience_begin("grant the lease", PATIENCE_ACT_MS);
    int rc =
        rdmad_lease_grant(s->session, rdmad_pool_base(from->pool), from->length, terms, &s->lease);
    patience_end();
    if (rc)
        return cli_fail_rdmad(s->session, rc);
    code = share_announce(s);
    return code ? code : share_hold(s);
}

int cmd_share(const struct command *self, int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct shared s = {.source = {.fd = -1, .signals = -1}};
    bool once = false;
    const char *name = NULL;
    uint64_t ttl_ms = 60000;
    const struct opt opts[] = {
        {"name", 'n', OPT_TEXT, &name, 0, 0, "NAME", "publish under this name, too"},
        {"ttl", 't', OPT_TIME, &ttl_ms, 1, UINT64_C(366) * 86400000, "TIME",
         "the lease's whole life, like 500ms, 2s, 5m, 1h (60s)"},
        {"once", 0, OPT_FLAG, &once, 0, 0, NULL, "for one lessee, and over when it is done"},
        {"raw", 0, OPT_FLAG, &s.source.raw, 0, 0, NULL,
         "the file's bytes alone, for programs that read the lease themselves"},
        {0},
    };
    struct positionals pos = {
        .names = "FILE", .min = 1, .max = 1, .paths = true, .values = &s.source.file};
    int code = args_parse(self, opts, &pos, argc, argv);
    if (code != ARGS_RUN)
        return code;
    if (name && !*name)
        return cli_usage_error("--name: the name is empty");
    terms.ttl_ms = ttl_ms;
    terms.rights = RDMAD_RIGHT_READ;
    terms.max_attaches = once ? 1 : 0;
    terms.name = name;
    code = share(&s, &terms);
    rdmad_close(s.session);
    source_close(&s.source);
    if (s.source.signals >= 0)
        close(s.source.signals);
    return code;
}
