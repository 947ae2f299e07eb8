/* SPDX-License-Identifier: MIT */
/*
 * reading.c - see reading.h.
 */
#include "rdmactl/reading.h"
#include "rdmactl/bundle.h"
#include "rdmactl/cli.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS 100 /* how long a turn is at most */
/* In flight at a time: enough for a link, and with what is copied from and to still in a cache. */
#define WINDOW (8u << 20)

bool reading_may_come(int rc) {
    return rc == RDMAD_E_DAEMON_LOST || rc == RDMAD_E_NO_DAEMON || rc == RDMAD_E_SHUTDOWN ||
           rc == RDMAD_E_PEER_LOST || rc == RDMAD_E_UNREACHABLE || rc == RDMAD_E_NO_LEASE ||
           rc == RDMAD_E_BUSY;
}

int reading_failed(struct reading *r, int rc, const char *why) {
    r->failed = rc;
    if (!r->again || !reading_may_come(rc))
        return cli_fail(rdmad_errname(rc), "%s", why);
    snprintf(r->lost.code, sizeof(r->lost.code), "%s", rdmad_errname(rc));
    snprintf(r->lost.text, sizeof(r->lost.text), "%s", why);
    return READING_LOST;
}

int reading_open(struct reading *r, rdmad_session *session, rdmad_lease *lease) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease_get_info(lease, &info);
    *r = (struct reading){.session = session, .lease = lease, .again = r->again};
    patience_begin("make a pool and a ring", PATIENCE_ACT_MS);
    int rc = rdmad_pool_create(session, info.length && info.length < WINDOW ? info.length : WINDOW,
                               0, &r->pool);
    if (!rc)
        rc = rdmad_ring_create(session, READING_SLOTS, &r->ring);
    patience_end();
    return rc ? reading_failed(r, rc, rdmad_last_error(session)) : EXIT_GOOD;
}

void reading_start(struct reading *r, uint64_t from, uint64_t bytes, uint32_t piece) {
    r->from = from;
    r->bytes = bytes;
    r->piece = piece;
    r->slots = WINDOW / piece < READING_SLOTS ? WINDOW / piece : READING_SLOTS;
    r->wanted = NULL;
    r->count = bytes / piece + (bytes % piece != 0);
    r->asked = r->taken = r->arrived_mask = 0;
    r->heard_s = cli_now_s();
}

void reading_repeat(struct reading *r, double patience_s) {
    r->asked = r->taken;
    r->arrived_mask = 0;
    r->lost.code[0] = '\0';
    r->heard_s = cli_now_s();
    r->more_s = patience_s;
}

void reading_restore(struct reading *r, const struct reading *was) {
    reading_start(r, was->from, was->bytes, was->piece);
    r->wanted = was->wanted;
    r->count = was->count;
    r->taken = was->taken;
    r->take = was->take;
    r->arg = was->arg;
    reading_repeat(r, 0);
}

static uint64_t piece_number(const struct reading *r, uint64_t i) {
    return r->wanted ? r->wanted[i] : i;
}

static uint64_t piece_size(const struct reading *r, uint64_t number) {
    uint64_t left = r->bytes - number * r->piece;
    return left < r->piece ? left : r->piece;
}

static char *slot(const struct reading *r, uint64_t i) {
    return (char *)rdmad_pool_base(r->pool) + i % r->slots * r->piece;
}

/* Asks for as many pieces as there are free slots. */
static int reading_ask(struct reading *r) {
    uint64_t before = r->asked;
    while (r->asked < r->count && r->asked < r->taken + r->slots) {
        uint64_t number = piece_number(r, r->asked);
        struct rdmad_sqe *sqe = rdmad_ring_reserve(r->ring);
        if (!sqe)
            break;
        int rc = rdmad_prep_read(r->ring, sqe, r->lease, r->from + number * r->piece,
                                 slot(r, r->asked), piece_size(r, number), r->asked);
        if (rc)
            return cli_fail_rdmad(r->session, rc);
        r->asked++;
        r->inflight++;
    }
    if (r->asked == before)
        return EXIT_GOOD;
    /* Until now it had nothing to answer: the output may have been blocked. */
    r->heard_s = cli_now_s();
    int rc = rdmad_ring_submit(r->ring);
    return rc < 0 ? reading_failed(r, rc, rdmad_last_error(r->session)) : EXIT_GOOD;
}

