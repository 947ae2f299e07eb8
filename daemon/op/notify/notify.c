/* SPDX-License-Identifier: MIT */
/*
 * notify.c - NOTIFY, at the worker of the lessee's session.
 *
 * The happy path of a NOTIFY: notify_start takes one off the lease's allowance, its bytes go as a
 * WRITE's do, notify_post then leaves the notice or posts the SEND that carries it, and the op is
 * done. On a link that keeps order the SEND goes right behind the WRITEs, else when they are done.
 *
 * Outcomes follow complete.c's table, the SEND being one part more: bytes placed and the notice
 * refused is PARTIAL, bytes placed and nobody knows whether the notice came is UNKNOWN, with the
 * SEND's status. A SEND of which nobody knows is never repeated.
 *
 * Allowance, route link: only the owner's daemon knows how many notices were taken. It is asked
 * over the link, by a message without a notice (an ask), whose answer brings the count. An ask is
 * sent ahead of time for every few notices, so a stream never waits for an answer. A NOTIFY that
 * finds no room by the last answer waits for the next, and is refused only by the answer to a
 * question that was asked after the NOTIFY came. So only what really is one too many is refused,
 * and never because an answer or the control connection is slow.
 *
 * An ask also tells the number of the last message posted. Messages that the owner's daemon has not
 * seen by then never came, and count as taken. After a message that failed an ask is sent at once,
 * so no allowance is lost with a link.
 */
#include "daemon/op/notify/notify.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/message.h"
#include "daemon/op/engine/part.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/notify/allowance.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/wire.h"
#include <endian.h>

/* Messages with a notice for one that asks: often enough for the answer to be there in time. */
#define ASK_EVERY (RDMAD_NOTIFY_DEPTH / 4)

/* A message with a notice may be lost: the owner's daemon must learn which was the last, and say
 * what there is room for. */
static void notify_ask(struct worker *w, struct op_session *s, struct op_lease *lease);

static int claim_local(const struct worker *w, struct op_notifier *n) {
    if (__atomic_load_n(&n->queued, __ATOMIC_ACQUIRE) >= RDMAD_NOTIFY_DEPTH ||
        notices_too_many(w, n))
        return RDMAD_E_NO_WAITER;
    __atomic_add_fetch(&n->queued, 1, __ATOMIC_RELAXED);
    return 0;
}

static bool allowance_has_room(const struct op_allowance *a) {
    uint32_t out = a->number - a->taken;
    return out + a->claims < RDMAD_NOTIFY_DEPTH;
}

static void notify_claim(struct worker *w, struct op *op) {
    op->claim = CLAIM_HELD;
    op->lease->allowance->claims++;
    op_queue(w, op);
}

/* In the order they came: one that there is room for does not overtake those that wait. */
static void start_link(struct worker *w, struct op *op) {
    struct op_allowance *a = op->lease->allowance;
    if (list_empty(&a->waiting) && allowance_has_room(a)) {
        notify_claim(w, op);
        return;
    }
    op->question = a->questions;
    list_append(&a->waiting, &op->node);
    notify_ask(w, op->session, op->lease);
    if (!a->asking) /* and nobody else will */
        op_cancel(w, op, RDMAD_E_NOMEM);
}

void notify_start(struct worker *w, struct op *op) {
    struct op_allowance *a = op->lease->allowance;
    if (a && op->lease->leased_link) {
        start_link(w, op);
        return;
    }
    int rc = a ? claim_local(w, a->notifier) : RDMAD_E_NO_WAITER;
    if (rc) {
        op_cancel(w, op, rc);
        return;
    }
    op->claim = CLAIM_HELD;
    op_queue(w, op);
}

void notify_release(struct op *op) {
    if (op->claim != CLAIM_HELD)
        return;
    op->claim = CLAIM_NONE;
    if (op->lease->leased_link)
        op->lease->allowance->claims--;
    else
        __atomic_sub_fetch(&op->lease->allowance->notifier->queued, 1, __ATOMIC_RELAXED);
}

