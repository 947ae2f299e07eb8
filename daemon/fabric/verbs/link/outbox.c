/* SPDX-License-Identifier: MIT */
/*
 * outbox.c - messages to a peer, so that its device always has a receive for them; and the eight
 * bytes in which results of CAS and FADD arrive.
 *
 * The happy path: post copies head and payload into a slot of the daemon's, registered memory that
 * no client has; the flush posts it as a SEND on the link's first QP; the acknowledgement, which
 * means that it lies in a receive of the peer's inbox, completes it and gives the slot back.
 *
 * The peer's inbox has so many receives, and a counter of those that were used and posted again. We
 * send no more than the receives beyond the counter as we read it last; when half of them are used
 * it is read ahead, by an eight-byte READ on the same QP. A peer that is slow leaves us without
 * room: then the messages wait here, in order and with whatever was posted behind them on this QP,
 * and the counter is read again and again, with growing pauses. A slot is taken until its message
 * is acknowledged, so a caller is told AGAIN after as many, and there is always one whose
 * completion tells it to come again.
 *
 * A message that asks is not done when it lies there: the peer's page, read as long as there is
 * one, has the word that answers it, under its number and sealed. It is behind the counter that the
 * peer reads as its leave to put another answer in that place.
 *
 * The counter is what a peer says: a number that cannot be changes nothing. (Nor does one of which
 * the device read some bytes before a change and some after: it is off by more than the receives
 * that we use.) The worst that a lie can do is messages that nobody can take, which cost the peer's
 * own connection.
 */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/link/link.h"
#include <endian.h>
#include <string.h>
#include <sys/mman.h>

#define MESSAGE_BYTES (4096u + FABRIC_HEAD_MAX)
#define SLOT_BYTES (DOOR_TOKEN + MESSAGE_BYTES)
#define WINDOW_MAX 128u /* a torn counter is off by 255 at least */
#define PAUSE_MIN_NS (20 * NSEC_PER_USEC)
#define PAUSE_MAX_NS (2 * NSEC_PER_MSEC)

static uint8_t *slot_at(const struct outbox *ob, unsigned n) {
    return ob->memory + (size_t)n * SLOT_BYTES + DOOR_TOKEN;
}

/* Behind the slots, the peer's page as it was read, and words. */
static struct inbox_page *page_of(const struct outbox *ob) {
    return (struct inbox_page *)(void *)(ob->memory + (size_t)OUTBOX_SLOTS * SLOT_BYTES);
}

static uint64_t *word_at(const struct outbox *ob, uint64_t n) {
    return (uint64_t *)(void *)(page_of(ob) + 1) + n;
}

/* ---- birth and end ------------------------------------------------------------------------- */

/* A word for each work request, so that an answer has a place whenever it comes. */
static uint64_t words_of(const struct link *l) {
    uint64_t n = 0;
    for (unsigned i = 0; i < l->lanes; i++)
        n += l->lane[i].queue.depth;
    return n;
}

int outbox_open(struct link *l, struct error *err) {
    struct outbox *ob = &l->outbox;
    const struct device *d = l->verbs->device;
    size_t bytes = (size_t)OUTBOX_SLOTS * SLOT_BYTES + sizeof(struct inbox_page) +
                   words_of(l) * sizeof(uint64_t);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(err, RDMAD_E_NOMEM, "no memory for the messages of a connection");
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
    for (ob->free = 0; ob->free < OUTBOX_SLOTS; ob->free++)
        ob->slot[ob->free] = (uint16_t)ob->free;
    return 0;
}

