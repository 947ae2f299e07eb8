/* SPDX-License-Identifier: MIT */
/*
 * handle.c - the life of a lease at its lessee.
 *
 * The happy path: handle_new, attach (the data plane takes it up: handle_added), use, release (the
 * data plane lets go: handle_drained), free.
 *
 * What may cross: a lease can end, or its session close, while the data plane still takes the
 * handle up; a lease can end while the session gives it back. All of these only move the stage to
 * ENDING and count in `pending` what the data plane still owes; handle_drained runs when nothing is
 * owed any more, and settles with everybody in one order: the owner's side, the charge, the client,
 * whoever waits.
 */
#include "daemon/state/handle.h"
#include "daemon/base/clock.h"
#include "daemon/base/probe.h"
#include "daemon/state/lessee_told.h"
#include <assert.h>
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct error ok;

static void handle_expired(struct timer *timer, uint64_t now_ns);
static void handle_drained(struct handle *h);
static void handle_send_renewal(struct late_event *e);
static void handle_send_end(struct late_event *e);

static struct timers *handle_timers(struct handle *h) {
    return &h->session->state->timers;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* The only place where the stage changes; handle.h draws it. */
static void handle_move(struct handle *h, enum handle_stage to) {
    static const unsigned from[] = {
        [HANDLE_ADDING] = 1u << HANDLE_NEW,    [HANDLE_USABLE] = 1u << HANDLE_ADDING,
        [HANDLE_ENDING] = 1u << HANDLE_USABLE, [HANDLE_FAILING] = 1u << HANDLE_ADDING,
        [HANDLE_UNTOLD] = 1u << HANDLE_ENDING, [HANDLE_TOLD] = 1u << HANDLE_UNTOLD,
    };
    assert(from[to] & 1u << h->stage);
    h->stage = to;
}

static bool handle_in_use(const struct handle *h) {
    return h->stage == HANDLE_ADDING || h->stage == HANDLE_USABLE;
}

static bool handle_is_over(const struct handle *h) {
    return h->stage == HANDLE_UNTOLD || h->stage == HANDLE_TOLD;
}

/* The client has its number. */
static bool handle_is_known(const struct handle *h) {
    return h->stage == HANDLE_USABLE || h->stage == HANDLE_ENDING || handle_is_over(h);
}

/* ---- making and unmaking ----------------------------------------------------------------- */

/* Takes the handle out of the session and frees it; tells a closing session when it was the last.
 */
static void handle_destroy(struct handle *h) {
    struct session *s = h->session;
    struct session_waiter releasing = h->releasing;

    timer_unset(handle_timers(h), &h->expiry);
    handle_keep_stop(h);
    late_event_drop(&h->late_renewal);
    late_event_drop(&h->late_end);
    list_remove(&h->ended_node);
    s->nhandles_ended -= h->stage == HANDLE_TOLD;
    slots_remove(&s->handles, h->number);
    if (h->stage == HANDLE_NEW || h->stage == HANDLE_FAILING) /* it may be asked for again */
        slots_reserve(&s->handles, h->number);
    quota_discharge(&h->charge);
    free(h);
    waiter_answer(&releasing, &ok);
    if (s->handles.used == 0)
        waiter_answer(&s->handles_gone, &ok);
    session_release(s);
}

/* Forgets the handle whose end was told longest ago, to make room. */
static bool forget_oldest_ended(struct session *s) {
    struct list *node = list_first(&s->handles_ended);
    if (!node)
        return false;
    struct handle *oldest = list_entry(node, struct handle, ended_node);
    plane_lease_forget(s->plane, oldest->number);
    handle_destroy(oldest);
    return true;
}

/* wanted 0: any that is free, or can be made so. */
static int handle_number(struct session *s, struct handle *h, uint64_t wanted, struct error *err) {
    int rc = 0;
    if (wanted)
        rc = slots_put(&s->handles, wanted, h);
    if (rc == RDMAD_E_EXISTS)
        return error_set(err, rc, "session %" PRIu64 " has a lease handle %" PRIx64 " already",
                         s->id, wanted);
    if (rc)
        return error_set(err, rc, "out of memory for a lease's handle");
    h->number = wanted;
    while (!h->number && !(h->number = slots_add(&s->handles, h)) && forget_oldest_ended(s))
        ;
    if (h->number)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "session %" PRIu64 " has %" PRIu32
                     " lease handles, which is all it can have; release some",
                     s->id, s->handles.used);
}

