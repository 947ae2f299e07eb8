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
 * broken link lost: they count as taken. One with a number that was used or skipped before comes
 * late from a link that was given up; its sender was told that nobody knows, and it is dropped.
 *
 * An ask is answered with how many messages, by their numbers, have no notice waiting for the owner
 * any more.
 */
#include "daemon/op/notify/notify_peer.h"
#include "daemon/base/log.h"
#include "daemon/op/engine/window.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/notify/wire.h"
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

int notifier_attach(struct worker *w, struct op_window *ow, struct op_notifier *n) {
    assert(!n->window && !ow->notifier && ow->worker == w);
    int rc = ids_add(&w->notifiers, &n->node, n->ref);
    if (rc < 0) {
        notifier_drop(n);
        return rc;
    }
    n->window = ow;
    ow->notifier = n;
    return 0;
}

void notifier_window_closed(struct worker *w, struct op_window *ow) {
    if (!ow->notifier)
        return;
    ids_remove(&w->notifiers, &ow->notifier->node);
    notifier_drop(ow->notifier);
    ow->notifier = NULL;
}

static void notice_refuse(const struct op_notifier *n) {
    if (n->window->spec.audit)
        counter_add(&n->window->spec.audit->refused, 1);
}

static bool may_notify(const struct worker *w, const struct op_notifier *n, uint64_t length) {
    const struct fabric_window_spec *spec = &n->window->spec;
    return spec->rights & RDMAD_RIGHT_WRITE && w->now_ns < spec->deadline_ns &&
           length <= spec->length;
}

static uint64_t notifier_answer(const struct op_notifier *n) {
    return NOTIFY_KNOWN | (n->number - __atomic_load_n(&n->queued, __ATOMIC_ACQUIRE));
}

static void notice_take_in(struct worker *w, struct op_notifier *n,
                           const struct notify_message *m) {
    if (__atomic_load_n(&n->queued, __ATOMIC_ACQUIRE) >= RDMAD_NOTIFY_DEPTH) {
        notice_refuse(n);
        return;
    }
    __atomic_add_fetch(&n->queued, 1, __ATOMIC_RELAXED);
    if (notice_leave(w, n, le32toh(m->imm), le64toh(m->length)) < 0) {
        LOG_LIMITED_OF(
            log_of_user(n->whose), ERR,
            ("out of memory: a notification for lease %lu is lost", (unsigned long)n->lease_id));
        __atomic_sub_fetch(&n->queued, 1, __ATOMIC_RELAXED);
    }
}

uint64_t notify_received(struct worker *w, uint64_t peer, const uint8_t *bytes, size_t size) {
    struct notify_message m;
    if (size != sizeof(m))
        return 0;
    memcpy(&m, bytes, sizeof(m));
    struct id_node *node = ids_find(&w->notifiers, le64toh(m.ref));
    struct op_notifier *n = node ? container_of(node, struct op_notifier, node) : NULL;
    if (!n || n->window->spec.peer != peer) /* on whichever of its peer's connections it came */
        return 0;
    if (m.asks > 1 || m.reserved || m.reserved1 || !may_notify(w, n, le64toh(m.length))) {
        notice_refuse(n);
        return 0;
    }
    int32_t ahead = (int32_t)(le32toh(m.number) - n->number);
    if (ahead > 0)
        n->number = le32toh(m.number);
    if (ahead > 0 && !m.asks)
        notice_take_in(w, n, &m);
    return notifier_answer(n);
}
