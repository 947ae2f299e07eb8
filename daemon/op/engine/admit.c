/* SPDX-License-Identifier: MIT */
/*
 * admit.c - sqes are taken from the rings.
 *
 * A turn takes a bounded number of sqes: of all users together, of a user with all its sessions, of
 * a session with all its rings, and of a ring. A user's part follows from its weight (user.h), and
 * its sessions that were busy in the last turn have equal parts of that. A CANCEL counts for the
 * ops that it ends and looks at; what a session takes beyond its part comes off its next turns.
 * Whoever had to wait, a user, a session or a ring, is the first among its equals in the next turn.
 * So no client makes the others wait for more than that, however many rings and sessions it has.
 *
 * Looking costs time as well, even in vain: what a client writes is not in this CPU's cache. A ring
 * on which nothing was found is quiet until something is, and a turn looks at no more than
 * QUIET_LOOKS of a user's quiet rings, of each of its sessions at as many, and goes on where it was
 * in the next; and at STILL_LOOKS of those that are still (rings.c).
 */
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/cancel.h"
#include "daemon/op/engine/chain.h"
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/engine/validate.h"
#include <assert.h>

#define RING_BUDGET 64u  /* sqes of a ring in a turn */
#define TURN_BUDGET 512u /* of all: more than their parts come to, but for those who are new */
#define PEEKS 4u         /* at parked rings in a turn */
#define QUIET_LOOKS 32u  /* at quiet rings of a user in a turn */
#define STILL_LOOKS 4u   /* at still ones, and at quiet ones before any falls still */

/* Asks the op's kind; RECV and NOTIFIED must also be within the limits of waits. */
static int admit_kind(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                      struct op_request *rq, uint64_t *whose) {
    if (!op_is_own_time(sqe->opcode)) {
        int status = waits_room(w, r->session, whose);
        if (status)
            return status;
    }
    return w->kinds[sqe->opcode]->admit(w, r, sqe, rq);
}

uint32_t sqe_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                   struct op_request *rq) {
    assert(sqe->opcode < RDMAD_OP_COUNT);
    const struct op_kind *kind = w->kinds[sqe->opcode];
    int status = 0;
    uint32_t cost = 1;
    uint64_t whose = 0;
    if (sqe->opcode == RDMAD_OP_CANCEL)
        op_answer(w, r, sqe, rq, ops_cancel_named(r, sqe->lease, &cost), 0);
    else if (sqe->opcode == RDMAD_OP_NOP)
        op_answer(w, r, sqe, rq, 0, 0);
    else if (kind && kind->admit)
        status = admit_kind(w, r, sqe, rq, &whose);
    else
        op_begin(w, op_new(w, r, sqe, rq));
    if (status)
        op_answer(w, r, sqe, rq, status, status == RDMAD_E_LIMIT ? whose : 0);
    return cost;
}

/* The checks that a plain READ, WRITE or NOP does not need. */
static uint32_t admit_other(struct worker *w, struct op_ring *r, struct rdmad_sqe *sqe,
                            struct op_request *rq, int status, uint64_t lease_id) {
    if (r->batch || sqe->flags & RDMAD_SQE_MORE) {
        int rc = batch_join(w, r, sqe, rq);
        status = status ? status : rc;
    }
    chain_follow(r, sqe, rq);
    int rc = sqe->opcode == RDMAD_OP_NOP ? 0 : chain_admit(r, rq);
    status = status ? status : rc;
    if (status) {
        op_answer(w, r, sqe, rq, status, lease_id);
    } else if (fence_stops(r, sqe, rq->batch)) {
        fence_hold(w, r, sqe, rq);
        w->routed++; /* it will be */
    } else {
        if (rq->batch)
            rq->batch->waits = false;
        return sqe_start(w, r, sqe, rq);
    }
    return 1;
}