static int handle_make(struct session *s, uint64_t wanted, struct handle **out, struct error *err) {
    struct state *st = s->state;
    if (state_leaves(st) || s->closing)
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and attaches to no more leases",
                         state_leaves_or_ends(st));
    struct handle *h = calloc(1, sizeof(*h));
    if (!h)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a lease's handle");
    int rc =
        quota_charge(&st->quota, &s->account, s->uid_account, QUOTA_ATTACHES, 1, &h->charge, err);
    if (!rc)
        rc = handle_number(s, h, wanted, err);
    if (rc) {
        quota_discharge(&h->charge);
        free(h);
        return rc;
    }
    h->session = s;
    list_init(&h->ended_node);
    late_event_init(&h->late_renewal, handle_send_renewal);
    late_event_init(&h->late_end, handle_send_end);
    timer_init(&h->expiry, handle_expired);
    handle_keep_init(h);
    session_hold(s);
    *out = h;
    return 0;
}

int handle_new(struct session *s, struct handle **out, struct error *err) {
    return handle_make(s, 0, out, err);
}

void handle_reserve(struct session *s, uint64_t number) {
    slots_reserve(&s->handles, number);
}

int handle_new_again(struct session *s, uint64_t number, struct handle **out, struct error *err) {
    slots_reserve(&s->handles, number); /* whatever comes of it */
    return handle_make(s, number, out, err);
}

void handle_give_up(struct session *s, uint64_t number) {
    slots_unreserve(&s->handles, number);
}

void handle_free(struct handle *h) {
    assert(h->stage == HANDLE_NEW);
    handle_destroy(h);
}

struct handle *handle_find(struct session *s, uint64_t number) {
    struct handle *h = slots_get(&s->handles, number);
    return h && handle_is_known(h) ? h : NULL;
}

/* ---- the data plane takes it up ---------------------------------------------------------- */

static void handle_added(void *arg, const struct error *result) {
    struct handle *h = arg;
    bool closing = h->session->closing;

    h->pending--;
    if (h->stage == HANDLE_ADDING && !result->code && !closing) {
        handle_move(h, HANDLE_USABLE);
        probe_handle_usable(h->session->id, h->number, h->lease_id, h->length, h->remote);
        waiter_answer(&h->attaching, &ok);
        return;
    }
    if (h->stage == HANDLE_ADDING) { /* no memory for it there, or nobody left to use it */
        handle_move(h, HANDLE_FAILING);
        h->reason = result->code ? result->code : RDMAD_E_CANCELED;
        snprintf(h->text, sizeof(h->text), "%s",
                 result->code ? result->text : "the session ended during the attach");
    }
    /* A closing session settles when handles_release_session comes. */
    if (h->pending == 0 && (!closing || h->returned))
        handle_drained(h);
}

/* With as many of its rights as the policy gives the session's user. */
static void handle_add(struct handle *h, const struct plane_lease_spec *spec, plane_done *done,
                       void *arg) {
    struct plane_lease_spec mine = *spec;
    if (h->session->state->policy)
        mine.rights &= (uint32_t)h->session->policy.value[RULE_ATTACH_RIGHTS].number;
    h->lease_id = spec->lease_id;
    h->length = spec->length;
    h->rights = mine.rights;
    h->fabric = spec->lane ? plane_lane_fabric(spec->lane)->name : "local";
    h->deadline_ns = spec->deadline_ns;
    handle_move(h, HANDLE_ADDING);
    h->attaching = (struct session_waiter){done, arg};
    h->pending++;
    plane_lease_add(h->session->plane, h->number, &mine, handle_added, h);
}

/* ---- the local way: the owner's attachment is ours to answer for -------------------------- */

