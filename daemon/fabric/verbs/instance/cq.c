/* SPDX-License-Identifier: MIT */
/*
 * cq.c - completion queues that cannot overrun, and the channel that wakes a sleeper.
 *
 * An overrun loses completions and tells nobody, so it must not be possible: a QP reserves an entry
 * for each work request that it can have under way before it is made, and a place on a QP is free
 * again only when its completion has been taken.
 *
 * A QP that is destroyed may leave completions in its CQ (hardware drivers take them out, soft
 * ones do not), and they name slots of a queue that is gone. So a dead ring of slots keeps its
 * memory and its reservation until a poll that began after the QP's end has found the CQ empty.
 *
 * Sleeping: arm, then look once more, for arming tells only of what comes later. What that look
 * finds is held for the next poll, because callbacks run from poll alone. A CQ stays armed until
 * its event came; an event that polling overtook costs one needless wake-up.
 */
#include "daemon/fabric/verbs/instance/cq.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/upper_fd.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define CQ_ENTRIES 4096u /* of a CQ, unless one QP needs more or the device has less */
#define POLL_BATCH 32    /* completions taken at once */
#define POLLS_A_TURN 8u  /* of one CQ: others want their turn too */
#define ACK_EVENTS 64u   /* acknowledging takes a lock, so many at once */
#define ARM_AGAIN_NS NSEC_PER_MSEC

/* ---- the channel ------------------------------------------------------------------------- */

static int comp_channel_watch(struct verbs *v, int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return -1;
    return epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int comp_channel_open(struct verbs *v, struct error *err) {
    const char *name = v->device->name;
    v->channel = ibv_create_comp_channel(v->device->context);
    if (!v->channel)
        return error_errno(err, RDMAD_E_FABRIC, "%s: no completion channel", name);
    v->channel->fd = upper_fd(v->channel->fd);
    if (comp_channel_watch(v, v->channel->fd)) {
        int rc = error_errno(err, RDMAD_E_SYSTEM, "%s: cannot watch its completion channel", name);
        ibv_destroy_comp_channel(v->channel);
        v->channel = NULL;
        return rc;
    }
    return 0;
}

static void comp_channel_close(struct verbs *v) {
    if (!v->channel)
        return;
    epoll_ctl(v->epoll_fd, EPOLL_CTL_DEL, v->channel->fd, NULL);
    ibv_destroy_comp_channel(v->channel);
    v->channel = NULL;
}

void comp_channel_take(struct verbs *v) {
    struct ibv_cq *which;
    void *context;
    while (v->channel && ibv_get_cq_event(v->channel, &which, &context) == 0) {
        struct cq *cq = context;
        cq->armed = false;
        if (++cq->events >= ACK_EVENTS) {
            ibv_ack_cq_events(cq->cq, cq->events);
            cq->events = 0;
        }
    }
}

/* ---- making and reserving ---------------------------------------------------------------- */

static void cq_free(struct cq *cq) {
    list_remove(&cq->node);
    free(cq->wc);
    free(cq);
}

static int cq_new(struct verbs *v, uint32_t entries, struct cq **out, struct error *err) {
    if (!v->channel) {
        int rc = comp_channel_open(v, err);
        if (rc)
            return rc;
    }
    struct cq *cq = calloc(1, sizeof *cq);
    if (!cq)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a completion queue");
    list_init(&cq->node);
    list_init(&cq->dead);
    list_init(&cq->dying);
    cq->verbs = v;
    cq->wc = calloc(POLL_BATCH, sizeof *cq->wc);
    if (!cq->wc) {
        cq_free(cq);
        return error_set(err, RDMAD_E_NOMEM, "no memory for a completion queue");
    }
    cq->cq = ibv_create_cq(v->device->context, (int)entries, cq, v->channel, 0);
    if (!cq->cq) {
        int rc = error_errno(err, RDMAD_E_FABRIC,
                             "%s: no completion queue of %u entries (lower verbs.queue_depth, or "
                             "see how many queues other processes hold with `rdma resource show`)",
                             v->device->name, entries);
        cq_free(cq);
        return rc;
    }
    cq->size = entries;
    list_append(&v->cqs, &cq->node);
    *out = cq;
    return 0;
}

int cq_reserve(struct verbs *v, uint32_t entries, struct cq **out, struct error *err) {
    uint32_t most = (uint32_t)v->device->attr.orig_attr.max_cqe;
    if (entries > most)
        return error_set(err, RDMAD_E_FABRIC,
                         "%s: a queue pair of %u work requests needs as many completion entries, "
                         "the device has %u: lower verbs.queue_depth",
                         v->device->name, entries, most);
    list_for_each (pos, &v->cqs) {
        struct cq *cq = list_entry(pos, struct cq, node);
        if (cq->size - cq->reserved >= entries) {
            cq->reserved += entries;
            *out = cq;
            return 0;
        }
    }
    uint32_t size = entries > CQ_ENTRIES ? entries : CQ_ENTRIES;
    int rc = cq_new(v, size < most ? size : most, out, err);
    if (rc == 0)
        (*out)->reserved = entries;
    return rc;
}

void cq_unreserve(struct cq *cq, uint32_t entries) {
    assert(cq->reserved >= entries);
    cq->reserved -= entries;
}

/* ---- polling ----------------------------------------------------------------------------- */

static void slot_rings_free(struct cq *cq) {
    struct list *node;
    while ((node = list_pop(&cq->dying))) {
        struct slot_ring *ring = list_entry(node, struct slot_ring, dead);
        cq_unreserve(cq, ring->size);
        free(ring);
    }
}

static void cq_dispatch(struct cq *cq, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        const struct wr_slot *slot = (const struct wr_slot *)(uintptr_t)cq->wc[i].wr_id;
        if (slot->queue)
            queue_completed(slot->queue, &cq->wc[i]);
    }
    cq->verbs->progress += n;
}

