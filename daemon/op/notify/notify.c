/* SPDX-License-Identifier: MIT */
/*
 * notify.c - notices at their owner's worker, and NOTIFY where the lessee's session is.
 *
 * The happy path of a NOTIFY: notify_start takes one off the lease's allowance, its bytes go as a
 * WRITE's do, notify_post then leaves the notice or posts the SEND that carries it, and the op is
 * done. On a link that keeps order the SEND goes right behind the WRITEs, else when they are done.
 *
 * Outcomes follow complete.c's table, the SEND being one part more: bytes placed and the notice
 * refused is PARTIAL, bytes placed and nobody knows whether the notice came is UNKNOWN, with the
 * SEND's status. A SEND of which nobody knows is never repeated.
 *
 * Allowance, route link: how many notices its owner has taken is known where they are taken, and is
 * asked for by the way that they went: by a message without a notice (an ask), whose answer brings
 * the count. There is one ahead of time for every few notices, so a stream never waits for an
 * answer. A NOTIFY that finds no room by the last answer waits for the next, and is refused only by
 * one to a question that was asked after it came. So what is refused is what really would have been
 * one too many: neither a slow answer nor a slow control connection can refuse anything.
 *
 * An ask tells the number of the last message posted, too. What the owner's daemon has not seen by
 * then never came, and counts as taken; so after a message that failed there is an ask at once, and
 * no allowance is lost with a link.
 *
 * Notices outlive the attach that they came by, and who attaches again has an allowance again. So a
 * lease has a bound of its own: with NOTICES_MAX untaken no NOTIFY is let in where that is known.
 *
 * Happens before: a notice is left after its bytes were placed by the same thread (local) or by the
 * thread that received them (link), and reaches another worker through that one's mailbox, whose
 * lock orders the two. Who sees the NOTIFIED's cqe sees the bytes.
 */
#include "daemon/op/notify/notify.h"
#include "daemon/base/log.h"
#include <assert.h>
#include <endian.h>
#include <stdlib.h>

/* Of one lease: beyond the first NOTIFYs are refused where its grant is at hand, beyond the second
 * what comes from elsewhere is dropped. */
#define NOTICES_MAX (256u * RDMAD_NOTIFY_DEPTH)
#define NOTICES_MOST (2u * NOTICES_MAX)
/* Of all leases of a user's sessions; twice as many before those of other daemons are dropped. */
#define NOTICES_UID (8u * NOTICES_MAX)

/* Messages with a notice for one that asks: often enough for the answer to be there in time. */
#define ASK_EVERY (RDMAD_NOTIFY_DEPTH / 4)

struct op_notice {
    struct mail mail;
    struct list node; /* in grant->notices */
    struct op_notifier *from;
    uint64_t length;
    uint32_t imm;
};

struct op_grant {
    struct id_node node; /* in worker->grants, by the lease's number */
    struct list session_node;
    struct op_session *session;
    struct list notices; /* that nobody took */
    uint32_t count;      /* length of notices */
    bool dropped;        /* a call sees to its end */
    struct list waiting; /* NOTIFIEDs; empty when notices is not */
};

struct op_notifier *notifier_new(const struct op_session *owner, uint64_t lease_id) {
    struct op_notifier *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->refs = 1;
    n->lease_id = lease_id;
    n->session = owner->id;
    n->owner = owner->worker;
    return n;
}

void notifier_hold(struct op_notifier *n) {
    __atomic_add_fetch(&n->refs, 1, __ATOMIC_RELAXED);
}

