/* SPDX-License-Identifier: MIT */
/*
 * A peer may have many connections, and many windows that end in one turn. What is asked about one
 * peer concerns its own connections, all of them, and looks at no others.
 */
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/offer.h"
#include "daemon/fabric/tcp/target.h"
#include "tests/support/runner.h"
#include "tests/unit/tcp_raw.h"
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG ((size_t)256 << 10)
#define LARGE (64u << 10) /* a WRITE, that is half sent: */
#define HALF (LARGE / 2)
#define EACH 5u
#define COLD 1100u /* polls, after which what is idle is not simply read any more */

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

static void expect_accepted(struct pair *p, unsigned count) {
    cr_assert_eq(fabric_tcp.accepted(p->owner.fabric), count);
    cr_assert_eq(fabric_tcp.encrypted(p->owner.fabric), pair_encrypts() ? count : 0);
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
    expect_accepted(&p, 0);
    cr_assert_eq(fabric_tcp.peer_share(p.owner.fabric, LESSEE, &share), 0);
    int again = raw_dial_as(&p, LESSEE);
    cr_assert(raw_closed(&p, fd));
    expect_accepted(&p, 1);
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

/* ---- sleeping ----------------------------------------------------------------------------- */

static bool is_armed(struct side *s) {
    uint64_t wake_ns;
    return fabric_tcp.arm(s->fabric, &wake_ns);
}

/* By hand one that is idle is made one that would keep the worker awake. */
Test(tcp_peers, who_goes_to_sleep_looks_at_no_connection_to_which_nothing_happened) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, STRANGE);
    struct tcp_target *idle = last_of(&p, STRANGE);
    turns(&p, 10);
    while (!is_armed(&p.owner))
        fabric_tcp.poll(p.owner.fabric);
    idle->conn.more = true;
    cr_assert(is_armed(&p.owner), "it was looked at");
    cr_assert(is_armed(&p.owner));
    conn_serve(&idle->conn);
    idle->conn.more = true;
    cr_assert_not(is_armed(&p.owner), "and now it has to be");
    cr_assert_not(is_armed(&p.owner));
    idle->conn.more = false;
    close(fd);
    pair_close(&p);
}

static struct { unsigned slept, unsent, blocked, held; /* in which states they slept */ } met;

/* Whatever c waits for, epoll tells of it. */
static void expect_watched(const struct tcp_conn *c) {
    bool unsent = !outq_empty(&c->out) || (c->secure && secure_unsent(c->secure));
    bool may_send = !c->dialling && !c->greeting;
    uint32_t events = 0;
    if ((unsent && may_send) || c->dialling)
        events |= EPOLLOUT;
    if (!c->blocked && !c->dialling && !c->held)
        events |= EPOLLIN;
    cr_assert_eq(c->events, events, "it waits for %#x, and epoll looks for %#x", events, c->events);
    cr_assert_not(c->more);
    cr_assert_not(c->blocked && !c->held && outq_room(&c->out));
    cr_assert_not(!list_empty(&c->sending) && may_send && !c->stuck);
    met.unsent += unsent;
    met.blocked += c->blocked && !c->held;
    met.held += c->held;
}

static void expect_all_watched(struct side *s) {
    const struct tcp *t = container_of(s->fabric, const struct tcp, base);
    if (!is_armed(s))
        return;
    met.slept++;
    list_for_each (pos, &t->targets)
        expect_watched(list_entry(pos, struct tcp_conn, node));
    list_for_each (pos, &t->links)
        expect_watched(list_entry(pos, struct tcp_conn, node));
}

/* By hand one is made that would be found not to be held any more. */
Test(tcp_peers, timers_look_at_no_connection_that_is_not_held) {
    struct pair p;
    pair_open(&p, BIG);
    int fd = raw_dial_as(&p, STRANGE);
    struct tcp_conn *c = &last_of(&p, STRANGE)->conn;
    while (!list_empty(&c->hot))
        fabric_tcp.poll(p.owner.fabric);
    c->held = true;
    c->tcp->next_timer_ns = 0;
    fabric_tcp.poll(p.owner.fabric);
    cr_assert(c->held, "it was looked at");
    c->held = false;
    close(fd);
    pair_close(&p);
}

/* As what is posted late in a turn. */
Test(tcp_peers, who_goes_to_sleep_looks_at_what_was_posted_after_the_poll) {
    struct pair p;
    struct top op;
    pair_open(&p, BIG);
    while (!is_armed(&p.lessee))
        fabric_tcp.poll(p.lessee.fabric);
    op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
    op_post(&p, &op);
    cr_assert_not(is_armed(&p.lessee));
    PAIR_UNTIL(&p, op.done);
    pair_close(&p);
}

