/* SPDX-License-Identifier: MIT */
/*
 * test_partition.c - the network between two daemons drops packets, both ways or one, all or some,
 * and heals: each op ends, once, no write lands when its lease is over, each message that is done
 * came once and in order, and whoever waited goes on without a word. By nftables, in a network
 * namespace of the test's own; in the guest, whose devices know only one, in that, and what a
 * device sends is dropped like what its daemon sends.
 */
#include "tests/integration/chan_stream.h"
#include "tests/integration/far_load.h"
#include "tests/support/client.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Silence is noticed soon, so that a case takes seconds. */
#define SETTINGS                                                             \
    "{\"peer\": {\"ping_ms\": 100, \"dead_ms\": 600, \"return_ms\": 60000}," \
    " \"tcp\": {\"dead_peer_ms\": 600}}"

static int nft(const char *rule) {
    char out[512];
    int rc =
        run_program((const char *const[]){"/usr/bin/env", "nft", rule, NULL}, out, sizeof(out));
    return rc;
}

static bool over_verbs(void) {
    return strcmp(test_fabric(), "verbs") == 0;
}

static void namespace_up(void) {
    char out[256];
    if (unshare(CLONE_NEWNET))
        skip("no network namespace can be made here");
    CHECK(run_program((const char *const[]){"/usr/bin/env", "ip", "link", "set", "lo", "up", NULL},
                      out, sizeof(out)) == 0,
          "%s", out);
}

static void network_up(void) {
    if (over_verbs())
        nft("delete table inet wire"); /* of a case that has failed */
    else
        namespace_up();
    if (nft("add table inet wire; add chain inet wire in { type filter hook input priority 0; }"))
        skip("no nftables here");
}

/* The daemon there, and its device in the guest. */
#define NEAR "127.0.0.1, 10.77.0.2"
#define FAR "127.0.0.2, 10.77.0.1"

/* percent of what comes from these addresses is lost. */
static void lose(const char *from, unsigned percent) {
    char rule[200], some[40] = "";
    if (percent < 100)
        snprintf(some, sizeof(some), "numgen random mod 100 < %u", percent);
    if (over_verbs()) {
        snprintf(rule, sizeof(rule),
                 "add rule inet wire in ip saddr { %s } udp dport 4791 %s counter drop", from,
                 some);
        CHECK(nft(rule) == 0, "%s", rule);
    }
    snprintf(rule, sizeof(rule), "add rule inet wire in ip saddr { %s } %s drop", from, some);
    CHECK(nft(rule) == 0, "%s", rule);
}

/* How many packets of devices have been dropped in this case. */
static uint64_t roce_lost;

static void count_roce_lost(void) {
    static const char mark[] = "counter packets ";
    char said[4096];
    const char *const list[] = {"/usr/bin/env", "nft", "list chain inet wire in", NULL};
    CHECK(run_program(list, said, sizeof(said)) == 0, "%s", said);
    for (const char *at = said; (at = strstr(at, mark)); at += sizeof(mark) - 1)
        roce_lost += strtoull(at + sizeof(mark) - 1, NULL, 10);
}

static void heal(void) {
    if (over_verbs())
        count_roce_lost();
    CHECK(nft("flush chain inet wire in") == 0, "the network does not heal");
}

/* What devices say to each other was lost, too, not only what their daemons do. */
static void expect_data_lost(void) {
    CHECK(!over_verbs() || roce_lost, "no packet of a device was lost");
}

#define LONG_MS 3600000 /* the lease's ttl: rounds may take minutes */

struct loss {
    const char *near, *far; /* what comes from there is lost, if not NULL */
    unsigned percent, ms, rounds;
};

static void begin(const struct loss *l) {
    if (l->near)
        lose(l->near, l->percent);
    if (l->far)
        lose(l->far, l->percent);
}

static void loses_by(const char *settings, const struct loss *l) {
    struct far_pair p;
    network_up();
    far_pair_up(&p, settings, LONG_MS, 1);
    struct far_load *load = far_load_start(&p);
    struct chan_stream *stream = chan_stream_start(p.near, p.far, !l->near);
    if (l->ms >= 10000 || over_verbs()) /* the guest's devices may try again for half a minute */
        chan_stream_may_time_out(stream);
    for (unsigned i = 0; i < l->rounds; i++) {
        sleep_ms(100);
        begin(l);
        sleep_ms(l->ms);
        heal();
        chan_stream_expect_progress(stream, "after the network has healed");
    }
    chan_stream_stop(stream);
    double longest_ms = far_load_longest_ms(load);
    printf("    %u ms: the longest addition took %.0f ms\n", l->ms, longest_ms);
    CHECK(l->ms < 30000 || longest_ms < l->ms, "an addition has waited for the network");
    far_load_stop(load);
    expect_data_lost();
    far_pair_works(&p, 1);
    far_pair_expect_no_end(&p);
    far_pair_down(&p);
}

