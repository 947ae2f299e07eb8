/* SPDX-License-Identifier: MIT */
/*
 * tcp.h - the engine's inner words, shared by its files and by nobody else.
 *
 * The idea. One instance belongs to one worker thread. It owns an epoll descriptor over one
 * listening socket, the strangers that dialled in and have not shown a token yet, and its
 * connections. A connection has one direction of initiative: the side that dialled asks (a link,
 * link.c and answer.c), the side that accepted serves (a target, target.c). Both kinds share the
 * socket's way of life: conn.c reads and parses, outq.c sends, frame.c says what a frame is.
 *
 * The way of a write: link_post appends header and payload to the link's queue; the next poll sends
 * the whole queue with one sendmsg; the target's poll reads up to 256 KiB, places what it finds
 * window by window and counts what went well; its flush sends one ACK for all of it; the link's
 * next read completes the ops.
 *
 * A SEND goes the same way: copied whole into the queue, answered by the same ACK once env.received
 * has had it, straight from the receive buffer. With a payload of more than TCP_LONG it is a LONG:
 * that is referred to, and goes straight to where env.landing says. A CAS or FADD is done when its
 * frame is met, and answered with what was there.
 *
 * What keeps memory safe. Client memory is touched in five places only: the two copies of small
 * payloads, the two kernel copies of large ones, and the atomics. Every large payload under way is
 * reachable from its op, window or landing (a foreign piece of the send queue, or the rx.dest of a
 * connection), so letting go is to point it elsewhere: at zeros what is being read, at scratch what
 * is being written. Nothing is handed to the kernel for later (no MSG_ZEROCOPY), so letting go is
 * immediate.
 *
 * Callbacks may post, cancel and close anything. A connection that ends is therefore only marked
 * and put aside; its memory goes with the next poll. After every callback `closed` is looked at
 * again.
 */
#ifndef RDMAD_FABRIC_TCP_TCP_H
#define RDMAD_FABRIC_TCP_TCP_H

#include "daemon/base/slots.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/outq.h"
#include "daemon/fabric/tcp/share.h"
#include "daemon/fabric/tcp/socket.h"

#define TCP_SMALL 2048u          /* payloads up to this are copied, larger ones go by reference */
#define TCP_LONG (16u << 10)     /* likewise of SENDs: up to it two copies cost less */
#define TCP_STAGING (256u << 10) /* receive buffer of a connection */
#define TCP_LOOKAHEAD 4096u      /* of staging offered to the kernel while payloads are bulky, */
#define TCP_BULKY (16u << 10)    /* which they are from this on: not to pass through staging */
#define TCP_HOT_POLLS 1024u      /* a connection is read without asking epoll for so long */
#define TCP_EPOLL_EVERY 32u      /* polls between looks at the others */
#define TCP_CONNS_PER_PEER 64u   /* accepted connections and unused offers together */
#define TCP_FRAME_COST 64u       /* what a request counts of that besides its bytes */
#define TCP_SEND_COST 256u       /* a small SEND, at least */

/* Anything with a descriptor in the epoll set. */
struct source {
    void (*ready)(struct source *s, uint32_t events);
    void (*destroy)(struct source *s);
    struct list grave;
};

struct tcp {
    struct fabric base;
    const struct fabric_env *env;
    int epoll_fd;
    struct source listener;
    int listen_fd;
    uint16_t port;
    uint64_t accept_again_ns; /* accepting pauses until then: out of descriptors; 0: it does not */
    struct list strangers, offers, targets, links;
    uint32_t stranger_count;
    struct list hot;     /* conns that had traffic lately */
    struct list sending; /* conns with something queued */
    struct list doomed;  /* ops refused in post, to be completed by poll */
    struct list graves;  /* ended sources whose memory goes with the next poll */
    struct shares shares;
    struct slots windows;
    uint64_t now_ns, next_timer_ns;
    uint8_t *scratch;     /* FRAME_MAX_PAYLOAD bytes that nobody reads */
    const uint8_t *zeros; /* as many that nobody can write */
    unsigned turns, progress;
    bool slept; /* armed since the last poll */
};

