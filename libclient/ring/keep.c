/* SPDX-License-Identifier: MIT */
/*
 * keep.c - which receives are kept, and where they are in the next ring.
 */
#include "libclient/ring/keep.h"
#include "common/ringword.h"
#include "libclient/ring/slots.h"
#include <assert.h>
#include <stdlib.h>

/* Of a batch all is done or nothing, so none of its ops is. */
static bool slot_is_alone(const struct rdmad_slot *slot) {
    return !slot->member && slot->before == RDMAD_NO_SLOT;
}

/* The slot of the op with that token; NULL: it has had others since, or there was no such op. */
static struct rdmad_slot *slot_of_token(struct rdmad_ring *r, uint64_t token) {
    uint32_t index = (uint32_t)token;
    return index < r->entries && rdmad_slot_token(r, index) == token ? &r->slot[index] : NULL;
}

static bool is_of_a_kept_kind(const struct rdmad_slot *slot) {
    return rdmad_opcode_may_be_kept(slot->opcode);
}

/* With the session's lock. unsent: SENDs have not been sent. What is linked to one may have ended
 * with it. */
static bool op_may_be_kept(const struct rdmad_ring *r, uint32_t index, bool unsent) {
    struct rdmad_session *s = r->session;
    const struct rdmad_slot *slot = &r->slot[index];
    if (slot->state != RDMAD_SLOT_PUBLISHED || !is_of_a_kept_kind(slot) || !slot_is_alone(slot))
        return false;
    if (slot->canceled || slot->cut)
        return false;
    if (slot->opcode == RDMAD_OP_SEND && (!unsent || r->message[index].flags & RDMAD_SQE_LINK))
        return false;
    /* A lease that does not come back is the next daemon's to tell. */
    return slot->opcode == RDMAD_OP_NOTIFIED || s->channel_outlives(s, slot->object);
}

static bool cancel_may_be_kept(struct rdmad_ring *r, const struct rdmad_slot *slot) {
    if (slot->state != RDMAD_SLOT_PUBLISHED || slot->opcode != RDMAD_OP_CANCEL ||
        !slot_is_alone(slot))
        return false;
    const struct rdmad_slot *target = slot_of_token(r, slot->object);
    return target && target->state == RDMAD_SLOT_KEPT && is_of_a_kept_kind(target);
}

static void slot_keep(struct rdmad_ring *r, struct rdmad_slot *slot) {
    slot->state = RDMAD_SLOT_KEPT;
    r->kept++;
}

void rdmad_ring_keep(struct rdmad_ring *r) {
    bool unsent = ringword_peek(&r->daemon->sq_left) == RDMAD_SQ_LEFT_UNSENT;
    if (!r->message)
        return;
    pthread_mutex_lock(&r->session->lock);
    for (uint32_t i = 0; i < r->entries; i++) {
        if (!op_may_be_kept(r, i, unsent))
            continue;
        r->slot[i].begun |= r->slot[i].opcode == RDMAD_OP_RECV;
        slot_keep(r, &r->slot[i]);
    }
    pthread_mutex_unlock(&r->session->lock);
    for (uint32_t i = 0; r->kept && i < r->entries; i++) {
        if (cancel_may_be_kept(r, &r->slot[i]))
            slot_keep(r, &r->slot[i]);
    }
}

void rdmad_ring_canceled(struct rdmad_ring *r, uint64_t token) {
    struct rdmad_slot *slot = slot_of_token(r, token);
    if (slot)
        slot->canceled = true;
}

/* ---- at the next daemon -------------------------------------------------------------------- */

struct kept {
    uint64_t order;
    uint32_t slot;
};

static int kept_compare(const void *left, const void *right) {
    const struct kept *a = left, *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

static struct rdmad_sqe kept_entry(const struct rdmad_ring *r, uint32_t slot) {
    if (r->slot[slot].opcode != RDMAD_OP_CANCEL)
        return r->message[slot];
    return (struct rdmad_sqe){.opcode = RDMAD_OP_CANCEL,
                              .lease = r->slot[slot].object,
                              .user_data = rdmad_slot_token(r, slot)};
}

bool rdmad_ring_write_kept(struct rdmad_ring *r, uint32_t end) {
    if (!r->kept)
        return true;
    struct kept *kept = calloc(r->kept, sizeof(*kept));
    uint32_t count = 0;
    if (!kept)
        return false;
    for (uint32_t i = 0; i < r->entries; i++) {
        if (r->slot[i].state == RDMAD_SLOT_KEPT)
            kept[count++] = (struct kept){r->slot[i].order, i};
    }
    assert(count == r->kept && count + (r->sq_reserved - end) <= r->entries);
    qsort(kept, count, sizeof(*kept), kept_compare);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (end - count + i) & (r->entries - 1);
        r->sqe[at] = kept_entry(r, kept[i].slot);
        r->slot_of[at] = kept[i].slot;
    }
    free(kept);
    return true;
}