void notifier_drop(struct op_notifier *n) {
    if (n && __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(n);
}

/* ---- the owner's worker ------------------------------------------------------------------ */

static struct op_grant *grant_find(const struct worker *w, uint64_t lease_id, uint64_t session) {
    struct id_node *node = ids_find(&w->grants, lease_id);
    struct op_grant *g = node ? container_of(node, struct op_grant, node) : NULL;
    return g && g->session->id == session ? g : NULL;
}

/* It was taken, or its grant is gone. */
static void notice_free(struct op_notice *notice) {
    struct op_notifier *n = notice->from;
    __atomic_sub_fetch(&n->queued, 1, __ATOMIC_RELEASE);
    notifier_drop(n);
    free(notice);
}

static void give(struct worker *w, struct op *op, struct op_notice *notice) {
    struct op_result result = {.status = RDMAD_OK,
                               .outcome = RDMAD_DONE,
                               .flags = RDMAD_CQE_IMM,
                               .bytes = notice->length,
                               .info = notice->imm};
    notice_free(notice);
    op_end(w, op, &result);
}

static void drop(struct op_notice *notice) {
    LOG_LIMITED(WARNING,
                ("lease %lu: %u notifications wait for its owner, or %u for all leases of its "
                 "user, who takes none: one more is dropped",
                 (unsigned long)notice->from->lease_id, NOTICES_MOST, 2 * NOTICES_UID));
    notice_free(notice);
}

/* They take memory, which is their owner's to be charged with: he takes them or ends the lease. */
static uint32_t of_uid(const struct op_grant *g) {
    return __atomic_load_n(&g->session->uid->notices, __ATOMIC_RELAXED);
}

static void keep(struct op_grant *g, struct op_notice *notice) {
    list_append(&g->notices, &notice->node);
    g->count++;
    __atomic_add_fetch(&g->session->uid->notices, 1, __ATOMIC_RELAXED);
}

/* The first that nobody took; NULL: there is none. */
static struct op_notice *take_kept(struct op_grant *g) {
    struct list *first = list_pop(&g->notices);
    if (!first)
        return NULL;
    g->count--;
    __atomic_sub_fetch(&g->session->uid->notices, 1, __ATOMIC_RELAXED);
    return list_entry(first, struct op_notice, node);
}

static void arrive(struct worker *w, struct op_notice *notice) {
    struct op_grant *g = grant_find(w, notice->from->lease_id, notice->from->session);
    if (!g || g->session->shut) {
        notice_free(notice);
    } else if (!list_empty(&g->waiting)) {
        give(w, list_entry(list_first(&g->waiting), struct op, node), notice);
    } else if (g->count == NOTICES_MOST || of_uid(g) >= 2 * NOTICES_UID) {
        drop(notice);
    } else {
        keep(g, notice);
    }
}

static void deliver_notice(struct mail *mail) {
    struct op_notice *notice = container_of(mail, struct op_notice, mail);
    arrive(notice->from->owner, notice);
}

int notice_leave(struct worker *w, struct op_notifier *from, uint32_t imm, uint64_t length) {
    struct op_notice *notice = malloc(sizeof(*notice));
    if (!notice)
        return RDMAD_E_NOMEM;
    *notice = (struct op_notice){.from = from, .imm = imm, .length = length};
    list_init(&notice->node);
    notifier_hold(from);
    if (from->owner == w)
        arrive(w, notice);
    else
        mailbox_post(&from->owner->mailbox, &notice->mail, deliver_notice);
    return 0;
}

int notified_take(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                  struct op_request *rq) {
    rq->grant = grant_find(w, sqe->lease, r->session->id);
    if (!rq->grant)
        return RDMAD_E_NO_LEASE;
    struct op *op = op_new(w, r, sqe, rq);
    struct op_notice *notice = take_kept(rq->grant);
    if (notice)
        give(w, op, notice);
    else
        list_append(&rq->grant->waiting, &op->node);
    return 0;
}

struct op_grant *op_grant_new(void) {
    struct op_grant *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    list_init(&g->session_node);
    list_init(&g->notices);
    list_init(&g->waiting);
    return g;
}

uint64_t grant_number(const struct op_grant *g) {
    return g->node.id;
}

int grant_add(struct worker *w, struct op_session *s, struct op_grant *g, uint64_t lease_id) {
    assert(!g->session && s->worker == w);
    int rc = ids_add(&w->grants, &g->node, lease_id);
    if (rc < 0) {
        free(g);
        return rc;
    }
    g->session = s;
    list_append(&s->grants, &g->session_node);
    return 0;
}

bool grant_end(struct worker *w, struct op_grant *g, int reason) {
    assert(g->session->worker == w);
    for (struct list *pos; (pos = list_first(&g->waiting));) {
        if (!ends_may(g->session))
            return false;
        op_cancel(w, list_entry(pos, struct op, node), reason);
    }
    while (g->count) {
        if (!ends_may(g->session))
            return false;
        notice_free(take_kept(g));
    }
    ids_remove(&w->grants, &g->node);
    list_remove(&g->session_node);
    free(g);
    return true;
}

struct op_grant *grant_hide(struct worker *w, const struct op_session *s, uint64_t lease_id) {
    struct op_grant *g = grant_find(w, lease_id, s->id);
    if (!g)
        return NULL;
    assert(!g->dropped);
    ids_remove(&w->grants, &g->node);
    g->dropped = true;
    return g;
}

bool grants_session_gone(struct worker *w, struct op_session *s) {
    list_for_each_safe (pos, &s->grants) {
        struct op_grant *g = list_entry(pos, struct op_grant, session_node);
        if (g->dropped || !grant_end(w, g, RDMAD_E_CANCELED))
            return false;
    }
    return true;
}

/* ---- the lessee's worker ----------------------------------------------------------------- */

/* Attaches that are gone have left so many that nobody takes any, by the looks of it. */
static bool too_many_wait(const struct worker *w, const struct op_notifier *n) {
    const struct op_grant *g = n->owner == w ? grant_find(w, n->lease_id, n->session) : NULL;
    return g && (g->count >= NOTICES_MAX || of_uid(g) >= NOTICES_UID);
}

static int reserve_local(const struct worker *w, struct op_notifier *n) {
    if (!n || __atomic_load_n(&n->queued, __ATOMIC_ACQUIRE) >= RDMAD_NOTIFY_DEPTH ||
        too_many_wait(w, n))
        return RDMAD_E_NO_WAITER;
    __atomic_add_fetch(&n->queued, 1, __ATOMIC_RELAXED);
    return 0;
}

static bool has_room(const struct op_lease *lease) {
    uint32_t out = lease->notify_number - lease->notify_taken;
    return out + lease->notify_claims < RDMAD_NOTIFY_DEPTH;
}

static void claim(struct worker *w, struct op *op) {
    op->reserved = true;
    op->lease->notify_claims++;
    op_queue(w, op);
}

/* In the order they came: one that there is room for does not overtake those that wait. */
static void start_link(struct worker *w, struct op *op) {
    struct op_lease *lease = op->lease;
    if (!lease->notify_ref) {
        op_cancel(w, op, RDMAD_E_NO_WAITER);
        return;
    }
    if (list_empty(&lease->notify_waiting) && has_room(lease)) {
        claim(w, op);
        return;
    }
    op->turn = lease->notify_turn;
    list_append(&lease->notify_waiting, &op->node);
    notify_ask(w, op->session, lease);
    if (!lease->asking) /* and nobody else will */
        op_cancel(w, op, RDMAD_E_NOMEM);
}

void notify_start(struct worker *w, struct op *op) {
    if (op->lease->leased_link) {
        start_link(w, op);
        return;
    }
    int rc = reserve_local(w, op->lease->notifier);
    op->reserved = rc == 0;
    if (rc)
        op_cancel(w, op, rc);
    else
        op_queue(w, op);
}

void notify_release(struct op *op) {
    if (!op->reserved)
        return;
    op->reserved = false;
    if (op->lease->leased_link)
        op->lease->notify_claims--;
    else
        __atomic_sub_fetch(&op->lease->notifier->queued, 1, __ATOMIC_RELAXED);
}

static int post_message(struct worker *w, struct op *op) {
    struct op_lease *lease = op->lease;
    struct op_part *part = op_part_get(w, op);
    if (!part)
        return RDMAD_E_NOMEM;
    uint32_t number = lease->notify_number + !op->ask;
    struct notify_message m = {.type = OP_MESSAGE_NOTIFY,
                               .asks = op->ask,
                               .imm = htole32(op->imm),
                               .number = htole32(number),
                               .ref = htole64(lease->notify_ref),
                               .length = htole64(op->length)};
    part->fop = (struct fabric_op){.opcode = RDMAD_OP_SEND,
                                   .head = &m,
                                   .head_size = sizeof(m),
                                   .length = sizeof(m),
                                   .asks = op->ask,
                                   .user = part};
    int rc = op->route->seat->ops->post(op->route->link, &part->fop);
    if (rc < 0) {
        op_part_put(w, part);
        return rc;
    }
    notify_release(op);
    lease->notify_number = number;
    op_part_posted(op, part);
    op->posted -= sizeof(m); /* which are none of its bytes */
    if (number - lease->notify_asked >= ASK_EVERY)
        notify_ask(w, op->session, lease);
    return 0;
}

int notify_post(struct worker *w, struct op *op) {
    int rc = op->lease->leased_link ? post_message(w, op)
                                    : notice_leave(w, op->lease->notifier, op->imm, op->length);
    if (rc < 0)
        return rc;
    op->reserved = false;
    op->todo = 0;
    return 0;
}

/* Posting it now could overtake the bytes. */
bool notify_must_wait(const struct op *op) {
    const struct op_route *route = op->route;
    if (op->todo != OP_TODO_NOTICE || !op->inflight || op->next < op->length ||
        !list_empty(&op->again))
        return false;
    return !op->lease->leased_link || !route->up || !route->link->ordered;
}

/* The owner's daemon may say what it likes: more than was posted is no answer, nor is less than it
 * said before. */
static void answered(struct op_lease *lease, uint64_t word) {
    uint32_t taken = (uint32_t)word;
    bool sane =
        (int32_t)(taken - lease->notify_taken) >= 0 && (int32_t)(lease->notify_number - taken) >= 0;
    if (word >> 32 == NOTIFY_KNOWN >> 32 && sane)
        lease->notify_taken = taken;
}

/* Those that there is room for go on. Of the others those are refused that came before the question
 * whose answer that was; for the rest it is asked again. */
static void serve_waiting(struct worker *w, struct op_session *s, struct op_lease *lease,
                          uint32_t turn) {
    for (struct list *pos; (pos = list_first(&lease->notify_waiting));) {
        struct op *op = list_entry(pos, struct op, node);
        if (has_room(lease)) {
            list_remove(pos);
            claim(w, op);
        } else if ((int32_t)(turn - op->turn) > 0) {
            op_cancel(w, op, RDMAD_E_NO_WAITER);
        } else {
            notify_ask(w, s, lease);
            if (lease->asking)
                return;
            op_cancel(w, op, RDMAD_E_NOMEM);
        }
    }
}

static void asked(struct worker *w, struct op *op, int status, uint8_t outcome) {
    struct op_lease *lease = op->lease;
    uint32_t turn = lease->notify_turn;
    lease->asking = false;
    if (outcome == RDMAD_DONE)
        answered(lease, op->placed);
    else if (status == RDMAD_E_PEER_LOST)
        notify_ask(w, op->session, lease);
    if (lease->asking || lease->reason || !lease->route || op->session->shut)
        return; /* who ends these three ends those that wait */
    if (outcome == RDMAD_DONE)
        serve_waiting(w, op->session, lease, turn);
    else
        for (struct list *pos; (pos = list_first(&lease->notify_waiting));)
            op_cancel(w, list_entry(pos, struct op, node), status);
}

/* It waits for the lease's key, if need be. Without memory for it, the next failure asks again. */
void notify_ask(struct worker *w, struct op_session *s, struct op_lease *lease) {
    if (lease->asking || lease->reason || !lease->route || s->shut)
        return;
    const struct rdmad_sqe what = {.opcode = RDMAD_OP_NOTIFY};
    if (!op_start_own(w, s, NULL, lease, &what, CLOCK_NEVER, asked, NULL))
        return;
    lease->asking = true;
    lease->notify_asked = lease->notify_number;
    lease->notify_turn++;
}
