/* SPDX-License-Identifier: MIT */
/*
 * member.c - what the host tells its members, and what they tell it.
 *
 * A member has one notice with one mail. What is to be told is written down in the notice under the
 * lock and the mail posted unless it is under way already; when it is delivered, on the member's
 * thread, all of it is told at once: a device that came, a port that changed, events of QPs, a
 * device that goes. So nothing is allocated, and a member that is late hears of the port as it is,
 * not as it was.
 *
 * Only events of QPs have to be kept one by one. They are hints (the completions tell the same), so
 * the few that do not fit are dropped with a line in the log.
 */
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/state.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define QP_EVENTS 64

/* Not told yet. */
struct untold {
    bool came, port_changed, going;
    struct device *device;
    struct port_now port;
    struct error why;
    unsigned qp_events, dropped;
    struct qp_event {
        uint32_t qp_num;
        enum ibv_event_type event;
    } qp_event[QP_EVENTS];
};

struct host_notice {
    struct mail mail;
    struct host_member *member;
    struct fabric_host *host;
    bool posted, left; /* all under the host's lock */
    bool holds;        /* the member has the device, or will hear of it */
    struct untold untold;
};

/* ---- telling, on the member's thread ------------------------------------------------------- */

static void member_tell(struct host_member *m, const struct untold *n) {
    if (n->came)
        m->device_came(m, n->device, &n->port);
    else if (n->port_changed)
        m->port_changed(m, &n->port);
    for (unsigned i = 0; i < n->qp_events; i++)
        m->qp_event(m, n->qp_event[i].qp_num, n->qp_event[i].event);
    if (n->dropped)
        LOG_LIMITED(WARNING, ("a worker is late: %u events of QPs were dropped", n->dropped));
    if (n->going)
        m->device_going(m, &n->why);
}

static void notice_deliver(struct mail *mail) {
    struct host_notice *notice = container_of(mail, struct host_notice, mail);
    struct fabric_host *h = notice->host;
    pthread_mutex_lock(&h->lock);
    struct untold untold = notice->untold;
    memset(&notice->untold, 0, sizeof(notice->untold));
    notice->posted = false;
    bool left = notice->left;
    pthread_mutex_unlock(&h->lock);
    if (left)
        free(notice);
    else
        member_tell(notice->member, &untold);
}

/* ---- what is to be told, with the lock ------------------------------------------------------ */

static void notice_post(struct host_notice *notice) {
    if (notice->posted)
        return;
    notice->posted = true;
    mailbox_post(&notice->member->mailbox, &notice->mail, notice_deliver);
}

#define notice_of(pos) (list_entry(pos, struct host_member, node)->notice)

void members_device_came(struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        struct host_notice *notice = notice_of(pos);
        notice->holds = true;
        notice->untold.came = true;
        notice->untold.device = &h->now->d;
        notice->untold.port = h->port;
        notice_post(notice);
    }
}

void members_port_changed(struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        struct host_notice *notice = notice_of(pos);
        notice->untold.port_changed = true;
        notice->untold.port = h->port;
        notice_post(notice);
    }
}

void members_qp_event(struct fabric_host *h, uint32_t qp_num, enum ibv_event_type event) {
    list_for_each (pos, &h->members) {
        struct host_notice *notice = notice_of(pos);
        struct untold *n = &notice->untold;
        if (n->qp_events < QP_EVENTS)
            n->qp_event[n->qp_events++] = (struct qp_event){qp_num, event};
        else
            n->dropped++;
        notice_post(notice);
    }
}

void members_device_going(struct fabric_host *h, const struct error *why) {
    list_for_each (pos, &h->members) {
        struct host_notice *notice = notice_of(pos);
        struct untold *n = &notice->untold;
        if (n->came) { /* the member has not heard of it: it never will */
            notice->holds = false;
            memset(n, 0, sizeof(*n));
        } else if (notice->holds) {
            n->going = true;
            n->why = *why;
            notice_post(notice);
        }
    }
}

bool members_hold_device(const struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        if (notice_of(pos)->holds)
            return true;
    }
    return false;
}

/* ---- members ------------------------------------------------------------------------------- */

int host_join(struct fabric_host *h, struct host_member *m, struct device **d,
              struct port_now *port, struct error *err) {
    struct host_notice *notice = calloc(1, sizeof(*notice));
    if (!notice)
        return error_set(err, RDMAD_E_NOMEM, "verbs: out of memory");
    notice->member = m;
    notice->host = h;
    m->notice = notice;
    m->host = h;
    pthread_mutex_lock(&h->lock);
    list_append(&h->members, &m->node);
    *d = h->now ? &h->now->d : NULL;
    notice->holds = *d != NULL;
    *port = h->port;
    pthread_mutex_unlock(&h->lock);
    return 0;
}

void host_let_go(struct host_member *m) {
    struct fabric_host *h = m->host;
    pthread_mutex_lock(&h->lock);
    m->notice->holds = false;
    pthread_mutex_unlock(&h->lock);
    host_wake(h);
}

void host_leave(struct host_member *m) {
    struct fabric_host *h = m->host;
    struct host_notice *notice = m->notice;
    pthread_mutex_lock(&h->lock);
    list_remove(&m->node);
    notice->holds = false;
    notice->left = true;
    bool posted = notice->posted;
    pthread_mutex_unlock(&h->lock);
    host_wake(h);
    m->notice = NULL;
    if (posted)
        mailbox_drain(&m->mailbox); /* which frees the notice */
    else
        free(notice);
}

void host_device_failed(struct fabric_host *h, const struct device *d, const struct error *why) {
    pthread_mutex_lock(&h->lock);
    bool ours = h->now && &h->now->d == d && !h->failed;
    if (ours) {
        h->failed = d;
        h->failed_why = *why;
    }
    pthread_mutex_unlock(&h->lock);
    if (ours)
        host_wake(h);
}
