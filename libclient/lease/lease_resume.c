/* SPDX-License-Identifier: MIT */
/*
 * lease_resume.c - leases at the daemon that takes the session over.
 *
 * An owner says on which terms it granted each lease, and how much of its life is left. The proof
 * that it did is the lease's secret, of which the daemon knows what it must be (wire.h). A lease
 * that has a name has no secret in its URI: it is granted anew under that name, with another
 * number.
 *
 * A lessee attaches by the URI again, and asks for its handle's number. The owner may be a program
 * that is not back yet, so what fails in a way that time can mend is tried again later; for longer
 * if the daemon says that it waits for the owner, too (BUSY). An owner's daemon that is silent
 * costs the whole time of a try, so many are tried at once.
 *
 * Before the program can attach to others each handle has to have its place, so what there was no
 * time for by then is reserved, which waits for nobody.
 *
 * Programs free leases meanwhile, and grant others, so those that are to be asked for are marked
 * first, and then looked for one after the other.
 */
#include "common/uri.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/rest.h"
#include "libclient/lease/lease.h"
#include "libclient/lease/part.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which --------------------------------------------------------------------------------- */

static bool is_wanted(const struct rdmad_lease *l, bool own) {
    return !l->ended && !l->let_go && rdmad_lease_is_own(l) == own && (own || l->away);
}

/* Granted leases, or handles that are away: those that there are now. */
static void mark_all(struct rdmad_session *s, bool own) {
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_lease *l = s->lease[i]; l; l = l->next)
            l->to_ask = is_wanted(l, own);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The next of them, from that bucket on; 0: there is none. */
static uint64_t next_marked(struct rdmad_session *s, bool own, unsigned *bucket) {
    uint64_t number = 0;
    pthread_mutex_lock(&s->lock);
    while (!number && *bucket < RDMAD_LEASE_BUCKETS) {
        struct rdmad_lease *l = s->lease[*bucket];
        while (l && !l->to_ask)
            l = l->next;
        if (!l) {
            ++*bucket;
            continue;
        }
        l->to_ask = false;
        number = own ? l->id : l->handle;
    }
    pthread_mutex_unlock(&s->lock);
    return number;
}

/* With the lock: it does not come back. */
static void lease_stays_away(struct rdmad_lease *lease, int reason, const char *why) {
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(text, sizeof(text), "lease %llu does not outlive its rdmad: %.180s",
             (unsigned long long)lease->id, why);
    lease->away = false;
    rdmad_lease_ended(lease, reason, text);
    rdmad_event_signal(lease->session);
}

/* ---- owners -------------------------------------------------------------------------------- */

/* One that the daemon, or a lessee, renews without our being told has a whole ttl again. */
static uint64_t grant_left_ns(const struct rdmad_lease *lease) {
    uint64_t now = rdmad_boottime_ns();
    if (lease->grant.flags & (RDMAD_LEASE_KEEP_ALIVE | RDMAD_LEASE_RENEWABLE))
        return lease->grant.ttl_ns;
    return lease->deadline_ns > now ? lease->deadline_ns - now : 0;
}

struct grant_again {
    uint64_t number;
    struct rdmad_lease_resume_req request;
    struct rdmad_lease_grant_rep reply;
    bool named;
};

/* Fills in the request. False: there is nothing to ask. */
static bool grant_read(struct rdmad_session *s, struct grant_again *again) {
    struct rdmad_uri uri;
    pthread_mutex_lock(&s->lock);
    struct rdmad_lease *lease = rdmad_lease_find(s, true, again->number);
    bool alive = lease && !lease->ended;
    uint64_t left = alive ? grant_left_ns(lease) : 0;
    if (alive && !left) {
        lease_stays_away(lease, RDMAD_E_LEASE_EXPIRED, "it expired while there was none");
        alive = false;
    }
    if (alive) {
        again->request = (struct rdmad_lease_resume_req){
            .lease = lease->id, .left_ns = left, .grant = lease->grant};
        again->named = lease->grant.name[0];
        if (rdmad_uri_parse(lease->uri, &uri) == NULL)
            memcpy(again->request.key, uri.key, sizeof(again->request.key));
    }
    pthread_mutex_unlock(&s->lock);
    return alive;
}

/* With the lock. It has the number that events of it have from here on. It may have ended
 * meanwhile, or the program let go of it and could not be asked to end it. */