static struct handle *handle_of_attachment(struct attachment *a) {
    return container_of(a, struct handle, attachment);
}

static void handle_local_stop(struct attachment *a, int reason) {
    struct handle *h = handle_of_attachment(a);
    struct error why;
    lease_ended_error(h->lease_id, reason, 0, &why);
    handle_end(h, reason, why.text);
}

static void handle_local_renewed(struct attachment *a) {
    handle_renewed(handle_of_attachment(a), a->lease->deadline_ns);
}

static void handle_local_gone(struct attachment *a, int reason) {
    (void)a, (void)reason; /* the rest of the handle follows in handle_drained */
}

static void handle_local_who(const struct attachment *a, struct lease_holder *out) {
    const struct session *s = container_of(a, struct handle, attachment)->session;
    *out =
        (struct lease_holder){.session = s->id, .uid = s->uid, .uid_known = true, .name = s->name};
}

static const struct attachment_ops local_ops = {
    .stop = handle_local_stop,
    .renewed = handle_local_renewed,
    .gone = handle_local_gone,
    .who = handle_local_who,
};

static bool atomics_are_cpus(const struct state *st, unsigned fabric) {
    const struct fabric_ops *ops = plane_fabric(st->plane, fabric);
    return !ops->atomics_are_cpus || ops->atomics_are_cpus(plane_fabric_host(st->plane, fabric));
}

bool handle_goes_by_link(const struct state *st, uint32_t rights) {
    return (rights & RDMAD_RIGHT_ATOMIC) && !atomics_are_cpus(st, 0);
}

bool atomics_may_come_over(const struct state *st, unsigned fabric) {
    return fabric == 0 || (atomics_are_cpus(st, 0) && atomics_are_cpus(st, fabric));
}

int handle_attach_local(struct handle *h, struct lease *l, plane_done *done, void *arg,
                        struct error *err) {
    struct lessee who = {.session = h->session};
    if (h->session->closing) /* while it waited for the lease to be made; it has no data plane */
        return error_set(err, RDMAD_E_CANCELED, "the session ended during the attach");
    int rc = lease_attach(l, &who, &h->attachment, &local_ops, err);
    if (rc)
        return rc;
    h->requested = l->requested;
    const struct lease *told = lease_notified(l);
    struct plane_lease_spec spec = {
        .lease_id = l->id,
        .length = l->terms.length,
        .rights = l->terms.rights,
        .deadline_ns = l->deadline_ns,
        .base = (char *)l->pool->base + l->terms.offset,
        .audit = &h->attachment.audit,
        .owner = told ? l->owner->plane : NULL,
        .notify_lease = told ? told->id : 0,
    };
    handle_add(h, &spec, done, arg);
    return 0;
}

/* ---- the remote way ---------------------------------------------------------------------- */

void handle_attach_remote(struct handle *h, const struct plane_lease_spec *spec,
                          const struct handle_ops *ops, void *peer_record, plane_done *done,
                          void *arg) {
    h->remote = true;
    h->ops = ops;
    h->peer_record = peer_record;
    /* Without memory for the timer the owner's word ends it, and the data plane's own deadline. */
    timer_set(handle_timers(h), &h->expiry, spec->deadline_ns);
    handle_add(h, spec, done, arg);
}

bool handle_wants_key(const struct handle *h) {
    return !h->session->closing && handle_in_use(h);
}

void handle_key(struct handle *h, const struct fabric_blob *key) {
    if (handle_wants_key(h))
        plane_lease_key(h->session->plane, h->number, key);
}

static void handle_expired(struct timer *timer, uint64_t now_ns) {
    struct handle *h = container_of(timer, struct handle, expiry);
    struct error why;
    (void)now_ns;
    lease_ended_error(h->lease_id, RDMAD_E_LEASE_EXPIRED, 0, &why);
    handle_end(h, RDMAD_E_LEASE_EXPIRED, why.text);
}

/* Owners renew as often as they like; their lessee's session must not end for it. Only the last
 * deadline counts, so it waits here, not in the queue, while the client does not read. */
