/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - ends ops that somebody picks: the control thread by what they hold, a client by name.
 *
 * CANCEL names ops of its own ring by their user_data: all that have it. The user_data of a batch's
 * last entry, once that was taken, names all members of the batch; a member's own names it alone.
 * CANCEL is done (status 0) when there was at least one, else its status is HANDLE; what became of
 * an op is told by the op's own cqe, which may come before CANCEL's or after it. An op that was
 * done before the cancellation reached it ends as done.
 */
#include "daemon/op/worker.h"

unsigned ops_cancel(struct op_session *s, ops_pick *pick, const void *what, int status) {
    struct list left; /* not walked in place: the end of one op may be the end of another */
    unsigned count = 0;
    list_init(&left);
    list_splice(&left, &s->ops);
    for (struct list *pos; (pos = list_pop(&left));) {
        struct op *op = list_entry(pos, struct op, session_node);
        list_append(&s->ops, pos);
        if (!pick(op, what))
            continue;
        count++;
        op_cancel(s->worker, op, status);
    }
    return count;
}

struct name {
    const struct op_ring *ring;
    uint64_t user_data;
};

static bool has_name(const struct op *op, const void *what) {
    const struct name *name = what;
    return op->ring == name->ring && (op->user_data == name->user_data ||
                                      (op->batch && batch_is(op->batch, name->user_data)));
}

int cancel_by_name(struct op_ring *r, uint64_t user_data) {
    struct name name = {.ring = r, .user_data = user_data};
    return ops_cancel(r->session, has_name, &name, RDMAD_E_CANCELED) ? 0 : RDMAD_E_HANDLE;
}