static void loses(const char *near, const char *far, unsigned percent, unsigned ms) {
    loses_by(SETTINGS, &(struct loss){near, far, percent, ms, test_count(20)});
}

static void a_moment_both_ways(void) {
    loses(NEAR, FAR, 100, 300);
}

static void longer_than_it_takes_to_notice_both_ways(void) {
    loses(NEAR, FAR, 100, 1500);
}

static void longer_than_it_takes_to_notice_from_the_lessee(void) {
    loses(NEAR, NULL, 100, 1500);
}

static void longer_than_it_takes_to_notice_from_the_owner(void) {
    loses(NULL, FAR, 100, 1500);
}

static void one_in_a_hundred(void) {
    loses(NEAR, FAR, 1, 500);
}

static void three_in_ten(void) {
    loses(NEAR, FAR, 30, 1000);
}

/* ---- longer, in tests/soak ----------------------------------------------------------------- */

/* Nobody loses patience before the network is back. */
static void need_minutes(void) {
    if (test_scale() == 1)
        skip("it takes minutes: tests/soak has it");
    if (test_patience() < 6)
        setenv("RDMAD_TEST_PATIENCE", "6", 1);
}

static void one_in_twenty(void) {
    need_minutes();
    loses(NEAR, FAR, 5, 500);
}

static void one_in_ten(void) {
    need_minutes();
    loses(NEAR, FAR, 10, 500);
}

/* Peers are waited for for a minute: all goes on. */
static void seconds_by(const char *settings, const char *near, const char *far, unsigned most_ms) {
    static const struct { unsigned ms, rounds; } spans[] = {{1000, 5}, {5000, 3}, {30000, 1}};
    need_minutes();
    for (unsigned i = 0; i < 3 && spans[i].ms <= most_ms; i++)
        loses_by(settings, &(struct loss){near, far, 100, spans[i].ms, spans[i].rounds});
}

static void seconds_both_ways(void) {
    seconds_by(SETTINGS, NEAR, FAR, 30000);
}

static void seconds_from_the_lessee(void) {
    seconds_by(SETTINGS, NEAR, NULL, 30000);
}

static void seconds_from_the_owner(void) {
    seconds_by(SETTINGS, NULL, FAR, 30000);
}

/* Who is to bear a minute bears it, though TCP by itself gives up sooner. */
static void twenty_seconds_that_are_borne(void) {
    need_minutes();
    loses_by("{\"peer\": {\"ping_ms\": 100, \"dead_ms\": 60000, \"return_ms\": 0},"
             " \"tcp\": {\"dead_peer_ms\": 60000}}",
             &(struct loss){NEAR, FAR, 100, 20000, 1});
}

#define DEFAULTS "{}"

static void seconds_both_ways_as_it_is_set(void) {
    seconds_by(DEFAULTS, NEAR, FAR, 5000);
}

static void seconds_from_the_lessee_as_it_is_set(void) {
    seconds_by(DEFAULTS, NEAR, NULL, 5000);
}

static void seconds_from_the_owner_as_it_is_set(void) {
    seconds_by(DEFAULTS, NULL, FAR, 5000);
}

/* As it is set, a peer that is silent is given up before 30 s are over (peer.dead_ms, then
 * peer.return_ms): the handle has ended, nothing lands any more, and another attach works. */
static void half_a_minute_as_it_is_set(const char *near, const char *far) {
    struct far_pair p;
    uint64_t since = now_ms();
    rdmad_lease *again;
    need_minutes();
    network_up();
    far_pair_up(&p, DEFAULTS, LONG_MS, 1);
    struct far_load *load = far_load_start(&p);
    sleep_ms(200);
    begin(&(struct loss){near, far, 100, 30000, 1});
    struct rdmad_event e = client_event(p.lessee, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.reason == RDMAD_E_PEER_LOST, "%s: %s", rdmad_errname(e.reason), e.text);
    printf("    told after %" PRIu64 " ms: %s\n", now_ms() - since, e.text);
    far_load_stop(load);
    while (now_ms() - since < 30000)
        sleep_ms(100);
    char *then = malloc(FAR_BYTES);
    CHECK(then, "out of memory");
    memcpy(then, p.memory, FAR_BYTES);
    heal();
    while (rdmad_lease_attach(p.lessee, rdmad_lease_uri(p.granted), 1000, &again)) {
        CHECK(now_ms() - since < 30000 + TEST_PATIENCE_MS, "%s", rdmad_last_error(p.lessee));
        sleep_ms(100);
    }
    CHECK(memcmp(then, p.memory, FAR_BYTES) == 0, "a byte has changed by a handle that had ended");
    free(then);
    rdmad_lease_free(p.attached);
    p.attached = again;
    far_pair_works(&p, 1);
    far_pair_down(&p);
}