/* Returns what it cost, in plain sqes. */
static uint32_t admit(struct worker *w, struct op_ring *r) {
    struct rdmad_sqe sqe;
    ring_take(r->ring, &sqe);

    struct op_request rq;
    rq.order = chain_take(r, &sqe);
    rq.batch = NULL;
    rq.since_ns = 0;
    uint64_t lease_id;
    int status = op_validate(r->session, w->settings, w->now_ns, &sqe, &rq, &lease_id);
    if (!(status | sqe.flags) && !r->batch && !r->linked && list_empty(&r->behind)) {
        if (sqe.opcode == RDMAD_OP_READ || sqe.opcode == RDMAD_OP_WRITE) {
            op_start(w, r, &sqe, &rq);
            return 1;
        }
        if (sqe.opcode == RDMAD_OP_NOP) {
            op_answer(w, r, &sqe, &rq, 0, 0);
            return 1;
        }
    }
    return admit_other(w, r, &sqe, &rq, status, lease_id);
}

/* The session is at its limit and the next sqe looked like a CANCEL: nothing else is let in. */
static uint32_t admit_cancel(struct worker *w, struct op_ring *r) {
    struct rdmad_sqe sqe;
    ring_take(r->ring, &sqe);

    struct op_request rq = {.order = chain_take(r, &sqe)};
    uint64_t lease_id;
    int status = op_validate(r->session, w->settings, w->now_ns, &sqe, &rq, &lease_id);
    if (status == 0 && sqe.opcode != RDMAD_OP_CANCEL)
        status = RDMAD_E_LIMIT; /* it changed after the look */
    return admit_other(w, r, &sqe, &rq, status, 0);
}

/* Takes up to budget sqes, or fewer that cost as much. Returns whether that has left some: what is
 * left because an op of the session must end first waits for that, and for no turn. */
static bool ring_take_sqes(struct worker *w, struct op_ring *r, uint32_t count, uint32_t budget) {
    struct op_session *s = r->session;
    uint32_t taken = 0, spent = 0;
    uint64_t routed = w->routed;
    while (taken < count && spent < budget && worker_can_start(w)) {
        if (s->charged < s->ops_may || ops_more(w, s)) {
            spent += admit(w, r);
        } else if (ring_next_opcode(r->ring) == RDMAD_OP_CANCEL) {
            spent += admit_cancel(w, r);
        } else {
            rings_throttle(r);
            break;
        }
        taken++;
    }
    s->spent += spent;
    w->spent += spent;
    user_use_ops(s->user, spent);
    user_spent_beside(s->user, (spent - (w->routed - routed)) * USER_OP_COST);
    r->active_ns = w->now_ns;
    rings_dirty(w, r);
    return spent >= budget && taken < count;
}

/* Returns whether there was anything. */
static bool serve_ring(struct worker *w, struct op_ring *r, uint64_t room) {
    struct op_session *s = r->session;
    uint32_t count;
    if (ring_available(r->ring, &count) < 0) {
        worker_violated(w, s, RDMAD_E_RING, "the client's ring indices make no sense");
        return true;
    }
    if (count == 0)
        return false;
    uint32_t budget = s->user->ops_at_once < RING_BUDGET ? s->user->ops_at_once : RING_BUDGET;
    bool left = ring_take_sqes(w, r, count, room < budget ? (uint32_t)room : budget);
    if (left && room > budget) /* it could have had more of its part */
        user_waits(s->user);
    return true;
}

static void find_nothing(struct op_ring *r) {
    list_remove(&r->node);
    list_append(&r->session->quiet, &r->node);
}

/* Whether something waits on a ring of the session, whose part of the turn is used up. */
static bool is_left_out(struct op_session *s) {
    for (struct list *pos; (pos = list_first(&s->hot));) {
        struct op_ring *r = list_entry(pos, struct op_ring, node);
        if (rings_has_work(r))
            return true;
        find_nothing(r);
    }
    return false;
}

static void ring_look_at(struct worker *w, struct op_ring *r) {
    struct op_session *s = r->session;
    bool work = rings_has_work(r);
    w->looks++;
    if (!work && w->looks > STILL_LOOKS && rings_still(w, r))
        return;
    list_remove(&r->node);
    list_append(work ? &s->hot : &s->quiet, &r->node);
    if (!work)
        rings_rest(w, r);
}

