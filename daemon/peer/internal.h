/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of peer/ share.
 *
 *   peers.c      the table: new, stop, free, views, peer.h's entry points
 *   conn.c       one connection: frames in and out, the way it ends
 *   accept.c     listening
 *   room.c       who has a place when there are few
 *   dial.c       resolving and connecting
 *   dial_back.c  whom we dial that others ask us to dial
 *   turn.c       how much of it is heard in a turn of the loop
 *   hello.c      who is there, and whether we fit
 *   agree.c      by which fabric two daemons reach each other
 *   former.c     what an earlier connection of the same daemon has left, and its end
 *   liveness.c   pings, idle connections, strangers that stay silent
 *   attach.c     the lessee's side: claims on leases of the peer
 *   key.c        the lessee's side: by what a lease is reached over the lane of the moment
 *   lane.c       the lessee's side: where our workers reach the peer's memory
 *   grant.c      the owner's side: attachments of the peer
 *   channel.c    both sides: the way between two ends of a channel
 *   lend.c       the owner's side: leases of leases and of budgets, more time
 *   ask.c        the lessee's side: what our sessions ask beyond an attach
 *   names.c      the owner's side: who lists and watches our names
 *   wire.c       messages; transport.c sockets
 *
 * Every end of a connection goes through peer_doom, which only notes why and asks the loop to come
 * back: no function here frees a peer under its caller.
 */
#ifndef RDMAD_PEER_INTERNAL_H
#define RDMAD_PEER_INTERNAL_H

#include "daemon/base/resolve.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/wire/wire.h"
#include <event2/util.h>
#include <sys/socket.h>

struct event;
struct bufferevent;
struct evconnlistener;

/* Link offers being made for one peer; an honest one asks for one a lane at a time. */
#define PEER_OFFERS_MAX 64u
/* Links of one peer being forgotten: all that it may have (verbs.links_per_peer) can go at once. */
#define PEER_FORGETS_MAX 4096u
/* Output that waits for a peer to read: well above the largest burst of our own, one REVOKED each
 * attachment. */
#define PEER_OUTPUT_MIN (4u * 1024u * 1024u)
#define PEER_OUTPUT_EACH 1024u
/* The same of who has nothing of ours and is told names at most. */
#define PEER_OUTPUT_IDLE (1024u * 1024u)
/* Accepted connections that have not said hello yet, and how long they may take. */
#define PEER_STRANGERS_MAX 64u
#define PEER_HELLO_NS (3 * NSEC_PER_SEC)
/* What does not come about is tried again after a pause that doubles from the first to the second.
 */
#define PEER_RETRY_MIN_NS (10 * NSEC_PER_MSEC)
#define PEER_RETRY_MAX_NS NSEC_PER_SEC
/* A link that was up for so long was a good one: when it breaks, the pause is the shortest again.
 */
#define PEER_STEADY_NS NSEC_PER_SEC
/* A lane that nobody is on stays for the next attach, so long that making links does not become the
 * cost of short leases, so short that what a client's end gives back is back within a second. */
#define PEER_LANE_IDLE_NS (500 * NSEC_PER_MSEC)

/* Questions of ours that wait at one peer, watches among them; and watches that one has here. */
#define PEER_ASKS_MAX 1024u
#define PEER_WATCHES_MAX 256u

#define PEER_NOBODY ((uid_t)-1) /* the administrator's dials are on nobody's account */

struct peers {
    struct state *state;
    struct evconnlistener *listener;
    struct timer accept_again; /* after descriptors ran out */
    struct resolver *resolver; /* made when the first name is to be resolved */
    struct sockaddr_storage bound;
    bool any_address; /* it listens on all of the machine's */
    struct list all;
    unsigned count, strangers;
    unsigned accepts; /* in this turn of the loop */
    bool resting;     /* until accept_again */
    uint64_t next_id, next_ref;
    /* turn.c: what was said and not heard yet, of who has something of ours and of who has not;
     * of the latter so many messages are allowed now, counted since then */
    struct list busy, idle;
    struct event *turn, *ended;
    int ends; /* an epoll set: connections that are not read */
    struct timer idle_timer;
    unsigned idle_allowance;
    uint64_t idle_since_ns;
    bool stopping;
    struct session_waiter stopped;
};

