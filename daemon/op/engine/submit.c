/* SPDX-License-Identifier: MIT */
/*
 * submit.c - an op becomes parts, and parts go to the fabric.
 *
 * Each op posts one part and queues again with its session's others on the route (route.c says
 * whose turn is next, share.h which op's), so a small op that comes behind a gigabyte waits for one
 * part of it, not for the whole. A part is at most the fabric's largest message, and no longer than
 * what may be moved in one piece before somebody else. An op has at most OP_MAX_PARTS of them in
 * flight; with that many it leaves the queue until one comes back. When the link says AGAIN the
 * whole route waits.
 *
 * What is posted is out of our hands: a fabric moves it in the order in which it came, and moves it
 * best if there is much. So no more than SHARED_AHEAD is posted ahead on a route that several users
 * have used within the last second, some of them for small ops; BULK_AHEAD if nobody did;
 * ALONE_AHEAD on a route that one user has to itself; and on the local route as much as one poll
 * copies. Besides, a user posts long parts on the local route only while it has its turn (user.h),
 * because they take the worker's time.
 *
 * The room of a link is also its lane's channels', who are asked first and would leave none if they
 * always had something to say. So a route that came too late goes before them when there is room
 * again, and then they before it: neither keeps the other out.
 *
 * Of an op whose lease has ended nothing more is posted, though ends.c may not have come to it yet.
 *
 * Parts that a lost link gave back go first. The link that follows may take less at once: then such
 * a part is posted piece by piece.
 */
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/kind.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/share.h"
#include "daemon/op/engine/user.h"
#include <assert.h>

#define POSTS_PER_TURN 256u /* on one route: rings and other routes want their turn too */
#define PART_MOST (1u << 20)
#define SHARED_PART (256u << 10) /* of a route that several users use */
#define SHARED_AHEAD (1u << 20)  /* bytes posted on it that have not come back */
#define BULK_PART (512u << 10)   /* of one that they use for no small ops */
#define BULK_AHEAD (4u << 20)    /* who comes with one waits once */
#define ALONE_AHEAD (16u << 20)  /* of a route that one user has to itself: likewise */
#define SHARED_FOR_NS NSEC_PER_SEC
#define LOCAL_PART (128u << 10)
#define LOCAL_AHEAD (512u << 10)
#define LOCAL_SMALL (16u << 10) /* it is posted in any case */

#define SMALL_MOST 4096u
#define DIRECT_AHEAD LOCAL_AHEAD /* nowhere more may be ahead of them */

static bool wants_post(const struct op *op) {
    return op_has_more(op) && op->inflight < OP_MAX_PARTS && !op_last_must_wait(op);
}

void op_begin(struct worker *w, struct op *op) {
    assert(list_empty(&op->node) && op->lease);
    w->routed++;
    if (op->kind && op->kind->start)
        op->kind->start(w, op);
    else
        op_queue(w, op);
}

struct op *op_start_own(struct worker *w, struct op_session *s, struct op_pool *pool,
                        struct op_lease *lease, const struct rdmad_sqe *what, uint64_t deadline_ns,
                        void (*ended)(struct worker *w, struct op *op, int status, uint8_t outcome),
                        void *arg) {
    if (!worker_can_start(w))
        return NULL;
    struct op_request rq = {.pool = pool,
                            .lease = lease,
                            .local = pool ? pool->base + what->pool_offset : NULL,
                            .deadline_ns = deadline_ns};
    struct op *op = op_new_own(w, s, what, &rq);
    op->ended = ended;
    op->ended_arg = arg;
    op_queue(w, op);
    return op;
}

static uint8_t fabric_opcode(const struct op *op) {
    return op->opcode == RDMAD_OP_NOTIFY ? RDMAD_OP_WRITE : op->opcode;
}

static int post_range(struct op *op, struct op_part *part, uint64_t from, uint64_t length) {
    struct fabric_op *fop = &part->fop;
    op_clear(fop, sizeof(*fop));
    fop->opcode = fabric_opcode(op);
    fop->local = op->local ? op->local + from : NULL;
    fop->memory = op->memory;
    fop->length = length;
    fop->key = &op->lease->key;
    fop->offset = op->lease_offset + from;
    fop->compare = op->compare;
    fop->swap = op->swap;
    fop->user = part;
    return op->route->fabric->ops->post(op->route->link, fop);
}

static uint64_t at_most(uint64_t length, uint64_t most) {
    return length < most ? length : most;
}

/* A part of its own for some of what is left. */
static int post_new(struct worker *w, struct op *op, uint64_t from, uint64_t length) {
    struct op_part *part = op_part_get(w, op);
    if (!part)
        return RDMAD_E_NOMEM;
    int rc = post_range(op, part, from, length);
    if (rc < 0)
        op_part_put(w, part);
    else
        op_part_posted(op, part);
    return rc;
}

