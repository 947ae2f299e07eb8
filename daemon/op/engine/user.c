/* SPDX-License-Identifier: MIT */
/*
 * user.c - users at a worker: whose turn it is, and who is put aside.
 */
#include "daemon/op/engine/user.h"
#include <assert.h>
#include <stdlib.h>

#define PRIORITY_FACTOR 16u
#define LIMITED_PART_NS 1000000u /* what somebody with a rate takes at once is worth so much */
#define LIMITED_OPS 64u
#define LIMITED_BYTES_MIN 4096u
#define LIFT_TURNS (1u << 16)

/* ---- who they are ------------------------------------------------------------------------ */

static uint64_t weight_of(const struct plane_share *share) {
    uint64_t weight = share->weight;
    return share->priority > 0   ? weight * PRIORITY_FACTOR * PRIORITY_FACTOR
           : share->priority < 0 ? weight
                                 : weight * PRIORITY_FACTOR;
}

/* How far ahead of the floor users of that weight together may get in a turn. */
static uint64_t turn_of(uint64_t weight) {
    return ((uint64_t)USER_TURN_COST << 16) / weight;
}

static uint64_t between(uint64_t least, uint64_t n, uint64_t most) {
    return n < least ? least : n > most ? most : n;
}

/* By its share, and by what it costs other workers. */
static void set_price(struct op_user *u) {
    uint64_t weight = u->share * ELSEWHERE_ONCE / u->elsewhere.times;
    u->weight = weight ? weight : 1;
    u->price = (u->elsewhere.times << 32) / (u->share * ELSEWHERE_ONCE);
    u->whole_turn = turn_of(u->weight);
}

void user_set(struct op_user *u, const struct plane_share *share) {
    u->share = weight_of(share);
    set_price(u);
    rate_set(&u->bytes, share->bytes_per_second);
    rate_set(&u->ops, share->ops_per_second);
    u->limited = share->bytes_per_second || share->ops_per_second;
    const uint64_t parts = NSEC_PER_SEC / LIMITED_PART_NS;
    u->ops_at_once = share->ops_per_second
                         ? (uint32_t)between(1, share->ops_per_second / parts, LIMITED_OPS)
                         : LIMITED_OPS;
    u->bytes_at_once = share->bytes_per_second
                           ? between(LIMITED_BYTES_MIN, share->bytes_per_second / parts, UINT64_MAX)
                           : UINT64_MAX;
    u->aside_until_ns = u->bytes_until_ns = 0;
    u->worker->aside_ns = 0; /* it is looked at again in the next turn */
}

struct op_user *user_find(struct worker *w, struct user_id who) {
    list_for_each (pos, &w->users) {
        struct op_user *u = list_entry(pos, struct op_user, node);
        if (user_id_same(u->account->who, who))
            return u;
    }
    return NULL;
}

struct op_user *user_join(struct worker *w, struct op_account *account, struct op_user *spare,
                          const struct plane_share *share) {
    struct op_user *u = user_find(w, account->who);
    if (u) {
        free(spare);
        u->sessions++;
        return u;
    }
    u = spare;
    *u = (struct op_user){.worker = w,
                          .account = account,
                          .sessions = 1,
                          .vtime = w->floor,
                          .bytes.due_ns = &account->bytes_due_ns,
                          .ops.due_ns = &account->ops_due_ns};
    list_init(&u->hot_node);
    list_init(&u->hot);
    list_init(&u->still);
    list_init(&u->flows);
    list_init(&u->held);
    list_init(&u->released_node);
    list_init(&u->seen_node);
    list_append(&w->users, &u->node);
    elsewhere_init(&u->elsewhere, &account->cost);
    user_set(u, share);
    return u;
}

/* What of its channels a rate held up may be sent. */
static void user_release_held(struct op_user *u) {
    if (list_empty(&u->held) || !list_empty(&u->released_node))
        return;
    u->routes_turn = !u->routes_turn;
    u->routes_first = u->routes_turn;
    list_append(&u->worker->released, &u->released_node);
}

static void end_aside(struct op_user *u) {
    uint64_t ns = clock_left(u->aside_since_ns, u->worker->now_ns);
    __atomic_add_fetch(&u->account->throttled_ns, ns, __ATOMIC_RELAXED);
    u->aside = false;
    user_release_held(u);
    list_remove(&u->hot_node);
    if (user_is_polled(u))
        list_append(&u->worker->hot, &u->hot_node);
}

