/* SPDX-License-Identifier: MIT */
/*
 * claim.c - claims: made, failed, given back, handed over, freed.
 *
 * Each step before the handle is the data plane's can fail, time out or be given up because the
 * session closes: claim_fail undoes what was done, at the owner too. If an attach is granted after
 * we gave it up, it is released at once, as one that the lessee never had: so a lease for one
 * lessee does not end.
 */
#include "daemon/peer/lessee/claim.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/liveness.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct state *claim_state_of(const struct claim *c) {
    return c->peer->peers->state;
}

struct claim *claim_find(struct peer *p, uint64_t ref) {
    return slots_get(&tables_of(p)->claims, ref);
}

struct session *claim_session(struct peer *p, uint64_t ref) {
    const struct claim *c = claim_find(p, ref);
    return c && c->handle ? c->handle->session : NULL;
}

void claim_free(struct claim *c) {
    struct peer *p = c->peer;
    timer_unset(&claim_state_of(c)->timers, &c->timeout);
    timer_unset(&claim_state_of(c)->timers, &c->key_again);
    list_remove(&c->call.node);
    quota_discharge(&c->charge);
    if (c->lane)
        lane_leave(c->lane, &c->lane_user);
    slots_remove(&tables_of(p)->claims, c->ref);
    peer_unneed(p, PEER_NEED_ACCESS);
    free(c);
    liveness_update(p);
    peer_check_free(p);
}

void claim_enter(struct claim *c, enum claim_stage stage) {
    static const unsigned from[] = {
        [CLAIM_ASKED] = 1u << CLAIM_WAITING,
        [CLAIM_LINKING] = 1u << CLAIM_ASKED,
        [CLAIM_LIVE] = 1u << CLAIM_LINKING | 1u << CLAIM_ASKED_AGAIN,
        [CLAIM_REVOKED] = 1u << CLAIM_LINKING | 1u << CLAIM_LIVE,
        [CLAIM_AWAY] = 1u << CLAIM_LIVE | 1u << CLAIM_ASKED_AGAIN,
        [CLAIM_ASKED_AGAIN] = 1u << CLAIM_AWAY,
        [CLAIM_HANDING] = 1u << CLAIM_LIVE,
        [CLAIM_REFUSED] = 1u << CLAIM_ASKED,
        [CLAIM_ABANDONED] = 1u << CLAIM_ASKED | 1u << CLAIM_ASKED_AGAIN,
    };
    assert(from[stage] & 1u << c->stage);
    c->stage = stage;
}

void claim_send_attach(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_ATTACH_REQ};
    c->via = lane_number_for(c->peer, c->handle->session);
    m.attach_req.lessee_ref = c->ref;
    m.attach_req.lease = c->uri.lease;
    memcpy(m.attach_req.key, c->uri.key, sizeof(m.attach_req.key));
    memcpy(m.attach_req.name, c->uri.name, sizeof(m.attach_req.name));
    m.attach_req.uid = c->user.uid;
    m.attach_req.via = c->via;
    c->asked_ns = state_now(claim_state_of(c));
    peer_send(c->peer, &m);
}

void claim_send_release(struct claim *c, uint32_t returned) {
    struct peer_msg m = {.type = PEER_MSG_RELEASE,
                         .release = {.owner_ref = c->owner_ref, .returned = returned}};
    peer_send(c->peer, &m);
}

static void claim_send_stopped(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_STOPPED, .stopped.owner_ref = c->owner_ref};
    peer_send(c->peer, &m);
}

/* The owner's daemon cannot see what its device does for us. */
static void claim_say_use(struct claim *c) {
    const struct fabric_audit *use = &c->handle->attachment.audit;
    uint64_t last = __atomic_load_n(&use->last_use_ns, __ATOMIC_RELAXED);
    struct peer_msg m = {.type = PEER_MSG_USED, .used.owner_ref = c->owner_ref};
    if (!last || last == c->said_ns)
        return;
    c->said_ns = last;
    m.used.bytes_read = __atomic_load_n(&use->bytes_read, __ATOMIC_RELAXED);
    m.used.bytes_written = __atomic_load_n(&use->bytes_written, __ATOMIC_RELAXED);
    m.used.ops = __atomic_load_n(&use->ops, __ATOMIC_RELAXED);
    peer_send(c->peer, &m);
}

void claims_say_use(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&tables_of(p)->claims, &cursor, &ref)))
        if (claim_is_known(c))
            claim_say_use(c);
}

/* Its answer is still to come, and h goes before. */
static void claim_abandon(struct claim *c, struct handle *h) {
    claim_enter(c, CLAIM_ABANDONED);
    c->handle = NULL;
    quota_keep(&h->charge, QUOTA_QUESTIONS, &c->charge);
    timer_unset(&claim_state_of(c)->timers, &c->timeout);
    struct lane *lane = c->lane;
    c->lane = NULL;
    if (lane)
        lane_leave(lane, &c->lane_user);
}