static void handle_send_renewal(struct late_event *e) {
    const struct handle *h = container_of(e, struct handle, late_renewal);
    struct session *s = h->session;
    struct rdmad_ev_lease_renewed ev = {
        .lease = h->lease_id,
        .handle = h->number,
        .ttl_ns = clock_left(state_now(s->state), h->deadline_ns),
    };
    session_send(s, RDMAD_EV_LEASE_RENEWED, 0, &ev, sizeof(ev), NULL, 0);
}

static void handle_lasts_until(struct handle *h, uint64_t deadline_ns) {
    h->deadline_ns = deadline_ns;
    if (h->remote)
        timer_set(handle_timers(h), &h->expiry, deadline_ns);
    handle_keep_again(h);
}

void handle_renewed(struct handle *h, uint64_t deadline_ns) {
    if (h->session->closing || !handle_in_use(h))
        return;
    plane_lease_extend(h->session->plane, h->number, deadline_ns);
    handle_lasts_until(h, deadline_ns);
    if (h->stage == HANDLE_USABLE)
        session_tell(h->session, &h->late_renewal);
}

/* The same deadline, asked for again, is not the same to the nanosecond. */
#define SAME_DEADLINE_NS (10 * NSEC_PER_MSEC)

void handle_returned(struct handle *h, uint64_t deadline_ns, uint64_t notify_ref) {
    if (!handle_wants_key(h))
        return;
    bool same = deadline_ns < clock_after(h->deadline_ns, SAME_DEADLINE_NS) &&
                h->deadline_ns < clock_after(deadline_ns, SAME_DEADLINE_NS);
    plane_lease_return(h->session->plane, h->number, deadline_ns, notify_ref);
    handle_lasts_until(h, deadline_ns);
    if (!same && h->stage == HANDLE_USABLE)
        session_tell(h->session, &h->late_renewal);
    handle_keep_once_more(h);
}

/* ---- the end ----------------------------------------------------------------------------- */

static void handle_plane_let_go(void *arg, const struct error *result) {
    struct handle *h = arg;
    (void)result;
    if (--h->pending == 0)
        handle_drained(h);
}

/* Stops the use of the lease; the first reason is the one that counts. */
static void handle_begin_end(struct handle *h, int reason, const char *text) {
    handle_move(h, h->stage == HANDLE_ADDING ? HANDLE_FAILING : HANDLE_ENDING);
    h->reason = reason;
    snprintf(h->text, sizeof(h->text), "%s", text);
    probe_handle_ending(h->session->id, h->number, h->lease_id, reason);
    lessee_told_end(h->session, h->lease_id, h->remote ? h->uri : NULL, text);
    timer_unset(handle_timers(h), &h->expiry);
    handle_keep_stop(h);
    late_event_drop(&h->late_renewal);
    if (h->keeping.done) {
        struct error why;
        error_set(&why, reason, "%s", text);
        waiter_answer(&h->keeping, &why);
    }
    if (h->session->closing)
        return; /* the data plane drops the whole session, handles_release_session goes on */
    h->pending++;
    plane_lease_end(h->session->plane, h->number, reason, handle_plane_let_go, h);
}

void handle_end(struct handle *h, int reason, const char *text) {
    if (handle_in_use(h))
        handle_begin_end(h, reason, text);
}

static void handle_send_end(struct late_event *e) {
    struct handle *h = container_of(e, struct handle, late_end);
    struct session *s = h->session;
    struct rdmad_ev_lease_ended ev = {
        .lease = h->lease_id, .handle = h->number, .reason = h->reason};
    memcpy(ev.text, h->text, sizeof(ev.text));
    session_send(s, RDMAD_EV_LEASE_ENDED, 0, &ev, sizeof(ev), NULL, 0);
    handle_move(h, HANDLE_TOLD);
    quota_discharge(&h->charge);
    list_append(&s->handles_ended, &h->ended_node);
    if (++s->nhandles_ended > HANDLES_ENDED_MAX)
        forget_oldest_ended(s);
}

