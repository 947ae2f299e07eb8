/* SPDX-License-Identifier: MIT */
/*
 * allowance.c - made with its lease, and gone with it.
 */
#include "daemon/op/notify/allowance.h"
#include <assert.h>
#include <stdlib.h>

struct op_allowance *allowance_new(const struct op_session *owner, uint64_t lease_id,
                                   uint64_t ref) {
    struct op_allowance *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->ref = ref;
    list_init(&a->waiting);
    a->notifier = owner ? notifier_new(owner, lease_id) : NULL;
    if (owner && !a->notifier) {
        free(a);
        return NULL;
    }
    return a;
}

void allowance_free(struct op_allowance *a) {
    if (!a)
        return;
    assert(list_empty(&a->waiting) && !a->asking);
    notifier_drop(a->notifier);
    free(a);
}

void allowance_begin_again(struct op_allowance *a, uint64_t ref) {
    a->ref = ref;
    a->number = a->taken = a->asked = 0;
}

void allowance_lost(struct op_lease *lease) {
    if (lease->allowance)
        list_splice(&lease->held, &lease->allowance->waiting);
}
