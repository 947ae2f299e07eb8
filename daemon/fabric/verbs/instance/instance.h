/* SPDX-License-Identifier: MIT */
/*
 * verbs.h - one instance of the verbs fabric, shared by its files and by nobody else.
 *
 * An instance belongs to one worker thread. On the device in use (host.h) it owns a completion
 * channel, CQs, links (on which we initiate), and for each peer that reaches us a PD, the targets
 * (on which the peer initiates) and the windows.
 *
 * Whose QP, which PD. A link's QPs are in the device's PD, where pools are registered without
 * remote rights, and grant the other end nothing. A peer's target QPs are, with registrations, in a
 * PD of that peer alone, which holds nothing but registrations of exactly the ranges that it
 * leased; with windows, in the device's PD, and each window is bound to one of these QPs. A bad
 * access breaks the target it came by, never a link of ours.
 *
 * The way of a write: verbs_post fills a work request in the link's batch; poll posts the batch
 * with one doorbell, the last of it signalled; the CQ tells of the last, which ends all before it,
 * for a QP completes in order.
 *
 * Errors. The first failed completion of a QP is the true one, the flushed ones behind it are its
 * victims: after a refusal by the peer's device they were never executed (untouched); after silence
 * nobody knows of writes. The link is lost once all its ops are back.
 *
 * Callbacks may post, cancel and close anything. What ends is marked and put aside; its memory goes
 * with the next poll.
 */
#ifndef RDMAD_FABRIC_VERBS_VERBS_H
#define RDMAD_FABRIC_VERBS_VERBS_H

#include "daemon/fabric/verbs/host/host.h"
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "daemon/fabric/verbs/wire/blob.h"

struct cm;

/* What target.c keeps of an instance. */
struct targets {
    struct list leaving; /* their windows are being let go of; then their QPs go */
    struct cm *cm;       /* NULL: nobody came by rdma_cm yet */
};

#define REGISTRATION_BUCKETS 1024u
#define SPARE_WINDOWS 64u

/* What window.c, window_mr.c and window_mw.c keep of one. */
struct windows {
    struct list registrations[REGISTRATION_BUCKETS]; /* found by peer, range and rights */
    struct list retries;                             /* that could not be taken back yet */
    struct ibv_mw *spare[SPARE_WINDOWS];             /* memory windows allocated ahead */
    unsigned spares;
    bool refilling, closing;
};

/* What ended: its memory goes with the next poll, when no caller up the stack uses it. */
struct grave {
    struct list node; /* in verbs.graves */
    void (*empty)(struct grave *g);
};

struct verbs {
    struct fabric base;
    const struct fabric_env *env;
    const struct verbs_settings *settings;
    struct host_member member;
    int epoll_fd;          /* the member's mailbox, the channel, cm's events */
    struct device *device; /* NULL: none now */
    struct port_now port;
    bool going;    /* device_going came: waits for jobs, then lets go */
    unsigned jobs; /* of windows, at the registrar and the revoker */
    struct ibv_comp_channel *channel;
    struct list cqs, links, peers, graves;
    struct targets targets;
    struct windows windows;
    struct list sending; /* lanes with ops to post */
    struct list news;    /* links with something to tell */
    uint8_t *staging;    /* of what travels inline, while it is posted */
    uint64_t now_ns, next_timer_ns;
    uint64_t next_number;
    unsigned progress;
    bool slept; /* armed since the last poll */
    unsigned turns;
};

static inline struct verbs *verbs_of(struct fabric *f) {
    return container_of(f, struct verbs, base);
}

/* ---- verbs.c ------------------------------------------------------------------------------ */

void verbs_timer_at(struct verbs *v, uint64_t at_ns); /* timers run then or earlier */
void verbs_bury(struct verbs *v, struct grave *g, void (*empty)(struct grave *g));
/* Whether QPs can be made now: 0, or RDMAD_E_FABRIC with why there is no device or no port. */
int verbs_ready(struct verbs *v, struct error *err);
/* Lets go of the device if it is going and nothing of it is left. */
void verbs_check_let_go(struct verbs *v);

/* ---- cq.c: CQs that cannot overrun -------------------------------------------------------- */

/* A QP reserves as many entries as it can have work requests before it is made; a CQ without room
 * is not used, another is made. */
struct cq {
    struct list node; /* in verbs.cqs */
    struct verbs *verbs;
    struct ibv_cq *cq;
    uint32_t size, reserved;
    unsigned events; /* taken and not acknowledged */
    bool armed;
    unsigned held; /* completions that arming found */
    struct ibv_wc *wc;
    struct list dead, dying; /* of queues that are gone: the CQ may still name their slots */
};
int cq_reserve(struct verbs *v, uint32_t entries, struct cq **out, struct error *err);
void cq_unreserve(struct cq *cq, uint32_t entries);
void cqs_poll(struct verbs *v);     /* hands every completion to its work request's queue */
bool cqs_arm(struct verbs *v);      /* false: there was one already */
void channel_take(struct verbs *v); /* it was readable */
void cqs_close(struct verbs *v);    /* every QP is gone */

