/* SPDX-License-Identifier: MIT */
/*
 * lease.c - the life of a lease at its owner.
 *
 * The happy path: grant, attach, (renew,) release of the attachments, end. The end is the part that
 * must not be wrong: lease_end asks every attachment to stop, each becomes *gone* only when the
 * range is out of its reach (a session: the data plane let go; a peer: its window is closed), and
 * when the last is gone lease_ended runs: owner's event, charges, waiters, in that order.
 *
 * Peers that do not answer are cut when the grace is over, or at the deadline if that comes first.
 * Expiry cuts at once: the windows refuse by their own deadline anyway, closing them makes sure
 * that an access under way stops as well. Attachments may come to their end in any order and from
 * inside the calls here; `busy` keeps the lease while one of its loops runs.
 */
#include "daemon/state/lease.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/probe.h"
#include "daemon/state/lease_terms.h"
#include "daemon/state/part_told.h"
#include "daemon/state/scope.h"
#include <assert.h>
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct error ok;

struct lease_waiter {
    struct list node;
    plane_done *done;
    void *arg;
};

static void attachment_cut(struct attachment *a, int reason);
static void lease_check_ended(struct lease *l);

/* ---- stages ------------------------------------------------------------------------------ */

/* The only places where they change; lease_types.h draws them. */
static void lease_move(struct lease *l, enum lease_stage to) {
    assert(to == l->stage + 1);
    l->stage = to;
}

static void grant_move(struct lease *l, enum lease_grant_stage to) {
    static const unsigned from[] = {
        [LEASE_GRANT_ADDING] = 1u << LEASE_GRANT_NONE,
        [LEASE_GRANT_ADDED] = 1u << LEASE_GRANT_ADDING,
        [LEASE_GRANT_GIVEN_UP] = 1u << LEASE_GRANT_ADDING,
        [LEASE_GRANT_DROPPED] = 1u << LEASE_GRANT_ADDED | 1u << LEASE_GRANT_GIVEN_UP,
    };
    assert(from[to] & 1u << l->grant);
    l->grant = to;
}

static void attachment_move(struct attachment *a, enum attachment_stage to, int reason) {
    assert(to > a->stage);
    a->stage = to;
    a->reason = reason;
    if (to == ATTACHMENT_STOPPING)
        probe_lessee_stopping(a->lease->id, a, a->peer, reason);
    else
        probe_lessee_cut(a->lease->id, a, a->peer, reason);
}

/* ---- grant ------------------------------------------------------------------------------- */

static void lease_expired(struct timer *timer, uint64_t now_ns) {
    (void)now_ns;
    lease_end(container_of(timer, struct lease, expiry), RDMAD_E_LEASE_EXPIRED, NULL, NULL);
}

/* As long as the owner's session lives; it ends by lease_end, which unsets this. */
static void keep_alive(struct timer *timer, uint64_t now_ns) {
    struct lease *l = container_of(timer, struct lease, keep);
    struct error ignored; /* then it runs out */
    (void)now_ns;
    lease_renew(l, l->terms.ttl_ns, &ignored);
}

static int set_keep_alive(struct lease *l) {
    uint64_t now = state_now(l->state);
    if (!(l->terms.flags & RDMAD_LEASE_KEEP_ALIVE))
        return 0;
    return timer_set(&l->state->timers, &l->keep, clock_after(now, l->terms.ttl_ns / 2));
}

static void lease_grace_over(struct timer *timer, uint64_t now_ns);

static void lease_init(struct lease *l, struct pool *pool, const struct lease_terms *terms,
                       uint64_t left_ns) {
    l->state = pool->session->state;
    l->owner = pool->session;
    l->pool = pool;
    l->terms = *terms;
    l->terms.tenant = l->owner->tenant;
    list_init(&l->owner_node);
    list_init(&l->by_id);
    list_init(&l->sibling);
    list_init(&l->children);
    list_init(&l->attachments);
    list_init(&l->behind);
    list_init(&l->waiters);
    timer_init(&l->expiry, lease_expired);
    timer_init(&l->grace, lease_grace_over);
    timer_init(&l->keep, keep_alive);
    l->granted_ns = state_now(l->state);
    l->deadline_ns = clock_after(l->granted_ns, left_ns);
}

/* ---- the data plane knows it ------------------------------------------------------------- */