/* The handle, which is NEW, is freed, too. */
void claim_fail(struct claim *c, const struct error *why) {
    struct session_waiter done = c->done;
    struct handle *h = c->handle;
    struct error copy = *why;

    assert(h && h->stage == HANDLE_NEW);
    c->handle = NULL;
    if (c->stage == CLAIM_ASKED && c->peer->stage == PEER_UP) {
        claim_abandon(c, h);
    } else {
        if (c->stage == CLAIM_REVOKED)
            claim_send_stopped(c);
        else if (c->stage == CLAIM_LINKING)
            claim_send_release(c, PEER_NOT_RETURNED);
        claim_free(c);
    }
    h->ops = NULL;
    handle_free(h);
    done.done(done.arg, &copy);
}

/* ---- the handle's end -------------------------------------------------------------------- */

static void claim_cancel(struct handle *h) {
    struct error why;
    error_set(&why, RDMAD_E_CANCELED, "the session ended during the attach");
    claim_fail(h->peer_record, &why);
}

/* The owner's answer is awaited without the handle. */
static void claim_hand_over(struct claim *c, struct handle *h) {
    struct state *st = claim_state_of(c);
    claim_enter(c, CLAIM_HANDING);
    list_append(&h->session->calls, &c->call.node);
    c->handing = h->releasing;
    h->releasing.done = NULL;
    c->handle = NULL;
    timer_unset(&st->timers, &c->key_again);
    struct lane *lane = c->lane;
    c->lane = NULL;
    lane_leave(lane, &c->lane_user);
    /* An owner that never says so must not keep our session; without memory for it, it may. */
    timer_set(&st->timers, &c->timeout, clock_after(state_now(st), c->timeout_ns));
    claim_send_release(c, PEER_HANDED_OVER);
}

void claim_handed(struct claim *c, const struct error *result) {
    assert(c->stage == CLAIM_HANDING);
    struct session_waiter w = c->handing;
    claim_free(c);
    w.done(w.arg, result);
}

/* The session closes and does not wait for the owner's answer. The memory is the owner's all the
 * same. */
static void claim_give_up_handing(struct session_call *call, const struct error *why) {
    claim_handed(container_of(call, struct claim, call), why);
}

static void claim_let_go(struct handle *h, bool returned) {
    struct claim *c = h->peer_record;
    struct session_waiter w = h->releasing;
    bool handed_over = h->returned == HANDLE_HANDED_OVER, revoked = c->stage == CLAIM_REVOKED;

    assert(claim_is_attached(c));
    if (c->stage == CLAIM_ASKED_AGAIN && c->peer->stage == PEER_UP) {
        claim_abandon(c, h);
        return;
    }
    if (!claim_is_known(c)) {
        claim_free(c);
        return;
    }
    c->said_ns = CLOCK_NEVER; /* the last use may have been at the same moment */
    claim_say_use(c);
    if (handed_over && !revoked && c->peer->stage == PEER_UP && !h->session->closing) {
        claim_hand_over(c, h);
        return;
    }
    if (revoked)
        claim_send_stopped(c);
    else
        claim_send_release(c, handed_over ? PEER_HANDED_OVER : returned);
    struct error why = c->revoked_why;
    if (handed_over) {
        if (!revoked)
            error_set(&why, RDMAD_E_PEER_LOST, "the connection to %s was lost", c->peer->name);
        h->releasing.done = NULL;
    }
    claim_free(c);
    if (handed_over)
        w.done(w.arg, &why);
}

/* AWAY the owner's number of it is that of before; once it is back it is asked by its new one. */
static void claim_keep(struct handle *h) {
    const struct claim *c = h->peer_record;
    struct peer_msg m = {.type = PEER_MSG_KEEP_REQ, .keep_req.owner_ref = c->owner_ref};
    if (claim_is_known(c))
        peer_send(c->peer, &m);
}

static const struct handle_ops claim_ops = {
    .cancel = claim_cancel, .let_go = claim_let_go, .keep = claim_keep};

void claim_give_handle(struct claim *c) {
    c->handle->ops = &claim_ops;
    c->handle->peer_record = c;
    c->handle->requested = c->requested;
}

void claim_usable(struct claim *c) {
    assert(c->lane);
    timer_unset(&claim_state_of(c)->timers, &c->timeout);
    claim_enter(c, CLAIM_LIVE);
    c->spec.lane = lane_plane(c->lane);
    handle_attach_remote(c->handle, &c->spec, &claim_ops, c, c->done.done, c->done.arg);
}

bool claim_is_closing(struct claim *c) {
    if (!c->handle->session->closing)
        return false;
    claim_cancel(c->handle);
    return true;
}

/* ---- a new one ----------------------------------------------------------------------------- */

