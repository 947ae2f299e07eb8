/* SPDX-License-Identifier: MIT */
/*
 * notifier.c - counted by whoever points to it, on any thread.
 */
#include "daemon/op/notify/notifier.h"
#include "daemon/op/engine/account.h"
#include <assert.h>
#include <stdlib.h>

struct op_notifier *notifier_new(const struct op_session *owner, uint64_t lease_id) {
    struct op_notifier *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->refs = 1;
    n->lease_id = lease_id;
    n->session = owner->id;
    n->whose = owner->account->who;
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
