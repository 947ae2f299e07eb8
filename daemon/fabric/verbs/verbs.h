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

#include "daemon/fabric/verbs/blob.h"
#include "daemon/fabric/verbs/host.h"

struct cm;

/* What target.c keeps of an instance. */
struct targets {
    struct list leaving; /* their windows are being let go of; then their QPs go */
    struct list graves;
    struct cm *cm; /* NULL: nobody came by rdma_cm yet */
};

#define REGISTRATION_BUCKETS 1024u

/* What window.c, window_mr.c and window_mw.c keep of one. */
struct windows {
    struct list registrations[REGISTRATION_BUCKETS]; /* found by peer, range and rights */
    struct list retries;                             /* that could not be taken back yet */
    struct list spare;                               /* memory windows allocated ahead */
    unsigned spares;
    bool refilling;
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
    uint64_t now_ns, next_timer_ns;
    uint64_t next_number;
    unsigned progress;
};

static inline struct verbs *verbs_of(struct fabric *f) {
    return container_of(f, struct verbs, base);
}

/* ---- verbs.c ------------------------------------------------------------------------------ */

void verbs_timer_at(struct verbs *v, uint64_t at_ns); /* timers run then or earlier */
/* Lets go of the device if it is going and nothing of it is left. */
void verbs_check_let_go(struct verbs *v);

/* ---- cq.c: CQs that cannot overrun -------------------------------------------------------- */

/* A QP reserves as many entries as it can have work requests before it is made; a CQ without room
 * is not used, another is made. */
struct cq {
    struct list node; /* in verbs.cqs */
    struct ibv_cq *cq;
    uint32_t size, reserved;
    unsigned events; /* taken and not acknowledged */
};
int cq_reserve(struct verbs *v, uint32_t entries, struct cq **out, struct error *err);
void cq_unreserve(struct verbs *v, struct cq *cq, uint32_t entries);
void cqs_poll(struct verbs *v); /* hands every completion to its work request's queue */
bool cqs_arm(struct verbs *v);  /* false: there was one already */
int channel_open(struct verbs *v, struct error *err);
void channel_take(struct verbs *v); /* it was readable */
void cqs_close(struct verbs *v);    /* every QP is gone */

/* ---- qp.c: a QP, and its work requests ---------------------------------------------------- */

struct queue;

/* One work request under way. wr_id is the address of this. */
struct slot {
    struct queue *queue;
    void *user; /* the fabric_op, or the window being bound; NULL: nobody waits */
    uint64_t sequence;
};

/* A QP as we post on it: a ring of slots, completed in order. */
struct queue {
    struct verbs *verbs;
    struct ibv_qp *qp; /* NULL: destroyed or not made */
    struct cq *cq;
    struct slot *slots;
    uint32_t depth;
    uint64_t head, tail, unsignalled;
    uint32_t psn; /* of what we send */
    /* The work request of slot ended; called in order, once for each posted. */
    void (*ended)(struct queue *q, struct slot *slot, const struct ibv_wc *wc);
};

struct qp_spec {
    struct ibv_pd *pd;
    uint32_t depth; /* work requests that we post; at least 1 */
    uint32_t inline_bytes;
    unsigned access; /* what the other end may do by it: IBV_ACCESS_REMOTE_* */
};

/* Makes a QP in INIT; qp_connect takes it to RTS towards the other end's n-th. */
int qp_make(struct verbs *v, struct queue *q, const struct qp_spec *spec, struct error *err);
int qp_connect(struct queue *q, const struct endpoint *other, unsigned n, struct error *err);
void qp_break(struct queue *q);   /* to ERR: what is posted comes back flushed */
void qp_destroy(struct queue *q); /* then nothing of it touches memory; slots are the caller's */
/* Our end as a blob has it; queues are n QPs of one connection. */
void qp_endpoint(const struct verbs *v, const struct queue *const *queues, unsigned n,
                 struct endpoint *out);
/* A completion: ends the slots up to wc's, the earlier ones as successful. */
void queue_completed(struct queue *q, const struct ibv_wc *wc);

/* ---- link.c: where we initiate ------------------------------------------------------------ */

int verbs_link_new(struct fabric *f, void *cookie, struct fabric_link **out,
                   struct fabric_blob *hello, struct error *err);
int verbs_link_open(struct fabric_link *link, const char *host, const struct fabric_blob *offer,
                    struct error *err);
void verbs_link_close(struct fabric_link *link);
int verbs_post(struct fabric_link *link, struct fabric_op *op);
void verbs_cancel(struct fabric_op *op, int status);
void links_flush(struct verbs *v);                         /* posts the batches */
void links_timers(struct verbs *v);                        /* quiesce bounds, connecting */
void links_lose(struct verbs *v, const struct error *why); /* all: the device goes */
bool links_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);
void links_bury(struct verbs *v); /* memory of what ended */

/* ---- target.c: where peers initiate ------------------------------------------------------- */

/* A peer, as long as it has targets or windows here. */
struct vpeer {
    struct list node; /* in verbs.peers */
    struct verbs *verbs;
    uint64_t id;
    struct ibv_pd *pd; /* of its targets and registrations; NULL with windows */
    struct list targets, windows;
    unsigned registered, offered; /* registrations and cm's offers of it */
};

/* A connection of a peer: its QPs, on which we post nothing but binds. */
struct target {
    struct list node; /* in vpeer.targets, targets.leaving or targets.graves */
    struct vpeer *peer;
    uint64_t number, made_ns;
    bool leaving;
    unsigned lanes;
    struct queue queue[VERBS_LANES_MAX];
    struct endpoint other;        /* whose QPs it is connected to, unless by cm */
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
/* Makes the QPs of a connection, and ends one: silently, its QPs first of all break. */
struct target *target_new(struct vpeer *p, uint64_t number, unsigned lanes, struct error *err);
void target_close(struct target *t);
void target_check_gone(struct target *t); /* the last of its windows may be off */
/* Whether the peer may have one more connection; the oldest may go for it. */
int target_make_room(struct vpeer *p, struct error *err);
bool targets_qp_event(struct verbs *v, uint32_t qp_num, enum ibv_event_type event);
void targets_timers(struct verbs *v);
void targets_bury(struct verbs *v);  /* memory of what ended */
void targets_close(struct verbs *v); /* all: the device goes */

/* ---- window.c, window_mr.c, window_mw.c: what peers may reach ----------------------------- */

void windows_init(struct verbs *v);
int verbs_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                      struct fabric_window **out, struct fabric_blob *key, struct error *err);
void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns);
bool verbs_window_close(struct fabric_window *w, int reason);
/* A target goes: its windows are let go of before its QPs, some drivers wait for that. */
void windows_of_target_gone(struct target *t);
void windows_device_going(struct verbs *v); /* deregisters all; their owners still close them */
void windows_timers(struct verbs *v);       /* what could not be taken back is tried again */

#endif
