/* SPDX-License-Identifier: MIT */
/*
 * weak_sender.c - datagrams and unacknowledged messages, on the way out of a link.
 *
 * The happy path: the first such message makes a QP for its kind and requests a receiver; until the
 * target's page says where that is, messages of this kind wait in the QP's batch; then they leave
 * in order, and each is done when it has left.
 *
 * To open needs the way to the peer's address, which the kernel may not know any more though the
 * link is up: then its page is read on, and the kernel asked again, until it does, or for 10 s.
 *
 * A kind that the device here or there does not have, or for which a receiver is refused, fails its
 * messages with UNSUPPORTED, untouched; the link goes on.
 */
#include "daemon/fabric/verbs/link/weak_sender.h"
#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/link/outbox.h"
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define WAY_EVERY_NS (10 * NSEC_PER_MSEC)
#define OPEN_MOST_NS (10 * NSEC_PER_SEC) /* what waits has slots that all messages need */

static bool weak_sender_has(const struct verbs_link *l, enum weak_kind kind) {
    unsigned service = kind == WEAK_DATAGRAM ? RDMAD_CHANNEL_DATAGRAM : RDMAD_CHANNEL_UNACKED;
    unsigned feature = kind == WEAK_DATAGRAM ? TARGET_DATAGRAM : TARGET_UNACKED;
    return (l->verbs->device->services & 1u << service) && (l->outbox.to.features & feature);
}

void weak_senders_connect(struct verbs_link *l) {
    bool datagrams = weak_sender_has(l, WEAK_DATAGRAM) && l->packet > WEAK_TOKEN;
    uint64_t most = datagrams ? l->packet - WEAK_TOKEN : 0;
    l->base.max_datagram = most < l->base.max_send ? most : l->base.max_send;
}

/* ---- requesting ---------------------------------------------------------------------------- */

static int weak_sender_make(struct verbs_link *l, enum weak_kind kind, struct error *err) {
    struct verbs_lane *lane = link_weak_lane(l, kind);
    const struct verbs_settings *s = &l->verbs->device->settings;
    struct qp_spec spec = {.pd = l->verbs->device->pd,
                           .type = weak_qp_type(kind),
                           .depth = OUTBOX_SLOTS,
                           .inline_bytes = s->inline_bytes};
    return qp_make(l->verbs, &lane->queue, &spec, err);
}

/* The request is an op of ours on the first lane. */
static int weak_sender_request(struct verbs_link *l, enum weak_kind kind) {
    struct weak_sender *s = &l->weak[kind];
    struct verbs_lane *first = &l->lane[0];
    const struct queue *q = &link_weak_lane(l, kind)->queue;
    if (l->outbox.free == 0 || lane_room(first) == 0)
        return RDMAD_E_AGAIN;
    s->words = (struct weak_request){
        .kind = htole32(kind), .qp_num = htole32(q->qp->qp_num), .psn = htole32(q->psn)};
    s->request = (struct fabric_op){.opcode = RDMAD_OP_SEND,
                                    .service = RDMAD_CHANNEL_RELIABLE,
                                    .head = &s->words,
                                    .head_size = sizeof(s->words),
                                    .length = sizeof(s->words)};
    link_take(first, &s->request);
    int failed = outbox_fill(l, &s->request);
    assert(!failed);
    (void)failed;
    link_batch(first, &s->request);
    s->state = WEAK_REQUESTING;
    s->until_ns = clock_after(l->verbs->now_ns, OPEN_MOST_NS);
    return 0;
}

int weak_sender_ready(struct verbs_link *l, enum weak_kind kind, struct verbs_lane **lane) {
    struct weak_sender *s = &l->weak[kind];
    struct error why;
    *lane = link_weak_lane(l, kind);
    if (!weak_sender_has(l, kind) || !l->reads || s->state == WEAK_NONE)
        return RDMAD_E_UNSUPPORTED;
    if (s->state != WEAK_CLOSED)
        return 0;
    if (!(*lane)->queue.qp && weak_sender_make(l, kind, &why)) {
        s->state = WEAK_NONE;
        LOG_LIMITED_OF(log_of_name(l->host), WARNING, ("%s", why.text));
        return RDMAD_E_UNSUPPORTED;
    }
    return weak_sender_request(l, kind);
}

/* ---- open ---------------------------------------------------------------------------------- */

