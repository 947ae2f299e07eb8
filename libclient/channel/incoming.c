/* SPDX-License-Identifier: MIT */
/*
 * incoming.c - who connects is accepted or rejected.
 *
 * The happy path: the daemon tells of each that connects, which is kept here in the order in which
 * they came; rdmad_accept takes the first away and answers it. One record serves one accept or
 * reject only, so any number of threads may accept.
 *
 * When a connection is given up meanwhile the daemon says so, and it is taken out of the list. If
 * that crosses an accept the daemon refuses the accept. Its way back may fail as well, or take too
 * long, which anybody who connects can bring about. So an accept that takes whichever connection
 * comes first goes on with the next, while it has time: what ends it is about this end.
 *
 * A service may be closed meanwhile. Whoever waits at it, or is at an accept, is counted as its
 * user; the close tells them, and waits until they have left.
 */
#include "libclient/channel/incoming.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/channel/channel.h"
#include "libclient/control/presence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who comes at the last moment is not failed for that: his channel has this long. */
#define LEAST_MAKE_NS (1000 * RDMAD_NS_PER_MS)
/* Nor does he hold a long accept of whoever comes: with more left he has the daemon's default. */
#define MOST_MAKE_NS (5000 * RDMAD_NS_PER_MS)

static bool incoming_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_waiting *w = RDMAD_SOURCE_OF(source, struct rdmad_waiting);
    out->type = RDMAD_EVENT_INCOMING;
    out->service = w->service;
    out->user = w->service->user;
    snprintf(out->text, sizeof(out->text), "uid %u of node %s connects to service %s", w->who.uid,
             w->who.node, w->service->name);
    return false;
}

void rdmad_service_on_incoming(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_channel_incoming e;
    struct rdmad_service *service;
    struct rdmad_waiting *w;
    memcpy(&e, body, sizeof(e));
    service = rdmad_service_find(s, e.service);
    if (!service)
        return; /* closed meanwhile: the daemon refuses them all */
    w = calloc(1, sizeof(*w));
    if (!w) {
        rdmad_service_out_of_memory(s);
        return;
    }
    e.node[RDMAD_NAME_MAX] = e.address[sizeof(e.address) - 1] = '\0';
    w->service = service;
    w->source.take = incoming_take_event;
    w->who.id = e.incoming;
    w->who.uid = e.uid;
    w->who.kind = e.kind;
    w->who.flags = e.flags & RDMAD_CHANNEL_PEER_PROVEN ? RDMAD_PEER_PROVEN : 0;
    snprintf(w->who.node, sizeof(w->who.node), "%s", e.node);
    snprintf(w->who.address, sizeof(w->who.address), "%s", e.address);
    *service->last_waiting = w;
    service->last_waiting = &w->next;
    rdmad_event_queue(s, &w->source);
}

bool rdmad_incoming_claim(struct rdmad_service *service, const struct rdmad_incoming *who,
                          struct rdmad_incoming *out) {
    struct rdmad_waiting **at = &service->waiting, *w;

    while (*at && who && (*at)->who.id != who->id)
        at = &(*at)->next;
    if (!(w = *at))
        return false;
    *at = w->next;
    if (service->last_waiting == &w->next)
        service->last_waiting = at;
    rdmad_event_unqueue(service->session, &w->source);
    *out = w->who;
    free(w);
    return true;
}

void rdmad_service_on_gone(struct rdmad_session *s, const void *body) {
    struct rdmad_channel_reject_req e;
    struct rdmad_incoming who = {.id = 0}, gone;
    struct rdmad_service *service;
    memcpy(&e, body, sizeof(e));
    who.id = e.incoming;
    service = rdmad_service_find(s, e.service);
    if (service)
        rdmad_incoming_claim(service, &who, &gone);
}

/* False: the service is just being closed. */
static bool incoming_enter(struct rdmad_service *service) {
    pthread_mutex_lock(&service->session->lock);
    bool open = !service->closing;
    service->users += open;
    pthread_mutex_unlock(&service->session->lock);
    return open;
}