static void grant_added(void *arg, const struct error *result) {
    struct lease *l = arg;
    struct error why;

    l->busy++;
    grant_move(l, l->grant == LEASE_GRANT_GIVEN_UP ? LEASE_GRANT_DROPPED : LEASE_GRANT_ADDED);
    if (result && result->code) {
        waiter_answer(&l->when_taken, result);
        lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    } else if (l->stage != LEASE_LIVE) {
        lease_ended_error(l->id, l->reason, 0, &why);
        waiter_answer(&l->when_taken, &why);
    } else {
        waiter_answer(&l->when_taken, result);
    }
    l->busy--;
    l->pending--;
    lease_check_ended(l);
}

void lease_when_taken(struct lease *l, plane_done *done, void *arg) {
    assert(l->grant != LEASE_GRANT_NONE && !l->when_taken.done);
    if (l->grant == LEASE_GRANT_ADDED || l->grant == LEASE_GRANT_DROPPED)
        done(arg, &ok);
    else
        l->when_taken = (struct session_waiter){done, arg};
}

static void grant_dropped(void *arg, const struct error *result) {
    struct lease *l = arg;
    (void)result;
    l->pending--;
    lease_check_ended(l);
}

static void add_grant(struct lease *l) {
    grant_move(l, LEASE_GRANT_ADDING);
    l->pending++;
    l->busy++;
    plane_grant_add(l->owner->plane, l->id, grant_added, l);
    l->busy--;
}

/* Nobody reaches the memory any more; a session that closes has told the data plane by itself. */
static void drop_grant(struct lease *l) {
    if (l->grant != LEASE_GRANT_ADDING && l->grant != LEASE_GRANT_ADDED)
        return;
    grant_move(l, l->grant == LEASE_GRANT_ADDED ? LEASE_GRANT_DROPPED : LEASE_GRANT_GIVEN_UP);
    if (!l->owner->plane)
        return;
    l->pending++;
    l->busy++;
    plane_grant_drop(l->owner->plane, l->id, l->reason, grant_dropped, l);
    l->busy--;
}

/* ---- grant, continued -------------------------------------------------------------------- */

int lease_make(struct pool *pool, const struct lease_terms *terms, const struct lease_again *again,
               struct lease **out, struct error *err) {
    struct session *s = pool->session;
    struct state *st = s->state;

    if (state_leaves(st) || s->closing)
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and grants no more leases",
                         state_leaves_or_ends(st));
    struct lease *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a lease");
    lease_init(l, pool, terms, again ? again->left_ns : terms->ttl_ns);

    int rc =
        quota_charge(&st->quota, &s->account, s->uid_account, QUOTA_LEASES, 1, &l->charge, err);
    if (!rc && (timer_set(&st->timers, &l->expiry, l->deadline_ns) || set_keep_alive(l)))
        rc = error_set(err, RDMAD_E_NOMEM, "out of memory for a lease's timer");
    if (!rc)
        rc = again ? lease_table_add_again(st->leases, l, again->id, err)
                   : lease_table_add(st->leases, l, err);
    if (rc) {
        timer_unset(&st->timers, &l->expiry);
        timer_unset(&st->timers, &l->keep);
        quota_discharge(&l->charge);
        free(l);
        return rc;
    }
    list_append(&s->leases, &l->owner_node);
    session_hold(s);
    pool_ref(pool);
    pool->leases++;
    probe_lease_granted(l->id, s->id, s->uid, l->terms.length, l->terms.rights,
                        clock_left(l->granted_ns, l->deadline_ns));
    *out = l;
    return 0;
}

int lease_put(struct pool *pool, const struct lease_terms *terms, const struct lease_again *again,
              struct lease **out, struct error *err) {
    int rc = lease_make(pool, terms, again, out, err);
    if (!rc)
        add_grant(*out);
    return rc;
}

int lease_grant(struct pool *pool, const struct lease_terms *terms, struct lease **out,
                struct error *err) {
    int rc = lease_check_terms(pool, terms, err);
    return rc ? rc : lease_put(pool, terms, NULL, out, err);
}

void lease_uri(const struct lease *l, char uri[RDMAD_URI_MAX + 1]) {
    struct rdmad_uri u = {.port = l->state->listen_port};
    snprintf(u.host, sizeof(u.host), "%s", l->state->listen_host);
    if (l->terms.name[0]) {
        memcpy(u.name, l->terms.name, sizeof(u.name));
    } else {
        u.lease = l->id;
        memcpy(u.key, l->key, sizeof(u.key));
    }
    if (rdmad_uri_print(&u, uri, RDMAD_URI_MAX + 1) < 0)
        uri[0] = '\0'; /* cannot be: host, name and key are bounded to fit */
}

/* ---- attachments ------------------------------------------------------------------------- */