struct asker {
    int fd;
    const struct tcp_conn *conn; /* at the owner */
    uint32_t op;
    uint64_t wanted, got; /* bytes of answers */
};

static void ask_more(struct pair *p, struct asker *a, uint32_t length) {
    uint8_t bytes[FRAME_BYTES];
    struct frame f = raw_request(&p->key, FRAME_READ, a->op, 0, length);
    frame_put(bytes, &f);
    ssize_t n = raw_send_try(a->fd, bytes, sizeof bytes);
    cr_assert(n == (ssize_t)sizeof bytes || (n < 0 && errno == EAGAIN));
    if (n < 0)
        return;
    a->op++;
    a->wanted += FRAME_BYTES + length + (length > TCP_SMALL ? FRAME_BYTES : 0);
}

static bool has_all(struct asker *a) {
    static uint8_t sink[1 << 16];
    for (ssize_t n; (n = raw_recv_try(a->fd, sink, sizeof sink)) > 0;)
        a->got += (uint64_t)n;
    return a->got == a->wanted;
}

static bool have_all(struct asker *a) {
    bool all = true;
    for (unsigned i = 0; i < EACH; i++)
        all = has_all(&a[i]) && all;
    return all;
}

/* A turn of both sides, and a millisecond; both may go to sleep. */
static void turn_and_sleep(struct pair *p) {
    p->owner.skew_ns += NSEC_PER_MSEC;
    fabric_tcp.poll(p->owner.fabric);
    expect_all_watched(&p->owner);
    fabric_tcp.poll(p->lessee.fabric);
    expect_all_watched(&p->lessee);
}

