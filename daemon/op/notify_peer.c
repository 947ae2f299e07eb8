/* SPDX-License-Identifier: MIT */
/*
 * notify_peer.c - notices that peers send, at the worker of the lease's window.
 *
 * What comes is a peer's and may be a lie. A notice is believed when its reference names an attach
 * of that very peer, the window has the right WRITE and time left, the length fits into the lease,
 * and the attach has allowance; else it is dropped, and counted as refused where the attach is
 * known. A peer that exceeds its allowance so gains nothing, and the owner holds no more than
 * RDMAD_NOTIFY_DEPTH notices of each attach.
 *
 * The messages of an attach are numbered from 1. Numbers that were skipped are of messages that a
 * broken link lost: their allowance goes back, as if they had been taken. One with a number that
 * was used or skipped before comes late from a link that was given up; its sender was told that
 * nobody knows, and it is dropped.
 */
#include "daemon/base/log.h"
#include "daemon/op/call.h"
#include "daemon/op/notify.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* The mail holds the notifier. Whoever finds it under way left his count before, and the mail takes
 * the count after it is not under way any more. */
void notifier_allow(struct op_notifier *n, uint32_t count) {
    __atomic_add_fetch(&n->taken, count, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&n->mailed, true, __ATOMIC_SEQ_CST))
        return;
    notifier_hold(n);
    mailbox_post(n->plane->control, &n->mail, event_notify_taken);
}

void event_notify_taken(struct mail *mail) {
    struct op_notifier *n = container_of(mail, struct op_notifier, mail);
    const struct plane_events *events = &n->plane->events;
    __atomic_store_n(&n->mailed, false, __ATOMIC_SEQ_CST);
    uint32_t count = __atomic_exchange_n(&n->taken, 0, __ATOMIC_SEQ_CST);
    if (count && !n->closed && events->notify_taken)
        events->notify_taken(events->user, n->cookie, count);
    notifier_drop(n);
}

void window_notify(struct call *c) {
    struct op_window *ow = &c->window->op;
    struct op_notifier *n = c->object;
    n->window = ow;
    if (!ow->notifier && ids_add(&c->worker->notifiers, &n->node, n->ref) == 0)
        ow->notifier = n;
    else
        notifier_drop(n);
    call_finish(c);
}

void notifier_window_closed(struct worker *w, struct op_window *ow) {
    if (!ow->notifier)
        return;
    ids_remove(&w->notifiers, &ow->notifier->node);
    notifier_drop(ow->notifier);
    ow->notifier = NULL;
}

static void refuse(const struct op_notifier *n) {
    if (n->window->spec.audit)
        counter_add(&n->window->spec.audit->refused, 1);
}

static bool may_notify(const struct worker *w, const struct op_notifier *n, uint64_t length) {
    const struct fabric_window_spec *spec = &n->window->spec;
    return spec->rights & RDMAD_RIGHT_WRITE && w->now_ns < spec->deadline_ns &&
           length <= spec->length;
}

void notify_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                     size_t size) {
    (void)number; /* of the connection: the attach may be used on any of its peer's */
    struct notify_message m;
    if (size != sizeof(m))
        return;
    memcpy(&m, bytes, sizeof(m));
    struct id_node *node = ids_find(&w->notifiers, le64toh(m.ref));
    struct op_notifier *n = node ? container_of(node, struct op_notifier, node) : NULL;
    if (!n || n->window->spec.peer != peer)
        return;
    if (m.sync > 1 || m.reserved || m.reserved1 || !may_notify(w, n, le64toh(m.length))) {
        refuse(n);
        return;
    }
    int32_t ahead = (int32_t)(le32toh(m.number) - n->number);
    if (ahead < 0 || (ahead == 0 && !m.sync))
        return;
    n->number = le32toh(m.number);
    uint32_t lost = (uint32_t)ahead - !m.sync;
    if (lost)
        notifier_allow(n, lost);
    if (m.sync)
        return;
    if (__atomic_load_n(&n->queued, __ATOMIC_ACQUIRE) >= RDMAD_NOTIFY_DEPTH) {
        refuse(n);
        return;
    }
    __atomic_add_fetch(&n->queued, 1, __ATOMIC_RELAXED);
    if (notice_leave(w, n, le32toh(m.imm), le64toh(m.length)) < 0) {
        LOG(ERR,
            ("out of memory: a notification for lease %lu is lost", (unsigned long)n->lease_id));
        __atomic_sub_fetch(&n->queued, 1, __ATOMIC_RELAXED);
        notifier_allow(n, 1);
    }
}
