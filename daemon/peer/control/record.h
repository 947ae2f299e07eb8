/* SPDX-License-Identifier: MIT */
/*
 * record.h - a peer: one control connection to another daemon, and the table of all of them.
 *
 *   dialled:   CONNECTING --> GREETING ----------------> UP
 *   accepted:                 GREETING --> WAITING ----> UP
 *   all:       any of these --> LOST --> free
 *
 * CONNECTING: one address after the other is tried. GREETING: the other end has not said hello.
 * WAITING: it has, and is answered when nothing is left of the connections that it replaces. LOST:
 * the socket is closed; the record stays until nobody needs it and nobody holds it.
 *
 * Whatever finds that a connection has to end only says so (peer_end in conn.h): the loop makes it
 * LOST in a turn of its own, so no function frees a peer under its caller.
 *
 * This storey knows nothing of what goes over a connection. The storeys above embed the record in
 * theirs and say what they need the connection for (peer_need). What happens to it they are told
 * through a table of calls (struct peer_ops).
 */
#ifndef RDMAD_PEER_CONTROL_RECORD_H
#define RDMAD_PEER_CONTROL_RECORD_H

#include "common/uri.h"
#include "daemon/base/audit_event.h"
#include "daemon/base/life.h"
#include "daemon/base/repeats.h"
#include "daemon/base/slots.h"
#include "daemon/peer/wire/message.h"
#include "daemon/plane/plane.h"
#include "daemon/state/session.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct event;
struct evconnlistener;
struct transport;
struct handshake;
struct joins;   /* connect/join.c */
struct renewed; /* connect/renewed.c */
struct renewal; /* connect/renewal.c */
struct addrinfo;
struct lookup;
struct resolver;
struct peer;
struct peers;
struct peer_rates; /* control/rates.h */

#define PEER_ASKS_MAX 1024u /* questions that wait at one peer, watches among them */
/* The administrator's dials are on nobody's account. */
#define PEER_NOBODY ((struct user_id){.uid = (uid_t)-1})

typedef void peer_handler(struct peer *p, const struct peer_msg *msg);

/* What the storeys above do when something happens to a connection. */
struct peer_ops {
    struct peer *(*make)(struct peers *ps); /* zeroed, in a record of theirs; NULL: no memory */
    void (*free)(struct peer *p);           /* what they made; nothing needs it any more */
    void (*turn)(struct peers *ps);  /* a turn of the loop begins, in which peers are heard */
    peer_handler *take;              /* a message has come */
    void (*drained)(struct peer *p); /* the peer has read what waited for it */
    void (*open)(struct peer *p);    /* what is said reaches the other end: hello can be */
    void (*late)(struct peer *p);    /* hello was not said in time */
    void (*up)(struct peer *p);      /* hello was said both ways */
    bool (*self)(struct peer *p); /* we have dialled this very daemon; true: go on all the same */
    void (*looked_at)(struct peer *p); /* it is in use, and was looked at for silence */
    void (*lose)(struct peer *p);      /* its end has come, p->why says of what */
};

struct peers {
    struct state *state;
    const struct peer_ops *ops;
    struct evconnlistener *listener;
    struct timer accept_again; /* after descriptors ran out */
    struct resolver *resolver; /* made when the first name is to be resolved */
    struct sockaddr_storage bound;
    bool any_address; /* it listens on all of the machine's */
    struct list all;
    unsigned count;
    unsigned ungreeted; /* of them accepted, and not UP yet */
    unsigned accepts;   /* in this turn of the loop */
    bool resting;       /* until accept_again */
    uint64_t next_id, next_ref;
    /* turn.c: peers that have sent something that was not heard yet: those that we rely on (busy)
     * and the others (idle). idle_allowance: how many messages of the others may be heard now, as
     * counted at idle_since_ns */
    struct list busy, idle;
    struct list held; /* those that said more than the rates of their names allow, until */
    struct timer held_timer;
    struct event *turn, *ended;
    int ends; /* an epoll set: connections that are not read */
    struct timer idle_timer;
    unsigned idle_allowance;
    uint64_t idle_since_ns;
    /* handshake.c: those that wait for a thread, and the one that has it, or NULL */
    struct list shake_dialled, shake_answered, shake_accepted;
    struct handshake *shakes;
    struct timer shake_timer;
    uint64_t shake_after_ns; /* the next is not computed before that */
    struct list unjudged;    /* since another identity was loaded, connect/judge.c */
    struct list shown;       /* that have shown their next certificates, connect/renewed.c */
    struct timer shown_timer;
    struct repeats unreached; /* by what was dialled, and why */
    struct joins *joins;
    struct renewal *renewal;
    bool stopping;
    struct session_waiter stopped;
};

enum peer_stage { PEER_CONNECTING, PEER_GREETING, PEER_WAITING, PEER_UP, PEER_LOST };

/* What the storeys above need a connection for. */
enum peer_need {
    PEER_NEED_ACCESS, /* one of us reaches the other's memory */
    PEER_NEED_FIRM,   /* something else that ends with it */
    PEER_NEED_LOOSE,  /* a question or a watch: others who need the room come first */
    PEER_NEEDS
};

struct peer {
    struct peers *peers;
    struct list node;
    uint64_t id; /* of this connection; never used twice */
    bool outgoing;
    bool is_self; /* outgoing: to this very daemon, for leases that are reached by link only */
    enum peer_stage stage;
    unsigned fabric; /* the data plane's number of the one agreed on, from hello on */
    char fabric_why[PEER_WHY_BYTES + 40]; /* why it is not our best one; "": it is */
    unsigned needs[PEER_NEEDS];
    unsigned holds; /* callbacks under way, and what the storeys above still have of it */
    uint64_t since_ns;
    uint16_t version;       /* agreed on, from hello on; 0: none yet */
    uint16_t heard_version; /* of the last frame that came */

