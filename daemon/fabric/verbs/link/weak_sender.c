/* SPDX-License-Identifier: MIT */
/*
 * gate.c - datagrams and unacknowledged messages, on the way out of a link.
 *
 * The happy path: the first such message makes a QP for its kind and knocks; until the target's
 * page says where the door is, messages of this kind wait in the QP's batch; then they leave in
 * order, and each is done when it has left.
 *
 * A kind that the device here or there does not have, or for which a door is refused, fails its
 * messages with UNSUPPORTED, untouched; the link goes on.
 */
#include "daemon/fabric/verbs/link/link.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

static struct lane *lane_of(struct link *l, enum door_kind kind) {
    return &l->lane[VERBS_LANES_MAX + kind];
}

static bool has(const struct link *l, enum door_kind kind) {
    unsigned service = kind == DOOR_DATAGRAM ? RDMAD_CHANNEL_DATAGRAM : RDMAD_CHANNEL_UNACKED;
    unsigned feature = kind == DOOR_DATAGRAM ? TARGET_DATAGRAM : TARGET_UNACKED;
    return (l->verbs->device->services & 1u << service) && (l->outbox.to.features & feature);
}

void gates_connect(struct link *l) {
    bool datagrams = has(l, DOOR_DATAGRAM) && l->packet > DOOR_TOKEN;
    uint64_t most = datagrams ? l->packet - DOOR_TOKEN : 0;
    l->base.max_datagram = most < l->base.max_send ? most : l->base.max_send;
}

/* ---- knocking ------------------------------------------------------------------------------ */

static int make(struct link *l, enum door_kind kind, struct error *err) {
    struct lane *lane = lane_of(l, kind);
    const struct verbs_settings *s = &l->verbs->device->settings;
    struct qp_spec spec = {
        .pd = l->verbs->device->pd, .depth = OUTBOX_SLOTS, .inline_bytes = s->inline_bytes};
    lane->queue.ended = lane_ended;
    return door_qp_make(l->verbs, &lane->queue, kind, &spec, err);
}

/* The knock is an op of ours on the first lane, which has room for it. */
static int knock(struct link *l, enum door_kind kind) {
    struct gate *g = &l->gate[kind];
    const struct queue *q = &lane_of(l, kind)->queue;
    g->words = (struct knock){
        .kind = htole32(kind), .qp_num = htole32(q->qp->qp_num), .psn = htole32(q->psn)};
    g->knock = (struct fabric_op){.opcode = RDMAD_OP_SEND,
                                  .service = RDMAD_CHANNEL_RELIABLE,
                                  .head = &g->words,
                                  .head_size = sizeof(g->words),
                                  .length = sizeof(g->words)};
    int rc = verbs_post(&l->base, &g->knock);
    if (rc == 0)
        g->state = GATE_KNOCKING;
    return rc;
}

int gate_ready(struct link *l, enum door_kind kind, struct lane **lane) {
    struct gate *g = &l->gate[kind];
    struct error why;
    *lane = lane_of(l, kind);
    if (!has(l, kind) || !l->reads || g->state == GATE_NONE)
        return RDMAD_E_UNSUPPORTED;
    if (g->state != GATE_SHUT)
        return 0;
    if (!(*lane)->queue.qp && make(l, kind, &why)) {
        g->state = GATE_NONE;
        LOG_LIMITED(WARNING, ("%s", why.text));
        return RDMAD_E_UNSUPPORTED;
    }
    return knock(l, kind);
}

static void refuse(struct link *l, enum door_kind kind) {
    struct lane *lane = lane_of(l, kind);
    struct list *node;
    l->gate[kind].state = GATE_NONE;
    while ((node = list_first(&lane->batch)))
        link_doom_batched(lane, list_entry(node, struct fabric_op, node), RDMAD_E_UNSUPPORTED);
}

void gate_knocked(struct link *l, const struct fabric_op *op) {
    for (unsigned i = 0; i < DOORS; i++) {
        struct gate *g = &l->gate[i];
        if (op != &g->knock || g->state != GATE_KNOCKING)
            continue;
        bool lives = l->state == LINK_CONNECTED || l->state == LINK_UP;
        g->state = op->outcome == RDMAD_DONE ? GATE_ASKING : GATE_NONE;
        if (g->state == GATE_NONE && lives)
            refuse(l, (enum door_kind)i);
        l->outbox.read_at_ns = 0;
        lane_wake(&l->lane[0]);
    }
}

bool gates_asking(const struct link *l) {
    for (unsigned i = 0; i < DOORS; i++) {
        if (l->gate[i].state == GATE_ASKING)
            return true;
    }
    return false;
}

/* ---- open ---------------------------------------------------------------------------------- */

static int address(struct link *l, struct gate *g) {
    struct ibv_qp_attr way;
    int rc = door_path(&l->lane[0].queue, &way);
    if (rc)
        return rc;
    g->ah = ibv_create_ah(l->verbs->device->pd, &way.ah_attr);
    return g->ah ? 0 : errno;
}

static void gate_open(struct link *l, enum door_kind kind) {
    struct gate *g = &l->gate[kind];
    struct lane *lane = lane_of(l, kind);
    int rc = door_qp_open(&lane->queue, kind, &l->lane[0].queue, g->place.qp_num, 0);
    if (rc == 0 && kind == DOOR_DATAGRAM)
        rc = address(l, g);
    if (rc) {
        LOG_LIMITED(WARNING, ("%s: a queue pair for messages to %s cannot be opened: %s",
                              l->verbs->device->name, l->host, strerror(rc)));
        refuse(l, kind);
        return;
    }
    g->state = GATE_OPEN;
    lane_wake(lane);
}

/* What the device read while it was written is seen by reading it twice. */
bool gates_news(struct link *l, const struct inbox_page *page) {
    bool news = false;
    for (unsigned i = 0; i < DOORS; i++) {
        struct gate *g = &l->gate[i];
        const struct door_place *there = &page->door[i];
        struct door_place now = {
            .qp_num = le32toh(there->qp_num), .word = le32toh(there->word), .token = there->token};
        if (g->state != GATE_ASKING || now.qp_num == 0)
            continue;
        news = true;
        bool same = now.qp_num == g->place.qp_num && now.word == g->place.word &&
                    now.token == g->place.token;
        g->place = now;
        if (same && (now.qp_num < 2 || now.qp_num > 0xffffff))
            refuse(l, (enum door_kind)i);
        else if (same)
            gate_open(l, (enum door_kind)i);
    }
    return news;
}

void gate_message(struct link *l, enum door_kind kind, struct ibv_send_wr *wr,
                  struct ibv_sge *sge) {
    struct gate *g = &l->gate[kind];
    if (kind != DOOR_DATAGRAM)
        return;
    sge->addr -= DOOR_TOKEN; /* the slot begins with room for it */
    sge->length += DOOR_TOKEN;
    memcpy((void *)(uintptr_t)sge->addr, &g->place.token, DOOR_TOKEN);
    wr->num_sge = 1;
    wr->wr.ud.ah = g->ah;
    wr->wr.ud.remote_qpn = g->place.qp_num;
    wr->wr.ud.remote_qkey = g->place.word;
}

void gates_close(struct link *l) {
    for (unsigned i = 0; i < DOORS; i++) {
        struct gate *g = &l->gate[i];
        if (g->ah && ibv_destroy_ah(g->ah))
            LOG_LIMITED(ERR, ("%s keeps an address handle", l->verbs->device->name));
        g->ah = NULL;
    }
}
