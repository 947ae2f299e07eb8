/* SPDX-License-Identifier: MIT */
/*
 * A peer may have many connections, and many windows that end in one turn. What is asked about one
 * peer concerns its own connections, all of them, and looks at no others.
 */
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/offer.h"
#include "daemon/fabric/tcp/target.h"
#include "tests/unit/tcp_raw.h"
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define LARGE (64u << 10) /* a WRITE, that is half sent: */
#define HALF (LARGE / 2)
#define EACH 5u

/* The connection that came last, which is the peer's. */
static struct tcp_target *last_of(struct pair *p, uint64_t peer) {
    struct tcp *t = container_of(p->owner.fabric, struct tcp, base);
    cr_assert(!list_empty(&t->targets));
    struct tcp_target *last = list_entry(t->targets.prev, struct tcp_target, conn.node);
    cr_assert_eq(last->peer, peer);
    return last;
}

static void turns(struct pair *p, unsigned n) {
    while (n-- > 0)
        pair_turn(p);
}

/* Half of a WRITE has come by each, to a place of its own. */
static void half_write(struct pair *p, int fd, const struct fabric_blob *key, unsigned place) {
    static uint8_t payload[HALF];
    memset(payload, 'x', sizeof payload);
    struct frame f = raw_request(key, FRAME_WRITE, 0, (uint64_t)place * LARGE, LARGE);
    raw_frame(p, fd, &f);
    raw_send(p, fd, payload, sizeof payload);
    PAIR_UNTIL(p, p->memory[(size_t)place * LARGE + HALF - 1] == 'x');
}

static void rest_of_write(struct pair *p, int fd) {
    static uint8_t payload[HALF];
    memset(payload, 'y', sizeof payload);
    raw_send(p, fd, payload, sizeof payload);
}

Test(tcp_peers, a_window_that_ends_is_let_go_of_by_each_connection_of_its_peer) {
    struct pair p;
    struct fabric_blob key;
    int fd[EACH], other;
    pair_open(&p, (size_t)LARGE * (EACH + 1));
    struct fabric_window *its = pair_window(&p, STRANGE, RDMAD_RIGHTS_ALL, 0, p.bytes, &key);
    for (unsigned i = 0; i < EACH; i++)
        fd[i] = raw_dial_as(&p, LESSEE);
    other = raw_dial_as(&p, STRANGE);
    for (unsigned i = 0; i < EACH; i++)
        half_write(&p, fd[i], &p.key, i);
    half_write(&p, other, &key, EACH);
    close(fd[1]); /* one that has gone meanwhile */
    turns(&p, 100);
    fabric_tcp.window_close(p.window, RDMAD_E_LEASE_REVOKED);
    p.window = NULL;
    for (unsigned i = 0; i < EACH; i++) {
        if (i == 1)
            continue;
        rest_of_write(&p, fd[i]);
        struct frame f = raw_answer(&p, fd[i]);
        cr_assert(f.type == FRAME_STATUS && f.status == RDMAD_E_LEASE_REVOKED, "connection %u", i);
        cr_assert_neq(p.memory[(size_t)i * LARGE + HALF], 'y');
        close(fd[i]);
    }
    rest_of_write(&p, other);
    cr_assert_eq(raw_answer(&p, other).type, FRAME_ACK, "another peer's window is open");
    cr_assert_eq(p.memory[(size_t)EACH * LARGE + LARGE - 1], 'y');
    close(other);
    fabric_tcp.window_close(its, RDMAD_E_LEASE_RELEASED);
    pair_close(&p);
}

/* By hand a connection of another peer is made one that a walk over all would find. */
Test(tcp_peers, a_window_that_ends_is_looked_for_at_its_peers_connections_only) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, STRANGE);
    struct tcp_target *other = last_of(&p, STRANGE);
    struct tcp_window *w = container_of(p.window, struct tcp_window, base);
    other->rx.window = w;
    fabric_tcp.window_close(p.window, RDMAD_E_LEASE_RELEASED);
    p.window = NULL;
    cr_assert_eq(other->rx.window, w, "it was looked at");
    other->rx.window = NULL;
    close(fd);
    pair_close(&p);
}

/* The same. */
Test(tcp_peers, a_connection_is_looked_for_at_its_peers_connections_only) {
    struct pair p;
    struct fabric_window *w;
    struct fabric_blob key, offer;
    struct error err = {0};
    unsigned offers = 0;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, STRANGE);
    struct tcp_target *other = last_of(&p, STRANGE);
    other->peer = LESSEE;
    p.spec.via = other->number;
    cr_assert_eq(fabric_tcp.window_open(p.owner.fabric, &p.spec, &w, &key, &err),
                 RDMAD_E_PEER_LOST);
    fabric_tcp.forget(p.owner.fabric, LESSEE, other->number);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    cr_assert_not(other->conn.closed, "it was looked at");
    while (fabric_tcp.offer(p.owner.fabric, LESSEE, false, &no_hello, &offer, &err) == 0)
        cr_assert_lt(++offers, 1000);
    cr_assert_eq(offers, TCP_CONNS_PER_PEER, "it was counted");
    other->peer = STRANGE;
    close(fd);
    pair_close(&p);
}