/* An attach that ended before the client knew of it fails with why it ended. */
static void handle_answer_attach(struct handle *h) {
    struct error why;
    error_set(&why, h->reason, "%s", h->text);
    waiter_answer(&h->attaching, &why);
}

/* Tells the lease of this daemon that h does not use it any more. Returns why nothing was handed
 * over. */
static int settle_attachment(struct handle *h) {
    struct attachment *a = &h->attachment;
    int reason = 0;
    if (!a->lease)
        return 0;
    if (a->stage != ATTACHMENT_HELD) {
        reason = a->reason;
        attachment_stopped(a);
    } else if (h->returned == HANDLE_HANDED_OVER) {
        attachment_hand_over(a);
    } else if (h->stage == HANDLE_ENDING) {
        attachment_release(a);
    } else {
        attachment_drop(a);
    }
    return reason;
}

/* Nothing of the session touches the lease any more. */
static void handle_drained(struct handle *h) {
    struct session *s = h->session;
    assert((h->stage == HANDLE_ENDING || h->stage == HANDLE_FAILING) && h->pending == 0);
    probe_handle_drained(s->id, h->number, h->lease_id, h->reason);
    int reason = settle_attachment(h);

    if (h->returned == HANDLE_HANDED_OVER && reason) {
        struct error why;
        lease_ended_error(h->lease_id, reason, 0, &why);
        waiter_answer(&h->releasing, &why);
    }
    if (h->ops) {
        const struct handle_ops *ops = h->ops;
        h->ops = NULL;
        ops->let_go(h, h->returned && h->stage == HANDLE_ENDING);
    }
    if (h->returned || h->stage == HANDLE_FAILING || s->closing) {
        quota_discharge(&h->charge);
        handle_answer_attach(h);
        if (!s->closing)
            plane_lease_forget(s->plane, h->number);
        handle_destroy(h);
        return;
    }
    handle_move(h, HANDLE_UNTOLD);
    session_tell(s, &h->late_end);
}

void handle_release(struct handle *h, plane_done *done, void *arg) {
    struct error why;
    assert(!h->returned && handle_is_known(h));
    h->returned = HANDLE_RELEASED;
    h->releasing = (struct session_waiter){done, arg};
    if (handle_is_over(h)) {
        if (!h->session->closing)
            plane_lease_forget(h->session->plane, h->number);
        handle_destroy(h);
    } else if (h->stage != HANDLE_ENDING) {
        error_set(&why, RDMAD_E_LEASE_RELEASED, "lease %" PRIu64 " was released by this session",
                  h->lease_id);
        handle_begin_end(h, RDMAD_E_LEASE_RELEASED, why.text);
    }
}

void handle_hand_over(struct handle *h, plane_done *done, void *arg) {
    struct error why;
    assert(!h->returned && h->requested && h->stage == HANDLE_USABLE);
    h->returned = HANDLE_HANDED_OVER;
    h->releasing = (struct session_waiter){done, arg};
    error_set(&why, RDMAD_E_LEASE_RELEASED, "lease %" PRIu64 " was handed over by this session",
              h->lease_id);
    handle_begin_end(h, RDMAD_E_LEASE_RELEASED, why.text);
}

static void handle_release_closing(struct handle *h) {
    switch (h->stage) {
    case HANDLE_NEW:
        if (h->ops)
            h->ops->cancel(h);
        return;
    case HANDLE_UNTOLD:
    case HANDLE_TOLD:
        handle_destroy(h);
        return;
    default:
        if (!h->returned)
            h->returned = HANDLE_RELEASED;
        if (handle_in_use(h))
            handle_begin_end(h, RDMAD_E_CANCELED, "the session ended");
        if (h->pending == 0)
            handle_drained(h);
    }
}

void handles_release_session(struct session *s, plane_done *done, void *arg) {
    uint32_t cursor = 0;
    uint64_t number;
    struct handle *h;

    session_hold(s);
    while ((h = slots_next(&s->handles, &cursor, &number)))
        handle_release_closing(h);
    if (s->handles.used == 0)
        done(arg, &ok);
    else
        s->handles_gone = (struct session_waiter){done, arg};
    session_release(s);
}