/* A daemon that lives ends each READ by its deadline. For the next one the library waits, twice as
 * long as for an answer (cli_session_try), and ends them then. */
static bool reading_may_arrive(const struct reading *r) {
    double waited_s = cli_now_s() - r->heard_s;
    double patience_s = (double)patience_ms(PATIENCE_ACT_MS) / 1e3;
    return waited_s < patience_s + r->more_s ||
           (waited_s < 3 * patience_s + r->more_s && !daemon_listens());
}

static int reading_silent(const struct reading *r) {
    char state[160], span[CELL_MAX];
    return cli_fail("RDMAD_E_TIMEOUT",
                    "rdmad in %s does not answer: no READ has ended for %s, after %" PRIu64
                    " of %" PRIu64 " pieces; %s",
                    cli.dir, cli_human_seconds(span, cli_now_s() - r->heard_s), r->taken, r->count,
                    daemon_state(state, sizeof(state)));
}

/* Waits for one more READ; ARGS_RUN when none came in time. */
static int reading_arrive(struct reading *r) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(r->ring, LOOK_MS, &cqe);
    if (rc == RDMAD_E_TIMEOUT && r->paused)
        r->heard_s = cli_now_s();
    if (rc == RDMAD_E_TIMEOUT)
        return reading_may_arrive(r) ? ARGS_RUN : reading_silent(r);
    if (rc)
        return reading_failed(r, rc, rdmad_last_error(r->session));
    int code = EXIT_GOOD;
    if (cqe->status) {
        char why[RDMAD_TEXT_MAX + 1];
        rdmad_ring_explain(r->ring, cqe, why, sizeof(why));
        code = reading_failed(r, cqe->status, why);
    } else {
        r->more_s = 0;
    }
    r->heard_s = cli_now_s();
    r->arrived_mask |= UINT64_C(1) << cqe->user_data % r->slots;
    r->inflight--;
    rdmad_ring_seen(r->ring, cqe);
    return code == READING_LOST && r->inflight ? EXIT_GOOD : code;
}

/* Hands out what has arrived, in order. */
static int reading_drain(struct reading *r) {
    int code = EXIT_GOOD;
    while (!code && r->taken < r->asked && (r->arrived_mask & UINT64_C(1) << r->taken % r->slots)) {
        uint64_t number = piece_number(r, r->taken);
        code = r->take(r->arg, number, slot(r, r->taken), piece_size(r, number));
        r->arrived_mask &= ~(UINT64_C(1) << r->taken % r->slots);
        r->taken++;
    }
    return code;
}

bool reading_over(const struct reading *r) {
    return r->taken == r->count;
}

int reading_turn(struct reading *r) {
    int code = reading_ask(r);
    if (!code)
        code = reading_arrive(r);
    if (code)
        return code == ARGS_RUN ? EXIT_GOOD : code;
    if (r->lost.code[0]) /* what is under way still writes to its slot */
        return r->inflight ? EXIT_GOOD : READING_LOST;
    return reading_drain(r);
}

struct copying {
    char *to;
    uint32_t piece;
};

static int copy_out(void *arg, uint64_t piece, const void *data, uint64_t size) {
    const struct copying *c = arg;
    memcpy(c->to + piece * c->piece, data, size);
    return EXIT_GOOD;
}

int reading_copy(struct reading *r, uint64_t from, void *to, uint64_t bytes) {
    struct copying c = {to, BUNDLE_PIECE};
    int code = EXIT_GOOD;
    reading_start(r, from, bytes, BUNDLE_PIECE);
    r->take = copy_out;
    r->arg = &c;
    while (!code && !reading_over(r))
        code = reading_turn(r);
    r->take = NULL;
    r->arg = NULL;
    return code;
}
