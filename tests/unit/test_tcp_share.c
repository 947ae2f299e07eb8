/* SPDX-License-Identifier: MIT */
/* What one poll serves has a bound, whoever has how many connections, and everybody gets a turn. */
#include "daemon/fabric/tcp/target.h"
#include "tests/unit/tcp_raw.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BIG ((size_t)1 << 20)
#define PIECE 2048u
#define WRITES 512u          /* of a connection: 1 MiB */
#define ONE_READ TCP_STAGING /* what may be too much */
#define OTHERS 100u          /* peers from this one on */

/* A connection that has sent all that it has to say, and who counts what is served of it. */
struct rude {
    int fd;
    struct fabric_window *window;
    struct fabric_blob key;
    struct fabric_audit audit;
};

static void heat_all(struct pair *p) {
    struct tcp *t = container_of(p->owner.fabric, struct tcp, base);
    list_for_each (pos, &t->targets)
        conn_heat(&list_entry(pos, struct tcp_target, conn.node)->conn);
}

/* Connections of a peer, or each of one of its own (peers from OTHERS on), with a window each. */
static void rude_up(struct pair *p, struct rude *r, unsigned count, uint64_t peer) {
    struct error err = {0};
    for (unsigned i = 0; i < count; i++) {
        uint64_t of = peer == OTHERS ? OTHERS + i : peer;
        r[i] = (struct rude){.fd = raw_dial_as(p, of)};
        const struct fabric_window_spec spec = {.peer = of,
                                                .base = p->memory,
                                                .length = BIG,
                                                .rights = RDMAD_RIGHTS_ALL,
                                                .deadline_ns = CLOCK_NEVER,
                                                .lease_id = 1,
                                                .audit = &r[i].audit};
        cr_assert_eq(fabric_tcp.window_open(p->owner.fabric, &spec, &r[i].window, &r[i].key, &err),
                     0, "%s", err.text);
    }
    /* Handshakes take so many polls that the first would be looked at now and then only. */
    heat_all(p);
}

/* The owner is not turned: all of it waits in the sockets. */
static void say(const struct rude *r, const void *data, size_t n) {
    cr_assert_eq(raw_send_try(r->fd, data, n), (ssize_t)n, "the socket has no room for the test");
}

static void ask(const struct rude *r, int type, uint32_t op, uint32_t length) {
    struct frame f = raw_request(&r->key, type, op, 0, length);
    uint8_t bytes[FRAME_BYTES];
    frame_put(bytes, &f);
    say(r, bytes, sizeof bytes);
}

static void shout(const struct rude *r, unsigned count) {
    static const uint8_t payload[PIECE];
    for (unsigned i = 0; i < count; i++)
        for (uint32_t n = 0; n < WRITES; n++) {
            ask(&r[i], FRAME_WRITE, n, PIECE);
            say(&r[i], payload, PIECE);
        }
}

static uint64_t served(const struct rude *r, unsigned count) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += r[i].audit.bytes_written;
    return bytes;
}

static void hush(struct pair *p, struct rude *r, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        close(r[i].fd);
        fabric_tcp.window_close(r[i].window, RDMAD_E_LEASE_RELEASED);
    }
    for (unsigned n = 0; n < 100; n++)
        pair_turn(p);
}

/* Whether anything waits in the owner's sockets. */
static bool unread(const struct pair *p) {
    const struct tcp *t = container_of(p->owner.fabric, const struct tcp, base);
    list_for_each (pos, &t->targets) {
        int bytes = 0;
        if (ioctl(list_entry(pos, struct tcp_target, conn.node)->conn.fd, FIONREAD, &bytes) == 0 &&
            bytes > 0)
            return true;
    }
    return false;
}