static void cq_failed(struct cq *cq, const char *what, int error) {
    struct verbs *v = cq->verbs;
    struct error why;
    errno = error;
    error_errno(&why, RDMAD_E_FABRIC, "%s: %s a completion queue failed", v->device->name, what);
    LOG_LIMITED(ERR, ("%s", why.text));
    host_device_failed(v->member.host, v->device, &why);
}

static int cq_take(struct cq *cq) {
    list_splice(&cq->dying, &cq->dead);
    int n = ibv_poll_cq(cq->cq, POLL_BATCH, cq->wc);
    if (n < 0)
        cq_failed(cq, "polling", errno);
    return n;
}

static void cq_poll(struct cq *cq, uint32_t polls) {
    unsigned held = cq->held;
    cq->held = 0;
    cq_dispatch(cq, held);
    for (uint32_t i = 0; i < polls; i++) {
        int n = cq_take(cq);
        if (n < 0)
            return;
        cq_dispatch(cq, (unsigned)n);
        if (n < POLL_BATCH) {
            slot_rings_free(cq);
            return;
        }
    }
}

static void cq_close(struct cq *cq) {
    if (cq->events)
        ibv_ack_cq_events(cq->cq, cq->events);
    int rc = ibv_destroy_cq(cq->cq);
    if (rc)
        LOG_LIMITED(ERR, ("%s: a completion queue cannot be destroyed: error %d",
                          cq->verbs->device->name, rc));
    list_splice(&cq->dying, &cq->dead);
    slot_rings_free(cq);
    cq_free(cq);
}

/* Nothing is kept on the device for links that are gone. */
static void cqs_trim(struct verbs *v) {
    list_for_each_safe (pos, &v->cqs) {
        struct cq *cq = list_entry(pos, struct cq, node);
        if (cq->reserved == 0 && cq->held == 0)
            cq_close(cq);
    }
    if (list_empty(&v->cqs))
        comp_channel_close(v);
}

void cqs_poll(struct verbs *v) {
    list_for_each (pos, &v->cqs) /* callbacks make CQs, at the end, and end none */
        cq_poll(list_entry(pos, struct cq, node), POLLS_A_TURN);
    cqs_trim(v);
}

/* What a CQ has had room for is all that can be waiting in it. */
void cqs_poll_all(struct verbs *v) {
    list_for_each (pos, &v->cqs) {
        struct cq *cq = list_entry(pos, struct cq, node);
        cq_poll(cq, cq->size / POLL_BATCH + 1);
    }
    cqs_trim(v);
}

bool cqs_arm(struct verbs *v) {
    bool safe = true;
    list_for_each (pos, &v->cqs) {
        struct cq *cq = list_entry(pos, struct cq, node);
        if (!cq->armed) {
            int rc = ibv_req_notify_cq(cq->cq, 0);
            if (rc) {
                cq_failed(cq, "arming", rc);
                verbs_timer_at(v, clock_after(v->now_ns, ARM_AGAIN_NS));
            }
            cq->armed = rc == 0;
        }
        if (cq->held == 0) {
            int n = cq_take(cq);
            cq->held = n > 0 ? (unsigned)n : 0;
            if (n == 0)
                slot_rings_free(cq);
        }
        safe = safe && cq->held == 0 && cq->reserved; /* else the next turn closes it */
    }
    return safe;
}

void cqs_close(struct verbs *v) {
    struct list *node;
    while ((node = list_pop(&v->cqs)))
        cq_close(list_entry(node, struct cq, node));
    comp_channel_close(v);
}