enum peer_stage { PEER_CONNECTING, PEER_GREETING, PEER_UP, PEER_LOST };

struct peer {
    struct peers *peers;
    struct list node;
    uint64_t id; /* of this connection; never used twice */
    bool outgoing;
    bool is_self; /* outgoing: to this very daemon, for leases that are reached by link only */
    enum peer_stage stage;
    unsigned fabric; /* the data plane's number of the one agreed on, from hello on */
    char fabric_why[PEER_WHY_BYTES + 40]; /* why it is not our best one; "": it is */
    unsigned holds;                       /* callbacks under way */
    bool stranger;                        /* incoming: has not said hello */
    bool greeted;                         /* incoming: it has, and what follows is known */
    struct life life;
    uint64_t serial;
    uint8_t line[PEER_LINE_BYTES];
    struct list heirs;     /* who wait with their hello until nothing of this is left */
    struct list heir_node; /* in the former's */
    uint64_t since_ns;

    char host[RDMAD_HOST_MAX + 1]; /* as dialled */
    uint16_t port;
    char dialled[RDMAD_HOST_MAX + 10]; /* both, as a URI has them */
    uid_t dialler;                     /* outgoing: for whom it was dialled first; PEER_NOBODY */
    struct in6_addr source;            /* incoming: on whose account it is */
    char ip[INET6_ADDRSTRLEN];
    char address[INET6_ADDRSTRLEN + 8];  /* IP:PORT */
    char name[RDMAD_NAME_MAX + 1];       /* as it calls itself; "" until it said hello */
    uint8_t node_id[PEER_NODE_ID_BYTES]; /* likewise */

    struct bufferevent *bev;
    struct event *doom_event;
    bool doomed;
    struct error why; /* once doomed */

    /* turn.c */
    struct list turn_node; /* in a queue */
    bool paused, ended;    /* it is not read; it has ended, when all that came before is heard */
    uint64_t paused_ns;
    struct error end;

    /* dial.c */
    struct lookup *resolving;
    struct addrinfo *addresses, *next_address;
    struct list adders; /* who waits for hello only */

    /* liveness.c */
    struct timer tick;
    uint64_t heard_ns, used_since_ns, pings;
    bool used;

    struct slots claims; /* outgoing: struct claim, attach.c */
    struct list lanes;   /* outgoing: struct lane, lane.c */
    struct slots grants; /* incoming: struct grant, grant.c */
    unsigned requesting; /* of them, without a lease yet: nothing is open for them */
    struct slots asks;   /* outgoing: struct peer_ask, ask.c */
    struct list seen;    /* incoming: watches, names.c */
    unsigned nseen;
    unsigned offers; /* incoming: being made */
    /* Of struct chan (channel.c): those of which this is our connection to the other daemon, and
     * those of which it is its to us. */
    struct list chans_out, chans_in;
    unsigned chans;   /* in both */
    uint64_t links;   /* incoming: offered, and not said to be gone */
    unsigned forgets; /* incoming: links that the data plane is told to forget */
};

/* The pause after this one. */
static inline uint64_t peer_pause_after(uint64_t pause_ns) {
    return 2 * pause_ns < PEER_RETRY_MAX_NS ? 2 * pause_ns : PEER_RETRY_MAX_NS;
}

/* ---- peers.c ---- */
struct peer *peer_new(struct peers *ps, bool outgoing); /* NULL: out of memory */
void peer_check_free(struct peer *p);                   /* once it is lost and holds nothing */
void peer_is_up(struct peer *p);                        /* hello was said both ways */
/* By what this daemon can dial itself. */
void peers_own_address(const struct peers *ps, char host[RDMAD_HOST_MAX + 1], uint16_t *port);
/* The other end of an incoming connection, if it is one that this daemon dialled to itself, by the
 * addresses of both sockets; else NULL. */
struct peer *peer_other_end(const struct peer *p);
/* The outgoing peer of that address; NULL: none. One connection an address, whoever asks. */
struct peer *peers_dialled(struct peers *ps, const char *host, uint16_t port);
/* The outgoing peer of that address, dialled now, on uid's account, if there is none. */
int peer_dial(struct peers *ps, const char *host, uint16_t port, uid_t uid, struct peer **out,
              struct error *err);

