/* SPDX-License-Identifier: MIT */
/*
 * return.c - one timer a peer: while it is lost, until it is dialled again; while it is up, until
 * those are asked for again that it did not have yet; while it leaves, until its lanes are looked
 * at again.
 */
#include "daemon/peer/lessee/return.h"
#include "common/errors.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/dial.h"
#include "daemon/peer/connect/redial.h"
#include "daemon/peer/control/admit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/lessee/key.h"
#include "daemon/peer/tables.h"
#include "daemon/state/origin.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* The first pause; each is twice as long, up to the second; and up to half as long again, by the
 * clock's last digits, so that not all lessees of a daemon come at once. */
#define RETURN_PAUSE_NS (10 * NSEC_PER_MSEC)
#define RETURN_PAUSE_MAX_NS (250 * NSEC_PER_MSEC)
#define REST_LOOK_NS (2 * NSEC_PER_MSEC) /* how often a peer that leaves is looked at */

static struct return_state *return_of(struct peer *p) {
    return &tables_of(p)->returning;
}

/* Without memory for a timer they end after peer.return_ms. */
static void return_set(struct peer *p, uint64_t pause_ns) {
    const struct state *st = p->peers->state;
    timer_set(&p->peers->state->timers, &return_of(p)->again, clock_after(state_now(st), pause_ns));
}

static void return_set_longer(struct peer *p) {
    struct return_state *r = return_of(p);
    return_set(p, r->pause_ns + state_now(p->peers->state) % (r->pause_ns / 2));
    r->pause_ns = 2 * r->pause_ns < RETURN_PAUSE_MAX_NS ? 2 * r->pause_ns : RETURN_PAUSE_MAX_NS;
}

static bool return_is_awaited(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    const struct claim *c;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (c->stage == CLAIM_AWAY)
            return true;
    return false;
}

static bool return_has_away(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    const struct claim *c;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (claim_is_away(c))
            return true;
    return false;
}

bool peers_await(struct peers *ps, const struct rdmad_uri *uri) {
    list_for_each (node, &ps->all) {
        struct peer *p = list_entry(node, struct peer, node);
        if (p->outgoing && p->port == uri->port && !strcmp(p->host, uri->host) &&
            return_has_away(p))
            return true;
    }
    return false;
}

/* ---- the peer is lost ---------------------------------------------------------------------- */

/* Whether p, lost for that reason, is dialled again for leases. */
static bool return_by_peer(struct peer *p, int why) {
    return redial_is_worth(p, why) && !return_of(p)->unwanted;
}

/* Whether its session wants the lease again, and can ask for it by the same words. */
static bool return_of_claim(const struct claim *c) {
    return origin_is_set(c->handle->session) && handle_wants_key(c->handle) && !c->requested &&
           c->stage != CLAIM_REVOKED;
}

bool return_claim(struct claim *c, const struct error *why) {
    struct state *st = claim_state_of(c);
    uint64_t bound_ns = st->config->peer_return_ms * NSEC_PER_MSEC;
    assert(claim_is_attached(c));
    if (!return_by_peer(c->peer, why->code) || !return_of_claim(c))
        return false;
    if (c->stage == CLAIM_LIVE &&
        timer_set(&st->timers, &c->timeout, clock_after(state_now(st), bound_ns)))
        return false;
    if (c->stage != CLAIM_AWAY)
        claim_enter(c, CLAIM_AWAY);
    timer_unset(&st->timers, &c->key_again);
    c->keys_asked = 0;
    c->ttl = CLAIM_TTL_KNOWN;
    memcpy(c->trouble, why->text, sizeof(c->trouble));
    return true;
}

void return_begin(struct peer *p) {
    assert(p->stage == PEER_LOST);
    if (return_is_awaited(p))
        return_set_longer(p);
}

/* ---- it is dialled again ------------------------------------------------------------------- */

/* False: the handle ends, as n has no room. */
static bool return_move(struct claim *c, struct peer *n) {
    struct peer *was = c->peer;
    uint64_t ref = slots_add(&tables_of(n)->claims, c);
    struct error why;
    if (!ref) {
        error_set(&why, RDMAD_E_PEER_LOST,
                  "%.100s has come back, and there is no room for lease %" PRIu64
                  " among the %" PRIu32 " that are in use there",
                  n->dialled, c->spec.lease_id, tables_of(n)->claims.used);
        handle_end(c->handle, why.code, why.text);
        return false;
    }
    slots_remove(&tables_of(was)->claims, c->ref);
    peer_unneed(was, PEER_NEED_ACCESS);
    peer_need(n, PEER_NEED_ACCESS);
    c->ref = ref;
    c->peer = n;
    return true;
}

static void return_move_all(struct peer *p, struct peer *n) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (c->stage == CLAIM_AWAY)
            return_move(c, n);
    return_of(n)->pause_ns = return_of(p)->pause_ns;
    liveness_update(n);
    if (n->stage == PEER_UP)
        return_ask_all(n);
}