/* ---- qp.c: a QP, and its work requests ---------------------------------------------------- */

struct queue;

/* One work request under way. wr_id is the address of this. */
struct slot {
    struct queue *queue; /* NULL: its QP is gone, a late completion means nothing */
    void *user;          /* the fabric_op, or the window being bound; NULL: nobody waits */
    uint64_t sequence;
};

/* The work requests of a QP, completed in order. */
struct slot_ring {
    struct list dead; /* in cq.dead when the QP is gone, until the CQ names none of it any more */
    uint32_t size;
    struct slot slot[]; /* the queue's depth of them, then one a receive */
};

/* A QP as we post on it. */
struct queue {
    struct verbs *verbs;
    struct ibv_qp *qp; /* NULL: destroyed or not made */
    struct cq *cq;
    struct slot_ring *ring;
    uint32_t depth;    /* as asked, or what the device has */
    uint32_t receives; /* likewise */
    uint32_t inline_bytes;
    uint64_t head, tail;                     /* sequences: the oldest under way, the next */
    uint32_t unsignalled, unsignalled_bytes; /* posted since the last that was signalled */
    uint32_t psn;                            /* of what we send */
    uint32_t other;                          /* number of the QP it is connected to */
    bool connected;                          /* in RTS */
    bool broken;                             /* in ERR, as far as we know */
    /* The work request ended; called in order, once for each posted. May destroy the QP. */
    void (*ended)(struct queue *q, struct slot *slot, const struct ibv_wc *wc);
    /* The same of the n-th receive, which may be posted again. NULL: there are none. */
    void (*received)(struct queue *q, uint32_t n, const struct ibv_wc *wc);
};

struct qp_spec {
    struct ibv_pd *pd;
    enum ibv_qp_type type; /* 0: RC */
    uint32_t qkey;         /* of UD */
    uint32_t depth;        /* work requests that we post; at least 1 */
    uint32_t receives;     /* and receives */
    uint32_t inline_bytes;
    unsigned access; /* what the other end may do by it: IBV_ACCESS_REMOTE_* */
    bool bare;       /* stays in RESET: rdma_cm takes it further, then sets connected */
};

/* Makes a QP in INIT; qp_connect takes it to RTS towards the other end's n-th. */
int qp_make(struct verbs *v, struct queue *q, const struct qp_spec *spec, struct error *err);
int qp_connect(struct queue *q, const struct endpoint *other, unsigned n, struct error *err);
void qp_break(struct queue *q); /* to ERR: what is posted comes back flushed */
/* Nothing of it touches memory afterwards, and ended is not called any more: who waits for work is
 * to be told by the caller. Harmless when it was not made. */
void qp_destroy(struct queue *q);
/* Our end as a blob has it; queues are n QPs of one connection. */
void qp_endpoint(const struct verbs *v, const struct queue *const *queues, unsigned n,
                 struct endpoint *out);

/* Posting: queue_room says how many more; queue_take fills in wr_id and takes a place;
 * queue_untake gives the last n back, which were not posted after all. */
static inline uint32_t queue_room(const struct queue *q) {
    return q->depth - (uint32_t)(q->tail - q->head);
}
void queue_take(struct queue *q, struct ibv_send_wr *wr, void *user);
void queue_untake(struct queue *q, unsigned n);
/* Posts the n-th receive: 0, or the device's errno. */
int queue_receive(struct queue *q, uint32_t n, struct ibv_sge *sge);
/* A completion of a live queue: ends what is up to its slot, the earlier as successful. */
void queue_completed(struct queue *q, const struct ibv_wc *wc);

/* ---- neighbour.c ---------------------------------------------------------------------------- */

/* Whether the kernel knows the way to that GID. If not, it has begun to look for it. */
bool neighbour_known(const struct verbs *v, const uint8_t gid[16]);

/* ---- link.c, post.c, recover.c: where we initiate (struct link is in link.h) --------------- */

int verbs_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err);
int verbs_link_open(struct fabric_link *link, const char *host, const struct fabric_blob *offer,
                    struct error *err);
void verbs_link_close(struct fabric_link *link);
int verbs_post(struct fabric_link *link, struct fabric_op *op);
void verbs_cancel(struct fabric_op *op, int status);
void links_flush(struct verbs *v);                         /* posts the batches */
void links_news(struct verbs *v);                          /* doomed ops, links up and lost */
void links_timers(struct verbs *v);                        /* quiesce bounds, connecting */
void links_lose(struct verbs *v, const struct error *why); /* all: the device goes */
bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);

/* ---- cm.c: connecting by rdma_cm (a link's side is in link.h) ----------------------------- */

/* Looks at its event channel, if there is one: after a sleep, and now and then. */
void cm_poll(struct verbs *v);

