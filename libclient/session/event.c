/* SPDX-License-Identifier: MIT */
/*
 * event.c - events: to which object each goes, and how a program takes them.
 *
 * A lease's end is told exactly once, and of its renewals only the latest. The session's own end is
 * one mark.
 */
#include "libclient/session/event.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/channel/budget.h"
#include "libclient/channel/channel.h"
#include "libclient/channel/incoming.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/control/presence.h"
#include "libclient/lease/lease.h"
#include "libclient/lease/part.h"
#include "libclient/ring/create.h"
#include "libclient/session/pause.h"
#include "libclient/session/resume.h"
#include "libclient/session/watch.h"
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- what comes ---------------------------------------------------------------------------- */

static const struct {
    uint16_t type;
    size_t size;
    void (*take)(struct rdmad_session *s, const void *body);
} events[] = {
    {RDMAD_EV_LEASE_ENDED, sizeof(struct rdmad_ev_lease_ended), rdmad_lease_on_ended},
    {RDMAD_EV_LEASE_RENEWED, sizeof(struct rdmad_ev_lease_renewed), rdmad_lease_on_renewed},
    {RDMAD_EV_CHANNEL_INCOMING, sizeof(struct rdmad_ev_channel_incoming),
     rdmad_service_on_incoming},
    {RDMAD_EV_INCOMING_GONE, sizeof(struct rdmad_channel_reject_req), rdmad_service_on_gone},
    {RDMAD_EV_CHANNEL_CLOSED, sizeof(struct rdmad_ev_channel_closed), rdmad_channel_on_closed},
    {RDMAD_EV_CHANNEL_SILENT, sizeof(struct rdmad_ev_channel_silent), rdmad_channel_on_silent},
    {RDMAD_EV_CHANNEL_WAY, sizeof(struct rdmad_ev_channel_way), rdmad_channel_on_way},
    {RDMAD_EV_NAME, sizeof(struct rdmad_ev_name), rdmad_watch_on_event},
    {RDMAD_EV_HANDED_OVER, sizeof(struct rdmad_ev_handed_over), rdmad_service_on_handed_over},
    {RDMAD_EV_LEASE_PART, sizeof(struct rdmad_part), rdmad_part_on_event},
    {RDMAD_EV_SESSION_PAUSED, sizeof(struct rdmad_ev_session_paused), rdmad_pause_on_event},
};

static void session_on_ended(struct rdmad_session *s, int status, const void *body) {
    struct rdmad_msg_error e;
    char text[RDMAD_TEXT_MAX + 1];
    memcpy(&e, body, sizeof(e));
    e.text[RDMAD_TEXT_MAX] = '\0';
    snprintf(text, sizeof(text), "rdmad ended the session: %.220s", e.text);
    if (s->state == RDMAD_SESSION_RESUMING && rdmad_resume_may_mend(status))
        rdmad_control_gone(s, text);
    else
        rdmad_control_lose(s, status ? status : RDMAD_E_DAEMON_LOST, text);
}

const char *rdmad_event_take(struct rdmad_session *s, const struct rdmad_msg_header *h,
                             const void *body) {
    static const char bad[] = "rdmad sent an event of the wrong length; the session is closed";
    size_t size = h->length - sizeof(*h);

    if (h->type == RDMAD_EV_SESSION_ENDED) {
        if (size != sizeof(struct rdmad_msg_error))
            return bad;
        session_on_ended(s, h->status, body);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
        if (events[i].type != h->type)
            continue;
        if (events[i].size != size)
            return bad;
        events[i].take(s, body);
        return NULL;
    }
    return NULL; /* events of a later daemon are not for us */
}

static bool event_is_there(struct rdmad_session *s, void *unused) {
    (void)unused;
    return s->first_source || (rdmad_is_lost(s) && !s->lost_told);
}

int rdmad_next_event(rdmad_session *s, int timeout_ms, struct rdmad_event *out) {
    RDMAD_LIVE(s, SESSION);
    uint64_t deadline = rdmad_deadline_ns(timeout_ms);
    struct rdmad_event full = {.size = 0};
    int rc = rdmad_sized_check(s, &rdmad_sized_event, out);
    if (!rc)
        rc = rdmad_check_wait(s, timeout_ms);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    rdmad_presence_wait(s, event_is_there, NULL, deadline);
    if (s->first_source) {
        rdmad_event_take_first(s, &full);
    } else if (rdmad_is_lost(s) && !s->lost_told) {
        s->lost_told = true;
        full.type = RDMAD_EVENT_SESSION_LOST;
        full.reason = s->lost_reason;
        memcpy(full.text, s->lost_text, sizeof(full.text));
    } else {
        rc = rdmad_is_lost(s) ? RDMAD_E_DAEMON_LOST : RDMAD_E_TIMEOUT;
    }
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    /* The name comes last, and is as long as the program knows it. */
    full.name.size = out->size - offsetof(struct rdmad_event, name);
    rdmad_sized_fill(&rdmad_sized_event, out, &full);
    return rc == RDMAD_E_DAEMON_LOST ? rdmad_fail_lost(s) : rc;
}

/* ---- the descriptor ------------------------------------------------------------------------ */

/* With the lock. */
static int session_fd_make(struct rdmad_session *s) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = 0;
    if (epoll < 0 || event_fd < 0) {
        rc = rdmad_fail_errno(s, RDMAD_E_SYSTEM, "cannot make the session's descriptor");
        if (epoll >= 0)
            close(epoll);
        if (event_fd >= 0)
            close(event_fd);
        return rc;
    }
    s->epoll = epoll;
    s->event_fd = event_fd;
    if (rdmad_is_open(s)) /* that of a daemon which has gone is readable for ever */
        rdmad_event_watch(s, s->sock);
    rdmad_event_watch(s, s->event_fd);
    rdmad_rings_watch(s);
    rdmad_event_signal(s);
    return 0;
}

int rdmad_session_fd(rdmad_session *s) {
    RDMAD_LIVE(s, SESSION);
    if (rdmad_is_inherited(s))
        return rdmad_fail_lost(s);
    pthread_mutex_lock(&s->lock);
    int fd = s->epoll >= 0 ? 0 : session_fd_make(s);
    if (fd == 0)
        fd = s->epoll;
    pthread_mutex_unlock(&s->lock);
    return fd;
}
