/* SPDX-License-Identifier: MIT */
/*
 * lessee_steps.h - a session of ours, an owner played by the test on a raw socket, and the steps of
 * an attach between them. Each test program that includes it has its own.
 */
#ifndef RDMAD_TEST_LESSEE_STEPS_H
#define RDMAD_TEST_LESSEE_STEPS_H

#include "daemon/peer/lane/lane.h"
#include "tests/unit/peer_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

static struct raw *listener;
static struct rdmad_uri uri;
static struct session *s;
static struct rig_done done;
static struct handle *h;

static inline void up(void) {
    peer_rig_up();
    memset(&uri, 0, sizeof(uri));
    memset(&done, 0, sizeof(done));
    strcpy(uri.host, "127.0.0.1");
    uri.lease = 7;
    listener = raw_listen(&uri.port);
    s = rig_session(3);
}

static inline void down(void) {
    if (!s->closing)
        rig_close(s);
    for (int i = 0; i < 50 && !rig_closed(s); i++) {
        rig_advance(rig.config.lease_revoke_grace_ms * MS); /* of leases of its own */
        fake_answer_all();
        settle();
    }
    cr_expect(rig_closed(s));
    peer_rig_down();
}

/* ---- the steps ------------------------------------------------------------------------------- */

static inline void begin(void) {
    struct error err;
    cr_assert_eq(handle_new(s, &h, &err), 0, "%s", err.text);
    peer_attach(rig.st.peers, h, &uri, 5000 * MS, rig_done, &done);
}

static inline struct raw *greet(void) {
    struct raw *r = raw_accept(listener);
    struct peer_msg hello = raw_hello();
    cr_expect_str_eq(raw_expect(r, PEER_MSG_HELLO).hello.node, "rig");
    raw_send(r, &hello);
    return r;
}

/* Takes the request, made for the link of that number; returns the lessee's number of it. */
static inline uint64_t asked_via(struct raw *r, uint64_t via) {
    struct peer_msg m = raw_expect(r, PEER_MSG_ATTACH_REQ);
    cr_expect_eq(m.attach_req.via, via);
    cr_expect_eq(m.attach_req.lease, 7);
    cr_expect_eq(m.attach_req.uid, 3);
    return m.attach_req.lessee_ref;
}

static inline uint64_t asked(struct raw *r) {
    return asked_via(r, 0);
}

/* Without a key: no link was up when it was asked for. */
static inline struct peer_msg granted(uint64_t ref, uint64_t ttl_ms) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP};
    m.attach_rep = (struct peer_attach_rep){.lessee_ref = ref,
                                            .owner_ref = 900 + ref,
                                            .rights = RDMAD_RIGHT_READ,
                                            .lease = 7,
                                            .length = 4096,
                                            .ttl_ns = ttl_ms * MS};
    return m;
}

static inline void grant(struct raw *r, uint64_t ref, uint64_t ttl_ms) {
    struct peer_msg m = granted(ref, ttl_ms);
    raw_send(r, &m);
}

/* Lets the data plane make its end; returns the number of the link request. */
static inline uint64_t link_asked(struct raw *r) {
    AWAIT(fake_pending(FAKE_LANE_HELLO) == 1);
    fake_answer(fake_call(FAKE_LANE_HELLO, -1), 0);
    struct peer_msg m = raw_expect(r, PEER_MSG_LINK_REQ);
    cr_expect_eq(m.link_req.hello.size, 5, "the data plane's hello");
    return m.link_req.ref;
}

/* Answers the link request, up to where the data plane connects. */
static inline void offer(struct raw *r, uint64_t ref) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep = {.ref = ref, .offer.size = 1}};
    unsigned opens = fake_count(FAKE_LANE_OPEN);
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LANE_OPEN) == opens + 1);
}

static inline void no_offer(struct raw *r, uint64_t ref, int status, const char *text) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep = {.ref = ref, .status = status}};
    strcpy(m.link_rep.text, text);
    raw_send(r, &m);
}

static inline void link_up(struct raw *r) {
    offer(r, link_asked(r));
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
}

static inline void key_asked(struct raw *r, uint64_t ref, uint64_t via) {
    struct peer_msg m = raw_expect(r, PEER_MSG_KEY_REQ);
    cr_expect_eq(m.key_req.owner_ref, 900 + ref);
    cr_expect_eq(m.key_req.via, via);
}

/* The key says "key" and the number of its link. */
static inline void key(struct raw *r, uint64_t ref, uint64_t via) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP};
    m.key_rep = (struct peer_key_rep){
        .lessee_ref = ref, .via = via, .key = {.size = 4, .bytes = {'k', 'e', 'y', (uint8_t)via}}};
    raw_send(r, &m);
}

static inline void no_key(struct raw *r, uint64_t ref, uint64_t via, int status, const char *text) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REP,
                         .key_rep = {.lessee_ref = ref, .via = via, .status = status}};
    strcpy(m.key_rep.text, text);
    raw_send(r, &m);
}

/* From the grant on: the first link, the key for it. */
static inline void link_and_key(struct raw *r, uint64_t ref) {
    unsigned adds = fake_count(FAKE_LEASE_ADD);
    link_up(r);
    struct peer_msg m = raw_expect(r, PEER_MSG_KEY_REQ);
    cr_expect_eq(m.key_req.owner_ref, 900 + ref);
    key(r, ref, m.key_req.via);
    AWAIT(fake_count(FAKE_LEASE_ADD) == adds + 1);
}

/* All of it. */
static inline struct raw *attached(uint64_t ttl_ms, uint64_t *ref) {
    begin();
    struct raw *r = greet();
    *ref = asked(r);
    grant(r, *ref, ttl_ms);
    link_and_key(r, *ref);
    fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
    cr_assert_eq(done.calls, 1);
    cr_assert_eq(done.code, 0, "%s", done.text);
    return r;
}

static inline void failed(int code, const char *words) {
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, code, "%d: %s", done.code, done.text);
    cr_expect_not_null(strstr(done.text, words), "\"%s\" does not say \"%s\"", done.text, words);
    cr_expect_eq(s->handles.used, 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_ATTACHES], 0);
}

static inline void expect_release(struct raw *r, uint64_t ref, bool returned) {
    struct peer_msg m = raw_expect(r, PEER_MSG_RELEASE);
    cr_expect_eq(m.release.owner_ref, 900 + ref);
    cr_expect_eq(m.release.returned, returned);
}

#endif