/* The service may be gone then. */
static void incoming_leave(struct rdmad_service *service) {
    struct rdmad_session *s = service->session;
    pthread_mutex_lock(&s->lock);
    if (--service->users == 0 && service->closing)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* In a child of fork they are the parent's. Who is at an accept receives by itself. */
void rdmad_incoming_await_users(struct rdmad_service *service) {
    struct rdmad_session *s = service->session;
    while (service->users && !rdmad_is_inherited(s))
        rdmad_cond_wait(&s->changed, &s->lock, UINT64_MAX);
}

static bool incoming_waits(struct rdmad_session *s, void *arg) {
    const struct rdmad_service *service = arg;
    (void)s;
    return service->waiting || service->over || service->closing;
}

static int incoming_fail_closed(struct rdmad_session *s) {
    return rdmad_fail(s, RDMAD_E_CLOSED, "the service was closed here while this waited at it");
}

/* With the lock: nobody waits at service, and why. The error is set by incoming_fail, without it.
 */
static int incoming_none(const struct rdmad_service *service) {
    if (rdmad_is_lost(service->session))
        return RDMAD_E_DAEMON_LOST;
    if (service->closing)
        return RDMAD_E_CLOSED;
    return service->over ? service->not_resumed.reason : RDMAD_E_TIMEOUT;
}

static int incoming_fail(const struct rdmad_service *service, int rc) {
    struct rdmad_session *s = service->session;
    if (rc == RDMAD_E_DAEMON_LOST)
        return rdmad_fail_lost(s);
    if (rc == RDMAD_E_CLOSED)
        return incoming_fail_closed(s);
    return rc && rc != RDMAD_E_TIMEOUT ? rdmad_fail(s, rc, "%s", service->not_resumed.text) : rc;
}

int rdmad_next_incoming(rdmad_service *service, int timeout_ms, struct rdmad_incoming *out) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_session *s = service->session;
    int rc = rdmad_sized_check(s, &rdmad_sized_incoming, out);
    if (!rc)
        rc = rdmad_check_wait(s, timeout_ms);
    if (rc)
        return rc;
    if (!incoming_enter(service))
        return incoming_fail_closed(s);
    pthread_mutex_lock(&s->lock);
    rdmad_presence_wait(s, incoming_waits, service, rdmad_deadline_ns(timeout_ms));
    rc = service->waiting && !service->closing ? 0 : incoming_none(service);
    if (!rc)
        rdmad_sized_fill(&rdmad_sized_incoming, out, &service->waiting->who);
    pthread_mutex_unlock(&s->lock);
    rc = incoming_fail(service, rc);
    incoming_leave(service);
    return rc;
}

/* Takes the first that comes before the deadline out of the line. */
static int incoming_claim_first(struct rdmad_service *service, uint64_t deadline_ns,
                                struct rdmad_incoming *out) {
    struct rdmad_session *s = service->session;
    int rc = 0;

    pthread_mutex_lock(&s->lock);
    rdmad_presence_wait(s, incoming_waits, service, deadline_ns);
    if (service->closing || !rdmad_incoming_claim(service, NULL, out))
        rc = incoming_none(service);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    return incoming_fail(service, rc);
}

static int incoming_claim_this(struct rdmad_service *service, const struct rdmad_incoming *who,
                               struct rdmad_incoming *out) {
    struct rdmad_session *s = service->session;
    bool there;

    pthread_mutex_lock(&s->lock);
    there = rdmad_incoming_claim(service, who, out);
    rdmad_event_signal(s);
    pthread_mutex_unlock(&s->lock);
    if (there)
        return 0;
    return rdmad_fail(s, RDMAD_E_HANDLE,
                      "nobody of number %llu waits at service %s: accepted or rejected before, or "
                      "gone",
                      (unsigned long long)who->id, service->name);
}

/* timeout_ns 0: the daemon's default. */
static int incoming_claimed_accept(struct rdmad_service *service, const struct rdmad_incoming *who,
                                   uint64_t timeout_ns, rdmad_channel **out) {
    struct rdmad_channel_accept_req request = {
        .service = rdmad_service_number(service), .incoming = who->id, .timeout_ns = timeout_ns};
    struct rdmad_channel *c = rdmad_channel_new(service->session, service->name, true);

    if (!c)
        return RDMAD_E_NOMEM;
    return rdmad_channel_make(c, RDMAD_MSG_CHANNEL_ACCEPT, &request, sizeof(request), out);
}