static bool wakes(const struct pair *p) {
    struct pollfd fd = {.fd = fabric_tcp.wait_fd(p->owner.fabric), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void set_share(struct pair *p, uint64_t peer, struct fabric_share share) {
    cr_assert_eq(fabric_tcp.peer_share(p->owner.fabric, peer, &share), 0);
}

static uint64_t scripted_ns;

static uint64_t scripted(void *user) {
    (void)user;
    return scripted_ns;
}

Test(tcp_share, connections_of_a_peer_have_one_budget_together) {
    static struct rude r[24];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 24, LESSEE);
    shout(r, 24);
    uint64_t all = UINT64_C(24) * WRITES * PIECE, done = 0, polls = 0, cut = 0, wake_ns;
    for (; done < all; polls++) {
        cr_assert_lt(polls, 1000000, "some are never served");
        fabric_tcp.poll(p.owner.fabric);
        uint64_t moved = served(r, 24) - done;
        done += moved;
        cr_assert_leq(moved, TCP_SHARE_BUDGET + ONE_READ, "%lu bytes in one poll",
                      (unsigned long)moved);
        cut += moved > TCP_SHARE_BUDGET / 2 && unread(&p);
        if (unread(&p) && fabric_tcp.arm(p.owner.fabric, &wake_ns))
            cr_assert(wakes(&p), "it sleeps on what was left");
    }
    cr_assert_gt(cut, 0, "the test had nothing to cut");
    hush(&p, r, 24);
    pair_close(&p);
}

/* As much as its socket takes, time and again. */
struct greedy {
    struct rude *r;
    uint32_t op;
    size_t from, to; /* of bytes: unsent */
    uint8_t bytes[32 * (FRAME_BYTES + PIECE)];
};

static void shout_more(struct greedy *g) {
    for (;;) {
        while (g->from == g->to) {
            g->from = g->to = 0;
            for (unsigned n = 0; n < 32; n++, g->to += FRAME_BYTES + PIECE) {
                struct frame f = raw_request(&g->r->key, FRAME_WRITE, g->op++, 0, PIECE);
                frame_put(g->bytes + g->to, &f);
            }
        }
        ssize_t n = raw_send_try(g->r->fd, g->bytes + g->from, g->to - g->from);
        if (n <= 0)
            return;
        g->from += (size_t)n;
    }
}

Test(tcp_share, each_of_them_gets_its_turn) {
    static struct rude r[8];
    static struct greedy g[2];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 8, LESSEE);
    for (unsigned i = 0; i < 2; i++)
        g[i].r = &r[i];
    shout(r + 2, 6);
    for (unsigned n = 0; n < 100; n++) {
        for (unsigned i = 0; i < 2; i++)
            shout_more(&g[i]);
        fabric_tcp.poll(p.owner.fabric);
    }
    for (unsigned i = 0; i < 8; i++)
        cr_assert_geq(r[i].audit.bytes_written, BIG, "connection %u is left out", i);
    hush(&p, r, 8);
    pair_close(&p);
}

Test(tcp_share, a_peer_with_one_connection_is_served_beside_one_with_many) {
    static struct rude r[16], other[1];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 16, LESSEE);
    rude_up(&p, other, 1, STRANGE);
    shout(r, 16);
    shout(other, 1);
    for (unsigned polls = 0; other->audit.bytes_written < BIG; polls++) {
        cr_assert_lt(polls, 100000);
        fabric_tcp.poll(p.owner.fabric);
    }
    cr_assert_lt(served(r, 16), 8 * BIG);
    hush(&p, r, 16);
    hush(&p, other, 1);
    pair_close(&p);
}

Test(tcp_share, all_peers_have_one_budget_and_each_its_turn) {
    static struct rude r[12];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 12, OTHERS);
    shout(r, 12);
    uint64_t before = served(r, 12);
    for (unsigned n = 0; n < 3; n++) {
        fabric_tcp.poll(p.owner.fabric);
        uint64_t now = served(r, 12);
        cr_assert_leq(now - before, TCP_POLL_BUDGET + ONE_READ, "%lu bytes in one poll",
                      (unsigned long)(now - before));
        before = now;
    }
    for (unsigned n = 0; n < 2; n++)
        fabric_tcp.poll(p.owner.fabric);
    for (unsigned i = 0; i < 12; i++)
        cr_assert_gt(r[i].audit.bytes_written, 0, "peer %u is left out", i);
    hush(&p, r, 12);
    pair_close(&p);
}

