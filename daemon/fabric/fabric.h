/* SPDX-License-Identifier: MIT */
/*
 * fabric.h - what moves bytes: one interface, several implementations (local, tcp, verbs,
 * sim).
 *
 * A struct fabric is one worker's instance of one implementation. Everything is called on that
 * worker's thread and every callback runs there, from inside poll() unless said otherwise; nothing
 * blocks and nothing locks. The daemon's control plane decides who may do what; a fabric enforces
 * it.
 *
 * Words. A *window* is the access right of one remote peer to one leased range of our memory: owner
 * side. A *link* is a connection on which we initiate ops to one peer. The peer's own connection,
 * on which it initiates, arrives by itself with a token from offer() and is never seen here as a
 * link. A *key* is what a peer must name to reach a window; it travels in the control plane, inside
 * blobs that only the same implementation reads. The *host* is what the instances of one process
 * share: devices, and *memory*, which is what a pool is to the devices.
 *
 * The way of a link: link_new makes our end and a hello; the control plane carries the hello to the
 * peer, whose offer() makes its end and answers; link_open connects with the answer; link_up.
 *
 * The way of an op: post() takes it or refuses it at once (then nothing happened to it); every op
 * taken is given back exactly once through env.complete, in any order, with status, outcome and
 * bytes filled in, and from then on the fabric never touches its memory again. poll() sends what
 * was posted (many ops, one system call), receives, and completes.
 *
 * A SEND is a message of ours to the fabric's user at the peer: no client sees it. It is DONE when
 * the peer's instance has it for certain and will pass it to env.received; if that is not known
 * when its link breaks, it is UNKNOWN. The fabric makes sure that the peer has room (post says
 * AGAIN until then), so no device ever answers "receiver not ready". A long one may land: its head
 * comes first, the fabric's user says where the rest of it belongs (a *landing*), and the rest goes
 * straight there. A SEND that asks is DONE when the fabric's user at the peer has taken it, and
 * brings back eight bytes from that user: so one daemon's worker can tell another's something by
 * the way that the data goes, even where only one of them has a link to the other.
 *
 * CAS and FADD need a window with RDMAD_RIGHT_ATOMIC. They are atomic with one another through one
 * fabric of the owner's daemon, and with its CPU where atomics_are_cpus says so.
 *
 * Failures: an op the target refuses fails alone with the target's status; the link lives. A link
 * that breaks completes all its ops (PEER_LOST: never sent = untouched; a READ = partial; a WRITE
 * that was sent and not answered = unknown; a WRITE that the implementation knows was not executed
 * = untouched), then calls env.link_lost once; posts on it fail until link_close. To reach the peer
 * again, make another link and ask for keys again: a key may be bound to a link.
 */
#ifndef RDMAD_FABRIC_FABRIC_H
#define RDMAD_FABRIC_FABRIC_H

#include "daemon/base/error.h"
#include "daemon/base/list.h"
#include "daemon/fabric/settings.h"
#include <stdbool.h>

#define FABRIC_BLOB_MAX 128u

/* Opaque bytes of one implementation, carried by the control plane. */
struct fabric_blob {
    uint8_t size;
    uint8_t bytes[FABRIC_BLOB_MAX];
};

/* Who used a window, counted at the owner. Written by one worker, read by the control thread:
 * relaxed atomics (__atomic builtins). Outlives every window that points to it. */
struct fabric_audit {
    uint64_t bytes_read, bytes_written, ops, refused;
    uint64_t last_use_ns; /* 0: never */
};

/* What a peer gets of our side of the fabric while others want it, too: weight parts of 100 of the
 * common measure, and at most so much a second of an instance (0: any). */
struct fabric_share {
    uint32_t weight; /* never 0 */
    uint64_t bytes_per_second, ops_per_second;
};

/* One SEND carries at least so much, head and payload together. */
#define FABRIC_SEND_MIN 1024u
#define FABRIC_HEAD_MAX 256u

/* What the instances of a process share; and memory that was made known to its devices. */
struct fabric_host;
struct fabric_memory;

