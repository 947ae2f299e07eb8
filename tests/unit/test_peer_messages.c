/* SPDX-License-Identifier: MIT */
/*
 * Every message has somebody who handles it: a good one of each type, about things that are not
 * there, comes from a peer that may send it. The daemon goes on.
 */
#include "daemon/peer/wire/wire.h"
#include "tests/unit/peer_rig.h"
#include "tests/unit/peer_samples.h"
#include <criterion/criterion.h>
#include <sys/socket.h>

TestSuite(peer_messages, .init = peer_rig_up, .fini = peer_rig_down, .timeout = 60);

static bool may_come(const struct peer_msg *m, bool from_dialler) {
    uint8_t frame[PEER_WIRE_MAX];
    struct error err;
    size_t length;
    peer_wire_encode(m, frame);
    return peer_wire_length(frame, from_dialler, &length, &err) == 0;
}

/* Whether the answer to our PING is among what has come. */
static bool is_answered(struct raw *r) {
    size_t size;
    ssize_t n = recv(r->fd, r->in + r->have, sizeof(r->in) - r->have, 0);
    r->have += n > 0 ? (size_t)n : 0;
    for (size_t at = 0; at + PEER_WIRE_HEAD <= r->have; at += size) {
        size = (size_t)(r->in[at] | r->in[at + 1] << 8);
        if (r->in[at + 2] == PEER_MSG_PONG)
            return true;
    }
    return false;
}

/* What is said after it is answered, or the connection has ended by it. */
static void expect_handled(struct raw *r, const struct peer_msg *m) {
    struct peer_msg ping = {.type = PEER_MSG_PING};
    raw_send(r, m);
    raw_send(r, &ping);
    AWAIT((fake_answer_all(), is_answered(r) || peers_count(rig.st.peers) == 0));
    raw_close(r);
    AWAIT((fake_answer_all(), peers_count(rig.st.peers) == 0));
}

Test(peer_messages, each_that_a_dialler_sends_is_handled) {
    for (uint16_t type = 1; type < (uint16_t)PEER_MSG_COUNT; type++) {
        struct peer_msg m = peer_sample(type);
        if (may_come(&m, true))
            expect_handled(raw_greet(), &m);
    }
}

Test(peer_messages, each_that_who_was_dialled_sends_is_handled) {
    uint16_t port;
    struct raw *listener = raw_listen(&port);
    for (uint16_t type = 1; type < (uint16_t)PEER_MSG_COUNT; type++) {
        struct peer_msg m = peer_sample(type), hello = raw_hello();
        struct rig_done done = {0};
        if (!may_come(&m, false))
            continue;
        peer_add(rig.st.peers, "127.0.0.1", port, rig_done, &done);
        struct raw *r = raw_accept(listener);
        raw_send(r, &hello);
        AWAIT(done.calls == 1);
        cr_assert_eq(done.code, 0, "%s", done.text);
        expect_handled(r, &m);
    }
}
