/* SPDX-License-Identifier: MIT */
/*
 * The ends of connections that peers make here: what hellos are refused, how many there may be,
 * that those whose other end is gone are found and leave nothing, and that a peer whose messages
 * are not as they should be harms its own connection alone.
 */
#include "daemon/fabric/verbs/target/targets.h"
#include "tests/unit/verbs_rig.h"
#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define BYTES ((size_t)16 << 10)

struct scene {
    struct side owner;
    struct raw raw;
    struct wnd window; /* of PEER, all rights */
    struct range range;
    struct resources before, idle; /* without anything; with the window */
};

static void scene_open(struct scene *s, unsigned links_per_peer) {
    *s = (struct scene){.before = resources_of("rxe0")};
    side_defaults(&s->owner, "rxe0");
    s->owner.settings.verbs.links_per_peer = links_per_peer;
    s->owner.settings.verbs.lanes = 4;
    side_open(&s->owner);
    raw_open(&s->raw, "rxe1", BYTES);
    s->range =
        (struct range){.base = map_pages(BYTES), .length = BYTES, .rights = RDMAD_RIGHTS_ALL};
    wnd_open(&s->owner, &s->window, PEER, &s->range);
    s->idle = resources_of("rxe0");
    s->idle.cq = ANY_CQ;
}

static void scene_close(struct scene *s) {
    raw_close(&s->raw);
    wnd_close(&s->owner, &s->window);
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
}

static unsigned accepted(const struct scene *s) {
    return fabric_verbs.accepted(s->owner.fabric);
}

static int offer(struct scene *s, const struct verbs_hello *hello, struct error *err) {
    struct fabric_blob blob, answer;
    blob_write_hello(hello, &blob);
    return fabric_verbs.offer(s->owner.fabric, PEER, false, &blob, &answer, err);
}

static void hostile_hellos_are_refused_and_leave_nothing(void) {
    struct scene s;
    struct verbs_hello good, bad;
    struct fabric_blob blob, answer;
    struct error err = {0};
    scene_open(&s, 4);
    raw_hello(&s.raw, 1, &good);
    blob_write_hello(&good, &blob);
    for (unsigned size = 0; size <= FABRIC_BLOB_MAX; size++) {
        struct fabric_blob cut = blob;
        cut.size = (uint8_t)size;
        if (size == blob.size)
            continue;
        err.text[0] = 0;
        CHECK(fabric_verbs.offer(s.owner.fabric, PEER, false, &cut, &answer, &err) < 0, "size %u",
              size);
        CHECK(err.text[0], "no word about it");
    }
    uint64_t random = 1;
    for (unsigned i = 0; i < 2000; i++) {
        struct fabric_blob noise = {.size = (uint8_t)(i % (FABRIC_BLOB_MAX + 1))};
        for (unsigned k = 0; k < noise.size; k++)
            noise.bytes[k] = (uint8_t)((random = random * 6364136223846793005u + 1) >> 33);
        CHECK(fabric_verbs.offer(s.owner.fabric, PEER, false, &noise, &answer, &err) < 0,
              "noise %u", i);
    }
    bad = good;
    memset(bad.end.gid, 0, sizeof(bad.end.gid));
    CHECK(offer(&s, &bad, &err) == RDMAD_E_PROTOCOL, "no address: %s", err.text);
    bad = good;
    bad.end.link_layer = IBV_LINK_LAYER_INFINIBAND;
    bad.end.lid = 1;
    CHECK(offer(&s, &bad, &err) == RDMAD_E_FABRIC, "InfiniBand: %s", err.text);
    CHECK(strstr(err.text, "InfiniBand") && strstr(err.text, "Ethernet"), "%s", err.text);
    bad = good;
    bad.end.qp_num[0] = 1u << 24;
    CHECK(offer(&s, &bad, &err) < 0, "a QP number of 25 bits");
    CHECK(accepted(&s) == 0, "a target is left");
    expect_resources("rxe0", &s.idle);
    scene_close(&s);
}