/* The one that was looked at longest ago. Then it is another session's turn. */
static void look_at_first_still(struct op_user *u, struct op_session *s) {
    struct op_ring *r = list_entry(list_pop(&s->still), struct op_ring, node);
    if (rings_has_work(r))
        rings_heat(r);
    else
        list_append(&s->still, &r->node);
    if (!list_empty(&s->still))
        list_append(&u->still, &s->still_node);
}

/* Whose still rings had no look in the last turn may be beyond a rate, and have few turns. */
static void look_at_still(struct op_user *u) {
    uint64_t turn = u->worker->turns;
    unsigned looks = u->still_turn + 1 == turn ? STILL_LOOKS : QUIET_LOOKS;
    u->still_turn = turn;
    for (struct list *pos; looks && (pos = list_pop(&u->still));) {
        struct op_session *s = list_entry(pos, struct op_session, still_node);
        if (list_empty(&s->still))
            continue;
        look_at_first_still(u, s);
        looks--;
    }
}

/* At the session's part of what is looked at of its user's quiet rings. False: nothing was left. */
static bool look_at_quiet(struct worker *w, struct op_session *s) {
    const struct list *last = s->quiet.prev;
    unsigned looks = s->user->polled ? QUIET_LOOKS / s->user->polled : QUIET_LOOKS;
    if (!list_empty(&s->quiet) && w->looks >= QUIET_LOOKS)
        return false;
    for (struct list *pos = NULL; pos != last && (pos = list_first(&s->quiet));) {
        ring_look_at(w, list_entry(pos, struct op_ring, node));
        if (w->looks >= QUIET_LOOKS || looks-- <= 1)
            break;
    }
    return true;
}

/* What the session took beyond its part of earlier turns counts in this one. */
static void pay(const struct worker *w, struct op_session *s, uint64_t part) {
    uint64_t paid = (w->turns - s->turn) * part;
    s->spent = s->spent > paid ? s->spent - paid : 0;
    s->turn = w->turns;
}

/* The rings that were served go behind those for which nothing was left. Returns whether there was
 * anything. */
static bool serve_session(struct worker *w, struct op_session *s, uint64_t part) {
    struct list served;
    bool found = false;
    list_init(&served);
    pay(w, s, part);
    while (s->spent < part && !list_empty(&s->hot)) {
        struct op_ring *r = list_entry(list_pop(&s->hot), struct op_ring, node);
        list_append(&served, &r->node);
        if (serve_ring(w, r, part - s->spent))
            found = true;
        else
            find_nothing(r);
    }
    list_splice(&s->hot, &served);
    if (s->spent < part || !is_left_out(s))
        return found;
    user_waits(s->user);
    return true;
}

/* In sqes, at least one: what is too much comes off the next turns. */
static uint64_t part_of_each(const struct worker *w, const struct op_user *u) {
    uint64_t from = vtime_before(u->vtime, w->floor) ? w->floor : u->vtime;
    uint64_t room = (w->limit - from) * u->weight >> 16;
    uint64_t part = (room + USER_OP_COST / 2) / USER_OP_COST / (u->busy ? u->busy : 1);
    return part ? part : 1;
}

/* Likewise its sessions, and before those come the ones of whose quiet rings none could be looked
 * at. A session whose rings are not polled any more leaves the list. */
