/* SPDX-License-Identifier: MIT */
/*
 * resume.c - one session's way from a daemon that has gone to the next.
 *
 * The happy path: the session is AWAY when its socket ends (control.c). It connects, at first at
 * once and then less and less often; the new socket takes the number of the old one, and the
 * session is RESUMING, in which only its resumer's thread asks and reads. It says HELLO, shows the
 * proof, and hands pools, leases, services and channels back. Then it gives way to other sessions
 * that have gone away from that daemon: somebody may wait for what they hand back. When it has its
 * turn again it watches and attaches again, and the session is opened to the program's threads,
 * which have waited in their calls.
 *
 * Leases that the session is lessee of may be of programs that are resumed later than this one, and
 * watches of daemons that are not back yet. So those are tried for a moment before the session is
 * opened, and in the background after that, for as long as rest.h says. While one session waits for
 * them the thread looks after the others. It also wakes the event loops of rings that are to be
 * made anew once more (ring/revive.h).
 *
 * What a step may wait for is bounded: a connect waits for nothing, so a daemon with a full backlog
 * has not come yet; each request by resume_call_ns (then the daemon is taken to be gone, and is
 * tried again later), and all of it by the session's patience with a daemon. Sessions that run out
 * of that while one of them waits for a daemon that says nothing are given up without a try: it
 * would say nothing to them, too.
 */
#include "libclient/session/resume.h"
#include "common/ringword.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/rest.h"
#include "libclient/channel/channel.h"
#include "libclient/channel/service.h"
#include "libclient/control/control.h"
#include "libclient/lease/part.h"
#include "libclient/memory/pool.h"
#include "libclient/ring/revive.h"
#include "libclient/session/hello.h"
#include "libclient/session/lifeline.h"
#include "libclient/session/pause.h"
#include "libclient/session/watch.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_PAUSE_NS UINT64_C(5000000)
#define LONGEST_PAUSE_NS UINT64_C(250000000)

/* ---- what is asked of the next daemon ------------------------------------------------------ */

static int resume_hello(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    struct rdmad_hello_rep reply;
    int rc = rdmad_hello(s, r->name, &reply);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    s->id = reply.session;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int resume_prove(struct rdmad_resume *r) {
    struct rdmad_session_resume_req request = {.proof = r->proof};
    struct rdmad_call call = {.type = RDMAD_MSG_SESSION_RESUME,
                              .request = &request,
                              .request_size = sizeof(request),
                              .one_try = true};
    return rdmad_control_call(r->session, &call);
}

static int resume_hand_back(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    int rc = resume_hello(r);
    if (!rc)
        rc = rdmad_lifeline_take(s);
    if (!rc)
        rc = resume_prove(r);
    if (!rc)
        rc = rdmad_pools_resume(s);
    if (rc)
        return rc;
    r->granted = true;
    rdmad_grants_resume(s);
    rdmad_parts_resume(s);
    rdmad_services_resume(s);
    rdmad_channels_resume(s);
    return 0;
}

static int resume_state(const struct rdmad_resume *r) {
    return __atomic_load_n(&r->session->state, __ATOMIC_ACQUIRE);
}

/* ---- from AWAY to OPEN --------------------------------------------------------------------- */

/* A child of a fork closes it as long as it is there (fork.c). */
static void resume_disconnect(struct rdmad_resume *r) {
    int fd = r->fd;
    r->fd = -1; /* first: then it may have the number of another */
    close(fd);
}

static bool resume_connect(struct rdmad_resume *r) {
    r->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->fd < 0)
        return false;
    if (connect(r->fd, (const struct sockaddr *)&r->address, sizeof(r->address)) == 0)
        return true;
    resume_disconnect(r);
    return false;
}

/* With the lock, and before a ring is made anew: the page of a ring of the daemon that is gone
 * tells how many notifications that had (struct rdmad_ring_daemon). One that went before the
 * session was open there had none of its rings. */
static void resume_count_losses(struct rdmad_resume *r) {
    const struct rdmad_session *s = r->session;
    bool known = r->counted ? !r->granted : false;
    uint32_t most = 0;
    for (const struct rdmad_ring *ring = s->rings; ring && !r->counted; ring = ring->next) {
        if (rdmad_ring_is_stale(ring))
            continue;
        uint32_t count = ringword_peek(&ring->daemon->untaken);
        most = count > most ? count : most;
        known = true;
    }
    r->lost += most;
    r->may_be_lost |= !known && __atomic_load_n(&s->takes_notices, __ATOMIC_RELAXED);
    r->counted = true;
    r->granted = false;
}

