/* SPDX-License-Identifier: MIT */
/*
 * grant.c - notices at their owner's worker.
 *
 * Notices outlive the attach that they came by, and a lessee that attaches again has a new
 * allowance. So a lease has a bound of its own: with NOTICES_MAX of them not taken, no NOTIFY is
 * let in on the worker that knows it.
 *
 * A notice is kept, and given to a NOTIFIED that waits in the grants' part of the turn: so no
 * client's op ends on the stack of who leaves one. A NOTIFIED that is ending with its ring is given
 * none, for nobody may read its cqe.
 *
 * Happens before: a notice is left after its bytes were placed by the same thread (local) or by the
 * thread that received them (link), and reaches another worker through that one's mailbox, whose
 * lock orders the two. Who sees the NOTIFIED's cqe sees the bytes.
 */
#include "daemon/op/notify/grant.h"
#include "daemon/base/log.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/ends.h"
#include "daemon/op/engine/life.h"
#include "daemon/op/engine/untaken.h"
#include <assert.h>
#include <stdlib.h>

/* Of one lease: beyond NOTICES_MAX a NOTIFY is refused on the worker that has the grant, beyond
 * NOTICES_MOST what comes from elsewhere is dropped. */
#define NOTICES_MAX (256u * RDMAD_NOTIFY_DEPTH)
#define NOTICES_MOST (2u * NOTICES_MAX)
/* Of all leases of a user's sessions; twice as many before those of other daemons are dropped. */
#define NOTICES_UID (8u * NOTICES_MAX)
#define WAITING_LOOKS 256u /* NOTIFIEDs of one grant that a turn looks at */

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
    struct list notices;  /* that nobody took */
    uint32_t count;       /* length of notices */
    bool dropped;         /* a call sees to its end */
    struct list waiting;  /* NOTIFIEDs */
    struct list due_node; /* in worker->notices_due: neither notices nor waiting is empty */
};

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

static void notice_give(struct worker *w, struct op *op, struct op_notice *notice) {
    struct op_result result = {.status = RDMAD_OK,
                               .outcome = RDMAD_DONE,
                               .flags = RDMAD_CQE_IMM,
                               .bytes = notice->length,
                               .info = notice->imm};
    notice_free(notice);
    op_end(w, op, &result);
}

static void notice_drop(struct op_notice *notice) {
    LOG_LIMITED_OF(log_of_user(notice->from->whose), WARNING,
                   ("lease %lu: %u notifications wait for its owner, or %u for all leases of its "
                    "user, who takes none: one more is dropped",
                    (unsigned long)notice->from->lease_id, NOTICES_MOST, 2 * NOTICES_UID));
    notice_free(notice);
}

/* They take memory, for which the lease's owner is charged, since it can take them or end the
 * lease. */
static uint32_t notices_of_uid(const struct op_grant *g) {
    return __atomic_load_n(&g->session->account->notices, __ATOMIC_RELAXED);
}

static void notice_keep(struct op_grant *g, struct op_notice *notice) {
    list_append(&g->notices, &notice->node);
    g->count++;
    __atomic_add_fetch(&g->session->account->notices, 1, __ATOMIC_RELAXED);
    untaken_came(g->session);
}

/* The first that nobody took, for who takes it or because the lease ends; NULL: there is none. */
static struct op_notice *notice_pop(struct op_grant *g) {
    struct list *first = list_pop(&g->notices);
    if (!first)
        return NULL;
    g->count--;
    __atomic_sub_fetch(&g->session->account->notices, 1, __ATOMIC_RELAXED);
    return list_entry(first, struct op_notice, node);
}

/* The same, for a NOTIFIED. */
static struct op_notice *notice_take(struct worker *w, struct op_grant *g) {
    struct op_notice *notice = notice_pop(g);
    if (notice)
        untaken_taken(w, g->session);
    return notice;
}

/* The turn gives notices to those that wait. */
static void grant_look(struct worker *w, struct op_grant *g) {
    if (g->count && !list_empty(&g->waiting) && list_empty(&g->due_node))
        list_append(&w->notices_due, &g->due_node);
}