/* What the devices may have to register for one more peer is the owner's to answer for. */
static int charge_registered(const struct lease *l, struct quota_charge *out, struct error *err) {
    struct session *s = l->owner;
    struct error why;
    int rc = quota_charge(&l->state->quota, &s->account, s->uid_account, QUOTA_REGISTERED,
                          l->terms.length, out, &why);
    if (rc)
        error_set(err, rc, "lease %" PRIu64 ": at its owner, %s", l->id, why.text);
    return rc;
}

int lease_attach(struct lease *l, const struct lessee *who, struct attachment *a,
                 const struct attachment_ops *ops, struct error *err) {
    struct quota_charge charge = {0};
    uint64_t now = state_now(l->state);
    int rc;

    if (l->stage != LEASE_LIVE)
        return lease_ended_error(l->id, l->reason, 0, err);
    if (now >= l->deadline_ns) /* the timer is about to say so */
        return lease_ended_error(l->id, RDMAD_E_LEASE_EXPIRED, now - l->deadline_ns, err);
    if (state_leaves(l->state))
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and lets nobody attach to lease %" PRIu64,
                         state_leaves(l->state), l->id);
    if ((rc = lease_check_scope(l, who, err)))
        return rc;
    if (l->terms.max_attaches && l->attached >= l->terms.max_attaches)
        return error_set(err, RDMAD_E_LIMIT,
                         "lease %" PRIu64 " has %" PRIu32 " of the %" PRIu32
                         " lessees that its owner allows; wait until one has released it",
                         l->id, l->attached, l->terms.max_attaches);
    if (who->peer && (rc = charge_registered(l, &charge, err)))
        return rc;
    *a = (struct attachment){.lease = l,
                             .ops = ops,
                             .peer = who->peer,
                             .since_ns = now,
                             .told_ns = l->deadline_ns,
                             .charge = charge};
    list_append(&l->attachments, &a->node);
    l->attached++;
    l->attached_total++;
    probe_lease_attached(l->id, a, who->session ? who->session->id : 0, a->peer, l->attached);
    return 0;
}

/* Nothing of this attachment reaches the range any more. */
static void attachment_gone(struct attachment *a) {
    struct lease *l = a->lease;
    assert(a->stage == ATTACHMENT_CUT && !a->window && l->attached > 0);
    lease_audit_keep(l, a);
    quota_discharge(&a->charge);
    list_remove(&a->node);
    l->attached--;
    a->lease = NULL;
    probe_lessee_gone(l->id, a, a->peer, a->reason);

    l->busy++;
    a->ops->gone(a, a->reason); /* may free a */
    if (l->requested)           /* nobody else can come for it */
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    l->busy--;
    lease_check_ended(l);
}

static void lease_window_closed(void *arg, const struct error *result) {
    (void)result; /* a window that could not be opened is closed all the same */
    attachment_gone(arg);
}

/* Takes the range out of its reach, whether it answered or not. */
static void attachment_cut(struct attachment *a, int reason) {
    if (a->stage == ATTACHMENT_CUT)
        return;
    attachment_move(a, ATTACHMENT_CUT, reason);
    if (!a->window) {
        attachment_gone(a);
        return;
    }
    struct plane_window *window = a->window;
    a->window = NULL;
    plane_window_close(window, reason, lease_window_closed, a);
}

void attachment_stopped(struct attachment *a) {
    if (a->stage != ATTACHMENT_HELD)
        attachment_cut(a, a->reason);
}

void attachment_drop(struct attachment *a) {
    attachment_cut(a, a->stage == ATTACHMENT_HELD ? RDMAD_E_LEASE_RELEASED : a->reason);
}

void attachment_release(struct attachment *a) {
    struct lease *l = a->lease;
    uint32_t ends_after = l->terms.ends_after;

    if (a->stage == ATTACHMENT_CUT)
        return;
    l->releases++;
    bool last = l->terms.max_attaches == 1 || (ends_after && l->releases >= ends_after);
    int reason = l->stage == LEASE_LIVE ? RDMAD_E_LEASE_RELEASED : l->reason;
    if (a->stage == ATTACHMENT_HELD) /* so that the end below does not ask it to stop */
        attachment_move(a, ATTACHMENT_STOPPING, reason);
    a->reason = reason;
    l->busy++;
    if (last)
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
    attachment_cut(a, a->reason);
    l->busy--;
    lease_check_ended(l);
}

bool attachment_hand_over(struct attachment *a) {
    struct lease *l = a->lease;
    bool handed = l->requested && l->stage == LEASE_LIVE && a->stage != ATTACHMENT_CUT;
    l->handed_over |= handed;
    attachment_release(a);
    return handed;
}

/* ---- renew ------------------------------------------------------------------------------- */