struct fabric_op {
    /* The caller fills these in. */
    uint8_t opcode;               /* RDMAD_OP_READ, WRITE, CAS, FADD or SEND */
    uint8_t service;              /* SEND: enum rdmad_channel_kind, one that services() has */
    bool asks;                    /* SEND, reliable and short: DONE comes with an answer in value */
    uint16_t head_size;           /* SEND: at most FABRIC_HEAD_MAX */
    const void *head;             /* SEND: goes before local's bytes; copied by post */
    void *local;                  /* client memory: copy by base/guard.h or system calls only */
    struct fabric_memory *memory; /* in which local lies; NULL where memory_add is */
    uint64_t length;              /* 0 to the link's max_message; SEND: of head and local's bytes
                                     together, to max_send; CAS, FADD: 8 in any case */
    const struct fabric_blob *key; /* stays valid while the op is posted; SEND: NULL */
    uint64_t offset;               /* into the window; CAS, FADD: of 8 bytes, aligned in memory */
    uint64_t compare, swap;        /* CAS; FADD: swap is added */
    void *user;

    /* The fabric fills these in before complete. */
    int status;        /* RDMAD_OK or RDMAD_E_* */
    uint8_t outcome;   /* enum rdmad_outcome */
    bool broke_link;   /* NO_LEASE: a device refused it, which costs the link */
    uint64_t value;    /* CAS, FADD: what was there before; a SEND that asks: the answer */
    const void *fault; /* with RDMAD_E_FAULT: the client address that vanished */

    /* The fabric's own. */
    struct fabric_link *link;
    struct list node;
    uint64_t scratch[4];
};

static inline bool fabric_op_is_atomic(const struct fabric_op *op) {
    return op->opcode == RDMAD_OP_CAS || op->opcode == RDMAD_OP_FADD;
}

/* Where the payload of a SEND that is being received goes. It belongs to the fabric's user, and
 * stays where it is, as does the memory it points to, from env.landing until env.landed or abandon.
 */
struct fabric_landing {
    void *base; /* client memory, as long as the payload */
    void *home; /* the fabric's own */
};

struct fabric_window_spec {
    uint64_t peer; /* only connections of this peer may use it; 0: this daemon itself */
    uint64_t via;  /* of them only the one of this number, where the implementation can tell */
    void *cookie;  /* for window_opened and window_closed */
    void *base;
    struct fabric_memory *memory; /* in which base lies; NULL where memory_add is */
    uint64_t length;
    uint32_t rights;      /* RDMAD_RIGHT_* */
    uint64_t deadline_ns; /* by base/clock.h; past it software refuses every access by itself */
    uint64_t lease_id;    /* for messages */
    uint64_t owner;       /* whose memory it is, any number: owners do not wait for one another */
    struct fabric_audit *audit;
};

/* The instance's surroundings; valid as long as the fabric. */
struct fabric_env {
    void *user;
    uint64_t (*now_ns)(void *user); /* not older than microseconds; sim's is scripted */
    void (*complete)(void *user, struct fabric_op *op);
    void (*link_up)(void *user, void *cookie);                            /* link_open succeeded */
    void (*link_lost)(void *user, void *cookie, const struct error *why); /* or it failed */
    /* The end of what window_open and window_close left pending. err is NULL when it went well,
     * else there is no window, and nothing to close. If a window is closed while it is being
     * opened, only window_closed comes. Implementations that do it at once never call these. */
    void (*window_opened)(void *user, void *cookie, const struct fabric_blob *key,
                          const struct error *err);
    void (*window_closed)(void *user, void *cookie);
    /* A SEND of peer came by its connection of that number: head and payload in one piece, valid
     * until this returns. SENDs of one connection come in the order in which they were posted.
     * Returns the answer, for a SEND that asks for one. */
    uint64_t (*received)(void *user, uint64_t peer, uint64_t number, const void *bytes,
                         size_t size);
    /* The head of a SEND of peer has come, and length bytes (never 0) are to follow. Returns where
     * they go; NULL: nowhere. If there is a landing, landed follows once, unless abandon is called
     * before: with RDMAD_OK when all of it is there; else there was no message (RDMAD_E_FAULT: the
     * landing's memory vanished; PEER_LOST: the rest will not come). In between nothing else comes
     * by that connection. Both are NULL if received is. */
    struct fabric_landing *(*landing)(void *user, uint64_t peer, uint64_t number, const void *head,
                                      size_t size, uint64_t length);
    void (*landed)(void *user, struct fabric_landing *landing, int status);
    /* Client memory behind a window or an op vanished (SIGBUS, EFAULT): its session must end. */
    void (*memory_fault)(void *user, const void *address);
    /* Somebody waits for the poll to return: a fabric whose bytes this CPU moves moves few of them
     * then. NULL: nobody ever does. */
    bool (*is_hurried)(void *user);
    /* A peer is held by a rate of its share, of bytes or else of ops, as it was not in the last
     * minute. False: this could not be passed on now, and may be said again. NULL: nobody asks. */
    bool (*peer_throttled)(void *user, uint64_t peer, bool by_bytes);
    const struct fabric_settings *settings;
    struct fabric_host *host; /* NULL where host_open is */
};

