/* SPDX-License-Identifier: MIT */
/*
 * target.h - a peer, its targets, and what may happen to one of them.
 *
 * A target is our end of a connection on which the peer initiates: QPs on which we post nothing but
 * binds of windows and receives. Code that finds that one has ended (by a completion, an event, or
 * for its owner) calls target_broke or target_note; targets.c looks at it in the same turn and does
 * the rest. So no target is freed under a caller that uses it.
 */
#ifndef RDMAD_FABRIC_VERBS_TARGET_TARGET_H
#define RDMAD_FABRIC_VERBS_TARGET_TARGET_H

#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/wire/page.h"

/* A peer, as long as it has targets or windows here. */
struct vpeer {
    struct list node; /* in verbs.peers */
    struct list cut;  /* in targets.cut: all its targets are to be dropped */
    struct verbs *verbs;
    uint64_t id;
    struct ibv_pd *pd; /* of its targets and registrations; NULL with windows */
    struct list targets, windows;
    unsigned holds;  /* registrations, targets that leave, offers: what else needs it */
    unsigned offers; /* that it has not taken up */
    const struct connect_way *offers_way;
    unsigned stuck; /* how many rights the device does not take back: until it has, there is no new
                       target */
};

struct weak_receiver;

/* Where the messages of a connection arrive: the receives of its first QP, each of which is always
 * posted except while it is looked at; and the page that tells the peer how many were taken
 * (inbox.c). */
struct inbox {
    uint8_t *memory; /* a page with what the peer reads (struct inbox_page), then the buffers */
    struct ibv_mr *page_mr, *mr;
    uint64_t address;     /* of the page, for the peer's device */
    uint32_t count, size; /* of the buffers */
    uint32_t posted;
    uint64_t consumed; /* what the page says */
};

/*
 *     LIVE --target_broke--> BROKEN
 *       |                       |
 *       +----target_close-------+--> DRAINING --all receives are back, or in time--+
 *       |                       |                                                  v
 *       +----target_drop--------+---------------------------------------------> LEAVING
 *                                                                                  |
 *                                     freed with the next poll <-- its last window is off
 */
enum target_state {
    TARGET_LIVE,
    TARGET_BROKEN,   /* its QPs are in ERR: the peer reaches nothing by them */
    TARGET_DRAINING, /* the same, and messages that came are still handed on */
    TARGET_LEAVING,  /* silent; its windows are being let go of */
};

/* A connection of a peer. */
struct verbs_target {
    struct list node;  /* in vpeer.targets; from DRAINING on in targets.leaving */
    struct list noted; /* in targets.noted */
    struct free_later end;
    struct vpeer *peer;
    enum target_state state;
    uint64_t number, made_ns;
    uint64_t drained_ns; /* DRAINING: until then at most */
    unsigned lanes;
    struct queue queue[VERBS_LANES_MAX];
    struct inbox inbox;
    struct weak_receiver *weak[WEAK_KINDS]; /* NULL: nobody asked for it */
    const struct connect_way *way;
    struct endpoint other;        /* whose QPs it is connected to, unless by rdma_cm */
    struct cm_call *cm;           /* of its way; NULL: none */
    struct list windows, unbound; /* windows bound to it; those that wait for room in its queues */
};

/* ---- peers ---------------------------------------------------------------------------------- */

struct vpeer *vpeer_find(struct verbs *v, uint64_t id);
struct vpeer *vpeer_of(struct verbs *v, uint64_t id, struct error *err); /* made if need be */
void vpeer_check_free(struct vpeer *p); /* frees it when it has nothing any more */
/* The peer must not reach anything any more: its targets break now, and are dropped in this turn.
 */
void vpeer_cut(struct vpeer *p);

/* ---- targets -------------------------------------------------------------------------------- */

uint64_t target_number_new(void); /* never 0 */
struct verbs_target *target_by_number(const struct vpeer *p, uint64_t number);
/* Which remote accesses a peer's QPs allow; keys decide to what memory. */
unsigned target_access(const struct device *d);
/* Something happened after which its state may change: it is looked at in this turn. */
void target_note(struct verbs_target *t);
/* It breaks now, and is closed in this turn. Harmless when it has ended. */
void target_broke(struct verbs_target *t);

#endif