/* What was closed is still there until the next poll, beside what comes. */
Test(tcp_peers, a_peer_that_was_expelled_may_come_back_before_it_is_forgotten) {
    const struct fabric_share share = {.weight = 30};
    struct pair p;
    pair_open(&p, BIG);
    cr_assert_eq(fabric_tcp.peer_share(p.owner.fabric, LESSEE, &share), 0);
    int fd = raw_dial_as(&p, LESSEE);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 0);
    cr_assert_eq(fabric_tcp.peer_share(p.owner.fabric, LESSEE, &share), 0);
    int again = raw_dial_as(&p, LESSEE);
    cr_assert(raw_closed(&p, fd));
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 1);
    struct frame f = raw_request(&p.key, FRAME_READ, 0, 0, 8);
    raw_frame(&p, again, &f);
    cr_assert_eq(raw_answer(&p, again).type, FRAME_DATA);
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    cr_assert(raw_closed(&p, again));
    close(fd);
    close(again);
    pair_close(&p);
}

/* ---- offers ------------------------------------------------------------------------------- */

static struct fabric_blob offer_to(struct pair *p, uint64_t peer) {
    struct fabric_blob offer;
    struct error err = {0};
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, peer, false, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    return offer;
}

/* The offer that was made last. */
static struct tcp_offer *last_offer(struct pair *p) {
    struct tcp *t = container_of(p->owner.fabric, struct tcp, base);
    cr_assert(!list_empty(&t->offers));
    return list_entry(t->offers.prev, struct tcp_offer, node);
}

/* How many more offers the peer may have. They are dropped again. */
static unsigned room_of(struct pair *p, uint64_t peer) {
    struct fabric_blob offer;
    struct error err = {0};
    struct invitation i;
    uint64_t number[TCP_CONNS_PER_PEER + 1];
    unsigned n = 0;
    while (fabric_tcp.offer(p->owner.fabric, peer, false, &no_hello, &offer, &err) == 0) {
        cr_assert(n < TCP_CONNS_PER_PEER && offer_read(&offer, &i));
        number[n++] = i.number;
    }
    for (unsigned j = 0; j < n; j++)
        fabric_tcp.forget(p->owner.fabric, peer, number[j]);
    return n;
}

/* Whether a connection comes about by the offer. */
static bool opens(struct pair *p, const struct fabric_blob *offer) {
    unsigned up = p->lessee.up, lost = p->lessee.lost;
    struct fabric_link *link;
    struct error err = {0};
    cr_assert_eq(link_dial(p->lessee.fabric, "127.0.0.1", offer, &link, &err), 0, "%s", err.text);
    PAIR_UNTIL(p, p->lessee.up > up || p->lessee.lost > lost);
    bool is_up = p->lessee.up > up;
    fabric_tcp.link_close(link);
    turns(p, 100);
    return is_up;
}

Test(tcp_peers, offers_of_a_peer_end_with_their_time_or_with_it_and_no_others_do) {
    struct pair p;
    struct invitation i;
    pair_open(&p, BIG);
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 1, "it has a connection");
    struct fabric_blob first = offer_to(&p, LESSEE), others = offer_to(&p, STRANGE);
    p.owner.skew_ns += p.owner.settings.token_ttl_ns / 2;
    struct fabric_blob second = offer_to(&p, LESSEE), third = offer_to(&p, LESSEE);
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 4);
    cr_assert(opens(&p, &others));
    p.owner.skew_ns += p.owner.settings.token_ttl_ns / 2;
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 3, "the first is over");
    cr_assert_not(opens(&p, &first));
    cr_assert(opens(&p, &second));
    cr_assert(offer_read(&third, &i));
    fabric_tcp.forget(p.owner.fabric, LESSEE, i.number + 1000);
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 2);
    fabric_tcp.forget(p.owner.fabric, LESSEE, i.number);
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 1);
    cr_assert_not(opens(&p, &third));
    others = offer_to(&p, STRANGE);
    third = offer_to(&p, LESSEE);
    unsigned lost = p.lessee.lost;
    fabric_tcp.expel(p.owner.fabric, LESSEE);
    PAIR_UNTIL(&p, p.lessee.lost > lost);
    cr_assert_not(opens(&p, &third));
    cr_assert(opens(&p, &others));
    pair_close(&p);
}

/* By hand another peer's offer is made one that a walk over all would take for the peer's. */
Test(tcp_peers, an_offer_is_looked_for_among_its_peers_only) {
    struct pair p;
    pair_open(&p, BIG);
    offer_to(&p, LESSEE);
    struct tcp_share *its = last_offer(&p)->share;
    struct fabric_blob offer = offer_to(&p, STRANGE);
    struct tcp_offer *o = last_offer(&p);
    struct tcp_share *really = o->share;
    o->share = its;
    cr_assert_eq(room_of(&p, LESSEE), TCP_CONNS_PER_PEER - 2, "it was counted");
    fabric_tcp.forget(p.owner.fabric, LESSEE, o->is.number);
    cr_assert_eq(last_offer(&p), o, "it was looked at");
    o->share = really;
    cr_assert(opens(&p, &offer));
    pair_close(&p);
}

/* By hand again: one behind one that is good has expired, one has a token as if of another chain.
 */
Test(tcp_peers, of_thousands_of_offers_few_are_looked_at) {
    struct pair p;
    pair_open(&p, BIG);
    struct tcp *t = container_of(p.owner.fabric, struct tcp, base);
    offer_to(&p, STRANGE);
    struct fabric_blob offer = offer_to(&p, LESSEE);
    struct tcp_offer *o = last_offer(&p);
    uint64_t expires_ns = o->expires_ns;
    o->expires_ns = 1;
    offers_expire(t);
    cr_assert_eq(last_offer(&p), o, "all are looked at");
    o->expires_ns = expires_ns;
    o->is.token[0] ^= 1;
    cr_assert_null(offer_take(t, o->is.token), "all are looked at");
    o->is.token[0] ^= 1;
    cr_assert(opens(&p, &offer));
    pair_close(&p);
}