/* Small requests cost more than their bytes. */
Test(tcp_share, small_requests_of_many_connections_are_bounded_too) {
    enum { MANY = 24, EACH = 4000 };
    static struct rude r[MANY];
    static uint8_t bytes[EACH * FRAME_BYTES];
    struct pair p;
    uint64_t ops = 0;
    pair_open(&p, BIG);
    rude_up(&p, r, MANY, LESSEE);
    for (unsigned i = 0; i < MANY; i++) {
        for (uint32_t n = 0; n < EACH; n++) {
            struct frame f = raw_request(&r[i].key, FRAME_WRITE, n, 0, 0);
            frame_put(bytes + (size_t)n * FRAME_BYTES, &f);
        }
        say(&r[i], bytes, sizeof bytes);
    }
    fabric_tcp.poll(p.owner.fabric);
    for (unsigned i = 0; i < MANY; i++)
        ops += r[i].audit.ops;
    cr_assert_leq(ops,
                  (TCP_SHARE_BUDGET + TCP_STAGING) / (FRAME_BYTES + TCP_FRAME_COST) +
                      TCP_STAGING / FRAME_BYTES,
                  "%lu in one poll", (unsigned long)ops);
    cr_assert_gt(ops, 0);
    hush(&p, r, MANY);
    pair_close(&p);
}

/* What is sent is bounded as what is received. */
Test(tcp_share, answers_to_a_peer_have_one_budget_too) {
    enum { MANY = 16, READS = 16, LENGTH = 128 << 10 };
    static struct rude r[MANY];
    static uint8_t sink[1 << 16];
    struct pair p;
    uint64_t sent = 0, polls = 0;
    pair_open(&p, BIG);
    rude_up(&p, r, MANY, LESSEE);
    for (unsigned i = 0; i < MANY; i++)
        for (uint32_t n = 0; n < READS; n++)
            ask(&r[i], FRAME_READ, n, LENGTH);
    for (; sent < (uint64_t)MANY * READS * LENGTH; polls++) {
        cr_assert_lt(polls, 1000000, "some are never answered");
        fabric_tcp.poll(p.owner.fabric);
        for (unsigned i = 0; i < MANY; i++)
            for (ssize_t n; (n = raw_recv_try(r[i].fd, sink, sizeof sink)) > 0;)
                sent += (uint64_t)n;
    }
    cr_assert_geq(polls, MANY * READS * LENGTH / TCP_SHARE_BUDGET - 4, "%lu polls for 32 MiB",
                  (unsigned long)polls);
    hush(&p, r, MANY);
    pair_close(&p);
}

static struct tcp_conn *only_target(struct pair *p) {
    struct tcp *t = container_of(p->owner.fabric, struct tcp, base);
    return &list_entry(list_first(&t->targets), struct tcp_target, conn.node)->conn;
}

/* Its acknowledgement is not in the queue yet: the flush puts it there. Sleeping on it stopped
 * whoever waited for it until somebody else's timer. */
