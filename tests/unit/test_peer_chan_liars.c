/* SPDX-License-Identifier: MIT */
/*
 * Messages about a channel that name the right numbers in any order, from whom it is connected to
 * and from who connects: the way's stages are entered only from where they may be, and nothing is
 * left when the connections are gone.
 */
#include "daemon/peer/control/record.h"
#include "daemon/peer/wire/wire.h"
#include "tests/unit/chan_steps.h"
#include <signal.h>

#define ROUNDS 300u

static void liars_up(void) {
    signal(SIGPIPE, SIG_IGN); /* as the daemon does: a peer may have closed when we write to it */
    up();
}

TestSuite(peer_chan_liars, .init = liars_up, .fini = down, .timeout = 120);

static unsigned seed;

static unsigned pick(unsigned of) {
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % of;
}

static struct peer_msg req(void) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ};
    m.chan_req = (struct peer_chan_req){
        .ref = REF, .uid = 42, .worker = THERE, .port = uri.port, .service = "rpc"};
    memset(m.chan_req.token, 0xa5, sizeof(m.chan_req.token));
    return m;
}

static struct peer_msg end(uint64_t number) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_END, .chan_end.reason = RDMAD_E_CANCELED};
    m.chan_end.mine = pick(2);
    m.chan_end.ref = m.chan_end.mine ? REF : number;
    return m;
}

/* By its connection to us. */
static struct peer_msg said_in(uint64_t number, const uint8_t *token) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_OPEN, .chan_open.ref = number};
    switch (pick(6)) {
    case 0:
        return req();
    case 1:
        return end(number);
    case 2:
    case 3:
        m = (struct peer_msg){.type = PEER_MSG_CHAN_BIND};
        m.chan_bind = (struct peer_chan_bind){.ref = number, .number = REF, .worker = THERE};
        m.chan_bind.kind = pick(4) ? RDMAD_CHANNEL_RELIABLE : RDMAD_CHANNEL_UNACKED;
        memcpy(m.chan_bind.token, token, sizeof(m.chan_bind.token));
        return m;
    default:
        return m;
    }
}

/* By our connection to it. */
static struct peer_msg said_out(uint64_t number) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REP, .link_rep.offer.size = 1};
    switch (pick(5)) {
    case 0:
        return end(number);
    case 1:
        m = (struct peer_msg){.type = PEER_MSG_CHAN_REFUSE, .chan_refuse.ref = number};
        m.chan_refuse.status = RDMAD_E_NO_SERVICE;
        return m;
    default: /* the answer to what was asked last */
        m.link_rep.ref = rig.st.peers->next_ref - 1;
        return m;
    }
}

static void burst(struct raw *r, bool by_in, uint64_t number, const uint8_t *token) {
    uint8_t frames[4 * PEER_WIRE_MAX];
    size_t size = 0;
    for (unsigned n = 1 + pick(3); n; n--) {
        struct peer_msg m = by_in ? said_in(number, token) : said_out(number);
        size += peer_wire_encode(&m, frames + size);
    }
    raw_bytes(r, frames, size);
    if (pick(3))
        fake_answer_all();
}

/* A channel of ours, as far as both connections; its token. */
static void begin_one(bool accepts, uint8_t token[PEER_NODE_ID_BYTES]) {
    struct peer_msg m = req();
    in = raw_greet();
    if (accepts) {
        raw_send(in, &m);
        AWAIT(sv->waiting == 1);
        ch = end_of(s, &done);
        incoming_accept(waiting(sv), ch, 1000 * MS);
        out = answer_dial(2);
    } else {
        ch = end_of(s, &done);
        peer_connect(rig.st.peers, ch, &uri, 2000 * MS);
        out = answer_dial(2);
        m = raw_expect(out, PEER_MSG_CHAN_REQ);
    }
    memcpy(token, m.chan_req.token, sizeof(m.chan_req.token));
}

static void anything_is_said(bool accepts) {
    uint8_t token[PEER_NODE_ID_BYTES];
    begin_one(accepts, token);
    uint64_t number = ch->number;
    for (unsigned i = 2 + pick(5); i; i--) {
        bool by_in = pick(2);
        burst(by_in ? in : out, by_in, number, token);
    }
    raw_close(in);
    raw_close(out);
    AWAIT((fake_answer_all(), peers_count(rig.st.peers) == 0));
    if ((ch = channel_by_number(&rig.st, number)))
        channel_close(ch, false, NULL, NULL);
    fake_answer_all();
    rig.nevents = 0;       /* there is room for 512 */
    rig_advance(100 * MS); /* who has nothing is heard at a rate */
}

Test(peer_chan_liars, whom_we_connect_to_may_say_anything) {
    for (seed = 1; seed <= 1000 * ROUNDS; seed += 1000) {
        unsigned now = seed;
        anything_is_said(false);
        seed = now;
    }
}

Test(peer_chan_liars, who_connects_to_us_may_say_anything) {
    for (seed = 1; seed <= 1000 * ROUNDS; seed += 1000) {
        unsigned now = seed;
        anything_is_said(true);
        seed = now;
    }
}