/* The owner's socket takes little, so its answers wait. */
static struct asker asker_up(struct pair *p) {
    const int bytes = 16 << 10;
    struct asker a = {.fd = raw_dial_as(p, LESSEE)};
    a.conn = &last_of(p, LESSEE)->conn;
    cr_assert_eq(setsockopt(a.conn->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    return a;
}

/* All connections ask, more than they read at first; each third time they have a rate. */
static void ask_and_read(struct pair *p, struct asker *a, unsigned round, uint64_t *random) {
    const struct fabric_share all = {.weight = 100}, few = {.weight = 1, .ops_per_second = 200};
    fabric_tcp.peer_share(p->owner.fabric, LESSEE, round % 3 ? &all : &few);
    for (unsigned i = 0; i < EACH; i++) {
        uint32_t length = random_next(random) % 4 ? 2048 : LARGE;
        for (uint64_t n = random_next(random) % (i % 2 ? 300 : 60); n > 0; n--)
            ask_more(p, &a[i], length);
    }
    for (unsigned n = round % 2 ? COLD : 10; n > 0; n--)
        turn_and_sleep(p);
    uint64_t until_ns = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (!have_all(a)) {
        turn_and_sleep(p);
        cr_assert_lt(clock_now_ns(), until_ns, "some are never answered");
    }
}

Test(tcp_peers, who_goes_to_sleep_is_woken_by_whatever_a_connection_waits_for) {
    static struct top ops[8];
    struct pair p;
    struct asker a[EACH];
    uint64_t random = 5;
    pair_open(&p, BIG);
    for (unsigned i = 0; i < EACH; i++)
        a[i] = asker_up(&p);
    for (unsigned round = 0; round < 30 * test_scale(); round++) {
        for (unsigned i = 0; i < 8; i++) {
            op_prepare(&p, &ops[i], RDMAD_OP_READ, 0, 0, i % 2 ? 64 : BIG);
            op_post(&p, &ops[i]);
        }
        ask_and_read(&p, a, round, &random);
        PAIR_UNTIL(&p, ops[7].done);
    }
    cr_assert(met.slept && met.unsent && met.blocked && met.held, "%u slept, %u, %u, %u", met.slept,
              met.unsent, met.blocked, met.held);
    for (unsigned i = 0; i < EACH; i++)
        close(a[i].fd);
    pair_close(&p);
}

/* ---- who does not read -------------------------------------------------------------------- */

#define CROWD 40u
#define UNREAD 12u /* large READs of each, more than its sockets hold */
#define FEW 16u    /* sends that a poll tries in vain, at most */

/* So many ask, and read nothing, until the owner's sockets take no more. */
static void crowd_up(struct pair *p, struct asker *a, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        a[i] = asker_up(p);
    for (unsigned i = 0; i < count * UNREAD; i++)
        ask_more(p, &a[i % count], LARGE);
    for (unsigned quiet = 0; quiet < 100;)
        quiet = pair_turn(p) ? 0 : quiet + 1;
}

static bool comes(int fd, short events, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, timeout_ms) == 1;
}

static bool owner_wakes(struct pair *p) {
    return comes(fabric_tcp.wait_fd(p->owner.fabric), POLLIN, 1000);
}

/* It reads what is there, and the next poll sends it more. */
static void expect_sent_by_next_poll(struct pair *p, struct asker *a) {
    uint64_t until_ns = clock_now_ns() + 10 * NSEC_PER_SEC;
    while (!comes(a->conn->fd, POLLOUT, 0))
        cr_assert(clock_now_ns() < until_ns && !has_all(a));
    unsigned went = raw_sends - raw_vain_sends;
    fabric_tcp.poll(p->owner.fabric);
    cr_assert_gt(raw_sends - raw_vain_sends, went, "there is room again, and nothing is sent");
}

/* The owner is polled when it has to be, as a worker does. */
static void read_all(struct pair *p, struct asker *a, unsigned count) {
    uint64_t until_ns = clock_now_ns() + 10 * NSEC_PER_SEC;
    for (unsigned left = 1; left > 0;) {
        left = 0;
        for (unsigned i = 0; i < count; i++)
            left += !has_all(&a[i]);
        cr_assert_lt(clock_now_ns(), until_ns, "%u are never answered", left);
        if (left > 0 && is_armed(&p->owner))
            cr_assert(owner_wakes(p), "it sleeps on answers");
        fabric_tcp.poll(p->owner.fabric);
    }
}

static void crowd_down(struct pair *p, struct asker *a, unsigned count) {
    read_all(p, a, count);
    for (unsigned i = 0; i < count; i++)
        close(a[i].fd);
    pair_close(p);
}

Test(tcp_peers, of_many_who_do_not_read_few_are_sent_to_in_a_poll) {
    static struct asker a[CROWD];
    struct pair p;
    pair_open(&p, BIG);
    crowd_up(&p, a, CROWD);
    for (unsigned i = 0; i < 100; i++) {
        unsigned before = raw_vain_sends;
        fabric_tcp.poll(p.owner.fabric);
        unsigned sends = raw_vain_sends - before;
        cr_assert_leq(sends, FEW, "%u sends in a poll to sockets that are full", sends);
    }
    crowd_down(&p, a, CROWD);
}

/* Epoll tells of it, also to who is awake. */
Test(tcp_peers, one_of_many_who_did_not_read_is_sent_to_as_soon_as_it_does) {
    static struct asker a[CROWD];
    struct pair p;
    pair_open(&p, BIG);
    crowd_up(&p, a, CROWD);
    for (unsigned i = 0; i < CROWD; i += 3) {
        struct top op;
        op_prepare(&p, &op, RDMAD_OP_READ, 0, 0, 64);
        op_run(&p, &op); /* with traffic epoll is not asked in each poll for that reason alone */
        expect_sent_by_next_poll(&p, &a[i]);
    }
    for (unsigned i = 1; i < CROWD; i += 3) {
        while (!is_armed(&p.owner))
            fabric_tcp.poll(p.owner.fabric);
        expect_sent_by_next_poll(&p, &a[i]);
    }
    crowd_down(&p, a, CROWD);
}

/* As long as its socket has room, epoll would say so each time, and not of others. */
Test(tcp_peers, epoll_is_not_asked_for_ever_about_one_of_many_who_has_read_all) {
    static struct asker a[CROWD];
    struct pair p;
    pair_open(&p, BIG);
    crowd_up(&p, a, CROWD);
    cr_assert(a->conn->events & EPOLLOUT);
    PAIR_UNTIL(&p, has_all(a));
    PAIR_UNTIL(&p, a->conn->events == EPOLLIN);
    crowd_down(&p, a, CROWD);
}

/* Without epoll, which tells of a socket only when a third of it is free. */
Test(tcp_peers, few_who_did_not_read_are_sent_to_in_each_poll) {
    static struct asker a[EACH];
    struct pair p;
    pair_open(&p, BIG);
    crowd_up(&p, a, EACH);
    for (unsigned i = 0; i < 100; i++) {
        unsigned before = raw_sends;
        fabric_tcp.poll(p.owner.fabric);
        cr_assert_geq(raw_sends - before, 2 * EACH);
    }
    crowd_down(&p, a, EACH);
}
