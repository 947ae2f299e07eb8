/* SPDX-License-Identifier: MIT */
/*
 * steady_load OWNER LESSEE [killed] - memory of a session at the daemon in OWNER, written and read
 * without pause by one at the daemon in LESSEE, until it is told to stop by the end of its input.
 * Says "begun" after the first round, "owner resumed" or "lessee resumed" when that session goes on
 * at a next daemon and a round was done there, and at the end how many rounds there were; an op
 * that fails, bytes that are wrong, or anything else that happens to a session end it at once. With
 * "killed" a daemon may be killed, too: an op may end because of that, is counted, and its round
 * proves nothing. What scripts run while certificates change, daemons are upgraded, restarted and
 * killed.
 */
#include <err.h>
#include <poll.h>
#include <rdmad/rdmad.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 65536, BLOCK = 4096 };

static rdmad_session *open_at(const char *dir, rdmad_pool **pool) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    options.runtime_dir = dir;
    if (rdmad_open(&options, &s) || rdmad_pool_create(s, 1 << 20, 0, pool))
        errx(1, "%s: %s", dir, rdmad_last_error(NULL));
    return s;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct {
    bool killed;
    unsigned long rounds, unknown, failed;
    double longest_ms;
} load;

/* Whether the op was done, for which the rest of the round is. */
static bool done(const rdmad_session *s, int rc, double since) {
    double took = now_ms() - since;
    load.longest_ms = took > load.longest_ms ? took : load.longest_ms;
    if (rc == 0)
        return true;
    if (!load.killed || (rc != RDMAD_E_DAEMON_LOST && rc != RDMAD_E_PEER_LOST))
        errx(1, "round %lu: %s", load.rounds, rdmad_last_error(s));
    if (rdmad_last_outcome() == RDMAD_UNKNOWN)
        load.unknown++;
    else
        load.failed++;
    return false;
}

/* Whether all of it was done. */
static bool one_round(const rdmad_session *s, rdmad_lease *there, const char *far, char *buf) {
    char *back = buf + BLOCK;
    uint64_t at = load.rounds * BLOCK % BYTES;
    memset(buf, (int)(load.rounds % 251) + 1, BLOCK);
    double since = now_ms();
    if (!done(s, rdmad_write(there, at, buf, BLOCK), since))
        return false;
    since = now_ms();
    if (!done(s, rdmad_read(there, at, back, BLOCK), since))
        return false;
    if (memcmp(buf, back, BLOCK) != 0 || memcmp(buf, far + at, BLOCK) != 0)
        errx(1, "round %lu: other bytes", load.rounds);
    return true;
}

/* That its lease has more time, or that an operator has it wait. */
static bool is_harmless(uint32_t event) {
    return event == RDMAD_EVENT_LEASE_RENEWED || event == RDMAD_EVENT_PAUSED ||
           event == RDMAD_EVENT_RESUMED;
}

/* Whether it goes on at a next daemon. Nothing else may happen but what is harmless. */
static bool resumed(rdmad_session *s, const char *whose) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    bool any = false;
    while (rdmad_next_event(s, 0, &e) == 0) {
        if (e.type != RDMAD_EVENT_SESSION_RESUMED && !is_harmless(e.type))
            errx(1, "round %lu: %s: event %u: %s", load.rounds, whose, e.type, e.text);
        any = any || e.type == RDMAD_EVENT_SESSION_RESUMED;
    }
    return any;
}

static void rounds(rdmad_session *owner, rdmad_session *lessee, rdmad_lease *there, const char *far,
                   char *buf) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    bool owners = false, lessees = false; /* resumed, and no round was done since */
    do {
        owners = resumed(owner, "owner") || owners;
        lessees = resumed(lessee, "lessee") || lessees;
        if (!one_round(lessee, there, far, buf))
            continue;
        if (load.rounds++ == 0)
            puts("begun");
        if (owners)
            puts("owner resumed");
        if (lessees)
            puts("lessee resumed");
        owners = lessees = false;
    } while (poll(&input, 1, 0) == 0);
}

int main(int argc, char **argv) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool, *near;
    rdmad_lease *granted, *there;
    load.killed = argc == 4 && strcmp(argv[3], "killed") == 0;
    if (argc != 3 && !load.killed)
        errx(2, "usage: steady_load OWNER LESSEE [killed]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    rdmad_session *owner = open_at(argv[1], &pool), *lessee = open_at(argv[2], &near);
    char *far = rdmad_alloc(pool, BYTES), *buf = rdmad_alloc(near, 2 * BLOCK);
    terms.ttl_ms = 3600000;
    if (!far || !buf || rdmad_lease_grant(owner, far, BYTES, &terms, &granted))
        errx(1, "%s", rdmad_last_error(owner));
    if (rdmad_lease_attach(lessee, rdmad_lease_uri(granted), 0, &there))
        errx(1, "%s", rdmad_last_error(lessee));
    rounds(owner, lessee, there, far, buf);
    rdmad_close(lessee);
    rdmad_close(owner);
    if (load.killed)
        printf("%lu ops of unknown outcome, %lu that were not done, ", load.unknown, load.failed);
    printf("%lu rounds, an op took %.0f ms at most\n", load.rounds, load.longest_ms);
    return 0;
}
