/* SPDX-License-Identifier: MIT */
/*
 * cmd_share.c - share FILE: its bytes in a pool, under a read-only lease, until it ends.
 *
 * The happy path: make a pool of the file's size, read the file straight into it, grant a lease on
 * exactly that range, print its URI, wait. The lessee learns the size from the lease's length, so
 * an empty file is a lease of length 0. It is over when we are interrupted, when the ttl (the whole
 * life, it is not renewed) has passed, or with --once when the one lessee released it; all three
 * are success. A lease that somebody revoked, or a daemon that is gone, is a failure.
 */
#include "rdmactl/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_AT_ONCE (8u << 20) /* between two looks at the signals */

struct share {
    const char *file;
    int fd, signals;
    size_t bytes;
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
};

static int fail_rdmad(const struct share *s, int rc) {
    return fail(rdmad_errname(rc), "%s", rdmad_last_error(s->session));
}

static int open_file(struct share *s) {
    struct stat st;
    s->fd = open(s->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st))
        return fail("RDMAD_E_SYSTEM", "%s: %s", s->file, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail("RDMAD_E_INVAL",
                    "%s is not a regular file; share takes a file whose size is "
                    "known",
                    s->file);
    s->bytes = (size_t)st.st_size;
    return EXIT_GOOD;
}

static int make_pool(struct share *s) {
    struct rdmad_session_info info;
    rdmad_session_get_info(s->session, &info);
    char has[CELL_MAX], may[CELL_MAX];
    if (s->bytes > info.max_pool_bytes)
        return fail(
            "RDMAD_E_LIMIT",
            "%s has %s, a session may have %s of pool memory: raise "
            "limits.pool_bytes_per_session in the daemon's configuration, or share it in parts",
            s->file, human_bytes(has, (double)s->bytes),
            human_bytes(may, (double)info.max_pool_bytes));
    patience_begin("make a pool", 0); /* takes its time, by the size */
    int rc = rdmad_pool_create(s->session, s->bytes ? s->bytes : 1, 0, &s->pool);
    patience_end();
    return rc ? fail_rdmad(s, rc) : EXIT_GOOD;
}

/* Returns EXIT_GOOD also when interrupted; *interrupted tells. */
static int read_file(struct share *s, bool *interrupted) {
    char *to = rdmad_pool_base(s->pool);
    size_t done = 0;
    while (done < s->bytes) {
        *interrupted = signals_take(s->signals) != 0;
        if (*interrupted)
            return EXIT_GOOD;
        size_t part = s->bytes - done < READ_AT_ONCE ? s->bytes - done : READ_AT_ONCE;
        ssize_t n = read(s->fd, to + done, part);
        if (n < 0 && errno != EINTR)
            return fail("RDMAD_E_SYSTEM", "%s: %s", s->file, strerror(errno));
        if (n == 0)
            return fail("RDMAD_E_SYSTEM", "%s became shorter while it was read", s->file);
        if (n > 0)
            done += (size_t)n;
    }
    return EXIT_GOOD;
}

static int announce(const struct share *s) {
    struct rdmad_lease_info info;
    rdmad_lease_get_info(s->lease, &info);
    if (cli.json)
        return print_json(json_pack("{s:s, s:I, s:I, s:f}", "uri", info.uri, "bytes",
                                    (json_int_t)info.length, "lease", (json_int_t)info.id, "ttl_s",
                                    (double)info.ttl_ns / 1e9));
    char size[CELL_MAX], left[CELL_MAX];
    printf("%s\n", info.uri);
    if (fflush(stdout))
        return EXIT_FAILED; /* nobody would know what to fetch; main says why */
    fprintf(stderr, "lease %llu: %s, read-only, ends in %s\n", (unsigned long long)info.id,
            human_bytes(size, (double)info.length), human_seconds(left, (double)info.ttl_ns / 1e9));
    return EXIT_GOOD;
}

/* What the event means for the exit code; ARGS_RUN: go on waiting. Standard output already has its
 * one document, so what there is to say goes to standard error. */
static int judge(const struct rdmad_event *event) {
    if (event->type == RDMAD_EVENT_SESSION_LOST) {
        fprintf(stderr, "rdmactl: %s\n", event->text);
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

static int hold(const struct share *s) {
    struct pollfd wait[2] = {{.fd = s->signals, .events = POLLIN},
                             {.fd = rdmad_session_fd(s->session), .events = POLLIN}};
    for (;;) {
        struct rdmad_event event;
        while (!rdmad_next_event(s->session, 0, &event)) {
            int code = judge(&event);
            if (code != ARGS_RUN)
                return code;
        }
        if (poll(wait, 2, -1) > 0 && wait[0].revents && signals_take(s->signals))
            return EXIT_GOOD;
    }
}

static int share(struct share *s, const struct rdmad_lease_terms *terms) {
    bool interrupted = false;
    int code = open_file(s);
    if (code)
        return code;
    code = session_open("rdmactl-share", -1, &s->session);
    if (code)
        return code;
    code = make_pool(s);
    if (!code)
        code = read_file(s, &interrupted);
    if (code || interrupted)
        return code;
    patience_begin("grant the lease", PATIENCE_ACT_MS);
    int rc = rdmad_lease_grant(s->session, rdmad_pool_base(s->pool), s->bytes, terms, &s->lease);
    patience_end();
    if (rc)
        return fail_rdmad(s, rc);
    code = announce(s);
    return code ? code : hold(s);
}

int cmd_share(const struct command *self, int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct share s = {.fd = -1};
    bool once = false;
    const char *name = NULL;
    uint64_t ttl_ms = 60000;
    const struct opt opts[] = {
        {"name", 'n', OPT_TEXT, &name, 0, 0, "NAME", "publish under this name, too"},
        {"ttl", 't', OPT_TIME, &ttl_ms, 1, UINT64_C(366) * 86400000, "TIME",
         "the lease's whole life, like 500ms, 2s, 5m, 1h (60s)"},
        {"once", 0, OPT_FLAG, &once, 0, 0, NULL, "for one lessee, and over when it is done"},
        {0},
    };
    struct positionals pos = {.names = "FILE", .min = 1, .max = 1, .values = &s.file};
    int code = args_parse(self, opts, &pos, argc, argv);
    if (code != ARGS_RUN)
        return code;
    terms.ttl_ms = ttl_ms;
    terms.rights = RDMAD_RIGHT_READ;
    terms.max_attaches = once ? 1 : 0;
    terms.name = name;
    s.signals = signals_catch();
    code = share(&s, &terms);
    rdmad_close(s.session);
    if (s.fd >= 0)
        close(s.fd);
    close(s.signals);
    return code;
}