static unsigned serve_user(struct worker *w, struct op_user *u) {
    struct list served, missed;
    unsigned busy = 0, polled = 0;
    list_init(&served);
    list_init(&missed);
    uint64_t part = user_has_turn(u) ? part_of_each(w, u) : 0;
    u->part = part;
    u->part_turn = w->turns;
    w->looks = 0;
    if (!list_empty(&u->still) && !user_is_aside(u))
        look_at_still(u);
    while (!list_empty(&u->hot) && w->spent < TURN_BUDGET && !user_is_aside(u)) {
        struct list *pos = list_pop(&u->hot);
        struct op_session *s = list_entry(pos, struct op_session, hot_node);
        if (!rings_are_polled(s))
            continue;
        polled++;
        list_append(look_at_quiet(w, s) ? &served : &missed, pos);
        if (user_has_turn(u)) {
            busy += serve_session(w, s, part);
        } else if (is_left_out(s)) {
            user_waits(u);
            break;
        }
    }
    list_splice(&u->hot, &missed);
    list_splice(&u->hot, &served);
    u->polled = polled;
    if (busy)
        u->busy = busy;
    return busy;
}

bool ring_serve_early(struct worker *w, struct op_ring *r) {
    struct op_session *s = r->session;
    struct op_user *u = s->user;
    if (r->parked || r->ending || s->shut || s->paused || !list_empty(&s->violated_node) ||
        s->charged >= s->ops_may || w->spent >= TURN_BUDGET || !rings_has_work(r) ||
        !user_has_turn(u) || user_is_aside(u))
        return false;
    uint64_t part = u->part_turn == w->turns ? u->part : part_of_each(w, u);
    pay(w, s, part);
    if (s->spent >= part)
        return false;
    list_remove(&r->node);
    rings_heat(r);
    return serve_ring(w, r, part - s->spent);
}

/* The ones looked at longest ago. */
static void peek_parked(struct worker *w) {
    for (unsigned i = 0; i < PEEKS && !list_empty(&w->parked); i++) {
        struct op_ring *r = list_entry(list_pop(&w->parked), struct op_ring, node);
        list_append(&w->parked, &r->node);
        if (ring_published(r->ring))
            rings_wake(w, r);
    }
}

static bool is_single(const struct list *l) {
    return l->next == l->prev && !list_empty(l);
}

/* The session's only ring that is polled, or NULL. */
static struct op_ring *single_ring(const struct op_session *s) {
    const struct list *in = list_empty(&s->quiet) ? &s->hot : &s->quiet;
    if (!is_single(in) || (in == &s->quiet && !list_empty(&s->hot)))
        return NULL;
    return list_entry(in->next, struct op_ring, node);
}

/* The only ring that is polled, if its user has no rate and was the only one who was busy: then
 * there is nothing to share. NULL: there are more, or none. */
static struct op_ring *only_ring(const struct worker *w) {
    if (!is_single(&w->hot) || !w->alone || w->alone->hot_node.next != &w->hot)
        return NULL;
    const struct op_user *u = w->alone;
    if (u->limited || !is_single(&u->hot) || !list_empty(&u->still))
        return NULL;
    return single_ring(list_entry(u->hot.next, struct op_session, hot_node));
}

static unsigned serve_only(struct worker *w, struct op_ring *r) {
    struct op_session *s = r->session;
    const uint64_t part = USER_TURN_COST / USER_OP_COST;
    if (s->spent)
        pay(w, s, part);
    s->turn = w->turns;
    if (s->spent >= part) {
        if (rings_has_work(r))
            user_wants(s->user);
        return s->user->seen == w->turns;
    }
    bool found = serve_ring(w, r, part - s->spent);
    if (!found)
        rings_rest(w, r);
    return found;
}

unsigned rings_serve(struct worker *w) {
    unsigned busy = 0;
    struct list looked_at;
    w->spent = 0;
    peek_parked(w);
    struct op_ring *only = only_ring(w);
    if (only)
        return serve_only(w, only);
    list_init(&looked_at);
    while (!list_empty(&w->hot) && w->spent < TURN_BUDGET) {
        struct list *pos = list_pop(&w->hot);
        struct op_user *u = list_entry(pos, struct op_user, hot_node);
        list_append(&looked_at, pos);
        busy += serve_user(w, u);
        if (!user_is_polled(u))
            list_remove(pos);
    }
    w->gated |= !list_empty(&w->hot);
    list_splice(&w->hot, &looked_at);
    return busy;
}
