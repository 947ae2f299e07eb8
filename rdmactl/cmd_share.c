/* SPDX-License-Identifier: MIT */
/*
 * cmd_share.c - share FILE: its bytes in a pool, under a read-only lease, until it ends.
 *
 * The happy path: make a pool of the file's size, read the file straight into it, grant a lease on
 * exactly that range, print its URI, wait. What tells no true size (standard input, files of /proc)
 * is read to its end first. The lessee learns the size from the lease's length, so
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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_AT_ONCE (8u << 20) /* between two looks at the signals */
#define SMALL (64 << 10)

struct shared {
    const char *file;
    int fd, signals;
    size_t bytes;
    bool to_the_end, interrupted;
    struct progress progress;
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
};

static int open_file(struct shared *s) {
    struct stat st;
    bool input = !strcmp(s->file, "-"); /* a file of that name is ./- */
    if (input)
        s->file = "standard input";
    s->fd = input ? STDIN_FILENO : open(s->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st))
        return cli_fail("RDMAD_E_SYSTEM", "%s: %s", s->file, strerror(errno));
    if (!input && !S_ISREG(st.st_mode))
        return cli_fail("RDMAD_E_INVAL",
                        "%s is not a regular file; share takes a file, or - for standard input",
                        s->file);
    /* A small size may be made up, as those of /proc and /sys are: what is there is what counts. */
    s->to_the_end = !S_ISREG(st.st_mode) || st.st_size <= SMALL;
    s->bytes = s->to_the_end ? 0 : (size_t)st.st_size;
    return EXIT_GOOD;
}

static int check_size(const struct shared *s, size_t bytes) {
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    rdmad_session_get_info(s->session, &info);
    char has[CELL_MAX], may[CELL_MAX];
    if (bytes <= info.max_pool_bytes)
        return EXIT_GOOD;
    return cli_fail(
        "RDMAD_E_LIMIT",
        "%s has %s%s, a session may have %s of pool memory: raise "
        "limits.pool_bytes_per_session in the daemon's configuration, or share it in parts",
        s->file, cli_human_bytes(has, (double)bytes), s->to_the_end ? " and perhaps more" : "",
        cli_human_bytes(may, (double)info.max_pool_bytes));
}

static int make_pool(struct shared *s) {
    int code = check_size(s, s->bytes);
    if (code)
        return code;
    patience_begin("make a pool", 0); /* takes its time, by the size */
    int rc = rdmad_pool_create(s->session, s->bytes ? s->bytes : 1, 0, &s->pool);
    patience_end();
    return rc ? cli_fail_rdmad(s->session, rc) : EXIT_GOOD;
}

/* Reads once. ARGS_RUN: there is more; EXIT_GOOD with *got 0: that was the end, or we were
 * interrupted. */