struct fabric;
struct fabric_link;
struct fabric_window;

#define FABRIC_PENDING 1

struct fabric_health {
    uint64_t rtt_ns;
    uint64_t bytes_per_second; /* that it delivered lately */
    uint64_t retransmits;      /* since it is up */
};

struct fabric_ops {
    const char *name;
    /* Bytes of registered memory for messages: that a link of ours holds, and that one of a peer's
     * can make us hold, whoever sends any; 0: none is held at a device. */
    uint64_t link_bytes, target_bytes;

    /* The host. All four are NULL for fabrics without devices. host_open runs on the control thread
     * before any instance is opened, host_close after the last is closed. memory_add makes a
     * client's pool known to the devices, those that come later too; memory_remove undoes it when
     * no op and no window uses it any more. Both may take long and run on any thread but a worker.
     * settings outlive the host. */
    int (*host_open)(const struct fabric_settings *settings, struct fabric_host **out,
                     struct error *err);
    void (*host_close)(struct fabric_host *host);
    int (*memory_add)(struct fabric_host *host, void *base, uint64_t bytes,
                      struct fabric_memory **out, struct error *err);
    void (*memory_remove)(struct fabric_memory *memory);

    /* Makes and ends an instance. close needs every link and window closed first. */
    int (*open)(const struct fabric_env *env, struct fabric **out, struct error *err);
    void (*close)(struct fabric *f);

    /* Target side: our end of a connection that peer asked for with hello, and the blob with which
     * it may connect once; secured says that nobody but the peer can read that blob, or have sent
     * the hello; expel drops the peer's connections and unused offers, at once and
     * silently. */
    int (*offer)(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
                 struct fabric_blob *out, struct error *err);
    void (*expel)(struct fabric *f, uint64_t peer);
    /* The peer says that it has closed its connection of that number, or never opened it. Nothing
     * that is still under way on it takes effect afterwards. NULL where the closing of a connection
     * shows by itself, and earlier. */
    void (*forget)(struct fabric *f, uint64_t peer, uint64_t number);
    /* What the peer's connections may use from now on, those that come later too, until expel. NULL
     * where the device serves them. */
    int (*peer_share)(struct fabric *f, uint64_t peer, const struct fabric_share *share);
    /* From now on not one byte more is written to the landing, and landed will not be called. The
     * rest of that SEND is thrown away as it comes. NULL where nothing lands. */
    void (*abandon)(struct fabric_landing *landing);

    /* Initiator side: link_new makes our end, link_open starts connecting by the peer's offer;
     * link_up or link_lost tells the rest (link_lost may come between the two). The host is the
     * peer's as its control connection has it, and secured as in offer. When link_open fails the
     * link is as after link_lost. link_close completes what is posted (CANCELED) before it returns
     * and calls nothing after. */
    int (*link_new)(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                    struct fabric_blob *hello, struct error *err);
    int (*link_open)(struct fabric_link *link, const char *host, const struct fabric_blob *offer,
                     struct error *err);
    void (*link_close)(struct fabric_link *link);

    /* Owner side. window_open returns 0 with a key, an error (RDMAD_E_PEER_LOST when it must be for
     * one connection and the peer has none of number via), or FABRIC_PENDING: then window_opened
     * tells. Once a window is closed, not one byte more is read from or written to the range, even
     * by an access under way, which is answered with reason (RDMAD_E_LEASE_*) where the target is
     * software; later uses of the key are refused. window_close returns true when it is, false when
     * window_closed will tell; the window may not be used after the call in either case.
     * window_extend sets a new deadline. */
    int (*window_open)(struct fabric *f, const struct fabric_window_spec *spec,
                       struct fabric_window **out, struct fabric_blob *key, struct error *err);
    void (*window_extend)(struct fabric_window *w, uint64_t deadline_ns);
    bool (*window_close)(struct fabric_window *w, int reason);