/* Whether an accept failed for a reason that any other would fail for, too. All else is about who
 * connects: what his daemon says, and how far away it is. */
static bool accept_fault_is_ours(const struct rdmad_session *s, int rc) {
    switch (rc) {
    case RDMAD_E_INVAL:
    case RDMAD_E_TYPE:
    case RDMAD_E_LENGTH:
    case RDMAD_E_RESERVED:
    case RDMAD_E_LIMIT:
    case RDMAD_E_NOMEM:
    case RDMAD_E_SYSTEM:
    case RDMAD_E_SHUTDOWN:
    case RDMAD_E_INTERNAL:
        return true;
    default:
        return rdmad_is_lost(s);
    }
}

/* How long a channel may take to be made, for a request. 0: the daemon's default. */
static uint64_t accept_time_ns(int timeout_ms, uint64_t deadline_ns) {
    uint64_t now = rdmad_monotonic_ns();
    if (timeout_ms <= 0)
        return 0;
    return deadline_ns > now + LEAST_MAKE_NS ? deadline_ns - now : LEAST_MAKE_NS;
}

/* The same of one of many that may come. */
static uint64_t accept_share_ns(int timeout_ms, uint64_t deadline_ns) {
    uint64_t time_ns = accept_time_ns(timeout_ms, deadline_ns);
    return time_ns > MOST_MAKE_NS ? 0 : time_ns;
}

/* The first whose channel comes to something. */
static int accept_first(struct rdmad_service *service, int timeout_ms, rdmad_channel **out) {
    const uint64_t deadline_ns = rdmad_deadline_ns(timeout_ms);
    const uint64_t least_ns = rdmad_ns_later(rdmad_monotonic_ns(), LEAST_MAKE_NS);
    struct rdmad_incoming claimed;
    int rc;
    for (;;) {
        rc = incoming_claim_first(service, deadline_ns, &claimed);
        if (rc)
            return rc;
        rc = incoming_claimed_accept(service, &claimed, accept_share_ns(timeout_ms, deadline_ns),
                                     out);
        if (!rc || accept_fault_is_ours(service->session, rc))
            return rc;
        uint64_t now = rdmad_monotonic_ns();
        if (now >= deadline_ns && now >= least_ns)
            return RDMAD_E_TIMEOUT; /* those who fail do not hold it for longer */
    }
}

/* CLOSED would be of the service: older daemons pass it on from who has connected. */
static int accept_this(struct rdmad_service *service, const struct rdmad_incoming *who,
                       int timeout_ms, rdmad_channel **out) {
    const uint64_t time_ns = accept_time_ns(timeout_ms, rdmad_deadline_ns(timeout_ms));
    struct rdmad_incoming claimed;
    int rc = incoming_claim_this(service, who, &claimed);
    if (rc)
        return rc;
    rc = incoming_claimed_accept(service, &claimed, time_ns, out);
    return rc == RDMAD_E_CLOSED ? RDMAD_E_PEER_LOST : rc;
}

int rdmad_accept(rdmad_service *service, const struct rdmad_incoming *who, int timeout_ms,
                 rdmad_channel **out) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_session *s = service->session;
    *out = NULL;
    if (rdmad_check_wait(s, timeout_ms))
        return RDMAD_E_INVAL;
    if (!incoming_enter(service))
        return incoming_fail_closed(s);
    int rc =
        who ? accept_this(service, who, timeout_ms, out) : accept_first(service, timeout_ms, out);
    incoming_leave(service);
    return rc;
}

int rdmad_reject(rdmad_service *service, const struct rdmad_incoming *who, const char *text) {
    RDMAD_LIVE(service, SERVICE);
    struct rdmad_channel_reject_req request = {.service = rdmad_service_number(service),
                                               .incoming = who->id};
    struct rdmad_incoming claimed;
    int rc = rdmad_copy_text(service->session, request.text, sizeof(request.text), text,
                             "text of a reject", RDMAD_E_INVAL);
    if (!rc)
        rc = incoming_claim_this(service, who, &claimed);
    return rc ? rc
              : rdmad_control_tell(service->session, RDMAD_MSG_CHANNEL_REJECT, &request,
                                   sizeof(request), false);
}