static void lanes_are_as_many_as_both_want(void) {
    struct scene s;
    scene_open(&s, 4);
    raw_connect(&s.raw, &s.owner, PEER, 8);
    CHECK(resources_of("rxe0").qp == s.idle.qp + 4, "not the four that are set here");
    fabric_verbs.expel(s.owner.fabric, PEER);
    expect_resources("rxe0", &s.idle);
    raw_connect(&s.raw, &s.owner, PEER, 3);
    CHECK(resources_of("rxe0").qp == s.idle.qp + 3, "not the three that were asked for");
    for (unsigned lane = 0; lane < 3; lane++)
        CHECK(raw_access(&s.raw, lane, IBV_WR_RDMA_WRITE, &s.window.key, lane, 1) == IBV_WC_SUCCESS,
              "lane %u", lane);
    scene_close(&s);
}

static void a_peer_has_so_many_links_and_then_its_oldest_goes(void) {
    struct scene s;
    struct raw more[3];
    struct error err = {0};
    scene_open(&s, 2);
    for (unsigned i = 0; i < 3; i++)
        raw_open(&more[i], "rxe1", BYTES);
    raw_connect(&more[0], &s.owner, PEER, 1);
    raw_connect(&more[1], &s.owner, PEER, 1);
    CHECK(raw_try(&more[2], &s.owner, PEER, 1, &err) == RDMAD_E_LIMIT, "a third");
    CHECK(strstr(err.text, "2") && strstr(err.text, "verbs.links_per_peer"), "%s", err.text);
    raw_connect(&s.raw, &s.owner, OTHER_PEER, 1); /* its limit is its own */
    s.owner.skew_ns = 11 * NSEC_PER_SEC;
    raw_connect(&more[2], &s.owner, PEER, 1);
    CHECK(accepted(&s) == 3, "%u", accepted(&s));
    CHECK(raw_access(&more[1], 0, IBV_WR_RDMA_WRITE, &s.window.key, 0, 8) == IBV_WC_SUCCESS,
          "the younger one went");
    CHECK(raw_access(&more[2], 0, IBV_WR_RDMA_WRITE, &s.window.key, 0, 8) == IBV_WC_SUCCESS,
          "the new one does not work");
    CHECK(raw_access(&more[0], 0, IBV_WR_RDMA_WRITE, &s.window.key, 0, 8) != IBV_WC_SUCCESS,
          "the oldest stayed");
    for (unsigned i = 0; i < 3; i++)
        raw_close(&more[i]);
    scene_close(&s);
}

/* With no event and no word, as on devices that report nothing. */
static void broken_targets_do_not_pile_up(void) {
    struct scene s;
    scene_open(&s, 4);
    for (unsigned i = 0; i < 20; i++) {
        raw_connect(&s.raw, &s.owner, PEER, 2);
        enum ibv_wc_status status =
            raw_access(&s.raw, i % 2, IBV_WR_RDMA_WRITE, &s.window.key, BYTES, 1);
        CHECK(status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(status));
        CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
    }
    scene_close(&s);
}

static void a_qp_that_comes_again_replaces_its_target(void) {
    struct scene s;
    struct verbs_hello hello;
    struct error err = {0};
    scene_open(&s, 64);
    raw_hello(&s.raw, 2, &hello);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(offer(&s, &hello, &err) == 0, "%s", err.text);
        CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
    }
    raw_connect(&s.raw, &s.owner, OTHER_PEER, 1); /* nobody else's business */
    CHECK(accepted(&s) == 2, "%u targets", accepted(&s));
    scene_close(&s);
}

static void what_is_forgotten_or_expelled_leaves_nothing(void) {
    struct scene s;
    struct raw second;
    scene_open(&s, 64);
    raw_open(&second, "rxe1", BYTES);
    for (unsigned round = 0; round < 5; round++) {
        raw_connect(&s.raw, &s.owner, PEER, 4);
        raw_connect(&second, &s.owner, PEER, 4);
        fabric_verbs.forget(s.owner.fabric, OTHER_PEER, s.raw.number);
        fabric_verbs.forget(s.owner.fabric, PEER, 0);
        CHECK(accepted(&s) == 2, "another's, or none");
        fabric_verbs.forget(s.owner.fabric, PEER, s.raw.number);
        fabric_verbs.forget(s.owner.fabric, PEER, s.raw.number);
        CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
        CHECK(raw_access(&second, 0, IBV_WR_RDMA_WRITE, &s.window.key, 0, 8) == IBV_WC_SUCCESS,
              "the wrong one");
        fabric_verbs.expel(s.owner.fabric, PEER);
        fabric_verbs.expel(s.owner.fabric, PEER);
        CHECK(accepted(&s) == 0, "%u targets", accepted(&s));
        expect_resources("rxe0", &s.idle);
    }
    raw_close(&second);
    scene_close(&s);
}

