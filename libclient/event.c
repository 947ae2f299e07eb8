/* SPDX-License-Identifier: MIT */
/*
 * event.c - what the daemon says unasked, and the descriptor that tells an event loop of it.
 *
 * There is no queue that could overflow: a lease that has something to tell hangs in a list itself,
 * with a mark for each kind of news, so it tells the end of its life exactly once, and only its
 * latest renewal. The session's own end is one mark.
 *
 * The session's descriptor is an epoll set of the socket, the doorbells of all rings, and a bell.
 * The bell is an eventfd of our own, readable while news lies in the list: it may have come in with
 * a reply, and then the socket is empty. Once the session is lost the descriptor stays readable.
 */
#include "libclient/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void enqueue(struct rdmad_lease *lease) {
    struct rdmad_session *s = lease->session;

    lease->next_event = NULL;
    *s->last_event = lease;
    s->last_event = &lease->next_event;
    pthread_cond_broadcast(&s->changed);
}

static void dequeue(struct rdmad_lease *lease) {
    struct rdmad_session *s = lease->session;
    struct rdmad_lease **at = &s->first_event;

    while (*at != lease)
        at = &(*at)->next_event;
    *at = lease->next_event;
    if (s->last_event == &lease->next_event)
        s->last_event = at;
}

void rdmad_event_lease_ended(struct rdmad_lease *lease, int reason, const char *text) {
    if (lease->ended)
        return;
    lease->ended = reason;
    lease->ended_ns = rdmad_boottime_ns();
    snprintf(lease->ended_text, sizeof(lease->ended_text), "%s", text);
    if (!lease->tell_renewed)
        enqueue(lease);
    lease->tell_ended = true;
}

static void lease_renewed(struct rdmad_lease *lease, uint64_t ttl_ns) {
    if (lease->ended)
        return;
    lease->deadline_ns = rdmad_boottime_ns() + ttl_ns;
    if (!lease->tell_renewed)
        enqueue(lease);
    lease->tell_renewed = true;
}

void rdmad_event_forget(struct rdmad_lease *lease) {
    if (lease->tell_ended || lease->tell_renewed)
        dequeue(lease);
    lease->tell_ended = lease->tell_renewed = false;
}

const char *rdmad_event_message(struct rdmad_session *s, const struct rdmad_msg_header *h,
                                const void *body) {
    static const char bad[] = "rdmad sent an event of the wrong length; the session is closed";
    size_t size = h->length - sizeof(*h);
    struct rdmad_lease *lease;

    if (h->type == RDMAD_EV_LEASE_ENDED) {
        struct rdmad_ev_lease_ended e;
        if (size != sizeof(e))
            return bad;
        memcpy(&e, body, sizeof(e));
        e.text[RDMAD_TEXT_MAX] = '\0';
        lease = rdmad_lease_find(s, e.handle == 0, e.handle ? e.handle : e.lease);
        if (lease)
            rdmad_event_lease_ended(lease, e.reason, e.text);
    } else if (h->type == RDMAD_EV_LEASE_RENEWED) {
        struct rdmad_ev_lease_renewed e;
        if (size != sizeof(e))
            return bad;
        memcpy(&e, body, sizeof(e));
        lease = rdmad_lease_find(s, false, e.handle);
        if (lease)
            lease_renewed(lease, e.ttl_ns);
    } else if (h->type == RDMAD_EV_SESSION_ENDED) {
        struct rdmad_msg_error e;
        char text[RDMAD_TEXT_MAX + 1];
        if (size != sizeof(e))
            return bad;
        memcpy(&e, body, sizeof(e));
        e.text[RDMAD_TEXT_MAX] = '\0';
        snprintf(text, sizeof(text), "rdmad ended the session: %.220s", e.text);
        rdmad_control_lose(s, h->status ? h->status : RDMAD_E_DAEMON_LOST, text);
    }
    return NULL; /* events of a later daemon are not for us */
}

static bool have_event(struct rdmad_session *s, void *unused) {
    (void)unused;
    return s->first_event || (rdmad_is_lost(s) && !s->lost_told);
}

/* Takes one kind of news from the first lease; what happened first is told first. */
static void take_lease_event(struct rdmad_session *s, struct rdmad_event *out) {
    struct rdmad_lease *lease = s->first_event;

    out->lease = lease;
    out->lease_id = lease->id;
    if (lease->tell_renewed) {
        lease->tell_renewed = false;
        out->type = RDMAD_EVENT_LEASE_RENEWED;
        snprintf(out->text, sizeof(out->text), "lease %llu was renewed",
                 (unsigned long long)lease->id);
    } else {
        lease->tell_ended = false;
        out->type = RDMAD_EVENT_LEASE_ENDED;
        out->reason = lease->ended;
        memcpy(out->text, lease->ended_text, sizeof(out->text));
    }
    if (!lease->tell_ended) {
        s->first_event = lease->next_event;
        if (!s->first_event)
            s->last_event = &s->first_event;
    }
}

int rdmad_next_event(rdmad_session *s, int timeout_ms, struct rdmad_event *out) {
    uint64_t deadline = rdmad_deadline_ns(timeout_ms);
    int rc = 0;

    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&s->lock);
    rdmad_control_wait(s, have_event, NULL, deadline);
    if (s->first_event) {
        take_lease_event(s, out);
    } else if (rdmad_is_lost(s) && !s->lost_told) {
        s->lost_told = true;
        out->type = RDMAD_EVENT_SESSION_LOST;
        out->reason = s->lost_reason;
        memcpy(out->text, s->lost_text, sizeof(out->text));
    } else {
        rc = rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST : RDMAD_E_TIMEOUT;
    }
    rdmad_event_bell(s);
    pthread_mutex_unlock(&s->lock);
    return rc == RDMAD_E_DAEMON_LOST ? rdmad_fail_lost(s) : rc;
}

void rdmad_event_bell(struct rdmad_session *s) {
    bool ring = s->first_event || rdmad_is_lost(s);
    eventfd_t value;

    if (s->bell < 0 || ring == s->bell_rings)
        return;
    if (ring ? eventfd_write(s->bell, 1) : eventfd_read(s->bell, &value))
        return;
    s->bell_rings = ring;
}

void rdmad_event_watch(struct rdmad_session *s, int fd) {
    struct epoll_event e = {.events = EPOLLIN};

    if (s->epoll >= 0)
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e);
}

/* With the lock. */
static int make_session_fd(struct rdmad_session *s) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = 0;

    if (epoll < 0 || bell < 0) {
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "cannot make the session's descriptor");
        if (epoll >= 0)
            close(epoll);
        if (bell >= 0)
            close(bell);
        return rc;
    }
    s->epoll = epoll;
    s->bell = bell;
    rdmad_event_watch(s, s->sock);
    rdmad_event_watch(s, s->bell);
    rdmad_rings_watch(s);
    rdmad_event_bell(s);
    return 0;
}

int rdmad_session_fd(rdmad_session *s) {
    int fd;

    pthread_mutex_lock(&s->lock);
    fd = s->epoll >= 0 ? 0 : make_session_fd(s);
    if (fd == 0)
        fd = s->epoll;
    pthread_mutex_unlock(&s->lock);
    return fd;
}