static void grant_accept(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_lease_grant_rep *reply = call->reply;
    struct rdmad_lease_revoke_req gone = {.lease = reply->lease};
    struct rdmad_lease *lease = rdmad_lease_find(s, true, call->object.number);
    if (!lease || lease->ended) {
        rdmad_control_post(s, RDMAD_MSG_LEASE_REVOKE, &gone, sizeof(gone));
        return;
    }
    if (lease->id != reply->lease) {
        rdmad_parts_renumber(lease->session, lease->id, reply->lease);
        rdmad_lease_renumber(lease, reply->lease);
    }
    if (strncmp(lease->uri, reply->uri, RDMAD_URI_MAX) != 0) /* the program may be reading it */
        snprintf(lease->uri, sizeof(lease->uri), "%.*s", (int)RDMAD_URI_MAX, reply->uri);
}

static int grant_ask(struct rdmad_session *s, struct grant_again *again) {
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_LEASE_RESUME, again->request, again->reply),
                              .accept = grant_accept, .object.number = again->number};
    if (again->named) {
        again->request.grant.ttl_ns = again->request.left_ns;
        call.type = RDMAD_MSG_LEASE_GRANT;
        call.request = &again->request.grant;
        call.request_size = sizeof(again->request.grant);
    }
    int rc = rdmad_control_hand_back(s, &call);
    pthread_mutex_lock(&s->lock);
    struct rdmad_lease *lease = rdmad_lease_find(s, true, again->number);
    if (rdmad_control_drained(s, rc))
        rc = RDMAD_E_DAEMON_LOST; /* the next one is asked */
    else if (rc && lease && !lease->ended && rc != RDMAD_E_DAEMON_LOST)
        lease_stays_away(lease, rc, rdmad_error_said(s));
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void rdmad_grants_resume(struct rdmad_session *s) {
    struct grant_again again = {0};
    unsigned bucket = 0;
    mark_all(s, true);
    while ((again.number = next_marked(s, true, &bucket)))
        if (grant_read(s, &again) && grant_ask(s, &again) == RDMAD_E_DAEMON_LOST)
            break;
}

/* ---- lessees ------------------------------------------------------------------------------- */

void rdmad_attaches_leave(struct rdmad_session *s, struct rdmad_attach_round *round) {
    round->going = false;
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_lease *l = s->lease[i]; l; l = l->next) {
            l->awaited = l->asked = false;
            if (l->ended || l->let_go)
                continue;
            if (l->side == RDMAD_LEASE_ATTACHED)
                l->away = true;
            else if (l->side == RDMAD_LEASE_REQUESTED)
                lease_stays_away(l, RDMAD_E_DAEMON_LOST, "it was requested of a service");
        }
    }
}

/* Whether the lease may still come back. */
static bool attach_may_come(int rc) {
    return rc == RDMAD_E_NO_LEASE || rc == RDMAD_E_UNREACHABLE || rc == RDMAD_E_PEER_LOST ||
           rc == RDMAD_E_TIMEOUT || rc == RDMAD_E_LIMIT || rc == RDMAD_E_NOMEM ||
           rc == RDMAD_E_BUSY || rc == RDMAD_E_SHUTDOWN || rc == RDMAD_E_DAEMON_LOST;
}

/* With the lock. */
static void attach_accept(struct rdmad_session *s, const struct rdmad_call *call) {
    const struct rdmad_attach_resume_req *request = call->request;
    const struct rdmad_lease_attach_rep *reply = call->reply;
    struct rdmad_lease_release_req gone = {.handle = request->handle};
    struct rdmad_lease *lease = rdmad_lease_find(s, false, request->handle);
    if (!lease || lease->let_go) /* by the program, when the daemon did not have it yet */
        rdmad_control_post(s, RDMAD_MSG_LEASE_RELEASE, &gone, sizeof(gone));
    if (!lease || lease->let_go || lease->ended)
        return; /* the program lets go of what has ended */
    lease->away = false;
    if (lease->id != reply->lease) /* of a lease that was published, and granted anew */
        __atomic_store_n(&lease->id, reply->lease, __ATOMIC_RELAXED);
    lease->deadline_ns = rdmad_ns_later(rdmad_boottime_ns(), reply->ttl_ns);
    if (reply->length != lease->length || reply->rights != lease->rights)
        lease_stays_away(lease, RDMAD_E_LEASE_REVOKED, "it is of other terms now");
}

/* It may be that of a round that began before it came back, or ended. */
static bool attach_is_away(const struct rdmad_lease *lease) {
    return lease && lease->away && !lease->ended && !lease->let_go;
}

/* One try; the daemon is asked several at a time. */
struct attach_try {
    struct rdmad_attach_resume_req request;
    struct rdmad_lease_attach_rep reply;
    struct rdmad_call call;
};