Test(tcp_share, an_instance_does_not_sleep_on_an_acknowledgement_that_a_budget_holds_back) {
    static struct rude r[1];
    struct pair p;
    struct frame ack;
    uint8_t bytes[FRAME_BYTES];
    pair_open(&p, BIG);
    rude_up(&p, r, 1, LESSEE);
    only_target(&p)->share->out = 4 * TCP_SHARE_BUDGET;
    uint8_t payload[8] = {0};
    ask(r, FRAME_WRITE, 0, sizeof payload);
    say(r, payload, sizeof payload);
    uint64_t wake_ns, polls = 0;
    while (raw_recv_try(r->fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
        cr_assert_lt(polls++, 1000, "no acknowledgement comes");
        if (fabric_tcp.arm(p.owner.fabric, &wake_ns))
            cr_assert(wakes(&p), "it sleeps on an acknowledgement");
        fabric_tcp.poll(p.owner.fabric);
    }
    frame_get(&ack, bytes);
    cr_assert_eq(ack.type, FRAME_ACK);
    cr_assert_gt(polls, 2, "no budget held it back");
    hush(&p, r, 1);
    pair_close(&p);
}

/* ---- connections that say little ---------------------------------------------------------- */

#define MANY 150u
#define A_POLL 64u /* that it reads because they had traffic lately, and of which epoll tells */

static void all_ask(const struct rude *r, uint32_t op) {
    for (unsigned i = 0; i < MANY; i++)
        ask(&r[i], FRAME_WRITE, op, 0);
}

/* It was enough to say something each thousand polls. */
Test(tcp_share, many_connections_that_say_little_are_not_all_read_in_each_poll) {
    static struct rude r[MANY], other[1];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, other, 1, STRANGE);
    rude_up(&p, r, MANY, OTHERS);
    for (uint32_t round = 0; round < 3; round++) {
        all_ask(r, round);
        ask(other, FRAME_WRITE, round, 0);
        for (unsigned n = 0; n < 1000; n++) {
            raw_recvs = 0;
            fabric_tcp.poll(p.owner.fabric);
            cr_assert_leq(raw_recvs, n < 10 ? 2 * A_POLL : A_POLL, "%u in a poll", raw_recvs);
            if (n == 9)
                cr_assert_eq(other->audit.ops, round + 1, "it waits for those of all others");
        }
        for (unsigned i = 0; i < MANY; i++)
            cr_assert_eq(r[i].audit.ops, round + 1, "connection %u waits", i);
        unsigned hot = 0;
        list_for_each (pos, &container_of(p.owner.fabric, struct tcp, base)->hot)
            hot++;
        cr_assert_leq(hot, A_POLL);
    }
    hush(&p, r, MANY);
    hush(&p, other, 1);
    pair_close(&p);
}

/* Each had traffic lately: what it says next is met as soon as if it were read in each poll. */
Test(tcp_share, each_of_many_connections_that_talk_is_heard_at_once) {
    static struct rude r[MANY];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, MANY, OTHERS);
    all_ask(r, 0);
    for (unsigned n = 0; n < 10; n++)
        fabric_tcp.poll(p.owner.fabric);
    for (unsigned i = 0; i < MANY; i++) {
        ask(&r[i], FRAME_WRITE, 1, 0);
        while (!unread(&p))
            ;
        fabric_tcp.poll(p.owner.fabric);
        cr_assert_eq(r[i].audit.ops, 2, "connection %u waits", i);
    }
    hush(&p, r, MANY);
    pair_close(&p);
}

Test(tcp_share, a_read_of_which_nothing_comes_counts_as_work_of_its_peer) {
    static struct rude r[1];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 1, STRANGE);
    fabric_tcp.poll(p.owner.fabric);
    cr_assert_eq(only_target(&p)->share->in, TCP_READ_COST);
    hush(&p, r, 1);
    pair_close(&p);
}

/* While it was held epoll was not asked about it, and others are read before it. */
Test(tcp_share, an_instance_does_not_sleep_on_one_of_many_that_is_held_no_more) {
    static struct rude r[MANY], other[1];
    struct pair p;
    uint64_t wake_ns;
    pair_open(&p, BIG);
    rude_up(&p, other, 1, STRANGE);
    rude_up(&p, r, MANY, OTHERS);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    set_share(&p, STRANGE, (struct fabric_share){.weight = 100, .ops_per_second = 1});
    for (uint32_t n = 0; n < 8; n++)
        ask(other, FRAME_WRITE, n, 0);
    while (fabric_tcp.poll(p.owner.fabric) || !fabric_tcp.arm(p.owner.fabric, &wake_ns))
        ;
    cr_assert(!wakes(&p) && other->audit.ops < 8, "it is held");
    heat_all(&p);
    set_share(&p, STRANGE, (struct fabric_share){.weight = 100});
    for (unsigned n = 0; other->audit.ops < 8; n++) {
        cr_assert_lt(n, 1000, "it is never served");
        if (!fabric_tcp.poll(p.owner.fabric) && fabric_tcp.arm(p.owner.fabric, &wake_ns))
            cr_assert(wakes(&p), "it sleeps on requests");
    }
    hush(&p, r, MANY);
    hush(&p, other, 1);
    pair_close(&p);
}

