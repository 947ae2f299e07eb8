/* SPDX-License-Identifier: MIT */
/*
 * shares.c - what users and peers get of the workers: told to all of them.
 *
 * A user's share is kept in its account, so a worker hears of it also with the user's first session
 * there (sessions.c). A peer's is kept by the fabrics.
 */
#include "daemon/base/log.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/seam/call.h"
#include <stdlib.h>

static bool is_share(const struct plane_share *share) {
    return share->weight >= 1 && share->weight <= PLANE_WEIGHT_MAX && share->priority >= -1 &&
           share->priority <= 1;
}

static void tell_workers(struct plane *p, void (*apply)(struct call *),
                         const struct call_user *about) {
    for (unsigned i = 0; i < p->settings.workers; i++) {
        struct call *c = call_prepare(p, &p->worker[i], CALL_USER, apply, NULL, NULL);
        *call_user(c) = *about;
        call_post(c);
    }
}

/* ---- users ------------------------------------------------------------------------------- */

static void set_user(struct call *c) {
    const struct call_user *about = call_user(c);
    struct op_user *u = user_find(c->worker, about->user);
    if (u) {
        const uint64_t latest_ns = c->worker->now_ns + RATE_OWED_NS;
        rate_owe_at_most(&u->account->bytes_due_ns, latest_ns);
        rate_owe_at_most(&u->account->ops_due_ns, latest_ns);
        user_set(u, &about->share);
    }
    call_finish(c);
}

int plane_user_share(struct plane *p, struct user_id user, const struct plane_share *share) {
    if (!is_share(share))
        return RDMAD_E_INVAL;
    struct op_account *a = account_find(&p->accounts, user);
    if (!a)
        return 0;
    a->share = *share;
    tell_workers(p, set_user, &(struct call_user){.user = user, .share = *share});
    return 0;
}

void plane_user_limits(struct plane *p, struct user_id user, const struct plane_limits *limits) {
    struct op_account *a = account_find(&p->accounts, user);
    if (!a)
        return;
    __atomic_store_n(&a->max_ops, limits->uid_ops, __ATOMIC_RELAXED);
    __atomic_store_n(&a->max_waits, limits->uid_waits, __ATOMIC_RELAXED);
    __atomic_store_n(&a->max_session_waits, limits->session_waits, __ATOMIC_RELAXED);
}

void plane_user_stats(const struct plane *p, struct user_id user, struct plane_user_stats *out) {
    const struct op_account *a = account_find(&p->accounts, user);
    *out = (struct plane_user_stats){.share = PLANE_SHARE_DEFAULT};
    if (!a)
        return;
    out->share = a->share;
    out->throttled = __atomic_load_n(&a->throttled, __ATOMIC_RELAXED);
    out->throttled_ns = __atomic_load_n(&a->throttled_ns, __ATOMIC_RELAXED);
}

/* ---- peers ------------------------------------------------------------------------------- */

static void tell_not_held(uint64_t peer) {
    LOG_LIMITED(WARNING,
                ("peer %lu: out of memory for its weight and rates, which are not held: `rdmactl "
                 "reload` sets them again",
                 (unsigned long)peer));
}

static void set_peer(struct call *c) {
    const struct call_user *about = call_user(c);
    const struct plane_share *share = &about->share;
    const struct fabric_share says = {.weight = share->weight,
                                      .bytes_per_second = share->bytes_per_second,
                                      .ops_per_second = share->ops_per_second};
    for (unsigned i = 0; i < c->worker->nlinks; i++) {
        struct op_fabric *fabric = &c->worker->links[i];
        if (fabric->ops->peer_share) {
            op_fabric_wake(fabric, c->worker->now_ns);
            if (fabric->ops->peer_share(fabric->instance, about->peer, &says) < 0)
                tell_not_held(about->peer);
        }
    }
    call_finish(c);
}

int plane_peer_share(struct plane *p, uint64_t peer, const struct plane_share *share) {
    if (!is_share(share))
        return RDMAD_E_INVAL;
    tell_workers(p, set_peer, &(struct call_user){.peer = peer, .share = *share});
    return 0;
}