/* The kernel driver here reports none, so we do. */
static void an_event_ends_the_target_that_broke_and_no_other(void) {
    struct scene s;
    struct raw well;
    scene_open(&s, 64);
    struct verbs *v = verbs_of(s.owner.fabric);
    raw_open(&well, "rxe1", BYTES);
    raw_connect(&well, &s.owner, PEER, 1);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    struct verbs_target *t = NULL;
    list_for_each (pos, &v->peers)
        t = target_by_number(list_entry(pos, struct vpeer, node), s.raw.number);
    CHECK(t, "no target");
    uint32_t qp_num = t->queue[0].qp->qp_num;
    CHECK(targets_qp_event(v, qp_num, IBV_EVENT_QP_ACCESS_ERR), "not ours");
    CHECK(accepted(&s) == 2, "a QP that works was ended by a late event");
    CHECK(!targets_qp_event(v, 0, IBV_EVENT_QP_ACCESS_ERR), "nobody's, and taken");
    raw_access(&s.raw, 0, IBV_WR_RDMA_WRITE, &s.window.key, BYTES, 1);
    CHECK(targets_qp_event(v, qp_num, IBV_EVENT_QP_ACCESS_ERR), "not ours");
    CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
    CHECK(raw_access(&well, 0, IBV_WR_RDMA_WRITE, &s.window.key, 0, 8) == IBV_WC_SUCCESS,
          "the wrong one");
    raw_close(&well);
    scene_close(&s);
}

/* ---- messages of peers that lie ------------------------------------------------------------ */

static const struct verbs_key nowhere = {.count = 1};

static enum ibv_wc_status send_raw(struct raw *r, uint32_t length) {
    return raw_access(r, 0, IBV_WR_SEND, &nowhere, 0, length);
}

/* Peers s.raw and honest are connected; then nothing of s.raw may matter to honest. */
static void expect_honest_heard(struct scene *s, struct raw *honest) {
    unsigned before = s->owner.messages;
    CHECK(send_raw(honest, 100) == IBV_WC_SUCCESS, "an honest peer cannot send");
    SIDE_UNTIL(&s->owner, s->owner.messages == before + 1);
}

static void two_peers(struct scene *s, struct raw *honest) {
    scene_open(s, 4);
    raw_open(honest, "rxe1", BYTES);
    raw_connect(honest, &s->owner, OTHER_PEER, 1);
    raw_connect(&s->raw, &s->owner, PEER, 1);
}

static void two_peers_close(struct scene *s, struct raw *honest) {
    raw_close(honest);
    fabric_verbs.expel(s->owner.fabric, OTHER_PEER);
    scene_close(s);
}

static void who_sends_more_than_it_may_loses_its_own_link(void) {
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    for (unsigned i = 0; i < s.raw.inbox.count; i++)
        CHECK(send_raw(&s.raw, 8) == IBV_WC_SUCCESS, "message %u of %u", i, s.raw.inbox.count);
    enum ibv_wc_status status = send_raw(&s.raw, 8);
    CHECK(status == IBV_WC_RNR_RETRY_EXC_ERR, "%s", ibv_wc_status_str(status));
    SIDE_UNTIL(&s.owner, s.owner.messages == s.raw.inbox.count);
    expect_honest_heard(&s, &honest);
    two_peers_close(&s, &honest);
}