/* ---- shares ------------------------------------------------------------------------------ */

Test(tcp_share, a_peers_budget_is_by_its_weight_before_it_comes_and_while_it_is_there) {
    static struct rude r[12], other[12];
    struct pair p;
    pair_open(&p, BIG);
    set_share(&p, LESSEE, (struct fabric_share){.weight = 30});
    rude_up(&p, r, 12, LESSEE);
    rude_up(&p, other, 12, STRANGE);
    shout(r, 12);
    shout(other, 12);
    set_share(&p, STRANGE, (struct fabric_share){.weight = 10});
    uint64_t before = served(r, 12), others_before = served(other, 12);
    for (unsigned n = 0; n < 12; n++)
        fabric_tcp.poll(p.owner.fabric);
    double ratio = (double)(served(r, 12) - before) / (double)(served(other, 12) - others_before);
    cr_assert(ratio > 2.5 && ratio < 3.5, "%.2f", ratio);
    hush(&p, r, 12);
    hush(&p, other, 12);
    pair_close(&p);
}

/* Seconds of the scripted clock until all is served, with polls only when it should wake. */
static double seconds_to_serve(struct pair *p, const struct rude *r, unsigned count, uint64_t all) {
    uint64_t start_ns = scripted_ns;
    for (unsigned n = 0; served(r, count) < all; n++) {
        uint64_t wake_ns;
        cr_assert_lt(n, 100000, "some are never served");
        if (!fabric_tcp.poll(p->owner.fabric) && fabric_tcp.arm(p->owner.fabric, &wake_ns) &&
            !wakes(p)) {
            cr_assert_neq(wake_ns, CLOCK_NEVER, "nothing will wake it");
            if (wake_ns > scripted_ns)
                scripted_ns = wake_ns;
        }
    }
    return (double)(scripted_ns - start_ns) / 1e9;
}

Test(tcp_share, a_peer_beyond_its_rate_is_not_read_until_a_moment_at_which_its_instance_wakes) {
    static struct rude r[12];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 12, LESSEE);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    shout(r, 12);
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100, .bytes_per_second = 4 * BIG});
    double seconds = seconds_to_serve(&p, r, 12, 8 * BIG);
    double rate = (double)served(r, 12) * (1 + (double)FRAME_BYTES / PIECE) / seconds;
    cr_assert(rate > 0.97 * 4 * BIG && rate < 1.12 * 4 * BIG, "%.0f bytes/s in %.1f s", rate,
              seconds);
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100});
    cr_assert_lt(seconds_to_serve(&p, r, 12, 12 * BIG), 0.05, "it has no rate any more");
    hush(&p, r, 12);
    pair_close(&p);
}

Test(tcp_share, a_peers_rate_of_requests_holds) {
    static struct rude r[12];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 12, LESSEE);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100, .ops_per_second = 1000});
    shout(r, 12);
    double seconds = seconds_to_serve(&p, r, 12, 12 * BIG);
    double rate = 12.0 * WRITES / seconds;
    cr_assert(rate > 970 && rate < 1120, "%.0f requests/s", rate);
    hush(&p, r, 12);
    pair_close(&p);
}

/* As much as one read takes is asked for at once; the clock stands still. */
static void held_to(struct fabric_share share, uint32_t asks, uint32_t length, uint64_t most) {
    static struct rude r[1];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 1, LESSEE);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    fabric_tcp.poll(p.owner.fabric);
    set_share(&p, LESSEE, share);
    for (uint32_t n = 0; n < asks; n++)
        ask(r, FRAME_READ, n, length);
    for (unsigned n = 0; n < 50; n++)
        fabric_tcp.poll(p.owner.fabric);
    cr_assert_gt(r->audit.ops, 0);
    cr_assert_leq(r->audit.ops, most, "%lu of %u are answered at once", (unsigned long)r->audit.ops,
                  asks);
    hush(&p, r, 1);
    pair_close(&p);
}

