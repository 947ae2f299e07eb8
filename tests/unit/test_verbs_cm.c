/* SPDX-License-Identifier: MIT */
/*
 * Connecting by rdma_cm: that it works, whom it refuses, and that it ends in time whatever the
 * other end does.
 */
#include "tests/unit/verbs_rig.h"
#include <string.h>

#define BYTES ((size_t)64 << 10)

struct scene {
    struct side owner, lessee;
    struct wnd window; /* of PEER, all rights */
    struct range range;
    struct fabric_link *link;
    uint8_t *local;
    struct fabric_memory *memory; /* where local is, at the lessee */
    struct resources before, lessee_before;
};

static void scene_open(struct scene *s) {
    struct error err = {0};
    *s = (struct scene){.before = resources_of("rxe0"), .lessee_before = resources_of("rxe1")};
    side_defaults(&s->owner, "rxe0");
    side_defaults(&s->lessee, "rxe1");
    s->lessee.settings.verbs.cm = true;
    s->lessee.settings.connect_timeout_ns = 5 * NSEC_PER_SEC;
    side_open(&s->owner);
    side_open(&s->lessee);
    s->local = map_pages(BYTES);
    CHECK(fabric_verbs.memory_add(s->lessee.host, s->local, BYTES, &s->memory, &err) == 0, "%s",
          err.text);
    s->range =
        (struct range){.base = map_pages(BYTES), .length = BYTES, .rights = RDMAD_RIGHTS_ALL};
    wnd_open(&s->owner, &s->window, PEER, &s->range);
}