static void a_message_that_is_too_long_ends_its_own_link(void) {
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    CHECK(send_raw(&s.raw, s.raw.inbox.size) == IBV_WC_SUCCESS, "one that just fits");
    enum ibv_wc_status status = send_raw(&s.raw, s.raw.inbox.size + 1);
    CHECK(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR, "%s",
          ibv_wc_status_str(status)); /* the former by the standard, the latter by rxe */
    SIDE_UNTIL(&s.owner, accepted(&s) == 1);
    CHECK(s.owner.messages == 1 && s.owner.message_bytes == s.raw.inbox.size, "%u messages",
          s.owner.messages);
    expect_honest_heard(&s, &honest);
    two_peers_close(&s, &honest);
}

static void a_message_of_another_kind_is_not_handed_on_and_ends_its_own_link(void) {
    static const enum ibv_wr_opcode kinds[] = {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM};
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(raw_access(&s.raw, 0, kinds[i], &s.window.key, 0, 8) == IBV_WC_SUCCESS, "kind %u", i);
        SIDE_UNTIL(&s.owner, accepted(&s) == 1);
        CHECK(s.owner.messages == i, "%u messages", s.owner.messages);
        expect_honest_heard(&s, &honest);
        raw_connect(&s.raw, &s.owner, PEER, 1);
    }
    two_peers_close(&s, &honest);
}

/* The counter is for reading, by its own peer. */
static void of_an_inbox_a_peer_reaches_but_its_counter(void) {
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    struct verbs_key counter = {
        .address = s.raw.inbox.address, .count = 1, .rkey = {s.raw.inbox.rkey}};
    memset(s.raw.buffer, 0xff, 8);
    expect_honest_heard(&s, &honest);
    CHECK(send_raw(&s.raw, 8) == IBV_WC_SUCCESS, "a message");
    SIDE_UNTIL(&s.owner, s.owner.messages == 2);
    CHECK(raw_access(&s.raw, 0, IBV_WR_RDMA_READ, &counter, 0, 8) == IBV_WC_SUCCESS, "its own");
    CHECK(s.raw.buffer[0] == 1 && s.raw.buffer[7] == 0, "it counts %u", s.raw.buffer[0]);
    CHECK(raw_access(&honest, 0, IBV_WR_RDMA_READ, &counter, 0, 8) != IBV_WC_SUCCESS,
          "another peer's");
    CHECK(raw_access(&s.raw, 0, IBV_WR_RDMA_WRITE, &counter, 0, 8) != IBV_WC_SUCCESS, "a write");
    raw_connect(&s.raw, &s.owner, PEER, 1);
    counter.rkey[0] = s.raw.inbox.rkey;
    uint32_t beyond = sizeof(struct inbox_page) + 1;
    CHECK(raw_access(&s.raw, 0, IBV_WR_RDMA_READ, &counter, 0, beyond) != IBV_WC_SUCCESS,
          "beyond it");
    two_peers_close(&s, &honest);
}

/* By memory windows all peers are in one PD, where another's rkey is one of some millions. */
static void of_an_inbox_nobody_knows_the_address_but_its_peer(void) {
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    uint64_t was = s.raw.inbox.address, other = honest.inbox.address;
    CHECK(was > UINT32_MAX && other > UINT32_MAX && was != other, "%" PRIx64 " and %" PRIx64, was,
          other);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    CHECK(s.raw.inbox.address != was, "it lies where it lay before");
    two_peers_close(&s, &honest);
}

static void a_request_that_no_daemon_makes_ends_its_own_link(void) {
    static const struct {
        uint32_t kind, qp_num, bytes;
    } bad[] = {{WEAK_KINDS, 100, sizeof(struct weak_request)},
               {WEAK_DATAGRAM, 1, sizeof(struct weak_request)},
               {WEAK_UNACKED, 1u << 24, sizeof(struct weak_request)},
               {WEAK_DATAGRAM, 100, sizeof(struct weak_request) - 1},
               {WEAK_DATAGRAM, 100, 0}};
    struct scene s;
    struct raw honest;
    two_peers(&s, &honest);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        raw_request_weak(&s.raw, bad[i].kind, bad[i].qp_num, bad[i].bytes);
        SIDE_UNTIL(&s.owner, accepted(&s) == 1);
        raw_connect(&s.raw, &s.owner, PEER, 1);
    }
    for (unsigned i = 0; i < 10; i++)
        side_turn(&s.owner);
    unsigned qps = resources_of("rxe0").qp;
    raw_request_weak(&s.raw, WEAK_DATAGRAM, 100, sizeof(struct weak_request));
    raw_request_weak(&s.raw, WEAK_UNACKED, 100, sizeof(struct weak_request));
    for (unsigned i = 0; i < 10; i++)
        side_turn(&s.owner);
    CHECK(accepted(&s) == 2, "two receivers were two too many");
    CHECK(resources_of("rxe0").qp == qps + 2, "a QP for each");
    raw_request_weak(&s.raw, WEAK_UNACKED, 100, sizeof(struct weak_request));
    SIDE_UNTIL(&s.owner, accepted(&s) == 1);
    expect_honest_heard(&s, &honest);
    CHECK(s.owner.messages == 1, "a request was handed on");
    two_peers_close(&s, &honest);
}

