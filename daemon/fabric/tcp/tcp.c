/* SPDX-License-Identifier: MIT */
/*
 * tcp.c - one instance: its birth, its turn (poll), its sleep (arm), its end.
 *
 * A turn sends what was posted, reads, and sends what that gave rise to. Asking epoll costs as much
 * as reading a socket, so connections with recent traffic are simply read, and epoll is asked about
 * the rest now and then, at once when nothing is hot, and always after a sleep.
 *
 * A peer may say a little now and then on each of thousands of connections, and all would be hot.
 * If they are more than a poll reads they take turns, one that is read in vain is hot no more, and
 * epoll tells of it as soon as reading it would have: it is asked in each poll then, and until they
 * would have been hot no more in any case.
 *
 * A socket that had no room is simply tried again in each flush: epoll would tell of room only when
 * a third of it is free. Before a sleep epoll is asked for that, and also while such sockets are
 * many, for a peer may have thousands that it does not read: then they are not tried in vain, and
 * epoll is asked in each poll.
 *
 * Timers (strangers, tokens, dialling, silence) share one time at which one of them may be due;
 * when it comes, all that have one are looked at (of tokens the oldest), and each names its next.
 */
#include "daemon/base/clock.h"
#include "daemon/base/undumped.h"
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/dial.h"
#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/health.h"
#include "daemon/fabric/tcp/listener.h"
#include "daemon/fabric/tcp/offer.h"
#include "daemon/fabric/tcp/stranger.h"
#include "daemon/fabric/tcp/target.h"
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define EVENTS_A_TURN 64
#define HOT_POLLS 1024u /* a connection is read without asking epoll for so long */
#define HOT_READS 64u   /* connections that a poll reads without asking epoll */
#define EPOLL_EVERY 32u /* polls between looks at the others */
#define RETRIES 8u      /* connections whose sockets are full that a flush tries again */
#define MAX_WINDOWS (1u << 20)

static struct tcp *tcp_of(struct fabric *f) {
    return container_of(f, struct tcp, base);
}

/* ---- a turn ---------------------------------------------------------------------------- */

static void complete_all_refused(struct tcp *t) {
    struct list *node;
    while ((node = list_first(&t->refused)))
        op_complete_refused(t, list_entry(node, struct fabric_op, node));
}

static void release_held(struct tcp *t) {
    struct list held, *node;
    list_init(&held);
    list_splice(&held, &t->held);
    while ((node = list_pop(&held)))
        conn_is_held(list_entry(node, struct tcp_conn, hot));
}

static void tcp_run_timers(struct tcp *t) {
    t->next_timer_ns = CLOCK_NEVER;
    release_held(t);
    listener_timers(t);
    struct list links;
    list_init(&links);
    list_splice(&links, &t->links);
    struct list *node;
    while ((node = list_pop(&links))) { /* a lost link's callbacks may close any other */
        list_append(&t->links, node);
        link_timer(list_entry(node, struct tcp_link, conn.node));
    }
}

/* For them this poll's budgets are used up: they are the first of the next. */
static void put_first(struct list *conns, struct list *left_out) {
    list_splice(left_out, conns);
    list_splice(conns, left_out);
}

/* Those that it does not come to go first the next time. */
static void retry_stuck(struct tcp *t) {
    struct list now, *node;
    list_init(&now);
    list_splice(&now, &t->stuck);
    for (unsigned i = 0; i < RETRIES && (node = list_pop(&now)); i++) {
        struct tcp_conn *c = list_entry(node, struct tcp_conn, sending);
        bool told = t->many_stuck && c->events & EPOLLOUT;
        if (told || conn_room_out(c) == 0)
            list_append(&t->stuck, node);
        else
            conn_flush(c);
    }
    t->many_stuck = !list_empty(&now);
    put_first(&t->stuck, &now);
}

static void flush_all(struct tcp *t) {
    struct list now, left_out, *node;
    list_init(&now);
    list_init(&left_out);
    if (!t->slept) /* else epoll will tell of each that has room */
        retry_stuck(t);
    list_splice(&now, &t->sending);
    while ((node = list_pop(&now))) {
        struct tcp_conn *c = list_entry(node, struct tcp_conn, sending);
        if (conn_room_out(c) > 0)
            conn_flush(c);
        else
            list_append(&left_out, node);
    }
    put_first(&t->sending, &left_out);
}