/* For itself, its lessees, and those of its parts that would outlive it, 256 at most. */
static void lease_set_deadline(struct lease *l, uint64_t deadline_ns) {
    l->deadline_ns = deadline_ns;
    probe_lease_renewed(l->id, clock_left(state_now(l->state), deadline_ns));
    renewal_tell(leases_renewals(l->state->leases), l);
    l->busy++;
    list_for_each (node, &l->children) {
        struct lease *child = list_entry(node, struct lease, sibling);
        if (child->stage != LEASE_LIVE || child->deadline_ns <= deadline_ns)
            continue;
        timer_set(&l->state->timers, &child->expiry, deadline_ns); /* it is set: needs no memory */
        lease_set_deadline(child, deadline_ns);
        part_tell(child);
    }
    l->busy--;
}

int lease_renew(struct lease *l, uint64_t ttl_ns, struct error *err) {
    uint64_t now = state_now(l->state);
    int rc;

    if (l->stage != LEASE_LIVE)
        return lease_ended_error(l->id, l->reason, 0, err);
    if (now >= l->deadline_ns)
        return lease_ended_error(l->id, RDMAD_E_LEASE_EXPIRED, now - l->deadline_ns, err);
    if ((rc = lease_check_ttl(l->state, l->terms.flags, ttl_ns, err)))
        return rc;

    uint64_t deadline = clock_after(now, ttl_ns);
    if (timer_set(&l->state->timers, &l->expiry, deadline))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a lease's timer");
    l->terms.ttl_ns = ttl_ns;
    set_keep_alive(l); /* without memory for it it runs out, and its owner can still renew it */
    lease_set_deadline(l, deadline);
    return 0;
}

int lease_keep(struct lease *l, struct error *err) {
    uint64_t left = clock_left(state_now(l->state), l->deadline_ns);
    if (!(l->terms.flags & RDMAD_LEASE_RENEWABLE))
        return error_set(err, RDMAD_E_PERM,
                         "lease %" PRIu64 " was granted without RDMAD_LEASE_RENEWABLE: only its "
                         "owner can renew it",
                         l->id);
    if (l->stage == LEASE_LIVE && left > l->terms.ttl_ns / 2)
        return 0;
    return lease_renew(l, l->terms.ttl_ns, err);
}

/* ---- end --------------------------------------------------------------------------------- */

/* Runs step for every attachment. One may be gone, with others, before its step returns, so the
 * walk never holds on to a node. */
static void attachments_walk(struct lease *l, void (*step)(struct attachment *a)) {
    struct list todo = LIST_INIT(todo);
    struct list *node;
    list_splice(&todo, &l->attachments);
    while ((node = list_pop(&todo))) {
        list_append(&l->attachments, node);
        step(list_entry(node, struct attachment, node));
    }
}

static void attachment_stop(struct attachment *a) {
    if (a->stage != ATTACHMENT_HELD)
        return;
    attachment_move(a, ATTACHMENT_STOPPING, a->lease->reason);
    a->ops->stop(a, a->lease->reason);
}

/* How many peers still have a window. */
static unsigned windows_open(const struct lease *l) {
    unsigned n = 0;
    list_for_each (node, &l->attachments)
        n += list_entry(node, struct attachment, node)->window != NULL;
    return n;
}

/* Closes its window if that is still open, answered or not. */
static void attachment_cut_window(struct attachment *a) {
    if (a->window)
        attachment_cut(a, a->lease->reason);
}

static void lease_grace_over(struct timer *timer, uint64_t now_ns) {
    struct lease *l = container_of(timer, struct lease, grace);
    unsigned late = windows_open(l);
    (void)now_ns;
    if (!late)
        return;
    LOG_LIMITED_OF(
        log_of_user(session_user_id(l->owner)), NOTICE,
        ("lease %" PRIu64 ": %u lessees did not stop in time and are cut off", l->id, late),
        FIELD_U64("LEASE", l->id));
    l->busy++;
    attachments_walk(l, attachment_cut_window);
    l->busy--;
    lease_check_ended(l);
}

/* Peers get the grace to drain what is in flight, but never more time than the lease had. */
static void wait_or_cut(struct lease *l) {
    struct state *st = l->state;
    uint64_t until = clock_after(state_now(st), st->config->lease_revoke_grace_ms * NSEC_PER_MSEC);
    if (until > l->deadline_ns)
        until = l->deadline_ns;
    if (!windows_open(l))
        return;
    if (l->reason == RDMAD_E_LEASE_EXPIRED || timer_set(&st->timers, &l->grace, until))
        attachments_walk(l, attachment_cut_window);
}

