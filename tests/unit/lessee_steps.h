/* SPDX-License-Identifier: MIT */
/*
 * lessee_steps.h - a session of ours, an owner played by the test on a raw socket, and the steps of
 * an attach between them. Each test program that includes it has its own.
 */
#ifndef RDMAD_TEST_LESSEE_STEPS_H
#define RDMAD_TEST_LESSEE_STEPS_H

#include "daemon/peer/internal.h"
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
    fake_answer_all();
    for (int i = 0; i < 5; i++)
        settle();
    fake_answer_all();
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

/* Takes the request; returns the lessee's number of it. */
static uint64_t asked(struct raw *r) {
    struct peer_msg m = raw_expect(r, PEER_MSG_ATTACH_REQ);
    cr_expect_eq(m.attach_req.lease, 7);
    cr_expect_eq(m.attach_req.uid, 3);
    return m.attach_req.lessee_ref;
}

static inline struct peer_msg granted(uint64_t ref, uint64_t ttl_ms) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REP};
    m.attach_rep = (struct peer_attach_rep){.lessee_ref = ref,
                                            .owner_ref = 900 + ref,
                                            .rights = RDMAD_RIGHT_READ,
                                            .lease = 7,
                                            .length = 4096,
                                            .ttl_ns = ttl_ms * MS,
                                            .key = {.size = 3, .bytes = {'k', 'e', 'y'}}};
    return m;
}

static inline void grant(struct raw *r, uint64_t ref, uint64_t ttl_ms) {
    struct peer_msg m = granted(ref, ttl_ms);
    raw_send(r, &m);
}

/* Answers the link request and lets the data plane connect. */
static inline void link_up(struct raw *r) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep.offer = {.size = 1}};
    unsigned opens = fake_count(FAKE_LANE_OPEN);
    m.link_rep.ref = raw_expect(r, PEER_MSG_LINK_REQ).link_req.ref;
    raw_send(r, &m);
    AWAIT(fake_count(FAKE_LANE_OPEN) == opens + 1);
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
}

/* All of it. */
static inline struct raw *attached(uint64_t ttl_ms, uint64_t *ref) {
    begin();
    struct raw *r = greet();
    *ref = asked(r);
    grant(r, *ref, ttl_ms);
    link_up(r);
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