/* No device, and then one again. */
static void without_a_device_there_is_no_offer_but_a_reason(void) {
    struct scene s;
    struct error err = {0};
    scene_open(&s, 64);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    shell("(rdma link delete rxe0; sleep 2; rdma link add rxe0 type rxe netdev va) &");
    SIDE_UNTIL(&s.owner, !verbs_of(s.owner.fabric)->device);
    CHECK(accepted(&s) == 0, "a target on a device that is gone");
    CHECK(raw_try(&s.raw, &s.owner, PEER, 1, &err) == RDMAD_E_FABRIC, "an offer on no device");
    CHECK(strlen(err.text) > 20, "%s", err.text);
    SIDE_UNTIL(&s.owner, verbs_of(s.owner.fabric)->device);
    raw_connect(&s.raw, &s.owner, PEER, 1);
    CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
    scene_close(&s);
}

/* The kernel would look for it for a second, on the worker. */
static void an_address_that_nobody_has_holds_nobody_up(void) {
    struct scene s;
    struct verbs_hello hello;
    struct error err = {0};
    scene_open(&s, 4);
    raw_hello(&s.raw, 1, &hello);
    hello.end.gid[15] = 99; /* 10.77.0.99 */
    uint64_t start_ns = clock_now_ns();
    for (unsigned i = 0; i < 10; i++)
        CHECK(offer(&s, &hello, &err) == RDMAD_E_UNREACHABLE, "%s", err.text);
    CHECK(strstr(err.text, "10.77.0.99"), "%s", err.text);
    CHECK(clock_now_ns() - start_ns < NSEC_PER_SEC, "it waits for the neighbour");
    CHECK(accepted(&s) == 0, "a target stays");
    CHECK(shell("ip neigh show 10.77.0.99 | grep -q .") == 0, "nobody looks for it");
    CHECK(shell("ip neigh replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev va") == 0, "neigh");
    CHECK(offer(&s, &hello, &err) == 0, "known, and refused: %s", err.text);
    CHECK(shell("ip neigh del 10.77.0.99 dev va") == 0, "neigh");
    fabric_verbs.expel(s.owner.fabric, PEER);
    scene_close(&s);
}

TEST_MAIN(CASE(hostile_hellos_are_refused_and_leave_nothing),
          CASE(an_address_that_nobody_has_holds_nobody_up), CASE(lanes_are_as_many_as_both_want),
          CASE(a_peer_has_so_many_links_and_then_its_oldest_goes),
          CASE(broken_targets_do_not_pile_up), CASE(a_qp_that_comes_again_replaces_its_target),
          CASE(what_is_forgotten_or_expelled_leaves_nothing),
          CASE(an_event_ends_the_target_that_broke_and_no_other),
          CASE(who_sends_more_than_it_may_loses_its_own_link),
          CASE(a_message_that_is_too_long_ends_its_own_link),
          CASE(a_message_of_another_kind_is_not_handed_on_and_ends_its_own_link),
          CASE(of_an_inbox_a_peer_reaches_but_its_counter),
          CASE(of_an_inbox_nobody_knows_the_address_but_its_peer),
          CASE(a_request_that_no_daemon_makes_ends_its_own_link),
          CASE(without_a_device_there_is_no_offer_but_a_reason))