static int share_read_some(struct shared *s, char *to, size_t room, size_t *got) {
    struct pollfd wait[2] = {{.fd = s->signals, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
    *got = 0;
    if (poll(wait, 2, -1) < 0)
        return errno == EINTR ? ARGS_RUN : cli_fail("RDMAD_E_SYSTEM", "poll: %s", strerror(errno));
    s->interrupted = wait[0].revents && signals_take(s->signals) != 0;
    if (s->interrupted)
        return EXIT_GOOD;
    ssize_t n = read(s->fd, to, room < READ_AT_ONCE ? room : READ_AT_ONCE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN
                   ? ARGS_RUN
                   : cli_fail("RDMAD_E_SYSTEM", "%s: %s", s->file, strerror(errno));
    *got = (size_t)n;
    return n ? ARGS_RUN : EXIT_GOOD;
}

/* Straight into the pool. */
static int read_file(struct shared *s) {
    char *to = rdmad_pool_base(s->pool);
    int code = ARGS_RUN;
    size_t done = 0, got;
    while (done < s->bytes && code == ARGS_RUN) {
        code = share_read_some(s, to + done, s->bytes - done, &got);
        done += got;
        progress_show(&s->progress, done, s->bytes);
    }
    if (code == EXIT_GOOD && !s->interrupted)
        return cli_fail("RDMAD_E_SYSTEM", "%s became shorter while it was read", s->file);
    return code == ARGS_RUN ? EXIT_GOOD : code;
}

/* What has no size: into memory of our own, and from there into a pool that fits. */
static int read_to_the_end(struct shared *s) {
    size_t room = 0, got;
    char *all = NULL;
    int code = ARGS_RUN;
    while (code == ARGS_RUN) {
        if (s->bytes == room) {
            room = room ? 2 * room : 2 * SMALL;
            char *grown = realloc(all, room);
            if (!grown) {
                code = cli_fail("RDMAD_E_NOMEM", "out of memory for %s", s->file);
                break;
            }
            all = grown;
        }
        code = share_read_some(s, all + s->bytes, room - s->bytes, &got);
        s->bytes += got;
        if (code == ARGS_RUN && check_size(s, s->bytes))
            code = EXIT_FAILED;
        progress_show(&s->progress, s->bytes, 0);
    }
    if (!code && !s->interrupted)
        code = make_pool(s);
    if (!code && !s->interrupted && all)
        memcpy(rdmad_pool_base(s->pool), all, s->bytes);
    free(all);
    return code;
}

static int share_load(struct shared *s) {
    progress_start(&s->progress);
    int code = s->to_the_end ? read_to_the_end(s) : make_pool(s);
    if (!code && !s->to_the_end)
        code = read_file(s);
    progress_end(&s->progress, s->bytes, s->bytes);
    return code;
}

static int share_announce(const struct shared *s) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(s->lease, &info);
    if (cli.json)
        return cli_print_json(json_pack("{s:s, s:I, s:I, s:f}", "uri", info.uri, "bytes",
                                        (json_int_t)info.length, "lease", (json_int_t)info.id,
                                        "ttl_s", (double)info.ttl_ms / 1e3));
    char size[CELL_MAX], left[CELL_MAX];
    printf("%s\n", info.uri);
    if (fflush(stdout))
        return EXIT_FAILED; /* nobody would know what to fetch; main says why */
    fprintf(stderr, "lease %llu: %s, read-only, ends in %s\n", (unsigned long long)info.id,
            cli_human_bytes(size, (double)info.length),
            cli_human_seconds(left, (double)info.ttl_ms / 1e3));
    return EXIT_GOOD;
}

/* What the event means for the exit code; ARGS_RUN: go on waiting. Standard output already has its
 * one document, so what there is to say goes to standard error. */
static int share_event(const struct rdmad_event *event) {
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

static int share_hold(const struct shared *s) {
    struct pollfd wait[2] = {{.fd = s->signals, .events = POLLIN},
                             {.fd = rdmad_session_fd(s->session), .events = POLLIN}};
    for (;;) {
        struct rdmad_event event = RDMAD_EVENT_INIT;
        while (!rdmad_next_event(s->session, 0, &event)) {
            int code = share_event(&event);
            if (code != ARGS_RUN)
                return code;
        }
        if (poll(wait, 2, -1) > 0 && wait[0].revents && signals_take(s->signals))
            return EXIT_GOOD;
    }
}

static int share(struct shared *s, const struct rdmad_lease_terms *terms) {
    int code = open_file(s);
    if (code)
        return code;
    code = cli_session_open("rdmactl-share", -1, &s->session);
    if (code)
        return code;
    code = share_load(s);
    if (code || s->interrupted)
        return code;
    patience_begin("grant the lease", PATIENCE_ACT_MS);
    int rc = rdmad_lease_grant(s->session, rdmad_pool_base(s->pool), s->bytes, terms, &s->lease);
    patience_end();
    if (rc)
        return cli_fail_rdmad(s->session, rc);
    code = share_announce(s);
    return code ? code : share_hold(s);
}

int cmd_share(const struct command *self, int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct shared s = {.fd = -1};
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
