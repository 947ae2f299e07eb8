/* SPDX-License-Identifier: MIT */
/*
 * instance.h - one instance of the verbs fabric: what all storeys of it share.
 *
 * An instance belongs to one worker thread. On the device in use (host/) it owns a completion
 * channel, CQs, links (on which we initiate), and for each peer that reaches us a PD, the targets
 * (on which the peer initiates) and the windows.
 *
 * PDs. A link's QPs are in the device's PD, where pools are registered without remote rights, so
 * they grant the other end nothing. Where leases are held by registrations, a peer's target QPs are
 * in a PD of that peer alone, which holds nothing but registrations of exactly the ranges that it
 * leased. Where they are held by memory windows, the target QPs are in the device's PD, and each
 * window is bound to one of them. A bad access breaks the target it came by, never a link of ours.
 *
 * Callbacks may post, cancel and close anything. What ends is marked and put aside; its memory is
 * freed with the next poll.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_INSTANCE_H
#define RDMAD_FABRIC_VERBS_INSTANCE_INSTANCE_H

#include "daemon/base/offload.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/verbs/host/host.h"
#include "daemon/fabric/verbs/host/member.h"

struct cm;
struct connect_way;
struct protection;

/* What target/ keeps of an instance. */
struct targets {
    struct list leaving; /* targets whose windows are let go of; then their QPs go */
    struct list noted;   /* targets that something happened to: looked at in the same turn */
    struct list cut;     /* peers all of whose targets are to be dropped, likewise */
    unsigned accepted;   /* targets that peers have and that do not end: asked before each sleep */
    struct list opening; /* receivers of weak messages that wait for a way to their peer */
    uint64_t open_ns;    /* when they are tried again */
};

#define REGISTRATION_BUCKETS 1024u
#define SPARE_WINDOWS 64u

/* What window/ keeps of one. */
struct windows {
    struct list registrations[REGISTRATION_BUCKETS]; /* found by peer, range and rights */
    uint64_t secret[3];                              /* by which those are mixed; odd */
    struct list retries;                             /* that could not be taken back yet */
    struct ibv_mw *spare[SPARE_WINDOWS];             /* memory windows allocated ahead */
    unsigned spares;
    bool refilling, closing;
};

/* Something that has ended: it is freed with the next poll, when no caller up the stack uses it any
 * more. */
struct free_later {
    struct list node; /* in verbs.ended */
    void (*free)(struct free_later *f);
};

struct verbs {
    struct fabric base;
    const struct fabric_env *env;
    const struct verbs_settings *settings;
    struct host_member member;
    int epoll_fd;                        /* the member's mailbox, the channel, cm's events */
    struct device *device;               /* NULL: there is none now */
    const struct protection *protection; /* how leases are held on the device */
    const struct connect_way *connect;   /* how links of ours are connected */
    struct port_now port;
    bool going;    /* device_going came: waits for jobs, then lets go */
    unsigned jobs; /* of windows, at the registrar and the revoker */
    struct ibv_comp_channel *channel;
    struct list cqs, links, peers, ended;
    struct targets targets;
    struct windows windows;
    struct cm *cm;       /* NULL: nothing went by rdma_cm yet */
    struct list sending; /* lanes with ops to post */
    struct list changed; /* links with something to tell */
    uint8_t *staging;    /* of what travels inline, while it is posted */
    uint64_t now_ns, next_timer_ns;
    unsigned progress;
    bool slept; /* armed since the last poll */
    unsigned turns;
};

static inline struct verbs *verbs_of(struct fabric *f) {
    return container_of(f, struct verbs, base);
}

void verbs_timer_at(struct verbs *v, uint64_t at_ns); /* timers run at this time or earlier */
void verbs_free_later(struct verbs *v, struct free_later *f, void (*free)(struct free_later *f));
void verbs_free_ended(struct verbs *v);
/* Whether QPs can be made now: 0, or RDMAD_E_FABRIC with why there is no device or no port. */
int verbs_ready(struct verbs *v, struct error *err);
/* A job is on its way: the device is not let go of before it is back. verbs_job_end is the last
 * thing that the job's done does. */
void verbs_job_begin(struct verbs *v, struct offload *o, struct offload_job *job);
void verbs_job_end(struct verbs *v);

#endif
