/* SPDX-License-Identifier: MIT */
/*
 * page.c - the page of a peer's target (wire/page.h): when it is read, and what it says.
 *
 * The peer's inbox has so many receives, and a counter of those that were used and posted again. We
 * send no more than the receives beyond the counter as we read it last; when half of them are used
 * the page is read ahead, by a READ on the same QP. A peer that is slow leaves us without room:
 * then the messages wait in their lane, in order and with whatever was posted behind them on this
 * QP, and the page is read again and again, with growing pauses.
 *
 * A message that asks is not done when it has arrived: the word that answers it, sealed with its
 * number, is in the page, which is read as long as such a message waits. Until it was seen the
 * counter counts only up to that message, so nothing is sent whose answer would take its place.
 *
 * The counter is what a peer says: a number that cannot be changes nothing. (Nor does one of which
 * the device read some bytes before a change and some after: it is off by more than the receives
 * that we use.) The worst that a lie can do is messages that nobody can take, which cost the peer's
 * own connection.
 */
#include "daemon/fabric/verbs/link/page.h"
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include "daemon/fabric/verbs/link/weak_sender.h"
#include <assert.h>
#include <endian.h>
#include <stddef.h>

#define PAUSE_MIN_NS (20 * NSEC_PER_USEC)
#define PAUSE_MAX_NS (2 * NSEC_PER_MSEC)

static bool half_used(const struct outbox *ob) {
    return ob->sent > ob->consumed && (ob->sent - ob->consumed) * 2 >= ob->ahead_max;
}

bool page_wanted(const struct verbs_link *l) {
    const struct outbox *ob = &l->outbox;
    return !ob->reading && l->verbs->now_ns >= ob->read_at_ns &&
           (half_used(ob) || link_wants_page(l));
}

void page_sge(const struct verbs_link *l, struct ibv_sge *sge) {
    sge->addr = (uintptr_t)outbox_page(&l->outbox);
    bool answers = l->outbox.asked > l->outbox.consumed;
    sge->length = answers ? sizeof(struct inbox_page) : offsetof(struct inbox_page, answer);
    sge->lkey = l->outbox.mr->lkey;
}

void page_ask(struct verbs_link *l, struct fabric_op *op) {
    op_mark(op)->state = OP_ASKING;
    link_release_slot(l, op);
    l->verbs->progress++; /* there is a slot again */
    list_append(&l->outbox.asking, &op->node);
    lane_wake(&l->lane[0]);
}

void page_end_asking(struct verbs_link *l, int status) {
    for (struct list *node; (node = list_pop(&l->outbox.asking));) {
        struct fabric_op *op = list_entry(node, struct fabric_op, node);
        link_doom(l, op, status);
        op->outcome = RDMAD_UNKNOWN;
    }
}

/* In their order. Callbacks may end the link. */
static bool read_answers(struct verbs_link *l, const struct inbox_page *page) {
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
static bool read_consumed(struct outbox *ob, uint64_t counter) {
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

void page_came(struct verbs_link *l) {
    struct outbox *ob = &l->outbox;
    const struct inbox_page page = *outbox_page(ob);
    ob->reading = false;
    bool moved = weak_senders_read(l, &page);
    moved |= read_answers(l, &page);
    moved |= read_consumed(ob, le64toh(page.consumed));
    if (moved) {
        ob->pause_ns = 0;
    } else {
        ob->pause_ns = ob->pause_ns ? 2 * ob->pause_ns : PAUSE_MIN_NS;
        if (ob->pause_ns > PAUSE_MAX_NS)
            ob->pause_ns = PAUSE_MAX_NS;
    }
    ob->read_at_ns = clock_after(l->verbs->now_ns, ob->pause_ns);
    lane_wake(&l->lane[0]);
}

void page_look(struct verbs_link *l) {
    struct outbox *ob = &l->outbox;
    if (ob->reading || !(ob->stalled || link_wants_page(l)))
        return;
    if (l->verbs->now_ns >= ob->read_at_ns)
        lane_wake(&l->lane[0]);
    else
        verbs_timer_at(l->verbs, ob->read_at_ns);
}