/* The socket takes the old one's number, when nobody sleeps on that any more. */
static bool resume_begin(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    while (s->receiving && s->state == RDMAD_SESSION_AWAY)
        rdmad_cond_wait(&s->changed, &s->lock, UINT64_MAX); /* it was shut down, so that ends */
    bool ours = s->state == RDMAD_SESSION_AWAY && dup3(r->fd, s->sock, O_CLOEXEC) == s->sock;
    if (ours) {
        s->resuming_thread = pthread_self();
        resume_count_losses(r);
        __atomic_add_fetch(&s->resumes, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&s->state, RDMAD_SESSION_RESUMING, __ATOMIC_RELEASE);
        rdmad_channels_leave(s, r->gone_ns);
        r->gone_ns = 0;
        rdmad_attaches_leave(s, &r->round);
        rdmad_watches_leave(s);
        r->watch_round = 0;
        s->met_silence = false;
        s->shorts = 0;
        rdmad_pause_leave(s);
    }
    pthread_mutex_unlock(&s->lock);
    resume_disconnect(r);
    return ours;
}

static void resume_open(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    if (s->state == RDMAD_SESSION_RESUMING) {
        r->away_ns = rdmad_monotonic_ns() - r->away_since_ns;
        __atomic_store_n(&s->state, RDMAD_SESSION_OPEN, __ATOMIC_RELEASE);
        rdmad_event_watch(s, s->sock);
        rdmad_event_back(s);
        if (r->lost || r->may_be_lost)
            rdmad_event_queue(s, &r->losses);
        rdmad_event_unqueue(s, &r->source); /* of the time before: it comes after all others */
        rdmad_event_queue(s, &r->source);
        rdmad_event_signal(s);
        r->away_since_ns = 0;
        r->counted = r->granted = false;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Each pause is longer than the one before, and of programs that lost the same daemon none has the
 * same. */
static void resume_pause(struct rdmad_resume *r) {
    r->pause_ns = r->pause_ns ? r->pause_ns * 3 / 2 : FIRST_PAUSE_NS;
    if (r->pause_ns > LONGEST_PAUSE_NS)
        r->pause_ns = LONGEST_PAUSE_NS;
    uint64_t now = rdmad_monotonic_ns(),
             mixed = (now ^ (uint64_t)getpid()) * UINT64_C(0x9E3779B97F4A7C15);
    r->next_ns = now + r->pause_ns * 3 / 4 + (mixed >> 32) % (r->pause_ns / 2);
}

/* Whether the daemon that the session was shown to has said nothing for too long. */
static bool resume_met_silence(const struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    bool silent = s->state == RDMAD_SESSION_AWAY && s->met_silence;
    pthread_mutex_unlock(&s->lock);
    return silent;
}

/* Before the session is opened, and after that for those that were not there yet. */
static enum rdmad_resume_found resume_step_rest(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    bool first = resume_state(r) != RDMAD_SESSION_OPEN; /* each once, if there is time */
    uint64_t began_ns = rdmad_monotonic_ns();
    uint64_t until_ns = began_ns + (first ? REST_FIRST_NS : REST_ROUND_NS);
    if (!r->asked_since_ns)
        r->asked_since_ns = began_ns;
    unsigned watches = rdmad_watches_resume(s, &r->watch_round, until_ns);
    unsigned attaches = rdmad_attaches_resume(s, &r->round, until_ns);
    uint64_t now = rdmad_monotonic_ns(), since = now - r->asked_since_ns;
    r->next_ns = now + rest_pause_ns(since);
    if (watches && rest_is_over(since, false))
        watches = rdmad_watches_give_up(s);
    if (attaches)
        attaches = rdmad_attaches_give_up(s, since);
    r->some_away = watches || attaches;
    if (first && r->some_away && since > REST_BEFORE_NS)
        rdmad_attaches_reserve(s, &r->round);
    if (!r->some_away || since > REST_BEFORE_NS)
        resume_open(r);
    if (resume_state(r) == RDMAD_SESSION_AWAY) /* meanwhile, again */
        resume_pause(r);
    return resume_met_silence(r) ? RDMAD_FOUND_SILENCE : RDMAD_FOUND_NOTHING;
}

bool rdmad_resume_may_mend(int status) {
    return status == RDMAD_E_BUSY || status == RDMAD_E_LIMIT || status == RDMAD_E_AGAIN ||
           status == RDMAD_E_SHUTDOWN || status == RDMAD_E_NOMEM || status == RDMAD_E_SYSTEM;
}

/* The daemon does not have it. What time can mend is tried again. */
static void resume_refused(struct rdmad_resume *r, int rc) {
    struct rdmad_session *s = r->session;
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(text, sizeof(text), "the rdmad that has come does not resume the session: %.180s",
             rdmad_error_said(s));
    pthread_mutex_lock(&s->lock);
    if (s->state == RDMAD_SESSION_RESUMING) {
        if (rdmad_resume_may_mend(rc))
            rdmad_control_gone(s, text);
        else
            rdmad_control_lose(s, rc, text);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The rest is asked for when others have had their turn (rdmad_resume_turn_ns). */
static void resume_handed_back(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    r->some_away = rdmad_attaches_away(s);
    pthread_mutex_unlock(&s->lock);
    r->some_away |= rdmad_watches_away(s) > 0;
    r->asked_since_ns = 0;
    r->next_ns = rdmad_monotonic_ns();
    if (!r->some_away)
        resume_open(r);
}

static enum rdmad_resume_found resume_try(struct rdmad_resume *r) {
    enum rdmad_resume_found found = RDMAD_FOUND_NOTHING;
    int rc = RDMAD_E_DAEMON_LOST;
    r->unmet = !resume_connect(r);
    if (!r->unmet && resume_begin(r)) {
        rc = resume_hand_back(r);
        if (rc)
            resume_refused(r, rc);
        else
            resume_handed_back(r);
        found = resume_met_silence(r) ? RDMAD_FOUND_SILENCE : RDMAD_FOUND_NOTHING;
    }
    bool away = resume_state(r) == RDMAD_SESSION_AWAY;
    if (away)
        resume_pause(r);
    return !rc && !away ? RDMAD_FOUND_DAEMON : found;
}

/* ---- steps --------------------------------------------------------------------------------- */

/* One that is away anew, so that this is not known yet, has all of it. */
static bool resume_patience_is_over(const struct rdmad_resume *r, uint64_t now) {
    uint64_t patience = r->session->call_timeout_ns, since = r->away_since_ns;
    return patience != UINT64_MAX && since && now > since && now - since > patience;
}

static void resume_give_up(struct rdmad_resume *r, const char *none) {
    struct rdmad_session *s = r->session;
    char text[RDMAD_TEXT_MAX + 1];
    pthread_mutex_lock(&s->lock);
    snprintf(text, sizeof(text), "%.120s; %s has come at %.80s in %llu ms", s->lost_text, none,
             r->address.sun_path, (unsigned long long)(s->call_timeout_ns / RDMAD_NS_PER_MS));
    rdmad_control_lose(s, RDMAD_E_DAEMON_LOST, text);
    pthread_mutex_unlock(&s->lock);
}

/* It may have been waiting for other sessions only, so it tries before it gives up. */
static enum rdmad_resume_found resume_step_away(struct rdmad_resume *r) {
    uint64_t now = rdmad_monotonic_ns();
    enum rdmad_resume_found found = RDMAD_FOUND_NOTHING;
    rdmad_resume_note_away(r, now);
    if (now >= r->next_ns)
        found = resume_try(r);
    if (found == RDMAD_FOUND_NOTHING && resume_state(r) == RDMAD_SESSION_AWAY &&
        resume_patience_is_over(r, now))
        resume_give_up(r, "none");
    return found;
}

static bool resume_has_rest(const struct rdmad_resume *r) {
    int state = resume_state(r);
    return r->some_away && (state == RDMAD_SESSION_OPEN || state == RDMAD_SESSION_RESUMING);
}

/* When event loops are to have a ring made anew that could not be, or to hear that the session is
 * lost. */
static uint64_t resume_rings_ns(const struct rdmad_resume *r) {
    const struct rdmad_session *s = r->session;
    if (!rdmad_is_open(s) && !rdmad_is_lost(s))
        return UINT64_MAX;
    return __atomic_load_n(&s->rings_wake_ns, __ATOMIC_ACQUIRE);
}

static void resume_wake_rings(struct rdmad_session *s) {
    pthread_mutex_lock(&s->lock);
    rdmad_rings_wake(s);
    pthread_mutex_unlock(&s->lock);
}

enum rdmad_resume_found rdmad_resume_step(struct rdmad_resume *r) {
    if (r->due) {
        r->due = false;
        if (rdmad_is_open(r->session))
            (void)rdmad_check_gone(r->session);
        return RDMAD_FOUND_NOTHING;
    }
    if (r->hopeless) {
        r->hopeless = false;
        resume_give_up(r, "none that answers");
        return RDMAD_FOUND_NOTHING;
    }
    if (rdmad_monotonic_ns() >= resume_rings_ns(r))
        resume_wake_rings(r->session);
    if (resume_state(r) == RDMAD_SESSION_AWAY)
        return resume_step_away(r);
    if (resume_has_rest(r) && rdmad_monotonic_ns() >= r->next_ns)
        return resume_step_rest(r);
    return RDMAD_FOUND_NOTHING;
}

uint64_t rdmad_resume_next_ns(const struct rdmad_resume *r) {
    if (resume_state(r) == RDMAD_SESSION_AWAY)
        return r->away_since_ns ? r->next_ns : 0;
    uint64_t rings_ns = resume_rings_ns(r);
    return resume_has_rest(r) && r->next_ns < rings_ns ? r->next_ns : rings_ns;
}

void rdmad_resume_note_away(struct rdmad_resume *r, uint64_t now_ns) {
    if (resume_state(r) != RDMAD_SESSION_AWAY)
        return;
    if (!r->away_since_ns) {
        r->away_since_ns = r->next_ns = now_ns;
        r->pause_ns = 0;
        r->unmet = true;
    }
    if (!r->gone_ns)
        r->gone_ns = now_ns;
}

uint64_t rdmad_resume_turn_ns(const struct rdmad_resume *r, uint64_t now_ns) {
    if (r->due || r->hopeless)
        return 0;
    uint64_t due_ns = rdmad_resume_next_ns(r);
    if (due_ns > now_ns)
        return UINT64_MAX;
    if (resume_state(r) != RDMAD_SESSION_RESUMING || r->asked_since_ns)
        return due_ns;
    return now_ns - due_ns > REST_FIRST_NS ? 0 : now_ns;
}

void rdmad_resume_hurry(struct rdmad_resume *r, uint64_t now_ns) {
    if (r->unmet && r->next_ns > now_ns)
        r->next_ns = now_ns;
}

void rdmad_resume_despair(struct rdmad_resume *r, const struct rdmad_session *other,
                          uint64_t now_ns) {
    if (resume_state(r) == RDMAD_SESSION_AWAY && resume_patience_is_over(r, now_ns) &&
        rdmad_resume_patience_ns(r->session) <= rdmad_resume_patience_ns(other))
        r->hopeless = true;
}

/* ---- its events, and its beginning and end -------------------------------------------------- */

static bool resume_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    const struct rdmad_resume *r = RDMAD_SOURCE_OF(source, struct rdmad_resume);
    out->type = RDMAD_EVENT_SESSION_RESUMED;
    snprintf(out->text, sizeof(out->text),
             "rdmad had gone; after %llu ms the session goes on with the one that came, as session "
             "%llu",
             (unsigned long long)rdmad_ns_to_ms(r->away_ns), (unsigned long long)r->session->id);
    return false;
}

static bool resume_take_losses(struct rdmad_event_source *source, struct rdmad_event *out) {
    struct rdmad_resume *r =
        (struct rdmad_resume *)((char *)source - offsetof(struct rdmad_resume, losses));
    out->type = RDMAD_EVENT_NOTIFICATIONS_LOST;
    out->length = r->lost;
    if (r->lost)
        snprintf(
            out->text, sizeof(out->text),
            "%zu notifications of leases of this session were there and not taken, and are lost "
            "with their rdmad%s",
            r->lost, r->may_be_lost ? "; there may have been others" : "");
    else
        snprintf(out->text, sizeof(out->text),
                 "notifications of leases of this session may be lost with their rdmad: it had no "
                 "ring there by which that would be known");
    r->lost = 0;
    r->may_be_lost = false;
    return false;
}

/* offered: whether it can be resumed, which an older daemon does not know. */
static int resume_offer(struct rdmad_session *s, struct rdmad_resume_proof *proof, bool *offered) {
    struct rdmad_resume_offer_req request = {.reserved = 0};
    struct rdmad_resume_offer_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_RESUME_OFFER, request, reply), .quiet = true};
    int rc = rdmad_control_call(s, &call);
    *offered = !rc;
    if (!rc)
        *proof = reply.proof;
    else if (rdmad_is_lost(s))
        return rdmad_fail_lost(s);
    else if (rc == RDMAD_E_TYPE || rc == RDMAD_E_UNSUPPORTED)
        return 0; /* it is as good as any session has been */
    else
        rdmad_fail(s, rc, "%s", call.text);
    return rc;
}

int rdmad_resume_new(struct rdmad_session *s, const struct sockaddr_un *address, const char *name,
                     struct rdmad_resume **out) {
    struct rdmad_resume *r = calloc(1, sizeof(*r));
    bool offered;
    *out = NULL;
    if (!r)
        return rdmad_fail(s, RDMAD_E_NOMEM, "out of memory for a session");
    r->session = s;
    r->fd = -1;
    r->address = *address;
    snprintf(r->name, sizeof(r->name), "%s", name);
    r->source.take = resume_take_event;
    r->losses.take = resume_take_losses;
    int rc = resume_offer(s, &r->proof, &offered);
    if (!rc && offered)
        *out = r;
    else
        free(r);
    return rc;
}

void rdmad_resume_free(struct rdmad_resume *r) {
    struct rdmad_session *s = r->session;
    pthread_mutex_lock(&s->lock);
    rdmad_event_unqueue(s, &r->source);
    rdmad_event_unqueue(s, &r->losses);
    pthread_mutex_unlock(&s->lock);
    free(r);
}