/* ---- how much, and how far ahead --------------------------------------------------------- */

static bool is_shared(const struct worker *w, const struct op_route *route) {
    return w->now_ns < route->shared_until_ns;
}

static bool has_small(const struct worker *w, const struct op_route *route) {
    return w->now_ns < route->small_until_ns;
}

static void note_small(const struct worker *w, struct op_route *route, const struct op *op) {
    if (op->length <= SMALL_MOST)
        route->small_until_ns = w->now_ns + SHARED_FOR_NS;
}

/* How much may be posted on it that has not come back. */
static uint64_t ahead_most(const struct worker *w, const struct op_route *route) {
    if (route->local)
        return LOCAL_AHEAD;
    if (!is_shared(w, route))
        return ALONE_AHEAD;
    return has_small(w, route) ? SHARED_AHEAD : BULK_AHEAD;
}

static uint64_t part_most(const struct worker *w, const struct op_route *route,
                          const struct op_user *u) {
    uint64_t most = PART_MOST;
    if (route->local)
        most = LOCAL_PART;
    else if (is_shared(w, route))
        most = has_small(w, route) ? SHARED_PART : BULK_PART;
    most = at_most(route->link->max_message, most);
    return at_most(u->bytes_at_once, most);
}

/* ---- posting ----------------------------------------------------------------------------- */

/* The first part that came back from a lost link, or as much of it as may go at once. */
static int post_again(struct worker *w, struct op *op, uint64_t most, uint64_t *bytes) {
    struct op_part *part = list_entry(list_first(&op->again), struct op_part, node);
    uint64_t from = part->fop.offset - op->lease_offset, length = part->fop.length;
    int rc;
    *bytes = at_most(length, most);
    if (length > most) {
        rc = post_new(w, op, from, most);
        if (rc == 0) {
            part->fop.offset += most;
            part->fop.length -= most;
        }
        return rc;
    }
    rc = post_range(op, part, from, length);
    if (rc == 0)
        op_part_posted(op, part);
    return rc;
}

static int post_part(struct worker *w, struct op *op, uint64_t most, uint64_t *bytes) {
    if (!list_empty(&op->again))
        return post_again(w, op, most, bytes);
    *bytes = 0;
    if (op->todo & OP_TODO_LAST && op->next == op->length)
        return op->kind->post_last(w, op);
    *bytes = at_most(op->length - op->next, most);
    int rc = post_new(w, op, op->next, *bytes);
    if (rc == 0)
        op->next += *bytes;
    return rc;
}

/* After a part of it was posted, or was refused for good. */
static void post_over(struct worker *w, struct op_share *share, struct op *op, int rc) {
    if (rc < 0 && (rc != RDMAD_E_NOMEM || op->inflight == 0)) /* else it has a next completion */
        op_cancel(w, op, rc);
    else if (rc == 0 && wants_post(op))
        share_add(share, op, route_is_quick(op->route, share->flow->user));
    else if (op->inflight == 0) /* the last needed no part, and that was all */
        op_finish(w, op);
}

/* ---- whose turn it is -------------------------------------------------------------------- */

/* What a share posts in a row. */
struct posted {
    unsigned posts;
    uint64_t bytes;
    int rc; /* why it went no further; 0: it may go on */
};

static void note_user(struct worker *w, struct op_route *route, const struct op_user *u) {
    if (route->last)
        route->shared_until_ns = w->now_ns + SHARED_FOR_NS;
    route->last = u;
}

static void flow_count_posted(struct worker *w, struct op_route *route, struct op_share *share,
                              const struct posted *p) {
    struct op_flow *flow = share->flow;
    flow_posted(flow, share, p->bytes + p->posts * ROUTE_OP_COST);
    user_use_bytes(flow->user, p->bytes, route->copied);
    if (route->last != flow->user)
        note_user(w, route, flow->user);
}

/* A long part would take the time of those whose turn it is. */
static bool must_wait(const struct op_route *route, struct op_user *u, const struct op *op) {
    if (op->length <= LOCAL_SMALL || !route->local || user_has_turn(u))
        return false;
    user_waits(u);
    return true;
}

/* The share whose turn it is, and whose first op may go, posts until it has posted so many bytes,
 * or nothing is left. */