/* False: the lease is not away any more. */
static bool attach_try_make(struct rdmad_session *s, struct attach_try *t, uint64_t handle,
                            bool reserves) {
    *t = (struct attach_try){.request.handle = handle, .request.attach.timeout_ns = REST_TRY_NS};
    if (reserves)
        t->request.attach.timeout_ns = RDMAD_ATTACH_RESERVE_NS;
    t->call = (struct rdmad_call){RDMAD_CALL(RDMAD_MSG_ATTACH_RESUME, t->request, t->reply),
                                  .accept = attach_accept, .one_try = true};
    pthread_mutex_lock(&s->lock);
    const struct rdmad_lease *lease = rdmad_lease_find(s, false, handle);
    bool wanted = attach_is_away(lease);
    if (wanted)
        memcpy(t->request.attach.uri, lease->uri, sizeof(t->request.attach.uri));
    pthread_mutex_unlock(&s->lock);
    return wanted;
}

/* It was answered, or could not be. */
static void attach_try_judge(struct rdmad_session *s, const struct attach_try *t) {
    struct rdmad_lease_keep_req keep = {.handle = t->request.handle, .on = 1};
    int rc = t->call.status;
    pthread_mutex_lock(&s->lock);
    struct rdmad_lease *lease = rdmad_lease_find(s, false, t->request.handle);
    if (attach_is_away(lease) && !attach_may_come(rc))
        lease_stays_away(lease, rc, t->call.text);
    if (lease && rc != RDMAD_E_DAEMON_LOST) {
        lease->awaited = rc == RDMAD_E_BUSY;
        lease->asked = true;
    }
    if (lease && !rc && !lease->ended && !lease->let_go && lease->kept)
        rdmad_control_post(s, RDMAD_MSG_LEASE_KEEP, &keep, sizeof(keep));
    pthread_mutex_unlock(&s->lock);
}

/* Tries the next ones of the round, at most room. False: there were not so many. */
static bool attaches_try(struct rdmad_session *s, struct rdmad_attach_round *round,
                         struct attach_try *tries, unsigned room) {
    struct rdmad_call *calls[REST_AT_ONCE];
    unsigned count = 0;
    uint64_t number = 1;
    while (count < room && (number = next_marked(s, false, &round->bucket))) {
        calls[count] = &tries[count].call;
        count += attach_try_make(s, &tries[count], number, round->reserves);
    }
    rdmad_control_call_all(s, calls, count);
    for (unsigned i = 0; i < count; i++)
        if (!round->reserves || !tries[i].call.status) /* then an older daemon had it at once */
            attach_try_judge(s, &tries[i]);
    return number != 0;
}

unsigned rdmad_attaches_away(const struct rdmad_session *s) {
    unsigned away = 0;
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++)
        for (const struct rdmad_lease *l = s->lease[i]; l; l = l->next)
            away += attach_is_away(l);
    return away;
}

static void attaches_go_on(struct rdmad_session *s, struct rdmad_attach_round *round,
                           uint64_t until_ns) {
    struct attach_try one, *tries = calloc(REST_AT_ONCE, sizeof(*tries));
    unsigned room = tries ? REST_AT_ONCE : 1;
    do
        round->going = attaches_try(s, round, tries ? tries : &one, room);
    while (round->going && rdmad_monotonic_ns() < until_ns);
    free(tries);
}

/* The round goes on with the same ones. */
void rdmad_attaches_reserve(struct rdmad_session *s, const struct rdmad_attach_round *round) {
    struct rdmad_attach_round rest = *round;
    rest.reserves = true;
    if (!round->going)
        return;
    attaches_go_on(s, &rest, UINT64_MAX);
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++)
        for (struct rdmad_lease *l = s->lease[i]; l; l = l->next)
            l->to_ask = is_wanted(l, false) && !l->asked;
    pthread_mutex_unlock(&s->lock);
}

unsigned rdmad_attaches_resume(struct rdmad_session *s, struct rdmad_attach_round *round,
                               uint64_t until_ns) {
    if (!round->going) {
        mark_all(s, false);
        *round = (struct rdmad_attach_round){.going = true};
    }
    attaches_go_on(s, round, until_ns);
    pthread_mutex_lock(&s->lock);
    unsigned away = rdmad_attaches_away(s);
    pthread_mutex_unlock(&s->lock);
    return away;
}

unsigned rdmad_attaches_give_up(struct rdmad_session *s, uint64_t since_ns) {
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < RDMAD_LEASE_BUCKETS; i++) {
        for (struct rdmad_lease *l = s->lease[i]; l; l = l->next) {
            if (attach_is_away(l) && l->asked && rest_is_over(since_ns, l->awaited))
                lease_stays_away(l, RDMAD_E_NO_LEASE, "its owner has not brought it back in time");
        }
    }
    unsigned away = rdmad_attaches_away(s);
    pthread_mutex_unlock(&s->lock);
    return away;
}