static void serve_hot(struct tcp *t) {
    struct list now, left_out, *node;
    unsigned vain = t->crowded == HOT_POLLS ? 1 : HOT_POLLS;
    list_init(&now);
    list_init(&left_out);
    list_splice(&now, &t->hot);
    for (unsigned reads = 0; reads < HOT_READS && (node = list_pop(&now));) {
        struct tcp_conn *c = list_entry(node, struct tcp_conn, hot);
        if (conn_room_in(c) == 0) {
            c->more = true;
            list_append(&left_out, node);
            continue;
        }
        reads++;
        c->idle_polls++;
        if (!c->dialling)
            conn_serve(c);
        if (c->closed || c->held || !list_empty(node))
            continue;
        if (c->idle_polls < vain || conn_watch(c))
            list_append(&t->hot, node);
    }
    if (!list_empty(&now))
        t->crowded = HOT_POLLS;
    else if (t->crowded > 0)
        t->crowded--;
    t->progress += !list_empty(&left_out);
    put_first(&t->hot, &now);
    put_first(&t->hot, &left_out);
}

static void ask_epoll(struct tcp *t) {
    struct epoll_event events[EVENTS_A_TURN];
    int n = epoll_wait(t->epoll_fd, events, EVENTS_A_TURN, 0);
    for (int i = 0; i < n; i++) {
        struct source *s = events[i].data.ptr;
        if (list_empty(&s->ended)) /* not ended by an earlier event */
            s->ready(s, events[i].events);
    }
}

static unsigned tcp_poll(struct fabric *f) {
    struct tcp *t = tcp_of(f);
    t->progress = 0;
    t->handshakes = 0;
    t->shares.poll++;
    t->now_ns = t->shares.now_ns = t->env->now_ns(t->env->user);
    sources_destroy(t);
    complete_all_refused(t);
    flush_all(t);
    if (t->now_ns >= t->next_timer_ns)
        tcp_run_timers(t);
    bool ask = t->slept || t->many_stuck || list_empty(&t->hot) || ++t->turns % EPOLL_EVERY == 0;
    t->slept = false;
    serve_hot(t);
    if (ask || t->crowded > 0)
        ask_epoll(t);
    flush_all(t);
    return t->progress;
}

/* ---- sleeping -------------------------------------------------------------------------- */

static int tcp_wait_fd(struct fabric *f) {
    return tcp_of(f)->epoll_fd;
}

static bool tcp_arm(struct fabric *f, uint64_t *wake_ns) {
    struct tcp *t = tcp_of(f);
    *wake_ns = t->next_timer_ns;
    if (!conns_arm(t) || !list_empty(&t->refused))
        return false;
    t->slept = true;
    return true;
}

/* ---- who may still reach memory, or dial ----------------------------------------------- */

static int tcp_peer_share(struct fabric *f, uint64_t peer, const struct fabric_share *share) {
    struct tcp *t = tcp_of(f);
    int rc = share_set(&t->shares, peer, share);
    tcp_timer_at(t, t->env->now_ns(t->env->user)); /* who is held is looked at again */
    return rc;
}

static void tcp_expel(struct fabric *f, uint64_t peer) {
    struct tcp *tcp = tcp_of(f);
    share_forget(&tcp->shares, peer);
    offers_drop(tcp, peer, 0);
    strangers_drop(tcp, peer, 0);
    targets_shut(tcp, peer);
}

/* The socket's end would show by itself, but only behind everything that is still under way on it:
 * a WRITE from before the link was lost must not land after what was done over the next one. */
static void tcp_forget(struct fabric *f, uint64_t peer, uint64_t number) {
    struct tcp *tcp = tcp_of(f);
    struct tcp_target *t = target_find(tcp, peer, number);
    offers_drop(tcp, peer, number);
    strangers_drop(tcp, peer, number);
    if (t)
        target_shut(t);
}