static struct posted post_share(struct worker *w, struct op_route *route, struct op_share *share,
                                unsigned posts, int64_t bytes) {
    struct posted p = {0, 0, 0};
    struct op_user *u = share->flow->user;
    uint64_t most = part_most(w, route, u), ahead = ahead_most(w, route);
    do {
        struct op *op = share_next(share);
        uint64_t length;
        if (op->lease->reason) {
            op_cancel(w, op, op->lease->reason);
            p.posts++;
            continue;
        }
        if (must_wait(route, u, op))
            break;
        note_small(w, route, op);
        int rc = post_part(w, op, most, &length);
        if (rc == RDMAD_E_AGAIN || rc == RDMAD_E_PEER_LOST) {
            p.rc = rc;
            break;
        }
        p.posts++;
        if (rc)
            length = 0;
        p.bytes += length;
        share_served(share, op, length + ROUTE_OP_COST);
        post_over(w, share, op, rc);
    } while (!share_is_idle(share) && p.posts < posts && route->ahead < ahead &&
             (int64_t)(p.bytes + p.posts * ROUTE_OP_COST) < bytes);
    if (p.posts)
        flow_count_posted(w, route, share, &p);
    if (share_is_idle(share))
        flow_left(share);
    return p;
}

/* NULL: nobody may. */
static struct op_share *next_share(struct op_route *route) {
    list_for_each_safe (pos, &route->run) {
        struct op_flow *flow = list_entry(pos, struct op_flow, turn);
        struct op_user *u = flow->user;
        if (user_owes_bytes(u))
            continue;
        struct op_share *share = flow_share(flow);
        if (!share)
            continue;
        if (!must_wait(route, u, share_next(share)))
            return share;
    }
    return NULL;
}

/* Copies are the worker's own time: who waits for those that are posted ahead waits for a turn. */
static void all_wait(struct op_route *route) {
    list_for_each (pos, &route->run) {
        struct op_user *u = list_entry(pos, struct op_flow, turn)->user;
        if (!user_owes_bytes(u))
            user_waits(u);
    }
}

static unsigned submit_route(struct worker *w, struct op_route *route) {
    unsigned posts = 0;
    uint64_t ahead = ahead_most(w, route);
    op_fabric_wake(route->fabric, w->now_ns);
    while (!list_empty(&route->run) && posts < POSTS_PER_TURN && route->ahead < ahead) {
        struct op_share *share = next_share(route);
        if (!share)
            break;
        int64_t most = flow_is_alone(share->flow) ? INT64_MAX : share->credit;
        struct posted p = post_share(w, route, share, POSTS_PER_TURN - posts, most);
        posts += p.posts;
        if (p.rc == RDMAD_E_AGAIN)
            route_full(route);
        else if (p.rc == RDMAD_E_PEER_LOST) /* the fabric is about to say so */
            route_down(route);
        if (p.rc)
            return posts;
    }
    if (list_empty(&route->run))
        list_remove(&route->node);
    else if (route->local && route->ahead >= ahead)
        all_wait(route);
    return posts;
}

/* Nobody is before a small op: nobody waits on the route, or none of its session's ops on the local
 * one, whose fabric does small ops first anyway. */
static bool is_first(const struct op *op, const struct op_route *route) {
    if (list_empty(&route->run) && route->ahead < DIRECT_AHEAD)
        return true;
    return route->local && route->ahead < 2 * DIRECT_AHEAD && share_is_idle(op->lease->share) &&
           user_has_turn(op->session->user);
}

/* A small op that is the first needs no queue. False: it is not such an op. */
static bool post_at_once(struct worker *w, struct op *op) {
    struct op_route *route = op->route;
    struct op_user *u = op->session->user;
    if (op->length > SMALL_MOST || !route->up || route->full || !op->lease->keyed || u->limited ||
        op->length > route->link->max_message || !is_first(op, route))
        return false;
    note_small(w, route, op);
    int rc = post_new(w, op, 0, op->length);
    if (rc == RDMAD_E_AGAIN) {
        op_queue(w, op);
        route_full(route);
        return true;
    }
    if (rc < 0)
        return false; /* it is tried again from the queue, where that is looked at */
    op->next = op->length;
    op_fabric_wake(route->fabric, w->now_ns);
    user_use_bytes(u, op->length, route->copied);
    if (route->last != u)
        note_user(w, route, u);
    return true;
}

void op_start(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
              const struct op_request *rq) {
    struct op *op = op_new(w, r, sqe, rq);
    w->routed++;
    if (!post_at_once(w, op))
        op_queue(w, op);
}

static bool route_has_channels(struct op_route *route) {
    const struct op_lane *lane = op_route_lane(route);
    return lane && !list_empty(&lane->channels);
}

unsigned submit_run(struct worker *w) {
    unsigned posts = 0;
    list_for_each_safe (pos, &w->runnable) {
        struct op_route *route = list_entry(pos, struct op_route, node);
        posts += submit_route(w, route);
        route->overtaken = route->full && route_has_channels(route);
    }
    return posts;
}

unsigned submit_overtaken(struct worker *w) {
    unsigned posts = 0;
    list_for_each_safe (pos, &w->runnable) {
        struct op_route *route = list_entry(pos, struct op_route, node);
        if (!route->overtaken)
            continue;
        unsigned more = submit_route(w, route);
        route->overtaken = !more; /* the next room is the channels' again */
        posts += more;
    }
    return posts;
}