Test(tcp_share, requests_that_come_together_are_held_to_a_rate_too) {
    held_to((struct fabric_share){.weight = 100, .ops_per_second = 1000}, 2000, 8, 30);
}

Test(tcp_share, a_read_counts_when_it_is_asked_for) {
    /* The requests themselves, read at once, are less than a burst. */
    held_to((struct fabric_share){.weight = 100, .bytes_per_second = BIG}, 500, 64 << 10, 4);
}

Test(tcp_share, a_peer_that_is_held_and_resets_its_connection_wakes_nobody) {
    static struct rude r[1];
    const struct linger reset = {.l_onoff = 1};
    struct pair p;
    uint64_t wake_ns;
    pair_open(&p, BIG);
    rude_up(&p, r, 1, LESSEE);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100, .ops_per_second = 1});
    for (uint32_t n = 0; n < 8; n++)
        ask(r, FRAME_READ, n, 8);
    while (fabric_tcp.poll(p.owner.fabric) || !fabric_tcp.arm(p.owner.fabric, &wake_ns))
        ;
    cr_assert_not(wakes(&p));
    setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(r->fd);
    for (unsigned n = 0; wakes(&p); n++) {
        cr_assert_lt(n, 100, "what cannot be read keeps the worker awake");
        while (fabric_tcp.poll(p.owner.fabric) || !fabric_tcp.arm(p.owner.fabric, &wake_ns))
            ;
    }
    fabric_tcp.window_close(r->window, RDMAD_E_LEASE_RELEASED);
    pair_close(&p);
}

/* ---- that a peer is held ------------------------------------------------------------------- */

static struct {
    unsigned ops, bytes, refused;
    bool busy; /* what was told before is still on its way */
    uint64_t peer;
} told;

static bool on_throttled(void *user, uint64_t peer, bool by_bytes) {
    (void)user;
    if (told.busy) {
        told.refused++;
        return false;
    }
    told.peer = peer;
    told.bytes += by_bytes;
    told.ops += !by_bytes;
    return true;
}

/* So long on the scripted clock, with polls when it should wake. */
static void pass(struct pair *p, double seconds) {
    uint64_t until_ns = scripted_ns + (uint64_t)(seconds * 1e9), wake_ns;
    while (scripted_ns < until_ns) {
        if (fabric_tcp.poll(p->owner.fabric) || !fabric_tcp.arm(p->owner.fabric, &wake_ns))
            continue;
        if (wake_ns > until_ns)
            wake_ns = until_ns;
        scripted_ns = wake_ns > scripted_ns ? wake_ns : scripted_ns + 1;
    }
}

/* However often it is held, and by whichever of its connections. */
Test(tcp_share, that_a_peer_is_throttled_is_told_once_a_minute_of_each_rate) {
    static struct rude r[2];
    struct pair p;
    pair_open(&p, BIG);
    rude_up(&p, r, 2, LESSEE);
    scripted_ns = clock_now_ns();
    p.owner.env.now_ns = scripted;
    p.owner.env.peer_throttled = on_throttled;
    told.busy = true;
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100, .ops_per_second = 2});
    for (uint32_t n = 0; n < 150; n++)
        for (unsigned i = 0; i < 2; i++)
            ask(&r[i], FRAME_READ, n, 8);
    pass(&p, 1);
    cr_assert(told.refused > 0 && told.ops == 0);
    told.busy = false;
    pass(&p, 2);
    cr_assert_eq(told.ops, 1, "what could not be told is told later: %u", told.ops);
    cr_assert_eq(told.peer, LESSEE);
    pass(&p, 55);
    cr_assert_eq(told.ops, 1, "%u", told.ops);
    pass(&p, 5);
    cr_assert_eq(told.ops, 2, "%u", told.ops);
    cr_assert_eq(told.bytes, 0);
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100, .bytes_per_second = 8});
    pass(&p, 5);
    cr_assert_eq(told.bytes, 1, "%u", told.bytes);
    cr_assert_eq(told.ops, 2);
    set_share(&p, LESSEE, (struct fabric_share){.weight = 100});
    hush(&p, r, 2);
    pair_close(&p);
}