static void turn(struct scene *s) {
    side_turn(&s->owner);
    side_turn(&s->lessee);
}
#define UNTIL(s, condition)                                                   \
    do {                                                                      \
        uint64_t until_ = clock_now_ns() + 20 * NSEC_PER_SEC;                 \
        while (!(condition)) {                                                \
            turn(s);                                                          \
            CHECK(clock_now_ns() < until_, "%s never came true", #condition); \
        }                                                                     \
    } while (0)

static void hang_up(struct scene *s) {
    if (s->link)
        fabric_verbs.link_close(s->link);
    s->link = NULL;
}

static void scene_close(struct scene *s) {
    hang_up(s);
    wnd_close(&s->owner, &s->window);
    fabric_verbs.memory_remove(s->memory);
    side_close(&s->lessee);
    side_close(&s->owner);
    expect_resources("rxe0", &s->before);
    expect_resources("rxe1", &s->lessee_before);
}

static void offer(struct scene *s, struct verbs_offer *out) {
    struct fabric_blob hello, blob;
    struct error err = {0};
    CHECK(fabric_verbs.link_new(s->lessee.fabric, NULL, false, &s->link, &hello, &err) == 0, "%s",
          err.text);
    CHECK(fabric_verbs.offer(s->owner.fabric, PEER, false, &hello, &blob, &err) == 0, "%s",
          err.text);
    CHECK(blob_read_offer(&blob, out) && out->cm, "an offer that is none by rdma_cm");
}

/* Returns what link_open did; a link that is lost is waited for. */
static void dial(struct scene *s, const struct verbs_offer *o) {
    struct fabric_blob blob;
    struct error err = {0};
    unsigned up = s->lessee.up, lost = s->lessee.lost;
    blob_write_offer(o, &blob);
    CHECK(fabric_verbs.link_open(s->link, "127.0.0.1", &blob, &err) == 0, "%s", err.text);
    UNTIL(s, s->lessee.up > up || s->lessee.lost > lost);
}

static void connect_up(struct scene *s) {
    struct verbs_offer o;
    unsigned up = s->lessee.up;
    offer(s, &o);
    dial(s, &o);
    CHECK(s->lessee.up == up + 1, "%s", s->lessee.why.text);
    CHECK(s->link->number == o.number && s->link->max_message > 0, "not told all of it");
}

static void transfer(struct scene *s, uint8_t opcode, uint64_t length) {
    struct fabric_op op = {.opcode = opcode,
                           .local = s->local,
                           .memory = s->memory,
                           .length = length,
                           .key = &s->window.blob};
    unsigned completed = s->lessee.completed;
    CHECK(fabric_verbs.post(s->link, &op) == 0, "not posted");
    UNTIL(s, s->lessee.completed > completed);
    CHECK(op.status == RDMAD_OK, "status %d", op.status);
}

/* By rdma_cm, too, the other end tells where its inbox is, and where weak messages go. */
static void message(struct scene *s, uint8_t service) {
    struct fabric_op op = {.opcode = RDMAD_OP_SEND,
                           .service = service,
                           .head = "head",
                           .head_size = 4,
                           .local = s->local,
                           .length = 104};
    unsigned completed = s->lessee.completed, messages = s->owner.messages;
    CHECK(fabric_verbs.post(s->link, &op) == 0, "not posted");
    UNTIL(s, s->lessee.completed > completed && s->owner.messages > messages);
    CHECK(op.status == RDMAD_OK, "status %d", op.status);
}

static unsigned accepted(const struct scene *s) {
    return fabric_verbs.accepted(s->owner.fabric);
}

static void a_link_by_rdma_cm_writes_and_reads(void) {
    struct scene s;
    scene_open(&s);
    connect_up(&s);
    CHECK(accepted(&s) == 1, "%u targets", accepted(&s));
    memset(s.local, 0x5a, BYTES);
    transfer(&s, RDMAD_OP_WRITE, BYTES);
    CHECK(memcmp(s.local, s.range.base, BYTES) == 0, "not what was written");
    memset(s.range.base, 0xa5, BYTES);
    transfer(&s, RDMAD_OP_READ, BYTES);
    CHECK(memcmp(s.local, s.range.base, BYTES) == 0, "not what was read");
    transfer(&s, RDMAD_OP_FADD, 8);
    for (unsigned i = 0; i < 200; i++)
        message(&s, RDMAD_CHANNEL_RELIABLE);
    message(&s, RDMAD_CHANNEL_DATAGRAM);
    message(&s, RDMAD_CHANNEL_UNACKED);
    scene_close(&s);
}

/* By rdma_cm the other end is told. */
static void who_hangs_up_is_noticed_on_both_sides(void) {
    struct scene s;
    scene_open(&s);
    for (unsigned i = 0; i < 5; i++) {
        connect_up(&s);
        hang_up(&s);
        UNTIL(&s, accepted(&s) == 0);
        connect_up(&s);
        unsigned lost = s.lessee.lost;
        fabric_verbs.expel(s.owner.fabric, PEER);
        CHECK(accepted(&s) == 0, "%u targets", accepted(&s));
        UNTIL(&s, s.lessee.lost == lost + 1);
        CHECK(s.lessee.why.code == RDMAD_E_PEER_LOST, "%s", s.lessee.why.text);
        hang_up(&s);
    }
    scene_close(&s);
}

static void a_token_is_good_for_one_connection_of_its_peer(void) {
    struct scene s;
    struct verbs_offer o, wrong;
    scene_open(&s);
    offer(&s, &o);
    wrong = o;
    wrong.token[15] ^= 1;
    dial(&s, &wrong);
    CHECK(s.lessee.lost == 1 && s.lessee.why.code == RDMAD_E_UNREACHABLE, "%s", s.lessee.why.text);
    CHECK(strstr(s.lessee.why.text, "token"), "%s", s.lessee.why.text);
    CHECK(accepted(&s) == 0, "a target for a wrong token");
    hang_up(&s);

    struct fabric_blob hello;
    struct error err = {0};
    CHECK(fabric_verbs.link_new(s.lessee.fabric, NULL, false, &s.link, &hello, &err) == 0, "%s",
          err.text);
    dial(&s, &o); /* the right one is still good */
    CHECK(s.lessee.up == 1 && accepted(&s) == 1, "%s", s.lessee.why.text);
    hang_up(&s);
    CHECK(fabric_verbs.link_new(s.lessee.fabric, NULL, false, &s.link, &hello, &err) == 0, "%s",
          err.text);
    dial(&s, &o);
    CHECK(s.lessee.up == 1 && s.lessee.lost == 2, "a token was good twice");
    scene_close(&s);
}

static void a_token_that_is_late_or_taken_back_is_refused(void) {
    struct scene s;
    struct verbs_offer o;
    scene_open(&s);
    offer(&s, &o);
    s.owner.skew_ns = 11 * NSEC_PER_SEC;
    dial(&s, &o);
    CHECK(s.lessee.up == 0 && s.lessee.lost == 1, "late");
    hang_up(&s);
    offer(&s, &o);
    fabric_verbs.expel(s.owner.fabric, PEER);
    dial(&s, &o);
    CHECK(s.lessee.up == 0 && s.lessee.lost == 2, "taken back");
    scene_close(&s);
}

static void unused_offers_count_and_expire(void) {
    struct scene s;
    struct verbs_offer o;
    struct fabric_blob hello, blob;
    struct error err = {0};
    scene_open(&s);
    s.owner.settings.verbs.links_per_peer = 3;
    for (unsigned i = 0; i < 3; i++) {
        offer(&s, &o);
        hang_up(&s);
    }
    CHECK(fabric_verbs.link_new(s.lessee.fabric, NULL, false, &s.link, &hello, &err) == 0, "%s",
          err.text);
    CHECK(fabric_verbs.offer(s.owner.fabric, PEER, false, &hello, &blob, &err) == RDMAD_E_LIMIT,
          "four");
    s.owner.skew_ns = 11 * NSEC_PER_SEC;
    turn(&s);
    turn(&s);
    CHECK(fabric_verbs.offer(s.owner.fabric, PEER, false, &hello, &blob, &err) == 0, "%s",
          err.text);
    scene_close(&s);
}

/* Nobody listens; an address that nobody has; an owner that stops answering. */
static void a_link_that_nobody_answers_is_lost_in_time(void) {
    struct scene s;
    struct verbs_offer o, wrong;
    scene_open(&s);
    offer(&s, &o);
    wrong = o;
    wrong.port = 1;
    dial(&s, &wrong);
    CHECK(s.lessee.lost == 1, "no listener");
    hang_up(&s);
    struct fabric_blob hello, blob;
    struct error err = {0};
    CHECK(fabric_verbs.link_new(s.lessee.fabric, NULL, false, &s.link, &hello, &err) == 0, "%s",
          err.text);
    wrong = o;
    wrong.address[15] = 99;
    uint64_t before = clock_now_ns();
    dial(&s, &wrong);
    CHECK(s.lessee.lost == 2, "no such host");
    CHECK(clock_now_ns() - before < 10 * NSEC_PER_SEC, "it took its time");
    hang_up(&s);
    CHECK(fabric_verbs.link_new(s.lessee.fabric, NULL, false, &s.link, &hello, &err) == 0, "%s",
          err.text);
    blob_write_offer(&o, &blob);
    CHECK(fabric_verbs.link_open(s.link, "127.0.0.1", &blob, &err) == 0, "%s", err.text);
    before = clock_now_ns();
    SIDE_UNTIL(&s.lessee, s.lessee.lost == 3); /* the owner is not turned */
    CHECK(clock_now_ns() - before < 10 * NSEC_PER_SEC, "it took its time");
    hang_up(&s);
    for (unsigned i = 0; i < 50; i++)
        turn(&s); /* the owner finds a request whose sender has left */
    s.owner.skew_ns = 11 * NSEC_PER_SEC;
    UNTIL(&s, accepted(&s) == 0);
    scene_close(&s);
}

/* A call is closed at every point of its way. */
static void a_link_may_be_closed_while_it_connects(void) {
    struct scene s;
    scene_open(&s);
    for (unsigned turns = 0; turns < 60; turns++) {
        struct verbs_offer o;
        struct fabric_blob blob;
        struct error err = {0};
        offer(&s, &o);
        blob_write_offer(&o, &blob);
        CHECK(fabric_verbs.link_open(s.link, "127.0.0.1", &blob, &err) == 0, "%s", err.text);
        for (unsigned i = 0; i < turns; i++)
            turn(&s);
        hang_up(&s);
        if (turns % 4 == 0)
            fabric_verbs.expel(s.owner.fabric, PEER);
    }
    s.owner.skew_ns = 11 * NSEC_PER_SEC;
    UNTIL(&s, accepted(&s) == 0);
    connect_up(&s);
    transfer(&s, RDMAD_OP_WRITE, 100);
    scene_close(&s);
}

static void a_device_can_be_deleted_under_rdma_cm(void) {
    struct scene s;
    scene_open(&s);
    connect_up(&s);
    shell("(rdma link delete rxe0; rdma link add rxe0 type rxe netdev va) &");
    UNTIL(&s, !verbs_of(s.owner.fabric)->device);
    UNTIL(&s, s.lessee.lost == 1);
    hang_up(&s);
    CHECK(fabric_verbs.window_close(s.window.window, RDMAD_E_LEASE_REVOKED), "not gone");
    UNTIL(&s, verbs_of(s.owner.fabric)->device);
    wnd_open(&s.owner, &s.window, PEER, &s.range);
    connect_up(&s);
    transfer(&s, RDMAD_OP_WRITE, 100);
    scene_close(&s);
}

TEST_MAIN(CASE(a_link_by_rdma_cm_writes_and_reads), CASE(who_hangs_up_is_noticed_on_both_sides),
          CASE(a_token_is_good_for_one_connection_of_its_peer),
          CASE(a_token_that_is_late_or_taken_back_is_refused), CASE(unused_offers_count_and_expire),
          CASE(a_link_that_nobody_answers_is_lost_in_time),
          CASE(a_link_may_be_closed_while_it_connects), CASE(a_device_can_be_deleted_under_rdma_cm))