static void half_a_minute_both_ways_as_it_is_set(void) {
    half_a_minute_as_it_is_set(NEAR, FAR);
}

static void half_a_minute_from_the_lessee_as_it_is_set(void) {
    half_a_minute_as_it_is_set(NEAR, NULL);
}

static void half_a_minute_from_the_owner_as_it_is_set(void) {
    half_a_minute_as_it_is_set(NULL, FAR);
}

/* ---- leases and deadlines ------------------------------------------------------------------ */

/* What lies in sockets comes when the network has healed. */
static void no_write_lands_after_its_lease(void) {
    struct far_pair p;
    network_up();
    far_pair_up(&p, SETTINGS, 1500, 1);
    struct far_load *load = far_load_start(&p);
    sleep_ms(200);
    lose(NEAR, 100);
    lose(FAR, 100);
    struct rdmad_event e = client_event(p.owner, RDMAD_EVENT_LEASE_ENDED);
    CHECK(e.reason == RDMAD_E_LEASE_EXPIRED, "%s: %s", rdmad_errname(e.reason), e.text);
    char *then = malloc(FAR_BYTES);
    CHECK(then, "out of memory");
    memcpy(then, p.memory, FAR_BYTES);
    heal();
    sleep_ms(1500);
    CHECK(memcmp(then, p.memory, FAR_BYTES) == 0, "a byte has changed after the lease's end");
    free(then);
    far_load_stop(load);
    far_pair_down(&p);
}

/* Long before the peer is given up; on a slow machine that is later. */
static void an_op_ends_by_its_deadline(void) {
    enum { OPS = 16, DEADLINE_MS = 300 };
    const unsigned dead_ms = 3000 * test_patience();
    const struct rdmad_cqe *cqe;
    struct far_pair p;
    char settings[160];
    snprintf(settings, sizeof(settings),
             "{\"peer\": {\"ping_ms\": 100, \"dead_ms\": %u, \"return_ms\": 60000},"
             " \"tcp\": {\"dead_peer_ms\": %u}}",
             dead_ms, dead_ms);
    network_up();
    far_pair_up(&p, settings, 0, 1);
    rdmad_ring *ring = client_ring(p.lessee, OPS);
    lose(NEAR, 100);
    lose(FAR, 100);
    for (unsigned late = 0; late < 2; late++) { /* the connection is there yet; it is lost */
        uint64_t since = now_ms();
        for (unsigned i = 0; i < OPS; i++) {
            struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
            CHECK(sqe && rdmad_prep_write(ring, sqe, p.attached, 0, p.buffer, 4096, i) == 0, "%s",
                  rdmad_last_error(p.lessee));
            rdmad_sqe_set_deadline(sqe, DEADLINE_MS);
            CHECK(rdmad_ring_submit(ring) == 1, "%s", rdmad_last_error(p.lessee));
        }
        for (unsigned i = 0; i < OPS; i++) {
            CHECK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "op %u has no end", i);
            CHECK(cqe->status == RDMAD_E_TIMEOUT, "a write: %s", rdmad_errname(cqe->status));
            rdmad_ring_seen(ring, cqe);
        }
        CHECK(now_ms() - since < 10 * DEADLINE_MS * test_patience(), "they took %" PRIu64 " ms",
              now_ms() - since);
        if (!late)
            sleep_ms(dead_ms + 1500);
    }
    heal();
    far_pair_works(&p, 1);
    rdmad_ring_destroy(ring);
    far_pair_down(&p);
}

TEST_MAIN(CASE(a_moment_both_ways), CASE(longer_than_it_takes_to_notice_both_ways),
          CASE(longer_than_it_takes_to_notice_from_the_lessee),
          CASE(longer_than_it_takes_to_notice_from_the_owner), CASE(one_in_a_hundred),
          CASE(three_in_ten), CASE(no_write_lands_after_its_lease),
          CASE(an_op_ends_by_its_deadline), CASE(one_in_twenty), CASE(one_in_ten),
          CASE(seconds_both_ways), CASE(seconds_from_the_lessee), CASE(seconds_from_the_owner),
          CASE(twenty_seconds_that_are_borne), CASE(seconds_both_ways_as_it_is_set),
          CASE(seconds_from_the_lessee_as_it_is_set), CASE(seconds_from_the_owner_as_it_is_set),
          CASE(half_a_minute_both_ways_as_it_is_set),
          CASE(half_a_minute_from_the_lessee_as_it_is_set),
          CASE(half_a_minute_from_the_owner_as_it_is_set))