/* Nobody reaches the memory any more: say so, give everything back. */
static void lease_ended(struct lease *l) {
    struct session *owner = l->owner;
    struct lease *parent = l->parent;
    struct list waiters = LIST_INIT(waiters);
    struct list *node;

    assert(list_empty(&l->attachments) && list_empty(&l->children) && !l->pending);
    lease_move(l, LEASE_ENDED);
    timer_unset(&l->state->timers, &l->grace);
    LOG_LIMITED_OF(log_of_user(session_user_id(owner)), INFO,
                   ("lease %" PRIu64 " ended: %s", l->id, error_text(l->reason)),
                   FIELD_U64("LEASE", l->id), FIELD_U64("SESSION", owner->id),
                   FIELD_U64("ATTACHED", l->attached_total),
                   FIELD_U64("BYTES_READ", l->audit.bytes_read),
                   FIELD_U64("BYTES_WRITTEN", l->audit.bytes_written));
    if (l->ended)
        l->ended(l->ended_arg, l);
    lease_table_retire(l->state->leases, l);
    list_remove(&l->owner_node);
    l->pool->leases--;
    pool_unref(l->pool);
    probe_lease_ended(l->id, l->reason, l->attached_total, l->audit.bytes_read,
                      l->audit.bytes_written);
    list_splice(&waiters, &l->waiters);
    list_remove(&l->sibling);
    for (struct lease *above = parent; above; above = above->parent)
        above->descendants--;
    lease_tell_owner(l);

    while ((node = list_pop(&waiters))) {
        struct lease_waiter *w = list_entry(node, struct lease_waiter, node);
        w->done(w->arg, &ok);
        free(w);
    }
    if (list_empty(&owner->leases))
        waiter_answer(&owner->leases_gone, &ok);
    if (parent)
        lease_check_ended(parent);
    session_release(owner);
}

static void lease_check_ended(struct lease *l) {
    if (l->stage != LEASE_ENDING || l->busy || !list_empty(&l->attachments) ||
        !list_empty(&l->children))
        return;
    drop_grant(l);
    if (!l->pending)
        lease_ended(l);
}

/* Each may be gone, with children of its own, before its end returns. */
static void end_children(struct lease *l) {
    struct list todo = LIST_INIT(todo);
    struct list *node;
    list_splice(&todo, &l->children);
    while ((node = list_pop(&todo))) {
        list_append(&l->children, node);
        lease_end(list_entry(node, struct lease, sibling), l->reason, NULL, NULL);
    }
}

static void add_waiter(struct lease *l, plane_done *done, void *arg) {
    bool full = l->nwaiters >= LEASE_WAITERS_MAX;
    struct lease_waiter *w = full ? NULL : malloc(sizeof(*w));
    struct error err;
    if (full) {
        error_set(&err, RDMAD_E_BUSY,
                  "lease %" PRIu64 " is ending, and %u calls wait for that already; wait for one "
                  "of them",
                  l->id, l->nwaiters);
        done(arg, &err);
        return;
    }
    if (!w) {
        error_set(&err, RDMAD_E_NOMEM,
                  "lease %" PRIu64 " is ending, but there is no memory to tell when it has", l->id);
        done(arg, &err);
        return;
    }
    *w = (struct lease_waiter){.done = done, .arg = arg};
    list_append(&l->waiters, &w->node);
    l->nwaiters++;
}

void lease_end(struct lease *l, int reason, plane_done *done, void *arg) {
    if (done)
        add_waiter(l, done, arg);
    if (l->stage != LEASE_LIVE)
        return;
    lease_move(l, LEASE_ENDING);
    l->reason = reason;
    probe_lease_ending(l->id, reason, l->attached);
    timer_unset(&l->state->timers, &l->expiry);
    timer_unset(&l->state->timers, &l->keep);
    renewal_end(l);
    names_remove(&l->name);

    l->busy++;
    end_children(l);
    attachments_walk(l, attachment_stop);
    wait_or_cut(l);
    l->busy--;
    lease_check_ended(l);
}

void leases_end_session(struct session *s, int reason, plane_done *done, void *arg) {
    struct list todo = LIST_INIT(todo);
    struct list *node;

    session_hold(s);
    leases_forget_untold(s);
    list_splice(&todo, &s->leases);
    while ((node = list_pop(&todo))) {
        list_append(&s->leases, node);
        lease_end(list_entry(node, struct lease, owner_node), reason, NULL, NULL);
    }
    if (list_empty(&s->leases))
        done(arg, &ok);
    else
        s->leases_gone = (struct session_waiter){done, arg};
    session_release(s);
}
