/* SPDX-License-Identifier: MIT */
/*
 * instance.h - the engine of one worker: what all of its files share, and nobody else.
 *
 * The idea. One instance belongs to one worker thread. It owns an epoll descriptor over one
 * listening socket, the strangers (connections that were accepted and have not shown a token yet),
 * and its connections. A connection has one direction of initiative: the side that dialled asks (a
 * link: link.c, answer.c, dial.c), the side that accepted serves (a target: target.c, as far as
 * window.c allows). Both kinds share the code of their sockets: conn.c reads and parses, outq.c
 * sends, frame.c says what a frame is. tcp.c, at the top, is the turn of a worker.
 *
 * The way of a write: tcp_post appends header and payload to the link's queue; the next poll sends
 * the whole queue with one sendmsg; the target's poll reads up to 256 KiB, places what it finds
 * window by window and counts what went well; its flush sends one ACK for all of it; the link's
 * next read completes the ops.
 *
 * A SEND goes the same way: it is copied whole into the queue, handed to env.received straight from
 * the receive buffer, and answered by the same ACK. With a payload of more than TCP_LONG it is a
 * LONG: the payload is not copied, and goes straight to where env.landing says. A CAS or FADD is
 * done when its frame is met, and answered with what was there.
 *
 * What keeps memory safe. Client memory is touched in five places only: the two copies of small
 * payloads, the two kernel copies of large ones, and the atomics. Every large payload under way is
 * reachable from its op, window or landing (a foreign piece of the send queue, or the rx.dest of a
 * connection), so letting go is to point it elsewhere: what is being read at zeros, what is being
 * written at scratch. Nothing is handed to the kernel for later (no MSG_ZEROCOPY), so letting go is
 * immediate.
 *
 * Callbacks may post, cancel and close anything. A connection that ends is therefore only marked
 * and put aside; its memory goes with the next poll. After every callback `closed` is looked at
 * again.
 */
#ifndef RDMAD_FABRIC_TCP_INSTANCE_H
#define RDMAD_FABRIC_TCP_INSTANCE_H

#include "daemon/base/slots.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/tcp/share.h"

#define TOKEN_CHAINS 256u
#define TCP_SMALL 2048u      /* payloads up to this are copied, larger ones go by reference */
#define TCP_LONG (16u << 10) /* likewise of SENDs: up to it two copies cost less */

/* Anything with a descriptor in the epoll set. */
struct source {
    void (*ready)(struct source *s, uint32_t events);
    void (*destroy)(struct source *s);
    struct list ended; /* in tcp.ended */
};

struct tcp {
    struct fabric base;
    const struct fabric_env *env;
    int epoll_fd;
    struct source listener;
    int listen_fd;
    uint16_t port;
    uint64_t accept_again_ns; /* accepting pauses until then: out of descriptors; 0: it does not */
    struct list strangers, targets, links;
    struct list offers;               /* those that nobody has taken, the oldest first */
    struct list tokens[TOKEN_CHAINS]; /* the same, by the first byte of their tokens */
    uint32_t stranger_count;
    uint32_t accepted, encrypted; /* how many targets there are, and of those that are encrypted */
    struct ssl_ctx_st *tls;       /* for handshakes */
    unsigned handshakes;          /* steps of strangers' in this poll */
    struct list hot;              /* conns that had traffic lately */
    struct list held;             /* conns that are not read until a timer, by hot */
    struct list sending;          /* conns with something queued, */
    struct list stuck;            /* and those whose sockets had no room for it */
    bool many_stuck;              /* more than are tried at once: epoll is asked about the others */
    unsigned crowded; /* polls in each of which epoll is asked, as more were hot than one reads */
    struct list stirred; /* conns of which epoll may not know for what they wait */
    struct list refused; /* ops refused in post, to be completed by poll */
    struct list ended;   /* ended sources whose memory goes with the next poll */
    struct tcp_shares shares;
    struct slots windows;
    uint64_t now_ns, next_timer_ns;
    uint8_t *scratch;     /* FRAME_MAX_PAYLOAD bytes that nobody reads */
    const uint8_t *zeros; /* as many that nobody can write */
    unsigned turns, progress;
    bool slept; /* armed since the last poll */
};

/* For what must not happen after a deadline: the process may have been stopped since this poll
 * began. */
static inline uint64_t tcp_look_at_clock(struct tcp *t) {
    return t->now_ns = t->env->now_ns(t->env->user);
}

void tcp_timer_at(struct tcp *t, uint64_t at_ns); /* timers run at this time or earlier */
/* Its descriptor leaves the epoll set, and is closed. A close alone would not do: a child of the
 * daemon's has all descriptors until it calls exec, and what is open there still tells of events.
 */
void source_close(const struct tcp *t, int fd);
/* It has ended, and is destroyed by the next poll. */
void source_end(struct tcp *t, struct source *s);
void sources_destroy(struct tcp *t); /* those that have ended */

/* Gives op back; from here on the engine does not know it. */
void op_complete(struct tcp *t, struct fabric_op *op, int status, uint8_t outcome);
/* The same for one that post took and had to refuse. */
void op_complete_refused(struct tcp *t, struct fabric_op *op);

#endif