static int weak_sender_address(struct verbs_link *l, struct weak_sender *s) {
    struct ibv_qp_attr path;
    int rc = weak_qp_path(&l->lane[0].queue, &path);
    if (rc)
        return rc;
    s->ah = ibv_create_ah(l->verbs->device->pd, &path.ah_attr);
    return s->ah ? 0 : errno;
}

/* Whether the way to the peer is known, as opening needs it; it is asked for now and then. */
static int weak_sender_find_way(const struct verbs_link *l, struct weak_sender *s) {
    uint64_t now_ns = l->verbs->now_ns;
    if (now_ns < s->way_at_ns)
        return EAGAIN;
    s->way_at_ns = clock_after(now_ns, WAY_EVERY_NS);
    return weak_qp_find_way(&l->lane[0].queue);
}

/* False: not yet. */
static bool weak_sender_open(struct verbs_link *l, enum weak_kind kind) {
    struct weak_sender *s = &l->weak[kind];
    struct verbs_lane *lane = link_weak_lane(l, kind);
    int rc = weak_sender_find_way(l, s);
    if (rc == EAGAIN)
        return false;
    if (rc == 0)
        rc = weak_qp_open(&lane->queue, kind, &l->lane[0].queue, s->place.qp_num, 0);
    if (rc == 0 && kind == WEAK_DATAGRAM)
        rc = weak_sender_address(l, s);
    if (rc) {
        LOG_LIMITED_OF(log_of_name(l->host), WARNING,
                       ("%s: a queue pair for messages to %s cannot be opened: %s",
                        l->verbs->device->name, l->host, strerror(rc)));
        link_refuse_weak(l, kind);
        return true;
    }
    s->state = WEAK_OPEN;
    lane_wake(lane);
    return true;
}

/* Whether it has been tried for long enough. */
static bool weak_sender_give_up(struct verbs_link *l, enum weak_kind kind) {
    if (l->verbs->now_ns < l->weak[kind].until_ns)
        return false;
    LOG_LIMITED_OF(
        log_of_name(l->host), WARNING,
        ("%s: messages to %s cannot be opened in 10 s: its daemon does not say where to, "
         "or its address is not found",
         l->verbs->device->name, l->host));
    link_refuse_weak(l, kind);
    return true;
}

/* The device may have read it while it was written, so it counts only if it was read twice the
 * same. */
bool weak_senders_read(struct verbs_link *l, const struct inbox_page *page) {
    bool moved = false;
    for (unsigned i = 0; i < WEAK_KINDS; i++) {
        struct weak_sender *s = &l->weak[i];
        const struct weak_place *there = &page->place[i];
        struct weak_place now = {
            .qp_num = le32toh(there->qp_num), .word = le32toh(there->word), .token = there->token};
        if (s->state != WEAK_READING)
            continue;
        if (now.qp_num == 0) {
            moved = weak_sender_give_up(l, (enum weak_kind)i) || moved;
            continue;
        }
        bool same = now.qp_num == s->place.qp_num && now.word == s->place.word &&
                    now.token == s->place.token;
        s->place = now;
        bool settled = true;
        if (same && (now.qp_num < 2 || now.qp_num > 0xffffff))
            link_refuse_weak(l, (enum weak_kind)i);
        else if (same)
            settled =
                weak_sender_open(l, (enum weak_kind)i) || weak_sender_give_up(l, (enum weak_kind)i);
        moved = moved || settled;
    }
    return moved;
}

void weak_sender_fill(struct verbs_link *l, enum weak_kind kind, struct ibv_send_wr *wr,
                      struct ibv_sge *sge) {
    struct weak_sender *s = &l->weak[kind];
    if (kind != WEAK_DATAGRAM)
        return;
    sge->addr -= WEAK_TOKEN; /* the slot begins with room for it */
    sge->length += WEAK_TOKEN;
    memcpy((void *)(uintptr_t)sge->addr, &s->place.token, WEAK_TOKEN);
    wr->num_sge = 1;
    wr->wr.ud.ah = s->ah;
    wr->wr.ud.remote_qpn = s->place.qp_num;
    wr->wr.ud.remote_qkey = s->place.word;
}

void weak_senders_close(struct verbs_link *l) {
    for (unsigned i = 0; i < WEAK_KINDS; i++) {
        struct weak_sender *s = &l->weak[i];
        if (s->ah && ibv_destroy_ah(s->ah))
            LOG_LIMITED(ERR, ("%s keeps an address handle", l->verbs->device->name));
        s->ah = NULL;
    }
}