/* ---- conn.c ---- */
/* Takes over fd; the peer reads and writes from now on. */
int peer_start(struct peer *p, int fd);
void peer_send(struct peer *p, const struct peer_msg *m);
/* The connection ends, soon and only once. The first silently, the second tells the peer why. */
void peer_doom(struct peer *p, const struct error *why);
void peer_refuse(struct peer *p, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether a whole message has come, or what can never be one. */
bool peer_has_frame(const struct peer *p);
/* Takes and handles it; false when there was none, or the peer is doomed. */
bool peer_take_frame(struct peer *p);
/* What its address looks like. */
void peer_note_address(struct peer *p, const struct sockaddr *sa);

/* ---- turn.c ---- */
int turn_start(struct peers *ps, struct error *err);
void turn_stop(struct peers *ps);
void turn_come(struct peers *ps);                         /* there is something for the next turn */
void turn_heard(struct peer *p);                          /* it has sent something */
void turn_ended(struct peer *p, const struct error *why); /* nothing more will come */
void turn_forget(struct peer *p);
/* Whether p is somebody to us: a lease or a channel depends on it, or we have dialled it. */
bool peer_has_something(const struct peer *p);

/* ---- room.c ---- */
/* A place for p, which has none yet; another may have to go. */
int room_make(struct peer *p, struct error *err);
void room_for_stranger(struct peer *newcomer); /* which is one, too */
/* Whether fd, the newest, is one that peers may have. */
bool room_has_descriptor(const struct peers *ps, int fd);
void room_shed_idle(struct peers *ps); /* one of those that nobody uses, if there is any */

/* ---- accept.c ---- */
int accept_start(struct peers *ps, struct error *err);
void accept_stop(struct peers *ps);
void accept_next_turn(struct peers *ps);

/* ---- dial.c ---- */
void dial_start(struct peer *p);
void dial_failed(struct peer *p, int system_error); /* of the address just tried */
void dial_wanted_by(struct peer *p, uid_t uid);     /* somebody else needs the peer, too */
void dial_timed_out(struct peer *p);
void dial_stop(struct peer *p);

/* ---- dial_back.c ---- */
/* Whether p, who connected to us, may have us dial that address; host "": the one it comes from. */
int peer_check_dial_back(const struct peer *p, const char *host, uint16_t port, struct error *err);
/* What others are told to dial: the address that we listen on; "": the one we come from. */
void peers_told_address(const struct peers *ps, char host[RDMAD_NAME_MAX + 1]);

/* ---- hello.c ---- */
void hello_send(struct peer *p);
void hello_received(struct peer *p, const struct peer_hello *hello);

void hello_go_on(struct peer *p); /* one of those that it replaces is gone */

/* ---- agree.c ---- */
/* Fills in what we offer. */
void agree_offer(const struct peers *ps, struct peer_hello *hello);
/* Sets p's fabric by what it offers. false: there is none, and p is refused. */
bool agree_on(struct peer *p, const struct peer_hello *theirs);
const struct fabric_ops *peer_fabric(const struct peer *p); /* once agreed on */

/* ---- former.c ---- */
/* By what p, which we dial, comes to its address. */
void former_line(const struct peer *p, uint8_t line[PEER_LINE_BYTES]);
/* Ends the connections that p, which has said hello, replaces. false: hello_go_on will be called
 * when some of them are gone, or p is doomed. */
bool former_gone(struct peer *p);
void former_check(struct peer *p); /* whether somebody waits for p's end, and it is there */

/* ---- liveness.c ---- */
/* It has said hello, and has to wait for us. */
void liveness_wait(struct peer *p);
void liveness_start(struct peer *p);
void liveness_stop(struct peer *p);
void liveness_update(struct peer *p); /* claims or grants came or went, or the stage changed */

/* ---- attach.c ---- */
void claims_begin(struct peer *p);
void claims_say_use(struct peer *p); /* as far as it has changed */ /* the peer is up */
void claims_become_local(struct peer *p);                  /* the peer is this very daemon */
void claims_lost(struct peer *p, const struct error *why); /* its connection is gone */
void claim_attach_rep(struct peer *p, const struct peer_attach_rep *m);
void claim_revoked(struct peer *p, const struct peer_revoked *m);
void claim_renewed(struct peer *p, const struct peer_ttl *m);
void claim_ttl_rep(struct peer *p, const struct peer_ttl *m);

/* Whose the claim of that number is; NULL when there is none. */
struct session *claim_session(struct peer *p, uint64_t ref);

/* ---- ask.c ---- */
void asks_begin(struct peer *p);                         /* the peer is up */
void asks_lost(struct peer *p, const struct error *why); /* its connection is gone */

/* ---- key.c ---- */
void claim_key_rep(struct peer *p, const struct peer_key_rep *m);
void key_again(struct timer *timer, uint64_t now_ns);

/* ---- lane.c ---- */
struct lane;
enum lane_news {
    LANE_IS_UP,   /* it has a link */
    LANE_IS_DOWN, /* the link is being made anew */
    LANE_REFUSED, /* no link can be had, now and later */
};
struct lane_user { /* embedded */
    struct list node;
    void (*news)(struct lane_user *u, enum lane_news news); /* may make it leave */
    bool is_channel;
};
/* The lane of the session, to that worker there (PEER_ANY_WORKER: where leases are), made when
 * there is none. Users wait on a lane, then use it. Joining may tell of a link at once. NULL: out
 * of memory. */
struct lane *lane_of(struct peer *p, const struct session *s, uint32_t there);
void lane_join(struct lane *lane, struct lane_user *u);
void lane_leave(struct lane *lane, struct lane_user *u);
struct plane_lane *lane_plane(const struct lane *lane);
/* The number of its link, 0 while it has none. */
uint64_t lane_number(const struct lane *lane);
/* The same of a lane for leases that there may be or not. */
uint64_t lane_number_for(struct peer *p, const struct session *s);
/* What went wrong with it last; code 0: nothing ever. */
const struct error *lane_trouble(const struct lane *lane);
/* Its link is of no use any more, though nothing has broken it here. */
void lane_renew(struct lane *lane, const struct error *why);
void lane_link_rep(struct peer *p, const struct peer_link_rep *m);
void lanes_lost(struct peer *p);
void lanes_each(struct peer *p, void (*each)(void *arg, const struct link_view *v), void *arg);

/* ---- grant.c ---- */
void grant_attach_req(struct peer *p, const struct peer_attach_req *m);
void grant_release(struct peer *p, const struct peer_release *m);
void grant_used(struct peer *p, const struct peer_used *m);
void grant_stopped(struct peer *p, const struct peer_stopped *m);
void grant_ttl_req(struct peer *p, const struct peer_ttl *m);
void grant_key_req(struct peer *p, const struct peer_key_req *m);
void grant_link_req(struct peer *p, const struct peer_link_req *m);
void grant_link_gone(struct peer *p, const struct peer_link_gone *m);
void grants_lost(struct peer *p);

/* ---- leases of leases, requests and keep-alive: the lessee's side, then the owner's ---- */
void claim_delegate_rep(struct peer *p, const struct peer_delegate_rep *m);
void claim_keep_rep(struct peer *p, const struct peer_keep_rep *m);
void grant_delegate_req(struct peer *p, const struct peer_delegate_req *m);
void grant_request_req(struct peer *p, const struct peer_request_req *m);
void grant_keep_req(struct peer *p, const struct peer_keep_req *m);

/* ---- names: who is asked, then who asks ---- */
void names_req(struct peer *p, const struct peer_names_req *m);
void names_go_on(struct peer *p); /* its output has drained */
void names_lost(struct peer *p);
void names_watch_req(struct peer *p, const struct peer_watch_req *m);
void names_watch_more(struct peer *p, const struct peer_watch_more *m);
void names_unwatch(struct peer *p, const struct peer_unwatch *m);
void names_rep(struct peer *p, const struct peer_names_rep *m);
void names_ev(struct peer *p, const struct peer_name_ev *m);

/* ---- channel.c ---- */
void chans_begin(struct peer *p);                         /* the peer is up */
void chans_become_local(struct peer *p);                  /* the peer is this very daemon */
void chans_lost(struct peer *p, const struct error *why); /* its connection is gone */
void chan_req(struct peer *p, const struct peer_chan_req *m);
void chan_refuse(struct peer *p, const struct peer_chan_refuse *m);
void chan_bind(struct peer *p, const struct peer_chan_bind *m);
void chan_open(struct peer *p, const struct peer_chan_open *m);
void chan_end(struct peer *p, const struct peer_chan_end *m);

#endif
