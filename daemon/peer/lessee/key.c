/* SPDX-License-Identifier: MIT */
/*
 * key.c - the key by which a lease of a peer is reached over its lane's present link.
 *
 * The happy path: ATTACH_REQ named the lane's link, the answer has the key, and the lane is still
 * the same when the claim joins it. Otherwise, and each time the lane comes up again, KEY_REQ asks
 * for a key that is good on its link; the answer makes a waiting attach usable, or lets the ops of
 * a handle go on.
 *
 * Links may come and go faster than answers: every request has exactly one answer, and only that
 * of the last request counts, if the lane is still up by then. An answer that says why the lease
 * ended, or why there never will be a key, ends the handle; one that says that the peer does not
 * have our link any more renews the lane; after any other the question is asked again, after a
 * pause, until the attach or the lease has run out of time.
 */
#include "daemon/peer/lessee/key.h"
#include "common/errors.h"
#include "daemon/base/clock.h"
#include "daemon/peer/control/conn.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

static struct timers *key_timers(const struct claim *c) {
    return &c->peer->peers->state->timers;
}

void key_ask(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_KEY_REQ};
    assert(c->lane);
    timer_unset(key_timers(c), &c->key_again);
    c->via = lane_number(c->lane);
    c->keys_asked++;
    m.key_req.owner_ref = c->owner_ref;
    m.key_req.via = c->via;
    peer_send(c->peer, &m);
}

/* The lane has a link. May free the claim. */
static void key_lane_is_up(struct claim *c) {
    c->key_pause_ns = PEER_RETRY_MIN_NS;
    if (claim_is_attached(c)) {
        if (claim_is_known(c) && handle_wants_key(c->handle))
            key_ask(c);
    } else if (!claim_is_closing(c)) {
        if (c->spec.key.size && c->via == lane_number(c->lane))
            claim_usable(c);
        else
            key_ask(c);
    }
}

static void key_lane_told(struct lane_user *u, enum lane_event event) {
    struct claim *c = container_of(u, struct claim, lane_user);
    if (event == LANE_IS_UP)
        key_lane_is_up(c);
    else if (event == LANE_IS_DOWN)
        timer_unset(key_timers(c), &c->key_again);
    else if (c->stage == CLAIM_LINKING)
        claim_fail(c, lane_trouble(c->lane)); /* no link can be had, now and later */
}

static void key_again(struct timer *timer, uint64_t now_ns) {
    struct claim *c = container_of(timer, struct claim, key_again);
    (void)now_ns;
    bool wanted = !claim_is_attached(c) || (claim_is_known(c) && handle_wants_key(c->handle));
    if (wanted && lane_number(c->lane))
        key_ask(c);
}

/* Asking again would get the same answer. */
static bool key_is_final(int code) {
    switch (code) {
    case RDMAD_E_INVAL:
    case RDMAD_E_VERSION:
    case RDMAD_E_RESERVED:
    case RDMAD_E_RANGE:
    case RDMAD_E_RIGHTS:
    case RDMAD_E_SCOPE:
    case RDMAD_E_NO_LEASE:
    case RDMAD_E_PERM:
    case RDMAD_E_PROTOCOL:
        return true;
    default:
        return false;
    }
}

static void key_never(struct claim *c, const struct error *why) {
    struct error named;
    error_set(&named, claim_is_attached(c) ? RDMAD_E_PEER_LOST : why->code,
              "%s at %s gives no key for lease %" PRIu64 ": %s", c->peer->name, c->peer->address,
              c->spec.lease_id, why->text[0] ? why->text : error_text(why->code));
    if (claim_is_attached(c))
        handle_end(c->handle, named.code, named.text);
    else
        claim_fail(c, &named);
}

static void key_refused(struct claim *c, const struct error *why) {
    if (key_is_final(why->code)) {
        key_never(c, why);
    } else if (rdmad_error_ends_lease(why->code)) {
        if (claim_is_attached(c))
            handle_end(c->handle, why->code, why->text);
        else
            claim_fail(c, why);
    } else if (why->code == RDMAD_E_PEER_LOST) {
        struct error lost;
        error_set(&lost, RDMAD_E_PEER_LOST, "%s at %s has lost its end of the link: %s",
                  c->peer->name, c->peer->address, why->text);
        lane_renew(c->lane, &lost);
    } else {
        uint64_t now = state_now(c->peer->peers->state);
        memcpy(c->trouble, why->text, sizeof(c->trouble));
        if (timer_set(key_timers(c), &c->key_again, clock_after(now, c->key_pause_ns)))
            key_ask(c);
        c->key_pause_ns = lane_pause_after(c->key_pause_ns);
    }
}

void key_start(struct claim *c) {
    c->lane_user.told = key_lane_told;
    timer_init(&c->key_again, key_again);
}

void key_take_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_key_rep *m = &msg->key_rep;
    struct claim *c = claim_find(p, m->lessee_ref);
    struct error why = {.code = m->status};

    if (!c)
        return; /* we let go of it meanwhile */
    if (!c->keys_asked || (c->keys_asked == 1 && m->via != c->via)) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a key that nobody asked for");
        return;
    }
    if (--c->keys_asked || !c->lane || lane_number(c->lane) != c->via)
        return; /* another was asked for since, or will be */
    if (m->status) {
        memcpy(why.text, m->text, sizeof(why.text));
        key_refused(c, &why);
    } else if (claim_is_attached(c)) {
        handle_key(c->handle, &m->key);
    } else if (!claim_is_closing(c)) {
        c->spec.key = m->key;
        claim_usable(c);
    }
}
