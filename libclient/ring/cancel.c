/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - ending an op before its time.
 *
 * The happy path: a CANCEL is submitted in an entry of its own, so that a full ring can be canceled
 * on, too; then whatever completes is laid aside until both are over, the CANCEL and the op, whose
 * completion (canceled or just done) is this call's. An op that had completed already is found
 * among those laid aside.
 *
 * A CANCEL behind entries of a batch that is not complete would be taken for its last one, so there
 * is none then.
 *
 * If the daemon is lost meanwhile, the op has ended with RDMAD_E_DAEMON_LOST, and that is the
 * answer. An op that waits for the next daemon is canceled there.
 */
#include "libclient/base/error.h"
#include "libclient/ring/reap.h"
#include "libclient/ring/slots.h"
#include "libclient/ring/submit.h"
#include "libclient/ring/wait.h"

/* Waits until nothing can touch the op's buffers. */
static void cancel_and_await(struct rdmad_ring *r, uint32_t index) {
    const struct rdmad_slot *own = &r->slot[r->entries];
    bool asked = false;
    uint32_t asked_of = r->resumes;
    while (r->slot[index].state != RDMAD_SLOT_OVER || own->state == RDMAD_SLOT_PUBLISHED) {
        if (r->resumes != asked_of)
            asked = false; /* the next daemon has the op, and was not asked */
        asked_of = r->resumes;
        if (!asked && r->slot[index].state == RDMAD_SLOT_PUBLISHED)
            asked = rdmad_ring_publish_cancel(r, index);
        rdmad_ring_await(r, UINT64_MAX);
        rdmad_ring_gather(r);
        if (rdmad_slot_is_ahead(&r->slot[index]) && !rdmad_is_open(r->session))
            rdmad_ring_await_open(r, UINT64_MAX);
    }
}

int rdmad_ring_cancel(rdmad_ring *r, uint64_t user_data, struct rdmad_cqe *cqe) {
    RDMAD_LIVE(r, RING);
    struct rdmad_slot *slot;
    rdmad_ring_submit(r); /* with the daemon lost, they are over with that */
    rdmad_ring_gather(r);
    uint32_t index = rdmad_slot_find(r, user_data);
    if (index == RDMAD_NO_SLOT)
        return rdmad_fail(r->session, RDMAD_E_HANDLE,
                          "no op with user_data %llu is in flight on ring %llu",
                          (unsigned long long)user_data, (unsigned long long)r->handle);
    slot = &r->slot[index];
    if (slot->state != RDMAD_SLOT_OVER && r->batch != RDMAD_NO_SLOT)
        return rdmad_fail(r->session, RDMAD_E_INVAL,
                          "ring %llu has a batch of %u entries whose last one, without "
                          "RDMAD_SQE_MORE, has not been prepared: complete it, then cancel",
                          (unsigned long long)r->handle, r->batch_members);
    if (slot->state != RDMAD_SLOT_OVER) {
        if (slot->silent)
            r->silents--;
        slot->silent = false; /* its completion is asked for now */
        cancel_and_await(r, index);
    }
    rdmad_slot_pick(r, index);
    if (cqe) {
        *cqe = slot->cqe;
        cqe->user_data = user_data;
    }
    if (slot->callback)
        r->calls--;
    else
        r->visible--;
    rdmad_slot_free(r, index);
    return 0;
}