void user_leave(struct op_user *u) {
    assert(u->sessions > 0);
    if (--u->sessions)
        return;
    assert(!user_is_polled(u) && list_empty(&u->flows) && list_empty(&u->held));
    if (u->aside)
        end_aside(u);
    if (u->worker->alone == u)
        u->worker->alone = NULL;
    list_remove(&u->node);
    list_remove(&u->hot_node);
    list_remove(&u->seen_node);
    list_remove(&u->released_node);
    free(u);
}

/* ---- routes ------------------------------------------------------------------------------ */

void flow_pay(struct op_flow *flow) {
    const struct op_user *u = flow->user;
    uint64_t owed = u->beside - flow->settled, most = user_vtime_of(u, USER_OWED_MOST);
    if (flow->route->copied && !flow->route->local)
        flow->vtime += owed < most ? owed : most;
    flow->settled = u->beside;
}

void flow_lift(struct op_flow *flow) {
    flow_pay(flow);
    if (vtime_before(flow->vtime, flow->route->vtime))
        flow->vtime = flow->route->vtime;
}

/* ---- turns ------------------------------------------------------------------------------- */

static void lift_flows(struct op_user *u) {
    list_for_each (pos, &u->flows) {
        struct op_flow *flow = list_entry(pos, struct op_flow, node);
        bool lane_dropped = !flow->route; /* its leases have ended */
        if (!lane_dropped && list_empty(&flow->turn))
            flow_lift(flow);
    }
}

/* Comparing vtimes is good as long as they are within half of what a word holds. */
static void lift_idle(struct worker *w) {
    list_for_each (pos, &w->users) {
        struct op_user *u = list_entry(pos, struct op_user, node);
        if (vtime_before(u->vtime, w->floor))
            u->vtime = w->floor;
        lift_flows(u);
    }
}

void user_is_busy(struct op_user *u) {
    struct worker *w = u->worker;
    if (vtime_before(u->vtime, w->floor))
        u->vtime = w->floor;
    u->seen = w->turns;
    if (list_empty(&u->seen_node))
        list_append(&w->seen, &u->seen_node);
}

/* When its bytes may go on, 0: now. Who is aside rests a moment besides (base/rate.h): then all
 * that waits for them may at once, and not first what is looked at most often. */
static uint64_t bytes_wait_ns(struct op_user *u) {
    uint64_t now_ns = u->worker->now_ns, until_ns = rate_wait_ns(&u->bytes, now_ns);
    if (until_ns)
        u->bytes_until_ns = until_ns;
    else if (u->aside && now_ns < u->bytes_until_ns)
        return u->bytes_until_ns;
    return until_ns;
}

/* Its rate of ops may keep it aside for longer than that of bytes does what it has already. */
static void user_look_at_aside(struct op_user *u) {
    struct worker *w = u->worker;
    uint64_t next_ns = u->aside_until_ns;
    uint64_t bytes_ns = list_empty(&u->held) ? next_ns : bytes_wait_ns(u);
    if (!bytes_ns)
        user_release_held(u);
    else if (bytes_ns < next_ns)
        next_ns = bytes_ns;
    if (next_ns < w->aside_ns)
        w->aside_ns = next_ns;
}

static void resume_those_aside(struct worker *w) {
    w->aside_ns = CLOCK_NEVER;
    list_for_each_safe (pos, &w->aside) {
        struct op_user *u = list_entry(pos, struct op_user, hot_node);
        if (u->aside_until_ns <= w->now_ns)
            end_aside(u);
        else
            user_look_at_aside(u);
    }
}

/* The floor, by those who had to wait; else by all. */
static uint64_t next_floor(const struct worker *w) {
    uint64_t least = 0, most = w->floor;
    bool waits = false;
    list_for_each (pos, &w->seen) {
        const struct op_user *u = list_entry(pos, struct op_user, seen_node);
        bool waited = u->waited + 1 == w->turns;
        if (waited && (!waits || vtime_before(u->vtime, least)))
            least = u->vtime;
        if (vtime_before(most, u->vtime))
            most = u->vtime;
        waits |= waited;
    }
    return waits ? least : most;
}