void outbox_close(struct link *l) {
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

void outbox_connect(struct link *l, const struct inbox_place *to) {
    struct outbox *ob = &l->outbox;
    ob->to = *to;
    ob->window = to->count < WINDOW_MAX ? to->count : WINDOW_MAX;
    l->base.max_send = to->size < MESSAGE_BYTES ? to->size : MESSAGE_BYTES;
}

/* ---- a message, from post on --------------------------------------------------------------- */

int outbox_fill(struct link *l, struct fabric_op *op) {
    struct outbox *ob = &l->outbox;
    struct op_mark *mark = op_mark(op);
    uint64_t most = op->service == RDMAD_CHANNEL_DATAGRAM ? l->base.max_datagram : l->base.max_send;
    if (op->head_size > FABRIC_HEAD_MAX || op->head_size > op->length || op->length > most)
        return RDMAD_E_LENGTH;
    mark->slot = ob->slot[--ob->free];
    uint8_t *to = slot_at(ob, mark->slot);
    if (op->head_size)
        memcpy(to, op->head, op->head_size);
    if (op->length > op->head_size)
        op->fault = guard_copy(to + op->head_size, op->local, op->length - op->head_size);
    return op->fault ? RDMAD_E_FAULT : 0;
}

void outbox_release(struct link *l, struct fabric_op *op) {
    struct op_mark *mark = op_mark(op);
    if (mark->slot == NO_SLOT)
        return;
    l->outbox.slot[l->outbox.free++] = mark->slot;
    mark->slot = NO_SLOT;
}

bool outbox_may_send(const struct outbox *ob) {
    return ob->sent - ob->consumed < ob->window;
}

void outbox_sge(struct outbox *ob, const struct fabric_op *op, struct ibv_sge *sge) {
    sge->addr = (uintptr_t)slot_at(ob, op_mark((struct fabric_op *)op)->slot);
    sge->length = (uint32_t)op->length;
    sge->lkey = ob->mr->lkey;
}

/* ---- words --------------------------------------------------------------------------------- */

static uint64_t *word_of(const struct lane *lane, const struct slot *slot) {
    const struct link *l = lane->link;
    uint64_t n = (uint64_t)(slot - lane->queue.ring->slot);
    for (const struct lane *before = l->lane; before < lane; before++)
        n += before->queue.depth;
    return word_at(&l->outbox, n);
}

void outbox_word_sge(const struct lane *lane, const struct ibv_send_wr *wr, struct ibv_sge *sge) {
    sge->addr = (uintptr_t)word_of(lane, (const struct slot *)(uintptr_t)wr->wr_id);
    sge->length = sizeof(uint64_t);
    sge->lkey = lane->link->outbox.mr->lkey;
}

uint64_t outbox_word(const struct lane *lane, const struct slot *slot) {
    return __atomic_load_n(word_of(lane, slot), __ATOMIC_RELAXED);
}

/* ---- the counter --------------------------------------------------------------------------- */

bool outbox_asking(const struct link *l) {
    return gates_asking(l) || !list_empty(&l->outbox.asking);
}

static bool half_used(const struct outbox *ob) {
    return ob->sent > ob->consumed && (ob->sent - ob->consumed) * 2 >= ob->window;
}

bool outbox_wants_news(const struct link *l) {
    const struct outbox *ob = &l->outbox;
    return !ob->reading && l->verbs->now_ns >= ob->read_at_ns &&
           (half_used(ob) || outbox_asking(l));
}

void outbox_page_sge(const struct link *l, struct ibv_sge *sge) {
    sge->addr = (uintptr_t)page_of(&l->outbox);
    bool answers = l->outbox.asked > l->outbox.consumed;
    sge->length = answers ? sizeof(struct inbox_page) : offsetof(struct inbox_page, answer);
    sge->lkey = l->outbox.mr->lkey;
}

void outbox_ask(struct link *l, struct fabric_op *op) {
    op_mark(op)->state = OP_ASKING;
    outbox_release(l, op);
    l->verbs->progress++; /* there is a slot again */
    list_append(&l->outbox.asking, &op->node);
    lane_wake(&l->lane[0]);
}

void outbox_asks_end(struct link *l, int status) {
    for (struct list *node; (node = list_pop(&l->outbox.asking));) {
        struct fabric_op *op = list_entry(node, struct fabric_op, node);
        link_doom(l, op, status);
        op->outcome = RDMAD_UNKNOWN;
    }
}

/* In their order. Callbacks may end the link. */
static bool answers_news(struct link *l, const struct inbox_page *page) {
    bool any = false;
    for (struct list *node; (node = list_first(&l->outbox.asking)); any = true) {
        struct fabric_op *op = list_entry(node, struct fabric_op, node);
        uint64_t number = op_mark(op)->address;
        const struct inbox_answer *at = &page->answer[number % INBOX_RECEIVES];
        uint64_t word = le64toh(at->word);
        if (le64toh(at->seal) != answer_seal(word, number))
            break;
        list_remove(node);
        op->value = word;
        link_complete(l, op, RDMAD_OK, RDMAD_DONE);
    }
    return any;
}

/* While an answer was not seen, nothing may be sent whose answer would take its place. */
static bool counter_news(struct outbox *ob, uint64_t counter) {
    const struct list *node = list_first(&ob->asking);
    uint64_t most = node ? op_mark(list_entry(node, struct fabric_op, node))->address : ob->sent;
    if (counter > ob->sent)
        return false;
    if (counter > most)
        counter = most;
    bool moved = counter > ob->consumed;
    if (moved)
        ob->consumed = counter;
    return moved;
}

void outbox_news(struct link *l) {
    struct outbox *ob = &l->outbox;
    const struct inbox_page page = *page_of(ob);
    ob->reading = false;
    bool news = gates_news(l, &page);
    news |= answers_news(l, &page);
    news |= counter_news(ob, le64toh(page.consumed));
    if (news) {
        ob->pause_ns = 0;
    } else {
        ob->pause_ns = ob->pause_ns ? 2 * ob->pause_ns : PAUSE_MIN_NS;
        if (ob->pause_ns > PAUSE_MAX_NS)
            ob->pause_ns = PAUSE_MAX_NS;
    }
    ob->read_at_ns = clock_after(l->verbs->now_ns, ob->pause_ns);
    lane_wake(&l->lane[0]);
}

void outbox_look(struct link *l) {
    struct outbox *ob = &l->outbox;
    if (ob->reading || !(ob->stalled || outbox_asking(l)))
        return;
    if (l->verbs->now_ns >= ob->read_at_ns)
        lane_wake(&l->lane[0]);
    else
        verbs_timer_at(l->verbs, ob->read_at_ns);
}