static int post_message(struct worker *w, struct op *op) {
    struct op_allowance *a = op->lease->allowance;
    struct op_part *part = op_part_get(w, op);
    if (!part)
        return RDMAD_E_NOMEM;
    const bool asks = op->claim == CLAIM_ASKS;
    uint32_t number = a->number + !asks;
    struct notify_message m = {.type = OP_MESSAGE_NOTIFY,
                               .asks = asks,
                               .imm = htole32(op->imm),
                               .number = htole32(number),
                               .ref = htole64(a->ref),
                               .length = htole64(op->length)};
    part->fop = (struct fabric_op){.opcode = RDMAD_OP_SEND,
                                   .head = &m,
                                   .head_size = sizeof(m),
                                   .length = sizeof(m),
                                   .asks = asks,
                                   .user = part};
    int rc = op->route->fabric->ops->post(op->route->link, &part->fop);
    if (rc < 0) {
        op_part_put(w, part);
        return rc;
    }
    notify_release(op);
    a->number = number;
    op_part_posted(op, part);
    op->posted -= sizeof(m); /* which are none of its bytes */
    if (number - a->asked >= ASK_EVERY)
        notify_ask(w, op->session, op->lease);
    return 0;
}

int notify_post(struct worker *w, struct op *op) {
    int rc = op->lease->leased_link
                 ? post_message(w, op)
                 : notice_leave(w, op->lease->allowance->notifier, op->imm, op->length);
    if (rc < 0)
        return rc;
    if (op->claim == CLAIM_HELD)
        op->claim = CLAIM_NONE; /* it is the notice's now */
    op->todo = 0;
    return 0;
}

/* Posting it now could overtake the bytes. */
bool notify_must_wait(const struct op *op) {
    const struct op_route *route = op->route;
    if (!op->inflight || op->next < op->length || !list_empty(&op->again))
        return false;
    return !op->lease->leased_link || !route->up || !route->link->ordered;
}

/* The owner's daemon may lie: an answer of more than was posted, or less than it said before, is
 * ignored. */
static void ask_answered(struct op_allowance *a, uint64_t word) {
    uint32_t taken = (uint32_t)word;
    bool sane = (int32_t)(taken - a->taken) >= 0 && (int32_t)(a->number - taken) >= 0;
    if (word >> 32 == NOTIFY_KNOWN >> 32 && sane)
        a->taken = taken;
}

/* Those that there is room for go on. Of the others, those that came before the question was asked
 * whose answer this is are refused; for the rest it is asked again. */
static void serve_waiting(struct worker *w, struct op_session *s, struct op_lease *lease,
                          uint32_t question) {
    struct op_allowance *a = lease->allowance;
    for (struct list *pos; (pos = list_first(&a->waiting));) {
        struct op *op = list_entry(pos, struct op, node);
        if (allowance_has_room(a)) {
            list_remove(pos);
            notify_claim(w, op);
        } else if ((int32_t)(question - op->question) > 0) {
            op_cancel(w, op, RDMAD_E_NO_WAITER);
        } else {
            notify_ask(w, s, lease);
            if (a->asking)
                return;
            op_cancel(w, op, RDMAD_E_NOMEM);
        }
    }
}

static void ask_ended(struct worker *w, struct op *op, int status, uint8_t outcome) {
    struct op_lease *lease = op->lease;
    struct op_allowance *a = lease->allowance;
    uint32_t question = a->questions;
    a->asking = false;
    if (outcome == RDMAD_DONE)
        ask_answered(a, op->placed);
    else if (status == RDMAD_E_PEER_LOST)
        notify_ask(w, op->session, lease);
    if (a->asking || lease->reason || !lease->route || op->session->shut)
        return; /* who ends these three ends those that wait */
    if (outcome == RDMAD_DONE)
        serve_waiting(w, op->session, lease, question);
    else
        for (struct list *pos; (pos = list_first(&a->waiting));)
            op_cancel(w, list_entry(pos, struct op, node), status);
}

/* It waits for the lease's key, if need be. Without memory for it, the next failure asks again. */
static void notify_ask(struct worker *w, struct op_session *s, struct op_lease *lease) {
    struct op_allowance *a = lease->allowance;
    if (a->asking || lease->reason || !lease->route || s->shut)
        return;
    const struct rdmad_sqe what = {.opcode = RDMAD_OP_NOTIFY};
    struct op *op = op_start_own(w, s, NULL, lease, &what, CLOCK_NEVER, ask_ended, NULL);
    if (!op)
        return;
    op->claim = CLAIM_ASKS;
    a->asking = true;
    a->asked = a->number;
    a->questions++;
}

void notify_failed(struct worker *w, struct op *op) {
    notify_ask(w, op->session, op->lease);
}