    /* Incoming: what its hello said, which tells the connections that it replaces. */
    bool greeted;
    struct life life;
    uint64_t serial;
    uint8_t line[PEER_LINE_BYTES];
    struct list waiters;           /* peers that are WAITING until nothing of this one is left */
    struct list waiter_node;       /* WAITING: in the waiters of the one it waits for */
    void (*go_on)(struct peer *p); /* WAITING: called when that one is gone */

    char host[RDMAD_HOST_MAX + 1]; /* as dialled */
    uint16_t port;
    char dialled[RDMAD_HOST_MAX + 10]; /* both, as a URI has them */
    struct user_id dialler; /* outgoing: the user for whom it was dialled first; or PEER_NOBODY */
    struct in6_addr source; /* incoming: the address to which its place is charged */
    char back_host[RDMAD_NAME_MAX + 1]; /* incoming: where it was dialled back first, */
    uint16_t back_port;                 /* 0: it was not */
    char ip[INET6_ADDRSTRLEN];
    char address[INET6_ADDRSTRLEN + 8];  /* IP:PORT */
    char name[RDMAD_NAME_MAX + 1];       /* as it calls itself; "" until it said hello */
    uint8_t node_id[PEER_NODE_ID_BYTES]; /* likewise */
    struct {                             /* once it is secured */
        char name[RDMAD_NAME_MAX + 1];   /* the node's; HELLO's has to be the same */
        char fingerprint[65];            /* SHA-256, in hexadecimal */
        int64_t until;                   /* seconds since 1970 */
        int64_t good_until;              /* the same of those that speak for it, or earlier */
    } certificate;
    struct renewed *renewed; /* connect/renewed.c: what it has shown since, or NULL */
    struct timer expiry;     /* connect/judge.c */

    struct transport *way;       /* NULL: there is none yet, or no more */
    struct handshake *handshake; /* under way */
    bool secured; /* it has proven by its certificate who it is, and what is said is encrypted */
    size_t output_max;  /* bytes that may wait for a peer on whom something depends */
    struct list askers; /* unread.c */
    struct event *end_event;
    bool joins;       /* it has come to join: no peer, connect/join.c */
    bool audited;     /* the audit log has said why it ends */
    bool told;        /* and why what it asks for in this message is refused */
    bool unused;      /* nobody uses it, and that is why it ends: no loss */
    bool ending;      /* peer_end was called */
    struct error why; /* once ending */

    /* turn.c */
    struct list turn_node; /* in a queue */
    bool paused;           /* it is not read, since then */
    uint64_t paused_ns;
    bool closed_there; /* the other end has closed it: when all that came before is heard it ends,
                          for this reason */
    struct error closed_why;

    struct list judge_node; /* in peers.unjudged */
    struct list shown_node; /* in peers.shown */

    /* connect/dial.c */
    struct lookup *resolving;
    struct addrinfo *addresses, *next_address;

    /* liveness.c */
    struct timer tick;
    uint64_t heard_ns, pinged_ns, used_since_ns, pings;
    bool used;

    /* Incoming: what counts for its name; connect/rights.c. */
    uint64_t opened_bytes; /* of leases, for its attaches */
    uint64_t attaches, notifications, channels;

    struct peer_rates *rates;           /* of its name, from hello on; rates.h */
    uint64_t throttled_ns[PLANE_RATES]; /* when it was told that each holds it; 0: never */

    struct slots asks; /* outgoing: struct peer_ask, ask.c */
};

struct peer *peer_new(struct peers *ps, bool outgoing); /* NULL: out of memory */
void peer_enter(struct peer *p, enum peer_stage stage); /* as drawn above */
/* If p is spent, lets the peers go on that wait for that. Frees p once it is LOST, not needed and
 * not held. */
void peer_check_free(struct peer *p);
void peer_hold(struct peer *p); /* something is under way that comes back to the record */
void peer_release(struct peer *p);

/* These only count. When the caller is done it calls liveness_update and peer_check_free. */
void peer_need(struct peer *p, enum peer_need need);
void peer_unneed(struct peer *p, enum peer_need need);
bool peer_is_needed(const struct peer *p);
/* Whether p matters to us: something ends with it, or we have dialled it. */
bool peer_is_relied_on(const struct peer *p);

/* It is LOST, and nothing that came by it can take effect any more. */
bool peer_is_spent(const struct peer *p);
/* Accepted, and not UP yet. */
bool peer_is_ungreeted(const struct peer *p);

/* The outgoing peer of that address; NULL: none. One connection an address, whoever asks. */
struct peer *peers_find_dialled(struct peers *ps, const char *host, uint16_t port);
const struct fabric_ops *peer_fabric(const struct peer *p); /* once agreed on */
/* Who it is, for the audit: its address, and the name that it has proven, none that it claims. */
struct audit_who peer_who(const struct peer *p);
/* The same for lines of the log: by its proven name, else its address; of a daemon that could not
 * be reached, whoever dialled it. */
uint64_t peer_log(const struct peer *p);
/* What texts call it: "peer NAME at ADDRESS", by the name that it gives itself; "peer at ADDRESS"
 * before it said hello. Returns buf. */
#define PEER_TEXT 128
const char *peer_text(const struct peer *p, char buf[PEER_TEXT]);
/* Why it ends: its connection was closed by the other end, or broke by that error of the system.
 * One that we have not dialled is no daemon's, as far as is known, until it has said who it is. */
void peer_why_closed(const struct peer *p, struct error *why);
void peer_why_broke(const struct peer *p, int system_error, struct error *why);
/* Notes its address, as text and as a number. */
void peer_note_address(struct peer *p, const struct sockaddr *sa);

#endif