static void return_dial(struct peer *p) {
    struct peers *ps = p->peers;
    struct error err;
    struct peer *n;
    if (ps->stopping || !return_is_awaited(p))
        return;
    if (peer_dial(ps, p->host, p->port, p->dialler, &n, &err)) {
        return_set_longer(p);
        return;
    }
    peer_hold(p);
    return_move_all(p, n);
    peer_release(p);
}

/* ---- it is back ---------------------------------------------------------------------------- */

static void return_ask(struct claim *c) {
    struct peer *p = c->peer;
    struct error why;
    if (lane_return(c->lane, p, &why) || admit_session(p, c->handle->session, &why)) {
        handle_end(c->handle, RDMAD_E_PEER_LOST, why.text);
        return;
    }
    claim_enter(c, CLAIM_ASKED_AGAIN);
    claim_send_attach(c);
}

void return_ask_all(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    assert(p->stage == PEER_UP);
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (c->stage == CLAIM_AWAY && handle_wants_key(c->handle))
            return_ask(c);
}

static void return_refused(struct claim *c, const struct peer_attach_rep *m) {
    struct peer *p = c->peer;
    claim_enter(c, CLAIM_AWAY);
    memcpy(c->trouble, m->text, sizeof(c->trouble));
    if (rdmad_error_ends_lease(m->status) && m->status != RDMAD_E_PEER_LOST)
        handle_end(c->handle, m->status, m->text);
    else if (!redial_may_mend(m->status))
        handle_end(c->handle, RDMAD_E_PEER_LOST, m->text);
    else if (!timer_is_set(&return_of(p)->again))
        return_set_longer(p);
}

static void return_granted(struct claim *c, const struct peer_attach_rep *m) {
    struct peer *p = c->peer;
    struct plane_lease_spec *spec = &c->spec;
    struct error why;

    claim_enter(c, CLAIM_LIVE);
    timer_unset(&claim_state_of(c)->timers, &c->timeout);
    c->owner_ref = m->owner_ref;
    c->trouble[0] = '\0';
    return_of(p)->pause_ns = RETURN_PAUSE_NS;
    if (m->lease != spec->lease_id || m->length != spec->length ||
        (m->rights & spec->rights) != spec->rights) {
        error_set(&why, RDMAD_E_PEER_LOST,
                  "%s at %s has come back, and lease %" PRIu64 " is not what it was", p->name,
                  p->address, spec->lease_id);
        handle_end(c->handle, why.code, why.text);
        return;
    }
    spec->deadline_ns = clock_after(c->asked_ns, m->ttl_ns);
    handle_returned(c->handle, spec->deadline_ns, m->owner_ref);
    lane_relied_on(c->lane);
    if (m->key.size && c->via == lane_number(c->lane))
        handle_key(c->handle, &m->key);
    else if (lane_number(c->lane) && handle_wants_key(c->handle))
        key_ask(c);
}

void return_take(struct claim *c, const struct peer_attach_rep *m) {
    assert(c->stage == CLAIM_ASKED_AGAIN);
    if (m->status)
        return_refused(c, m);
    else
        return_granted(c, m);
}

/* ---- it leaves ----------------------------------------------------------------------------- */

static void return_look_at_rest(struct peer *p) {
    struct return_state *r = return_of(p);
    if (p->ending)
        return;
    if (lanes_are_still(p)) {
        peer_end(p, &r->why);
        return;
    }
    lanes_rest(p);
    return_set(p, REST_LOOK_NS);
}

bool return_rest(struct peer *p, const struct error *why) {
    struct return_state *r = return_of(p);
    uint32_t cursor = 0;
    uint64_t ref;
    const struct claim *c;
    bool any = false;
    if (!p->outgoing || p->stage != PEER_UP || !return_by_peer(p, why->code))
        return false;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        any |= claim_is_attached(c) && return_of_claim(c);
    if (!any || r->resting)
        return any;
    r->resting = true;
    r->why = *why;
    return_look_at_rest(p);
    return true;
}

/* ---- its timer ------------------------------------------------------------------------------ */

static void return_again(struct timer *timer, uint64_t now_ns) {
    struct peer *p = &container_of(timer, struct peer_tables, returning.again)->peer;
    (void)now_ns;
    if (p->stage == PEER_LOST)
        return_dial(p);
    else if (return_of(p)->resting)
        return_look_at_rest(p);
    else if (p->stage == PEER_UP)
        return_ask_all(p);
}

void return_init(struct peer *p) {
    timer_init(&return_of(p)->again, return_again);
    return_of(p)->pause_ns = RETURN_PAUSE_NS;
}

void return_forget(struct peer *p) {
    timer_unset(&p->peers->state->timers, &return_of(p)->again);
}
