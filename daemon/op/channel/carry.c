/* SPDX-License-Identifier: MIT */
/*
 * carry.c - how a message gets to the other end.
 *
 * To a peer: as a SEND on the channel's lane. The head is copied by the fabric, a payload goes out
 * of the client's buffer. What comes back says that the buffer is free; that the other end took the
 * message only its state says. A post that did not get through though its link lives (it was
 * cancelled, or the client's memory vanished) leaves a hole in the sequence, so the channel
 * synchronises as with a new link.
 *
 * Within the daemon: straight into the other end when it lives on this worker, as a mail when it
 * lives on another. Either way the payload is a pointer into the sender's buffer, which is the
 * sender's again when the receiver's state says that the message is over. So the sender of a
 * channel within the daemon waits for that, however it ends; and the other end always says so,
 * at the latest with its FIN, for which memory was put aside.
 */
#include "daemon/op/channel/carry.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/deliver.h"
#include <stdlib.h>

struct channel_mail {
    struct mail mail;
    struct worker *to;
    struct channel_message message;
};

struct channel_mail *channel_mail_new(void) {
    return calloc(1, sizeof(struct channel_mail));
}

uint64_t channel_small_max(const struct op_channel *ch) {
    return ch->remote ? ch->lane->route.link->max_send - CHANNEL_HEAD : CHANNEL_COPY_MAX;
}

void channel_say(const struct op_channel *ch, struct channel_message *m, uint8_t say) {
    *m = (struct channel_message){.say = say, .channel = ch->peer_number, .state = ch->mine};
    m->state.epoch = ch->epoch;
    m->state.echo = ch->peer_epoch;
    m->state.heard = ch->acked;
}

/* ---- within the daemon ------------------------------------------------------------------- */

static void hand_over(struct worker *w, const struct channel_message *m) {
    struct op_channel *to = channel_find(w, m->channel);
    if (to && !to->remote)
        channel_deliver(to, m);
}

static void deliver_mail(struct mail *mail) {
    struct channel_mail *cm = container_of(mail, struct channel_mail, mail);
    hand_over(cm->to, &cm->message);
    free(cm);
}

static int carry_here(struct op_channel *ch, struct channel_message *m) {
    if (ch->peer_worker == ch->worker) {
        hand_over(ch->worker, m);
        return 0;
    }
    struct channel_mail *cm = channel_mail_new();
    if (!cm && m->say == CHANNEL_FIN) {
        cm = ch->fin;
        ch->fin = NULL;
    }
    if (!cm)
        return RDMAD_E_AGAIN;
    cm->to = ch->peer_worker;
    cm->message = *m;
    mailbox_post(&cm->to->mailbox, &cm->mail, deliver_mail);
    return 0;
}

/* ---- to a peer --------------------------------------------------------------------------- */

static struct channel_post *free_post(struct op_channel *ch) {
    for (unsigned i = 0; i < CHANNEL_POSTS; i++)
        if (!ch->posts[i].posted)
            return &ch->posts[i];
    return NULL;
}

static int carry_there(struct op_channel *ch, struct channel_message *m, struct op_send *s) {
    uint8_t head[FABRIC_HEAD_MAX];
    struct channel_post *post = s ? &s->post : free_post(ch);
    if (!post)
        return RDMAD_E_AGAIN;
    if (!channel_lane_up(ch))
        return RDMAD_E_PEER_LOST;
    *post = (struct channel_post){.channel = ch, .send = s};
    list_init(&post->part.node);
    struct fabric_op *fop = &post->part.fop;
    *fop = (struct fabric_op){
        .opcode = RDMAD_OP_SEND,
        .service = (uint8_t)(m->say == CHANNEL_DATA ? ch->kind : RDMAD_CHANNEL_RELIABLE),
        .head = head,
        .head_size = (uint16_t)channel_encode(m, head),
        .user = &post->part,
    };
    fop->length = fop->head_size;
    if (s && m->say == CHANNEL_DATA) {
        fop->local = (void *)(uintptr_t)m->payload;
        fop->memory = s->op->memory;
        fop->length += m->length;
    }
    seat_wake(ch->seat, ch->worker->now_ns);
    int rc = ch->seat->ops->post(ch->lane->route.link, fop);
    if (rc == RDMAD_E_FAULT && fop->fault)
        ch->seat->env.memory_fault(ch->worker, fop->fault);
    if (rc < 0)
        return rc;
    post->posted = true;
    ch->posted_sends++;
    return 0;
}

int channel_carry(struct op_channel *ch, struct channel_message *m, struct op_send *s) {
    bool tell = ch->tell;
    uint32_t acks = ch->acks;
    ch->tell = false;
    ch->acks = 0;
    int rc = ch->remote ? carry_there(ch, m, s) : carry_here(ch, m);
    if (rc < 0) {
        ch->tell = tell;
        ch->acks = acks;
        return rc;
    }
    ch->ack_turns = 0;
    if (m->state.limit > ch->told)
        ch->told = m->state.limit;
    return rc;
}
