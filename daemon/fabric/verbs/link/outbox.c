/* SPDX-License-Identifier: MIT */
/*
 * outbox.c - messages to a peer, so that its device always has a receive for them; and the eight
 * bytes in which results of CAS and FADD arrive.
 *
 * The happy path: post copies head and payload into a slot of the daemon's, registered memory that
 * no client has; the flush posts it as a SEND on the link's first QP; the acknowledgement, which
 * means that it lies in a receive of the peer's inbox, completes it and gives the slot back. A slot
 * is taken until its message is acknowledged, so a caller is told AGAIN after as many, and there is
 * always one whose completion tells it to come again.
 *
 * page.c knows how many more the peer has receives for.
 */
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/base/guard.h"
#include "daemon/base/log.h"
#include "daemon/base/undumped.h"
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define MESSAGE_BYTES (4096u + FABRIC_HEAD_MAX)
#define SLOT_BYTES (WEAK_TOKEN + MESSAGE_BYTES)
#define AHEAD_MAX 128u /* a torn counter is off by 255 at least */

static uint8_t *slot_at(const struct outbox *ob, unsigned n) {
    return ob->memory + (size_t)n * SLOT_BYTES + WEAK_TOKEN;
}

/* Behind the slots lie the peer's page and the words. */
struct inbox_page *outbox_page(const struct outbox *ob) {
    return (struct inbox_page *)(void *)(ob->memory + (size_t)OUTBOX_SLOTS * SLOT_BYTES);
}

static uint64_t *word_at(const struct outbox *ob, uint64_t n) {
    return (uint64_t *)(void *)(outbox_page(ob) + 1) + n;
}

/* ---- birth and end ------------------------------------------------------------------------- */

/* A word for each work request, so that an answer has a place whenever it comes. */
static uint64_t words_of(const struct verbs_link *l) {
    uint64_t n = 0;
    for (unsigned i = 0; i < l->lanes; i++)
        n += l->lane[i].queue.depth;
    return n;
}

int outbox_open(struct verbs_link *l, struct error *err) {
    struct outbox *ob = &l->outbox;
    const struct device *d = l->verbs->device;
    size_t bytes = (size_t)OUTBOX_SLOTS * SLOT_BYTES + sizeof(struct inbox_page) +
                   words_of(l) * sizeof(uint64_t);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the messages of a connection");
    undumped_mark(memory, bytes);
    ob->memory = memory;
    ob->bytes = bytes;
    ob->mr = ibv_reg_mr(d->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!ob->mr) {
        int rc = error_errno(err, RDMAD_E_FABRIC,
                             "%s: %zu bytes for the messages of a connection cannot be registered "
                             "(raise the daemon's memlock limit)",
                             d->name, bytes);
        outbox_close(l);
        return rc;
    }
    if (getrandom(&ob->blank, sizeof(ob->blank), 0) != (ssize_t)sizeof(ob->blank))
        ob->blank = UINT64_MAX; /* no secret, but as good in a word that nobody guesses at */
    for (ob->free = 0; ob->free < OUTBOX_SLOTS; ob->free++)
        ob->slot[ob->free] = (uint8_t)ob->free;
    return 0;
}

void outbox_close(struct verbs_link *l) {
    struct outbox *ob = &l->outbox;
    if (ob->mr && ibv_dereg_mr(ob->mr)) {
        LOG_LIMITED(ERR, ("%s keeps a registration of messages", l->verbs->device->name));
        ob->memory = NULL; /* the device has it */
    }
    ob->mr = NULL;
    if (ob->memory)
        munmap(ob->memory, ob->bytes);
    ob->memory = NULL;
}

void outbox_connect(struct verbs_link *l, const struct inbox_place *to) {
    struct outbox *ob = &l->outbox;
    ob->to = *to;
    ob->ahead_max = to->count < AHEAD_MAX ? to->count : AHEAD_MAX;
    l->base.max_send = to->size < MESSAGE_BYTES ? to->size : MESSAGE_BYTES;
}

/* ---- a message, from post on --------------------------------------------------------------- */

int outbox_fill(struct verbs_link *l, struct fabric_op *op) {
    struct outbox *ob = &l->outbox;
    struct op_mark *mark = op_mark(op);
    uint64_t most = op->service == RDMAD_CHANNEL_DATAGRAM ? l->base.max_datagram : l->base.max_send;
    if (op->head_size > FABRIC_HEAD_MAX || op->head_size > op->length || op->length > most)
        return RDMAD_E_LENGTH;
    assert(ob->free > 0 && mark->slot == NO_SLOT);
    mark->slot = ob->slot[--ob->free];
    uint8_t *to = slot_at(ob, mark->slot);
    if (op->head_size)
        memcpy(to, op->head, op->head_size);
    if (op->length > op->head_size)
        op->fault = guard_copy(to + op->head_size, op->local, op->length - op->head_size);
    return op->fault ? RDMAD_E_FAULT : 0;
}

bool outbox_may_send(const struct outbox *ob) {
    return ob->sent - ob->consumed < ob->ahead_max;
}

void outbox_sge(struct outbox *ob, const struct fabric_op *op, struct ibv_sge *sge) {
    sge->addr = (uintptr_t)slot_at(ob, op_mark((struct fabric_op *)op)->slot);
    sge->length = (uint32_t)op->length;
    sge->lkey = ob->mr->lkey;
}

/* ---- words --------------------------------------------------------------------------------- */

static uint64_t *word_of(const struct verbs_lane *lane, const struct wr_slot *slot) {
    const struct verbs_link *l = lane->link;
    uint64_t n = (uint64_t)(slot - lane->queue.ring->slot);
    for (const struct verbs_lane *before = l->lane; before < lane; before++)
        n += before->queue.depth;
    return word_at(&l->outbox, n);
}

void outbox_word_sge(const struct verbs_lane *lane, const struct ibv_send_wr *wr,
                     struct ibv_sge *sge) {
    uint64_t *word = word_of(lane, (const struct wr_slot *)(uintptr_t)wr->wr_id);
    __atomic_store_n(word, lane->link->outbox.blank, __ATOMIC_RELAXED);
    sge->addr = (uintptr_t)word;
    sge->length = sizeof(uint64_t);
    sge->lkey = lane->link->outbox.mr->lkey;
}

bool outbox_word(const struct verbs_lane *lane, const struct wr_slot *slot, uint64_t *out) {
    *out = __atomic_load_n(word_of(lane, slot), __ATOMIC_RELAXED);
    return *out != lane->link->outbox.blank;
}
