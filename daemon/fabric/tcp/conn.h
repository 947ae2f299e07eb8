/* SPDX-License-Identifier: MIT */
/*
 * conn.h - the socket of a data connection, at either end: reads, parses and sends.
 */
#ifndef RDMAD_FABRIC_TCP_CONN_H
#define RDMAD_FABRIC_TCP_CONN_H

#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/instance.h"
#include "daemon/fabric/tcp/outq.h"
#include "daemon/fabric/tcp/secure.h"
#include "daemon/fabric/tcp/socket.h"

#define TCP_STAGING (256u << 10) /* receive buffer of a connection */
#define TCP_LOOKAHEAD 4096u      /* of staging offered to the kernel while payloads are bulky, */
#define TCP_BULKY (16u << 10)    /* which they are from this on: not to pass through staging */

#define TCP_READ_COST 256u /* what a read of which nothing comes counts of a budget */

struct tcp_conn;

/* What differs between the two ends. frame and begin return NULL or why the connection must end. */
struct role {
    const char *(*check)(const struct frame *f);
    /* A frame with its whole payload, at most TCP_SMALL or a SEND's. */
    const char *(*frame)(struct tcp_conn *c, const struct frame *f, const uint8_t *payload);
    /* begin: a frame with a larger payload, or a LONG with its head, has begun; it sets rx.dest.
     * Then recheck is called before each piece lands, rx_fault when a piece of dest could not be
     * written, and end when all of it has come. */
    const char *(*begin)(struct tcp_conn *c, const struct frame *f, const uint8_t *head);
    void (*recheck)(struct tcp_conn *c);
    void (*rx_fault)(struct tcp_conn *c, const void *address);
    void (*end)(struct tcp_conn *c);
    /* Called before each sendmsg; and for a piece whose memory is gone. */
    void (*before_send)(struct tcp_conn *c);
    void (*tx_fault)(struct tcp_conn *c, struct piece *p);
    /* For links: the socket is connected (or could not be); the target's welcome has come. */
    void (*connected)(struct tcp_conn *c);
    void (*welcomed)(struct tcp_conn *c);
    void (*lost)(struct tcp_conn *c, const struct error *why);
    bool answers; /* takes a frame only when there is room for its answer */
};

struct rx {
    uint8_t *staging;
    uint32_t head, tail; /* of staging: read, not yet parsed */
    uint32_t want;       /* how much of staging a read may fill */
    uint32_t left;       /* of a large payload under way */
    uint8_t *dest;       /* where its next byte goes; NULL: nowhere */
};

struct tcp_conn {
    struct source source;
    struct tcp *tcp;
    const struct role *role;
    int fd;
    uint32_t events; /* in the epoll set */
    struct list node, sending;
    struct list hot;         /* in tcp.hot, or in tcp.held while it is held */
    struct list stirred;     /* in tcp.stirred */
    struct tcp_share *share; /* its peer's; a link's own */
    uint32_t idle_polls;
    bool closed;          /* has no socket: lost, ended, or a link not opened yet */
    bool dialling;        /* not connected yet */
    bool greeting;        /* a link that waits for its welcome: frames may be queued, not sent */
    bool blocked;         /* frames wait in staging, for room in the queue or for a rate (held) */
    bool stuck;           /* the socket takes no more for now: it is in tcp.stuck, by sending */
    bool careful;         /* a send faulted: find out which piece */
    bool more;            /* stopped at a budget or a rate, or was left out for one */
    bool held;            /* its peer is beyond a rate: not read until a timer */
    uint32_t asked;       /* requests met and not counted yet, */
    uint64_t asked_bytes; /* and what they read */
    uint32_t cost;        /* of the frames of this turn, beyond their bytes */
    uint64_t heard_ns;
    struct rx rx;
    struct outq out;
    struct secure *secure; /* NULL: in clear */
    char address[TCP_ADDRESS_TEXT];
};

int conn_init(struct tcp_conn *c, struct tcp *t, const struct role *role, int fd, uint32_t events,
              const struct sockaddr_storage *address);
void conn_fini(struct tcp_conn *c); /* frees the buffers */
void conn_shut(struct tcp_conn *c); /* ends it silently; its owner frees it */
void conn_lose(struct tcp_conn *c, int code, const char *why); /* ends it and tells role->lost */
void conn_heat(struct tcp_conn *c);
void conn_wants_send(struct tcp_conn *c);
/* How much it may still move in this poll; 0: it is left out. */
size_t conn_room_in(struct tcp_conn *c);
size_t conn_room_out(struct tcp_conn *c);
/* Whether its peer is beyond a rate: then it is not hot any more, and the timers look at it again.
 * If it was and is not any more it is hot. */
bool conn_is_held(struct tcp_conn *c);
void conn_serve(struct tcp_conn *c); /* reads and parses, within its budget */
void conn_flush(struct tcp_conn *c); /* sends, within its budget */
int conn_watch(struct tcp_conn *c);  /* tells epoll what it waits for */
/* The same before a sleep, for all that something happened to since the last. False: one need not
 * wait. */
bool conns_arm(struct tcp *t);

#endif