struct conn;

/* What differs between the two ends. frame and begin return NULL or why the connection must end. */
struct role {
    const char *(*check)(const struct frame *f);
    /* A frame with its whole payload, at most TCP_SMALL or a SEND's. */
    const char *(*frame)(struct conn *c, const struct frame *f, const uint8_t *payload);
    /* A frame with a larger one, or a LONG with its head: sets rx.dest. Then: looked at before each
     * read, a piece of dest that could not be written, and all of it has come. */
    const char *(*begin)(struct conn *c, const struct frame *f, const uint8_t *head);
    void (*recheck)(struct conn *c);
    void (*rx_fault)(struct conn *c, const void *address);
    void (*end)(struct conn *c);
    /* Before each sendmsg, and a piece whose memory is gone. */
    void (*before_send)(struct conn *c);
    void (*tx_fault)(struct conn *c, struct piece *p);
    /* Links: the socket is connected or not, and the target's welcome has come. */
    void (*connected)(struct conn *c);
    void (*welcomed)(struct conn *c);
    void (*lost)(struct conn *c, const struct error *why);
    bool answers; /* takes a frame only when there is room for its answer */
};

struct rx {
    uint8_t *staging;
    uint32_t head, tail; /* of staging: read, not yet parsed */
    uint32_t want;       /* how much of staging a read may fill */
    uint32_t left;       /* of a large payload under way */
    uint8_t *dest;       /* where its next byte goes; NULL: nowhere */
};

struct conn {
    struct source source;
    struct tcp *tcp;
    const struct role *role;
    int fd;
    uint32_t events; /* in the epoll set */
    struct list node, hot, sending;
    struct share *share; /* its peer's; a link's own */
    uint32_t idle_polls;
    bool closed;   /* has no socket: lost, ended, or a link not opened yet */
    bool dialling; /* not connected yet */
    bool greeting; /* a link that waits for its welcome: frames may be queued, not sent */
    bool blocked;  /* frames wait in staging for room in the queue */
    bool stuck;    /* the socket takes no more for now */
    bool careful;  /* a send faulted: find out which piece */
    bool more;     /* stopped at a budget, or was left out for one */
    uint32_t cost; /* of the frames of this turn, beyond their bytes */
    uint64_t heard_ns;
    struct rx rx;
    struct outq out;
    char address[TCP_ADDRESS_TEXT];
};

/* conn.c */
int conn_init(struct conn *c, struct tcp *t, const struct role *role, int fd, uint32_t events,
              const struct sockaddr_storage *address);
void conn_fini(struct conn *c); /* frees the buffers */
void conn_shut(struct conn *c); /* ends it silently; its owner buries it */
void conn_lose(struct conn *c, int code, const char *why); /* ends it and tells role->lost */
void conn_heat(struct conn *c);
void conn_wants_send(struct conn *c);
/* How much it may still move in this poll; 0: it is left out. */
size_t conn_room_in(struct conn *c);
size_t conn_room_out(struct conn *c);
void conn_serve(struct conn *c); /* reads and parses, within its budget */
void conn_flush(struct conn *c); /* sends, within its budget */
int conn_watch(struct conn *c);  /* tells epoll what it waits for */
bool conn_arm(struct conn *c);   /* the same before a sleep; false: it need not wait */

/* offer.c */
int listener_open(struct tcp *t, struct error *err);
void listener_close(struct tcp *t);
void listener_timers(struct tcp *t); /* tokens, strangers, a paused listener */
int tcp_offer(struct fabric *f, uint64_t peer, const struct fabric_blob *hello,
              struct fabric_blob *out, struct error *err);
void offers_drop(struct tcp *t, uint64_t peer);
void offer_drop(struct tcp *t, uint64_t peer, uint64_t number);

