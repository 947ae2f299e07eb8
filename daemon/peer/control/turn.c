/* SPDX-License-Identifier: MIT */
/*
 * turn.c - how much of what peers say is heard in one turn of the loop.
 *
 * The loop is shared with clients, timers and the workers' answers, and anybody who reaches our
 * port can send without pause. So what peers have sent waits in queues, and each turn of the loop
 * takes a bounded piece of it: TURN_FRAMES messages or TURN_NS, a few of each connection, one
 * connection after the other. However many there are and however much they send, nothing else that
 * the loop serves waits longer than that.
 *
 * There are two queues. A connection that we rely on (a lease or a channel ends with it, or we have
 * dialled it) is in the first. The rest share a smaller piece of each turn, and a rate (IDLE_RATE)
 * that is far above what is needed to ask for a first lease: they cannot keep a CPU busy.
 *
 * A connection of which much waits is not read, so TCP holds its sender back. When it ends, as far
 * as that can be noticed behind what was not read, what waits is of no use any more and is dropped.
 * A connection that we do not rely on is dropped as well when it has sent so much that it cannot be
 * heard within IDLE_PATIENCE_NS.
 */
#include "daemon/peer/control/turn.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/rates.h"
#include "daemon/peer/control/transport.h"
#include <assert.h>
#include <event2/event.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TURN_FRAMES 64u
#define TURN_NS (200 * NSEC_PER_USEC)
#define IDLE_FRAMES 16u
#define FRAMES_AT_ONCE 8u /* of one connection */
#define IDLE_RATE 20000u  /* messages a second, of all that we do not rely on */
#define IDLE_BURST 1000u
#define IDLE_PATIENCE_NS (2 * NSEC_PER_SEC)
#define READ_AHEAD (16u * 1024u)

static void turn_begins(evutil_socket_t fd, short what, void *arg);
static void turn_refilled(struct timer *timer, uint64_t now_ns);
static void turn_held_long_enough(struct timer *timer, uint64_t now_ns);
static void turn_some_closed(evutil_socket_t fd, short what, void *arg);

int turn_start(struct peers *ps, struct error *err) {
    list_init(&ps->busy);
    list_init(&ps->idle);
    list_init(&ps->held);
    timer_init(&ps->held_timer, turn_held_long_enough);
    ps->idle_allowance = IDLE_BURST;
    ps->idle_since_ns = state_now(ps->state);
    timer_init(&ps->idle_timer, turn_refilled);
    ps->turn = event_new(ps->state->base, -1, 0, turn_begins, ps);
    ps->ends = epoll_create1(EPOLL_CLOEXEC);
    if (ps->ends >= 0)
        ps->ended =
            event_new(ps->state->base, ps->ends, EV_READ | EV_PERSIST, turn_some_closed, ps);
    if (!ps->turn || !ps->ended || event_add(ps->ended, NULL))
        return error_errno(err, RDMAD_E_SYSTEM, "cannot make the turns of peers");
    return 0;
}

void turn_stop(struct peers *ps) {
    timer_unset(&ps->state->timers, &ps->idle_timer);
    timer_unset(&ps->state->timers, &ps->held_timer);
    if (ps->turn)
        event_free(ps->turn);
    if (ps->ended)
        event_free(ps->ended);
    if (ps->ends >= 0)
        close(ps->ends);
}

/* In the loop's next turn, not in this one. */
void turn_request(struct peers *ps) {
    static const struct timeval now;
    if (event_pending(ps->turn, EV_TIMEOUT, NULL))
        return;
    if (event_add(ps->turn, &now))
        event_active(ps->turn, EV_TIMEOUT, 0); /* out of memory: in this one, then */
}

/* ---- the rate of those we do not rely on
 * ----------------------------------------------------------- */

static void turn_refill(struct peers *ps) {
    uint64_t now = state_now(ps->state), each = NSEC_PER_SEC / IDLE_RATE;
    uint64_t more = clock_left(ps->idle_since_ns, now) / each;
    ps->idle_since_ns += more * each;
    ps->idle_allowance =
        more < IDLE_BURST - ps->idle_allowance ? ps->idle_allowance + (unsigned)more : IDLE_BURST;
}

static void turn_refilled(struct timer *timer, uint64_t now_ns) {
    (void)now_ns;
    turn_request(container_of(timer, struct peers, idle_timer));
}

/* When a turn's piece of them is allowed again. */
static void turn_wait_for_refill(struct peers *ps) {
    uint64_t at = clock_after(ps->idle_since_ns, IDLE_FRAMES * (NSEC_PER_SEC / IDLE_RATE));
    if (timer_set(&ps->state->timers, &ps->idle_timer, at))
        turn_request(ps);
}

/* ---- the queues ---------------------------------------------------------------------------- */

static void turn_enqueue(struct peer *p) {
    struct peers *ps = p->peers;
    list_remove(&p->turn_node);
    list_append(peer_is_relied_on(p) ? &ps->busy : &ps->idle, &p->turn_node);
}

/* Some of those that are not read have closed, or broke. Their connections are in a set of their
 * own: libevent's EV_CLOSED says nothing of one that was reset, and then never sleeps again. */
static void turn_some_closed(evutil_socket_t fd, short what, void *arg) {
    struct epoll_event events[16];
    struct error why;
    (void)what;
    (void)arg;
    int n = epoll_wait(fd, events, 16, 0);
    for (int i = 0; i < n; i++) {
        struct peer *p = events[i].data.ptr;
        peer_why_closed(p, &why);
        peer_end(p, &why);
    }
}

/* Without memory for it, its end is noticed when it was read up to there. */
static void turn_notice_end(struct peer *p) {
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = p};
    (void)epoll_ctl(p->peers->ends, EPOLL_CTL_ADD, transport_socket(p->way), &event);
}