static void weigh(struct worker *w) {
    uint64_t weight = 0;
    list_for_each_safe (pos, &w->seen) {
        struct op_user *u = list_entry(pos, struct op_user, seen_node);
        if (u->seen + 1 != w->turns) {
            list_remove(pos);
            continue;
        }
        if (elsewhere_look(&u->elsewhere))
            set_price(u);
        weight += u->weight;
    }
    uint64_t floor = next_floor(w);
    if (vtime_before(w->floor, floor))
        w->floor = floor;
    w->limit = w->floor + turn_of(weight ? weight : PLANE_WEIGHT_DEFAULT * PRIORITY_FACTOR);
}

static void look_around(struct worker *w) {
    w->look_at_users = w->turns + LIFT_TURNS;
    lift_idle(w);
}

void users_begin(struct worker *w) {
    struct list *first = w->seen.next;
    struct op_user *u = list_entry(first, struct op_user, seen_node);
    w->gated = false;
    w->alone = NULL;
    if (first == &w->seen) {
        /* Nobody has moved the floor. */
    } else if (first->next == &w->seen && u->seen + 1 == w->turns &&
               !vtime_before(u->vtime, w->floor)) {
        w->alone = u;
        w->floor = u->vtime;
        w->limit = u->vtime + u->whole_turn;
    } else {
        weigh(w);
    }
    if (w->now_ns >= w->aside_ns)
        resume_those_aside(w);
    if (w->turns >= w->look_at_users)
        look_around(w);
}

uint64_t users_next_ns(const struct worker *w) {
    return w->aside_ns;
}

/* ---- rates ------------------------------------------------------------------------------- */

static void deliver_throttled(struct mail *mail) {
    struct worker *w = container_of(mail, struct worker, throttled_mail);
    struct user_id who = w->throttled_user;
    enum plane_rate by = w->throttled_by;
    __atomic_store_n(&w->throttled_told, false, __ATOMIC_RELEASE);
    if (w->events->user_throttled)
        w->events->user_throttled(w->events->user, who, by);
}

/* Of a user who waits all the time nobody has to hear more often than this. */
static void tell_throttled(struct op_user *u, enum plane_rate by) {
    struct worker *w = u->worker;
    uint64_t *told_ns = &u->account->told_ns[by];
    uint64_t last_ns = __atomic_load_n(told_ns, __ATOMIC_RELAXED);
    bool lately = last_ns && w->now_ns < last_ns + PLANE_TOLD_NS;
    if (lately || __atomic_load_n(&w->throttled_told, __ATOMIC_ACQUIRE) ||
        !__atomic_compare_exchange_n(told_ns, &last_ns, w->now_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) /* another worker does */
        return;
    w->throttled_user = u->account->who;
    w->throttled_by = by;
    __atomic_store_n(&w->throttled_told, true, __ATOMIC_RELAXED);
    mailbox_post(w->control, &w->throttled_mail, deliver_throttled);
}

bool user_hold_back(struct op_user *u) {
    struct worker *w = u->worker;
    if (u->aside)
        return true;
    uint64_t bytes_ns = bytes_wait_ns(u);
    uint64_t ops_ns = rate_wait_ns(&u->ops, w->now_ns);
    uint64_t until_ns = bytes_ns > ops_ns ? bytes_ns : ops_ns;
    if (!until_ns)
        return false;
    u->aside = true;
    u->aside_since_ns = w->now_ns;
    u->aside_until_ns = until_ns;
    if (until_ns < w->aside_ns)
        w->aside_ns = until_ns;
    list_remove(&u->hot_node);
    list_append(&w->aside, &u->hot_node);
    __atomic_add_fetch(&u->account->throttled, 1, __ATOMIC_RELAXED);
    tell_throttled(u, bytes_ns > ops_ns ? PLANE_RATE_BYTES : PLANE_RATE_OPS);
    return true;
}

bool user_hold_bytes(struct op_user *u) {
    struct worker *w = u->worker;
    uint64_t until_ns = bytes_wait_ns(u);
    if (!until_ns)
        return false;
    user_hold_back(u);
    if (until_ns < w->aside_ns)
        w->aside_ns = until_ns; /* though the other rate may keep it aside for longer */
    return true;
}