/* target.c, window.c */
struct window {
    struct fabric_window base;
    struct fabric_window_spec spec;
    uint64_t handle; /* in tcp.windows */
    uint64_t key;
    uint32_t queued; /* pieces of send queues that point into it */
};
struct target {
    struct conn conn;
    uint64_t peer, number;
    uint32_t next_op;          /* number of the next request */
    uint32_t acked, ack_from;  /* done and not yet told: how many, and the first one's number */
    struct {                   /* the large WRITE or LONG whose payload is coming in */
        struct window *window; /* NULL: refused or cut */
        uint32_t op;
        int status;
        bool touched;
        uint8_t type;                   /* FRAME_* */
        bool ending;                    /* all of a LONG has come, its END has not */
        struct fabric_landing *landing; /* of a LONG; NULL: it has none any more */
    } rx;
};
/* Makes the accepted fd a connection of peer; takes the fd only on success. */
int target_create(struct tcp *t, int fd, uint64_t peer, uint64_t number,
                  const struct sockaddr_storage *address);
uint32_t target_count(const struct tcp *t, uint64_t peer);
/* The peer's connection of that number; NULL: it has none. */
struct target *target_find(const struct tcp *t, uint64_t peer, uint64_t number);
void tcp_expel(struct fabric *f, uint64_t peer);
void tcp_forget(struct fabric *f, uint64_t peer, uint64_t number);
void target_let_go(struct target *t, struct window *w, int reason);
void tcp_abandon(struct fabric_landing *landing);

int tcp_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                    struct fabric_window **out, struct fabric_blob *key, struct error *err);
void tcp_window_extend(struct fabric_window *w, uint64_t deadline_ns);
bool tcp_window_close(struct fabric_window *w, int reason);
/* The window that f names, if this access may be made; else NULL and why. */
struct window *window_check(struct tcp *t, const struct target *from, const struct frame *f,
                            int *status);
void window_count(const struct tcp *t, struct window *w, const struct frame *f);

/* link.c, answer.c */
struct pending {          /* a request on its way, in order of its number */
    struct fabric_op *op; /* NULL: canceled or failed already, only its answer is awaited */
    uint8_t type;         /* FRAME_* of the request */
    bool word;            /* its answer is one */
    uint32_t length;
    uint64_t starts, ends; /* of its frame, in the stream */
    uint8_t *header;       /* in the send queue; meaningful until `starts` is sent */
};
struct link {
    struct fabric_link base;
    struct conn conn;
    struct share share;
    void *cookie;
    struct pending *pending;
    uint32_t mask;        /* of pending */
    uint64_t head, tail;  /* numbers: the oldest unanswered, the next one */
    bool answering;       /* head's DATA header has come, the answer is not complete */
    bool final;           /* and no STATUS will follow */
    bool touched;         /* and some of it is in op->local */
    bool ended;           /* by link_close */
    struct list doomed;   /* refused ops, on their way out while the link ends */
    uint8_t *staged;      /* the rest of a canceled WRITE that is half sent */
    uint64_t deadline_ns; /* of dialling */
    uint8_t token[FRAME_TOKEN_BYTES];
};
extern const struct role link_role;
int tcp_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                 struct fabric_blob *hello, struct error *err);
int tcp_link_open(struct fabric_link *l, const char *host, const struct fabric_blob *offer,
                  struct error *err);
void tcp_link_close(struct fabric_link *l);
int tcp_post(struct fabric_link *l, struct fabric_op *op);
void tcp_cancel(struct fabric_op *op, int status);
void link_timer(struct link *l);
/* Gives op back; from here on the engine does not know it. */
void op_complete(struct tcp *t, struct fabric_op *op, int status, uint8_t outcome);
/* The same for one that post took and had to refuse. */
void doomed_complete(struct tcp *t, struct fabric_op *op);

const char *answer_frame(struct conn *c, const struct frame *f, const uint8_t *payload);
const char *answer_begin(struct conn *c, const struct frame *f, const uint8_t *head);
void answer_rx_fault(struct conn *c, const void *address);
void answer_end(struct conn *c);

/* tcp.c */
void timer_at(struct tcp *t, uint64_t at_ns); /* timers run at this time or earlier */
void source_bury(struct tcp *t, struct source *s);

#endif