    /* Data. post returns 0, RDMAD_E_AGAIN (full: post again after a completion) or
     * RDMAD_E_PEER_LOST. cancel ends a posted op with the given status before it returns (complete
     * is called inside) wherever the implementation can let go of the memory at once, as local, tcp
     * and sim can; a WRITE of which nothing was sent is untouched, else partial or, if wholly sent,
     * unknown; a SEND of which the end was not sent is received by nobody. Hardware cannot be told:
     * there the op ends when it is done or fails, within quiesce_ns; after that the link is broken
     * to get the memory back. */
    int (*post)(struct fabric_link *link, struct fabric_op *op);
    void (*cancel)(struct fabric_op *op, int status);

    /* Progress: sends, receives, completes; returns how much happened, 0 for nothing. */
    unsigned (*poll)(struct fabric *f);
    /* As poll, which takes a turn's share only, but takes all that had been acknowledged to its
     * senders before the call. NULL: poll does, or nothing is before it was taken. */
    unsigned (*poll_all)(struct fabric *f);

    /* Before the worker sleeps: an epoll-able descriptor (-1: none) that is readable when poll has
     * something to do. arm says whether sleeping is safe; false means poll again. *wake_ns is set
     * to the next time poll must run by itself, or CLOCK_NEVER. */
    int (*wait_fd)(struct fabric *f);
    bool (*arm)(struct fabric *f, uint64_t *wake_ns);

    /* Accepted connections of peers, now, and those of them that are encrypted; may be NULL. */
    unsigned (*accepted)(const struct fabric *f);
    unsigned (*encrypted)(const struct fabric *f);

    /* How the link's network does, as far as that is known: false, it is not. It costs a system
     * call. NULL: never. */
    bool (*health)(struct fabric_link *link, struct fabric_health *out);

    /* How the device in use holds a peer that lies to its windows: by "windows" or "registrations";
     * "" while there is no device. Any thread. NULL: by software, always. */
    const char *(*protection)(struct fabric_host *host);

    /* Whether nothing can go over the fabric now, and why: there is no device, or its port is down.
     * Any thread. NULL: never. */
    bool (*trouble)(struct fabric_host *host, struct error *why);

    /* Whether CAS and FADD through the fabric are atomic with those of this machine's CPU. Any
     * thread. NULL: they are (software does them). */
    bool (*atomics_are_cpus)(struct fabric_host *host);

    /* Which weaker kinds of SEND there are: bits 1u << enum rdmad_channel_kind. Any thread. NULL:
     * none but the reliable one. A SEND of such a kind is DONE when it has left. */
    unsigned (*services)(struct fabric_host *host);

    /* How long cancel may take, by these settings; NULL: no time at all. */
    uint64_t (*quiesce_ns)(const struct fabric_settings *settings);
};

/* By what a link's data is encrypted, if it is. */
enum fabric_encryption { FABRIC_CLEAR, FABRIC_OPENSSL, FABRIC_IPSEC_MB };

static inline const char *fabric_encryption_name(enum fabric_encryption e) {
    static const char *const names[] = {"none", "openssl", "ipsec-mb"};
    return names[e];
}

/* The head of every implementation's own structs. */
struct fabric {
    const struct fabric_ops *ops;
};
struct fabric_link {
    struct fabric *fabric;
    uint64_t max_message;  /* bytes of one op; set once the link is up */
    uint64_t max_send;     /* bytes of one SEND, likewise; at least FABRIC_SEND_MIN */
    uint64_t max_datagram; /* of one SEND of RDMAD_CHANNEL_DATAGRAM; 0: there are none */
    enum fabric_encryption encryption;
    bool ordered; /* a SEND is received after the WRITEs posted before it took effect */
    /* The target's for this connection: window_spec.via. Set by link_open, also where it fails: if
     * it can read the offer at all, the peer has its end, and has to be told to let go of it. */
    uint64_t number;
};
struct fabric_window {
    struct fabric *fabric;
};

extern const struct fabric_ops fabric_local; /* fabric/local/ */
extern const struct fabric_ops fabric_tcp;   /* fabric/tcp/ */
extern const struct fabric_ops fabric_verbs; /* fabric/verbs/ */

#endif
