/* SPDX-License-Identifier: MIT */
/*
 * seats.c - what the host tells its members.
 *
 * A member has one seat with one mail. News is written down in the seat under the lock and the mail
 * posted unless it is under way already; when it is delivered, on the member's thread, the news is
 * taken and told: a device that came, a port that changed, events of QPs, a device that goes. So
 * nothing is allocated, and a member that is late hears of the port as it is, not as it was.
 *
 * Only events of QPs have to be kept one by one. They are hints (the completions tell the same), so
 * the few that do not fit are dropped with a line in the log.
 */
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/host/state.h"
#include <stdlib.h>
#include <string.h>

#define NOTES 64

struct news {
    bool came, port_changed, going;
    struct device *device;
    struct port_now port;
    struct error why;
    unsigned notes, dropped;
    struct qp_note {
        uint32_t qp_num;
        enum ibv_event_type event;
    } note[NOTES];
};

struct host_seat {
    struct mail mail;
    struct host_member *member;
    struct fabric_host *host;
    bool posted, left; /* all under the host's lock */
    bool holds;        /* the member has the device, or will hear of it */
    struct news news;
};

/* ---- telling, on the member's thread ------------------------------------------------------- */

static void tell(struct host_member *m, const struct news *n) {
    if (n->came)
        m->device_came(m, n->device, &n->port);
    else if (n->port_changed)
        m->port_changed(m, &n->port);
    for (unsigned i = 0; i < n->notes; i++)
        m->qp_event(m, n->note[i].qp_num, n->note[i].event);
    if (n->dropped)
        LOG_LIMITED(WARNING, ("a worker is late: %u events of QPs were dropped", n->dropped));
    if (n->going)
        m->device_going(m, &n->why);
}

static void deliver(struct mail *mail) {
    struct host_seat *seat = container_of(mail, struct host_seat, mail);
    struct fabric_host *h = seat->host;
    pthread_mutex_lock(&h->lock);
    struct news news = seat->news;
    memset(&seat->news, 0, sizeof(seat->news));
    seat->posted = false;
    bool left = seat->left;
    pthread_mutex_unlock(&h->lock);
    if (left)
        free(seat);
    else
        tell(seat->member, &news);
}

/* ---- news, with the lock ------------------------------------------------------------------- */

static void post(struct host_seat *seat) {
    if (seat->posted)
        return;
    seat->posted = true;
    mailbox_post(&seat->member->mailbox, &seat->mail, deliver);
}

#define seat_of(pos) (list_entry(pos, struct host_member, node)->seat)

void seats_came(struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        struct host_seat *seat = seat_of(pos);
        seat->holds = true;
        seat->news.came = true;
        seat->news.device = &h->now->d;
        seat->news.port = h->port;
        post(seat);
    }
}

void seats_port(struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        struct host_seat *seat = seat_of(pos);
        seat->news.port_changed = true;
        seat->news.port = h->port;
        post(seat);
    }
}

void seats_qp(struct fabric_host *h, uint32_t qp_num, enum ibv_event_type event) {
    list_for_each (pos, &h->members) {
        struct host_seat *seat = seat_of(pos);
        struct news *n = &seat->news;
        if (n->notes < NOTES)
            n->note[n->notes++] = (struct qp_note){qp_num, event};
        else
            n->dropped++;
        post(seat);
    }
}

void seats_going(struct fabric_host *h, const struct error *why) {
    list_for_each (pos, &h->members) {
        struct host_seat *seat = seat_of(pos);
        struct news *n = &seat->news;
        if (n->came) { /* the member has not heard of it: it never will */
            seat->holds = false;
            memset(n, 0, sizeof(*n));
        } else if (seat->holds) {
            n->going = true;
            n->why = *why;
            post(seat);
        }
    }
}

bool seats_hold(const struct fabric_host *h) {
    list_for_each (pos, &h->members) {
        if (seat_of(pos)->holds)
            return true;
    }
    return false;
}

/* ---- members ------------------------------------------------------------------------------- */

int host_join(struct fabric_host *h, struct host_member *m, struct device **d,
              struct port_now *port, struct error *err) {
    struct host_seat *seat = calloc(1, sizeof(*seat));
    if (!seat)
        return error_set(err, RDMAD_E_NOMEM, "verbs: out of memory");
    seat->member = m;
    seat->host = h;
    m->seat = seat;
    m->host = h;
    pthread_mutex_lock(&h->lock);
    list_append(&h->members, &m->node);
    *d = h->now ? &h->now->d : NULL;
    seat->holds = *d != NULL;
    *port = h->port;
    pthread_mutex_unlock(&h->lock);
    return 0;
}

void host_let_go(struct host_member *m) {
    struct fabric_host *h = m->host;
    pthread_mutex_lock(&h->lock);
    m->seat->holds = false;
    pthread_mutex_unlock(&h->lock);
    keeper_wake(h);
}

void host_leave(struct host_member *m) {
    struct fabric_host *h = m->host;
    struct host_seat *seat = m->seat;
    pthread_mutex_lock(&h->lock);
    list_remove(&m->node);
    seat->holds = false;
    seat->left = true;
    bool posted = seat->posted;
    pthread_mutex_unlock(&h->lock);
    keeper_wake(h);
    m->seat = NULL;
    if (posted)
        mailbox_drain(&m->mailbox); /* which frees the seat */
    else
        free(seat);
}