/* Gives the grant's first notice to op, if it may have one. */
static bool notice_serve(struct worker *w, struct op_grant *g, struct op *op) {
    if (op_ending(op) || !g->count)
        return false;
    notice_give(w, op, notice_take(w, g));
    return true;
}

/* Those that are ending go behind the others, until their ends come. */
static unsigned grant_run(struct worker *w, struct op_grant *g) {
    struct list *first;
    unsigned given = 0;
    for (unsigned n = 0; n < WAITING_LOOKS && g->count && (first = list_first(&g->waiting)); n++) {
        struct op *op = list_entry(first, struct op, node);
        if (notice_serve(w, g, op)) {
            given++;
        } else {
            list_remove(first);
            list_append(&g->waiting, first);
        }
    }
    return given;
}

unsigned notices_run(struct worker *w) {
    struct list due;
    unsigned work = 0;
    list_init(&due);
    list_splice(&due, &w->notices_due);
    for (struct list *pos; (pos = list_pop(&due));) {
        struct op_grant *g = list_entry(pos, struct op_grant, due_node);
        work += grant_run(w, g);
        grant_look(w, g);
    }
    return work + !list_empty(&w->notices_due);
}

static void notice_arrive(struct worker *w, struct op_notice *notice) {
    struct op_grant *g = grant_find(w, notice->from->lease_id, notice->from->session);
    if (!g || g->session->shut) {
        notice_free(notice);
    } else if (g->count == NOTICES_MOST || notices_of_uid(g) >= 2 * NOTICES_UID) {
        notice_drop(notice);
    } else {
        notice_keep(g, notice);
        grant_look(w, g);
    }
}

static void deliver_notice(struct mail *mail) {
    struct op_notice *notice = container_of(mail, struct op_notice, mail);
    notice_arrive(notice->from->owner, notice);
}

int notice_leave(struct worker *w, struct op_notifier *from, uint32_t imm, uint64_t length) {
    struct op_notice *notice = malloc(sizeof(*notice));
    if (!notice)
        return RDMAD_E_NOMEM;
    *notice = (struct op_notice){.from = from, .imm = imm, .length = length};
    list_init(&notice->node);
    notifier_hold(from);
    if (from->owner == w)
        notice_arrive(w, notice);
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
    if (rq->grant->count && list_empty(&rq->grant->waiting)) {
        notice_give(w, op, notice_take(w, rq->grant));
        return 0;
    }
    list_append(&rq->grant->waiting, &op->node);
    grant_look(w, rq->grant);
    return 0;
}

struct op_grant *op_grant_new(void) {
    struct op_grant *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    list_init(&g->session_node);
    list_init(&g->notices);
    list_init(&g->waiting);
    list_init(&g->due_node);
    return g;
}

uint64_t notified_lease_number(const struct op *op) {
    return op->grant->node.id;
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

/* Who waits is given what came before the end: notices and the call for it may have come to the
 * worker together. */
bool grant_end(struct worker *w, struct op_grant *g, int reason) {
    assert(g->session->worker == w);
    for (struct list *pos; (pos = list_first(&g->waiting));) {
        struct op *op = list_entry(pos, struct op, node);
        if (!ends_may(g->session))
            return false;
        if (!notice_serve(w, g, op))
            op_cancel(w, op, reason);
    }
    while (g->count) {
        if (!ends_may(g->session))
            return false;
        notice_free(notice_pop(g));
        untaken_gone(g->session);
    }
    ids_remove(&w->grants, &g->node);
    list_remove(&g->session_node);
    list_remove(&g->due_node);
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

bool notices_too_many(const struct worker *w, const struct op_notifier *n) {
    const struct op_grant *g = n->owner == w ? grant_find(w, n->lease_id, n->session) : NULL;
    return g && (g->count >= NOTICES_MAX || notices_of_uid(g) >= NOTICES_UID);
}