/* ---- target.c: where peers initiate ------------------------------------------------------- */

/* A peer, as long as it has targets or windows here. */
struct vpeer {
    struct list node; /* in verbs.peers */
    struct verbs *verbs;
    uint64_t id;
    struct ibv_pd *pd; /* of its targets and registrations; NULL with windows */
    struct list targets, windows;
    unsigned holds; /* registrations, targets that leave, offers of cm.c: what else needs it */
    unsigned stuck; /* rights that the device does not take back: no new target until it does */
};

/* Kinds of messages that may be lost, see door.h. */
enum door_kind { DOOR_DATAGRAM, DOOR_UNACKED, DOORS };
struct door;

/* Where the messages of a connection arrive: receives of its first QP, always posted but while one
 * is looked at, and the counter by which the peer knows it (inbox.c). */
#define INBOX_RECEIVES 64u
struct inbox {
    uint8_t *memory; /* a page with what the peer reads (struct inbox_page), then the buffers */
    struct ibv_mr *page_mr, *mr;
    uint32_t count, size; /* of the buffers */
    uint32_t posted;
    uint64_t consumed; /* messages taken, and their receives posted again: what the counter says */
};

/* A connection of a peer: its QPs, on which we post nothing but binds and receives. */
struct target {
    struct list node; /* in vpeer.targets or targets.leaving */
    struct grave grave;
    struct vpeer *peer;
    uint64_t number, made_ns;
    bool leaving, draining; /* draining: messages that came are still to be handed on, */
    uint64_t drained_ns;    /* until then at most */
    unsigned lanes;
    struct queue queue[VERBS_LANES_MAX];
    struct inbox inbox;
    struct door *door[DOORS];     /* NULL: nobody knocked */
    struct endpoint other;        /* whose QPs it is connected to, unless by cm */
    struct cm_call *cm;           /* by which it came; NULL: none */
    struct list windows, unbound; /* bound to it; that wait for room in its queues */
};

void targets_init(struct verbs *v); /* for the instance's birth */
void targets_fini(struct verbs *v); /* for its end: after targets_close, with all jobs done */

int verbs_offer(struct fabric *f, uint64_t peer, const struct fabric_blob *hello,
                struct fabric_blob *out, struct error *err);
void verbs_expel(struct fabric *f, uint64_t peer);
void verbs_forget(struct fabric *f, uint64_t peer, uint64_t number);
unsigned verbs_accepted(const struct fabric *f);
struct vpeer *vpeer_of(struct verbs *v, uint64_t id, struct error *err); /* made if need be */
void vpeer_check_free(struct vpeer *p); /* when it has nothing any more */
struct target *target_by_number(const struct vpeer *p, uint64_t number);
/* What a peer's QPs may do by themselves: keys decide of what memory. */
unsigned target_access(const struct device *d);
/* Makes the QPs of a connection. bare: for rdma_cm. */
struct target *target_new(struct vpeer *p, unsigned lanes, bool bare, struct error *err);
/* End one: its QPs first of all break. close hands on the messages that came by it, for their
 * sender was told that they did; drop is silent from then on, also after a close. */
void target_close(struct target *t);
void target_drop(struct target *t);
void target_check_gone(struct target *t); /* the last of its windows may be off */
/* Whether the peer may have one more connection (from newcomer, NULL when not known); dead ones
 * and, among too many, the oldest go for it. The caller holds p. */
int target_make_room(struct vpeer *p, const struct endpoint *newcomer, struct error *err);
bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);
void targets_timers(struct verbs *v);
void targets_close(struct verbs *v); /* all: the device goes */

/* ---- inbox.c: messages of peers ------------------------------------------------------------- */

/* Memory and registrations; the first QP of t, to be in that PD, has INBOX_RECEIVES. */
int inbox_open(struct target *t, struct ibv_pd *pd, struct error *err);
/* Posts the receives: the QP is in INIT. */
int inbox_start(struct target *t, struct error *err);
void inbox_tell(const struct target *t, struct inbox_place *out);
void inbox_received(struct queue *q, uint32_t n, const struct ibv_wc *wc);
void inbox_close(struct target *t); /* the QPs are gone; its memory stays for who reads it now */
void inbox_free(struct target *t);

/* ---- window.c, window_mr.c, window_mw.c: what peers may reach ----------------------------- */

void windows_init(struct verbs *v);
int verbs_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                      struct fabric_window **out, struct fabric_blob *key, struct error *err);
void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns);
bool verbs_window_close(struct fabric_window *w, int reason);
/* A target goes: its windows are let go of before its QPs, some drivers wait for that. */
void windows_of_target_gone(struct target *t);
void windows_device_going(struct verbs *v); /* deregisters all; their owners still close them */
void windows_close(struct verbs *v);        /* waits for all jobs; for the instance's end */
void windows_timers(struct verbs *v);       /* what could not be taken back is tried again */

#endif