/* What went wrong last on the way to a link or a key; "": nothing did. */
static const char *claim_trouble(const struct claim *c) {
    if (c->stage != CLAIM_LINKING)
        return "";
    return lane_number(c->lane) ? c->trouble : lane_trouble(c->lane)->text;
}

static void claim_why_late(const struct claim *c, struct error *why) {
    static const char *const waiting[] = {
        [CLAIM_WAITING] = "connecting to it",
        [CLAIM_ASKED] = "waiting for its answer",
        [CLAIM_LINKING] = "opening a link to it",
    };
    const char *trouble = claim_trouble(c);
    const char *silent = c->stage == CLAIM_LINKING ? lane_silent(c->lane) : "";
    uint64_t ms = c->timeout_ns / NSEC_PER_MSEC;
    if (trouble[0])
        error_set(why, RDMAD_E_TIMEOUT,
                  "attaching took longer than %" PRIu64 " ms, opening a link: %s", ms, trouble);
    else if (silent[0])
        error_set(why, RDMAD_E_TIMEOUT,
                  "attaching took longer than %" PRIu64 " ms, opening a link to the daemon at "
                  "%.80s: %s",
                  ms, c->peer->dialled, silent);
    else
        error_set(why, RDMAD_E_TIMEOUT,
                  "attaching to a lease of the daemon at %.100s took longer than %" PRIu64
                  " ms, %s; try again or allow more time",
                  c->peer->dialled, ms, waiting[c->stage]);
}

static void claim_stays_away(struct claim *c) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST,
              "the daemon at %.100s was lost, and did not give lease %" PRIu64
              " again within %" PRIu64 " ms (peer.return_ms)%s%.150s",
              c->peer->dialled, c->spec.lease_id, claim_state_of(c)->config->peer_return_ms,
              c->trouble[0] ? ": " : "", c->trouble);
    handle_end(c->handle, why.code, why.text);
}

static void claim_timed_out(struct timer *timer, uint64_t now_ns) {
    struct claim *c = container_of(timer, struct claim, timeout);
    struct error why;
    (void)now_ns;
    if (claim_is_away(c)) {
        claim_stays_away(c);
        return;
    }
    if (c->stage == CLAIM_HANDING) {
        error_set(&why, RDMAD_E_TIMEOUT,
                  "the daemon at %.100s did not say within %" PRIu64 " ms whether it has the "
                  "memory; ask the service",
                  c->peer->dialled, c->timeout_ns / NSEC_PER_MSEC);
        claim_handed(c, &why);
        return;
    }
    claim_why_late(c, &why);
    claim_fail(c, &why);
}

/* Half of a peer's places is the most that one user can take, with however many sessions. */
static int claim_check_share(struct peer *p, struct user_id user, struct error *err) {
    const struct slots *claims = &tables_of(p)->claims;
    uint32_t cursor = 0, most = claims->max / 2;
    uint64_t ref;
    const struct claim *c;
    unsigned n = 0;

    if (claims->used < most)
        return 0;
    while ((c = slots_next(claims, &cursor, &ref)))
        n += user_id_same(c->user, user);
    if (n < most)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "uid %u has %u leases at %.100s, at most %u of one daemon are for one uid; "
                     "release some, or allow more with peer.attaches",
                     (unsigned)user.uid, n, p->dialled, most);
}

struct claim *claim_new(struct peer *p, struct handle *h, const struct rdmad_uri *uri,
                        uint64_t timeout_ns, struct error *err) {
    struct state *st = p->peers->state;
    struct slots *claims = &tables_of(p)->claims;
    assert(p->outgoing && h->stage == HANDLE_NEW);
    if (claim_check_share(p, session_user_id(h->session), err) ||
        quota_room(&st->quota, h->session->uid_account, QUOTA_QUESTIONS, err))
        return NULL;
    struct claim *c = calloc(1, sizeof(*c));
    if (!c || !(c->ref = slots_add(claims, c))) {
        error_set(err, c ? RDMAD_E_LIMIT : RDMAD_E_NOMEM,
                  "no room for one more lease at %.100s: %" PRIu32 " of %u are in use; release "
                  "some",
                  p->dialled, claims->used, claims->max);
        free(c);
        return NULL;
    }
    peer_need(p, PEER_NEED_ACCESS);
    c->peer = p;
    c->handle = h;
    c->user = session_user_id(h->session);
    c->uri = *uri;
    c->timeout_ns = timeout_ns;
    list_init(&c->lane_user.node);
    list_init(&c->call.node);
    c->call.give_up = claim_give_up_handing;
    timer_init(&c->timeout, claim_timed_out);
    timer_init(&c->key_again, NULL); /* key_start */
    if (timer_set(&p->peers->state->timers, &c->timeout, clock_after(state_now(st), timeout_ns))) {
        error_set(err, RDMAD_E_NOMEM, "out of memory for an attach");
        claim_free(c);
        return NULL;
    }
    return c;
}
