/* SPDX-License-Identifier: MIT */
/*
 * Messages that name the right things in any order: a lessee's of its attach, an owner's of the
 * lease that it granted. Whatever is said, twice or out of turn, the daemon's stages are entered
 * only from where they may be, and nothing is left when the connection is gone.
 */
#include "daemon/peer/wire/wire.h"
#include "tests/unit/lessee_steps.h"
#include <signal.h>

static void liars_up(void) {
    signal(SIGPIPE, SIG_IGN); /* as the daemon does: a peer may have closed when we write to it */
    up();
}

TestSuite(peer_liars, .init = liars_up, .fini = down, .timeout = 120);

#define ROUNDS 500u

static unsigned seed;

static unsigned pick(unsigned of) {
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % of;
}

struct burst {
    uint8_t frames[8 * PEER_WIRE_MAX];
    size_t size;
};

static void add(struct burst *b, const struct peer_msg *m) {
    b->size += peer_wire_encode(m, b->frames + b->size);
}

/* The data plane answers some of what it was asked. */
static void answer_some(void) {
    if (pick(2))
        fake_answer_all();
}

static void let_go(struct raw *r) {
    raw_close(r);
    AWAIT((fake_answer_all(), peers_count(rig.st.peers) == 0));
}

/* ---- a lessee ------------------------------------------------------------------------------ */

static struct peer_msg said_by_lessee(uint64_t owner_ref, const struct lease *l) {
    struct peer_msg m = {0};
    switch (pick(9)) {
    case 0:
        m.type = PEER_MSG_RELEASE;
        m.release = (struct peer_release){.owner_ref = owner_ref, .returned = pick(3)};
        break;
    case 1:
        m.type = PEER_MSG_STOPPED;
        m.stopped.owner_ref = owner_ref;
        break;
    case 2:
        m.type = PEER_MSG_TTL_REQ;
        m.ttl.ref = owner_ref;
        break;
    case 3:
    case 4:
        m.type = PEER_MSG_KEY_REQ;
        m.key_req = (struct peer_key_req){.owner_ref = owner_ref, .via = 1 + pick(3)};
        break;
    case 5:
        m.type = PEER_MSG_KEEP_REQ;
        m.keep_req.owner_ref = owner_ref;
        break;
    case 6:
        m.type = PEER_MSG_LINK_REQ;
        m.link_req = (struct peer_link_req){.ref = pick(3), .worker = PEER_ANY_WORKER};
        break;
    case 7:
        m.type = PEER_MSG_LINK_GONE;
        m.link_gone.via = 1 + pick(3);
        break;
    default:
        m = raw_attach_req(l, 5, pick(3));
    }
    return m;
}

/* A lease of its own each time, as a service's would be that is lent to one. */
static void lessee_says(struct session *owner, bool requested) {
    struct raw *r = raw_greet();
    struct lease *l = rig_grant(owner, 3600000);
    uint64_t owner_ref = raw_attach(r, l, 5, pick(2)).owner_ref;
    struct rdmad_uri u = rig_uri(l);
    struct error err;
    l->requested = requested;
    for (unsigned i = 1 + pick(3); i; i--) {
        struct burst b = {.size = 0};
        for (unsigned n = 1 + pick(6); n; n--) {
            struct peer_msg m = said_by_lessee(owner_ref, l);
            add(&b, &m);
        }
        raw_bytes(r, b.frames, b.size);
        answer_some();
        if (lease_find(rig.st.leases, &u, &l, &err))
            break; /* it has ended by what was said */
        if (!pick(3))
            lease_renew(l, 3600000 * MS, &err);
        if (!pick(4)) {
            lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
            break;
        }
    }
    let_go(r);
    if (lease_find(rig.st.leases, &u, &l, &err) == 0)
        rig_finish(l);
    rig_advance(100 * MS); /* who has nothing is heard at a rate */
}

Test(peer_liars, a_lessee_may_say_anything_of_its_attach) {
    struct session *owner = rig_session(1);
    for (seed = 1; seed <= 1000 * ROUNDS; seed += 1000) {
        unsigned round = seed;
        rig.nevents = 0; /* there is room for 512 */
        lessee_says(owner, pick(2));
        seed = round;
    }
    rig_close(owner);
    rig_advance(rig.config.lease_revoke_grace_ms * MS);
    fake_answer_all();
    quiet();
    fake_answer_all();
    cr_expect(rig_closed(owner));
}

/* ---- an owner ------------------------------------------------------------------------------ */

static struct peer_msg said_by_owner(uint64_t ref, uint64_t via) {
    struct peer_msg m = {0};
    switch (pick(7)) {
    case 0:
        m.type = PEER_MSG_REVOKED;
        m.revoked = (struct peer_revoked){
            ref, pick(2) ? RDMAD_E_LEASE_REVOKED : RDMAD_E_LEASE_RELEASED, "so it is"};
        break;
    case 1:
    case 2:
        m.type = pick(2) ? PEER_MSG_RENEWED : PEER_MSG_TTL_REP;
        m.ttl = (struct peer_ttl){.ref = ref, .ttl_ns = (1 + pick(5)) * 1000 * MS};
        break;
    case 3:
    case 4:
        m.type = PEER_MSG_KEY_REP;
        m.key_rep = (struct peer_key_rep){.lessee_ref = ref, .via = via};
        m.key_rep.status = pick(2) ? 0 : pick(2) ? RDMAD_E_PEER_LOST : RDMAD_E_NOMEM;
        m.key_rep.key.size = !m.key_rep.status;
        break;
    case 5:
        m.type = PEER_MSG_KEEP_REP;
        m.keep_rep = (struct peer_keep_rep){.lessee_ref = ref};
        break;
    default:
        m = granted(ref, 5000);
        m.attach_rep.status = pick(2) ? 0 : RDMAD_E_NO_LEASE;
    }
    return m;
}

static void owner_says(bool early) {
    struct rig_done over = {0};
    uint64_t ref;
    memset(&done, 0, sizeof(done));
    begin();
    uint64_t number = h->number; /* it may be gone later */
    struct raw *r = greet();
    ref = asked(r);
    if (!early) {
        grant(r, ref, 60000);
        link_and_key(r, ref);
        fake_answer(fake_call(FAKE_LEASE_ADD, -1), 0);
        cr_assert_eq(done.code, 0, "%s", done.text);
        h->requested = true; /* as far as the handle is asked for a hand-over */
    }
    for (unsigned i = 1 + pick(3); i; i--) {
        struct burst b = {.size = 0};
        for (unsigned n = 1 + pick(6); n; n--) {
            struct peer_msg m = said_by_owner(ref, 1 + pick(3));
            add(&b, &m);
        }
        raw_bytes(r, b.frames, b.size);
        answer_some();
        struct handle *usable = early ? NULL : handle_find(s, number);
        if (usable && usable->stage == HANDLE_USABLE && !pick(3)) {
            handle_hand_over(usable, rig_done, &over);
            answer_some();
            break;
        }
    }
    let_go(r);
    struct handle *left = handle_find(s, number);
    if (left)
        handle_release(left, NULL, NULL);
    fake_answer_all();
    rig_advance(100 * MS);
}

Test(peer_liars, an_owner_may_say_anything_of_what_it_granted) {
    for (seed = 1; seed <= 1000 * ROUNDS; seed += 1000) {
        unsigned round = seed;
        rig.nevents = 0; /* there is room for 512 */
        owner_says(pick(2));
        seed = round;
    }
}
