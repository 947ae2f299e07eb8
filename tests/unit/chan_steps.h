/* SPDX-License-Identifier: MIT */
/*
 * chan_steps.h - a session of ours with a service, another daemon played by the test on raw
 * sockets, and what both ways round of a channel's handshake share. Each test program that includes
 * it has its own.
 */
#ifndef RDMAD_TESTS_CHAN_STEPS_H
#define RDMAD_TESTS_CHAN_STEPS_H

#include "tests/unit/channel_steps.h"
#include "tests/unit/peer_rig.h"

#define THERE 3u /* the worker of the other end */
#define REF 77u  /* the other end's number */

static struct raw *listener, *in, *out; /* where we dial; it dials us, we dial it */
static struct rdmad_uri uri;
static struct session *s;
static struct service *sv;
static struct channel *ch;
static struct rig_done done, closed;

static inline void up(void) {
    peer_rig_up();
    memset(&uri, 0, sizeof(uri));
    strcpy(uri.host, "127.0.0.1");
    strcpy(uri.name, "far");
    listener = raw_listen(&uri.port);
    s = rig_session(1000);
    sv = service_up(s, "rpc", 2);
    done = closed = (struct rig_done){0};
    in = out = NULL;
}

static inline void down(void) {
    if (!s->closing)
        rig_close(s);
    for (int i = 0; i < 5; i++) {
        fake_answer_all();
        settle();
    }
    fake_answer_all();
    cr_expect(rig_closed(s));
    cr_expect_eq(rig.st.channels.used, 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    peer_rig_down();
}

/* ---- steps both ways round --------------------------------------------------------------------
 */

/* We dial; the other end is of node id, as every hello of it says. */
static inline struct raw *answer_dial(uint8_t id) {
    struct raw *r = raw_accept(listener);
    struct peer_msg hello = raw_hello();
    memset(hello.hello.node_id, id, sizeof(hello.hello.node_id));
    raw_expect(r, PEER_MSG_HELLO);
    raw_send(r, &hello);
    return r;
}

static inline void open_lane(void) {
    AWAIT(fake_pending(FAKE_LANE_HELLO) == 1);
    fake_answer(fake_call(FAKE_LANE_HELLO, -1), 0);
    struct peer_msg m = raw_expect(out, PEER_MSG_LINK_REQ);
    cr_expect_eq(m.link_req.worker, THERE, "a channel's lane ends at its other end's worker");
    m = (struct peer_msg){.type = PEER_MSG_LINK_REP,
                          .link_rep = {.ref = m.link_req.ref, .offer = {.size = 1}}};
    raw_send(out, &m);
    AWAIT(fake_pending(FAKE_LANE_OPEN) == 1);
    fake_answer(fake_call(FAKE_LANE_OPEN, -1), 0);
}

static inline void say_end(struct raw *r, uint64_t ref, bool mine, int reason) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END, .chan_end = {ref, mine, reason, "that was it"}};
    raw_send(r, &m);
}

static inline void expect_end(struct raw *r, uint64_t ref, bool mine, int reason) {
    struct peer_msg m = raw_expect(r, PEER_MSG_CHAN_END);
    cr_expect_eq(m.chan_end.ref, ref);
    cr_expect_eq(m.chan_end.mine, mine);
    cr_expect_eq(m.chan_end.reason, reason, "%d: %s", m.chan_end.reason, m.chan_end.text);
}

static inline void say_goodbye(struct raw *r) {
    struct peer_msg bye = {.type = PEER_MSG_BYE, .bye = {RDMAD_E_SHUTDOWN, "stopping"}};
    raw_send(r, &bye);
}

#endif