static int tcp_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                           struct fabric_window **out, struct fabric_blob *key, struct error *err) {
    struct tcp *t = tcp_of(f);
    struct tcp_window *w;
    if (spec->via && !target_find(t, spec->peer, spec->via))
        return error_set(err, RDMAD_E_PEER_LOST,
                         "the peer's data connection %lu, for which a window of lease %lu is "
                         "wanted, is closed",
                         (unsigned long)spec->via, (unsigned long)spec->lease_id);
    int rc = window_add(t, spec, &w, err);
    if (rc)
        return rc;
    key_put(key, (uint32_t)w->handle, w->key);
    *out = &w->base;
    return 0;
}

static bool tcp_window_close(struct fabric_window *fw, int reason) {
    struct tcp_window *w = container_of(fw, struct tcp_window, base);
    struct tcp *t = tcp_of(fw->fabric);
    targets_let_go(t, w, reason);
    window_remove(t, w);
    return true;
}

/* ---- birth and end --------------------------------------------------------------------- */

static void tcp_close(struct fabric *f) {
    struct tcp *t = tcp_of(f);
    while (!list_empty(&t->targets)) {
        struct tcp_target *target =
            list_entry(list_first(&t->targets), struct tcp_target, conn.node);
        tcp_expel(f, target->peer);
    }
    listener_close(t);
    sources_destroy(t);
    handshakes_close(t->tls);
    shares_fini(&t->shares);
    slots_fini(&t->windows);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    if (t->zeros)
        munmap((void *)(uintptr_t)t->zeros, FRAME_MAX_PAYLOAD);
    undumped_free(t->scratch, FRAME_MAX_PAYLOAD);
    free(t);
}

static int tcp_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    struct tcp *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the tcp fabric");
    *t = (struct tcp){
        .base.ops = &fabric_tcp, .env = env, .listen_fd = -1, .next_timer_ns = CLOCK_NEVER};
    list_init(&t->strangers);
    list_init(&t->offers);
    for (unsigned i = 0; i < TOKEN_CHAINS; i++)
        list_init(&t->tokens[i]);
    list_init(&t->targets);
    list_init(&t->links);
    list_init(&t->hot);
    list_init(&t->held);
    list_init(&t->sending);
    list_init(&t->stuck);
    list_init(&t->stirred);
    list_init(&t->refused);
    list_init(&t->ended);
    shares_init(&t->shares);
    list_init(&t->listener.ended);
    slots_init(&t->windows, MAX_WINDOWS);
    t->now_ns = env->now_ns(env->user);
    t->scratch = undumped_new(FRAME_MAX_PAYLOAD);
    void *zeros = mmap(NULL, FRAME_MAX_PAYLOAD, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t->zeros = zeros == MAP_FAILED ? NULL : zeros;
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc;
    if (!t->scratch || !t->zeros)
        rc = error_set(err, RDMAD_E_NOMEM, "no memory for the tcp fabric");
    else if (t->epoll_fd < 0)
        rc = error_errno(err, RDMAD_E_SYSTEM, "no epoll descriptor for the tcp fabric");
    else
        rc = handshakes_open(&t->tls, err);
    if (!rc)
        rc = listener_open(t, err);
    if (rc) {
        tcp_close(&t->base);
        return rc;
    }
    *out = &t->base;
    return 0;
}

static unsigned tcp_accepted(const struct fabric *f) {
    return container_of(f, const struct tcp, base)->accepted;
}

static unsigned tcp_encrypted(const struct fabric *f) {
    return container_of(f, const struct tcp, base)->encrypted;
}

const struct fabric_ops fabric_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .offer = tcp_offer,
    .expel = tcp_expel,
    .peer_share = tcp_peer_share,
    .forget = tcp_forget,
    .abandon = tcp_abandon,
    .link_new = tcp_link_new,
    .link_open = tcp_link_open,
    .link_close = tcp_link_close,
    .window_open = tcp_window_open,
    .window_extend = tcp_window_extend,
    .window_close = tcp_window_close,
    .post = tcp_post,
    .cancel = tcp_cancel,
    .poll = tcp_poll,
    .wait_fd = tcp_wait_fd,
    .arm = tcp_arm,
    .accepted = tcp_accepted,
    .encrypted = tcp_encrypted,
    .health = tcp_health,
};