static void turn_pause_reading(struct peer *p) {
    transport_read_pause(p->way);
    p->paused = true;
    p->paused_ns = state_now(p->peers->state);
    turn_notice_end(p);
}

static void turn_resume_reading(struct peer *p) {
    struct error why;
    if (!p->paused)
        return;
    p->paused = false;
    epoll_ctl(p->peers->ends, EPOLL_CTL_DEL, transport_socket(p->way), NULL);
    if (!transport_read_on(p->way)) {
        error_set(&why, RDMAD_E_NOMEM, "out of memory for its connection");
        peer_end(p, &why);
    }
}

void turn_heard(struct peer *p) {
    struct peers *ps = p->peers;
    if (p->ending || !peer_has_frame(p))
        return;
    if (transport_unread(p->way) >= READ_AHEAD && !p->paused)
        turn_pause_reading(p);
    if (!list_empty(&p->turn_node))
        return;
    turn_enqueue(p);
    turn_request(ps);
}

void turn_ended(struct peer *p, const struct error *why) {
    /* Who has proven who it is and goes before hello may have said why. */
    bool says_why = p->secured && p->stage == PEER_GREETING;
    if (p->ending || list_empty(&p->turn_node) || !(peer_is_relied_on(p) || says_why)) {
        peer_end(p, why);
        return;
    }
    p->closed_there = true; /* what it said before is heard first, at whatever rate */
    p->closed_why = *why;
    list_remove(&p->turn_node);
    turn_enqueue(p);
    turn_request(p->peers);
}

void turn_forget(struct peer *p) {
    list_remove(&p->turn_node);
    if (p->paused)
        epoll_ctl(p->peers->ends, EPOLL_CTL_DEL, transport_socket(p->way), NULL);
    p->paused = false;
}

/* ---- a turn -------------------------------------------------------------------------------- */

static bool turn_says_too_much(const struct peer *p) {
    return p->paused && !peer_is_relied_on(p) && peer_has_frame(p) &&
           clock_left(p->paused_ns, p->heard_ns) > IDLE_PATIENCE_NS;
}

/* ---- beyond the rates of its name --------------------------------------------------------- */

static bool turn_is_held(const struct peer *p) {
    return !p->closed_there && rates_wait_ns(p, state_now(p->peers->state)) > 0;
}

/* p, which is in no queue, is heard when its rates allow. That it has spoken is known: it lives. */
static void turn_hold(struct peer *p) {
    struct peers *ps = p->peers;
    uint64_t now = state_now(ps->state), at = rates_wait_ns(p, now);
    p->heard_ns = now;
    rates_tell_held(p);
    if (!list_empty(&ps->held) && ps->held_timer.at_ns < at)
        at = ps->held_timer.at_ns;
    list_append(&ps->held, &p->turn_node);
    if (timer_set(&ps->state->timers, &ps->held_timer, at))
        turn_held_long_enough(&ps->held_timer, now); /* out of memory: in the next turn, then */
}

static void turn_held_long_enough(struct timer *timer, uint64_t now_ns) {
    struct peers *ps = container_of(timer, struct peers, held_timer);
    struct list *node;
    (void)now_ns;
    while ((node = list_pop(&ps->held)))
        turn_enqueue(list_entry(node, struct peer, turn_node));
    turn_request(ps);
}

/* ---- a piece of what it said -------------------------------------------------------------- */

/* Hears p, which is in no queue, up to so many times; returns how often. */
static unsigned turn_hear(struct peer *p, unsigned most) {
    struct peer_msg m;
    unsigned n = 0;
    assert(list_empty(&p->turn_node));
    if (most > FRAMES_AT_ONCE)
        most = FRAMES_AT_ONCE;
    while (n < most && !p->ending && peer_has_frame(p)) {
        if (n && turn_is_held(p))
            break;
        if (peer_take_frame(p, &m)) {
            rates_use(p, &m);
            p->peers->ops->take(p, &m);
        }
        n++; /* a record with less than a message counts as one */
    }
    if (p->ending)
        return n;
    p->heard_ns = state_now(p->peers->state);
    if (turn_says_too_much(p))
        peer_refuse(p, RDMAD_E_LIMIT, "who has no lease or channel here is heard less than that");
    else if (peer_has_frame(p))
        turn_enqueue(p);
    else if (p->closed_there)
        peer_end(p, &p->closed_why);
    else
        turn_resume_reading(p);
    return n;
}

static unsigned turn_hear_queue(struct peers *ps, struct list *queue, unsigned most) {
    uint64_t until = clock_after(state_now(ps->state), TURN_NS);
    struct list *node;
    unsigned n = 0;
    while (n < most && state_now(ps->state) < until && (node = list_pop(queue))) {
        struct peer *p = list_entry(node, struct peer, turn_node);
        if (turn_is_held(p))
            turn_hold(p);
        else
            n += turn_hear(p, most - n);
    }
    return n;
}

static void turn_begins(evutil_socket_t fd, short what, void *arg) {
    struct peers *ps = arg;
    (void)fd;
    (void)what;
    ps->ops->turn(ps);
    turn_refill(ps);
    unsigned most = ps->idle_allowance < IDLE_FRAMES ? ps->idle_allowance : IDLE_FRAMES;
    ps->idle_allowance -= turn_hear_queue(ps, &ps->idle, most);
    turn_hear_queue(ps, &ps->busy, TURN_FRAMES);
    if (!list_empty(&ps->busy) || (!list_empty(&ps->idle) && ps->idle_allowance))
        turn_request(ps);
    else if (!list_empty(&ps->idle))
        turn_wait_for_refill(ps);
}
