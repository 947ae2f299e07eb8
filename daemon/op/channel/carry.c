/* SPDX-License-Identifier: MIT */
/*
 * carry.c - how a message gets to the other end.
 *
 * To a peer: as a SEND on the channel's lane. The head is copied by the fabric, a payload goes out
 * of the client's buffer. When the fabric gives it back, the buffer is free; but only the other
 * end's state says that it took the message. A post that failed on a link that lives (it was
 * cancelled, or the client's memory vanished) leaves a hole in the sequence, so the channel
 * synchronises as after a new link.
 *
 * Within the daemon: into the other end's inbox, with a pointer into the sender's buffer, which is
 * the sender's again when the receiver's state says that the message is over. So within the daemon
 * a sender always waits for that state, and the other end always tells it, at the latest with its
 * FIN.
 */
#include "daemon/op/channel/carry.h"
#include "daemon/base/probe.h"
#include "daemon/op/channel/inbox.h"
#include "daemon/op/engine/user.h"
#include <assert.h>

uint64_t channel_small_max(const struct op_channel *ch) {
    return ch->remote ? ch->lane->route.link->max_send - CHANNEL_HEAD : CHANNEL_COPY_MAX;
}

void channel_message_init(const struct op_channel *ch, struct channel_message *m, uint8_t type) {
    *m = (struct channel_message){.type = type, .channel = ch->peer_number};
    if (!channel_has_state(type))
        return;
    m->state = ch->in.state;
    m->state.epoch = ch->sync.epoch;
    m->state.echo = ch->sync.peer_epoch;
    m->state.heard = ch->out.acked;
}

struct channel_message *channel_begin(struct op_channel *ch, uint8_t type) {
    struct channel_message *m = &ch->worker->channels->outgoing;
    if (!ch->remote) {
        struct channel_letter *letter = letter_get(ch->worker);
        if (!letter && type == CHANNEL_FIN) {
            letter = ch->end.letter;
            ch->end.letter = NULL;
        }
        if (!letter)
            return NULL;
        m = &letter->message;
    }
    channel_message_init(ch, m, type);
    return m;
}

static struct channel_post *free_post(struct op_channel *ch) {
    for (unsigned i = 0; i < CHANNEL_POSTS; i++)
        if (!ch->posts[i].posted)
            return &ch->posts[i];
    return NULL;
}

bool channel_is_held(struct op_channel *ch) {
    struct op_user *u = ch->session->user;
    bool behind = !list_empty(&u->held) && ch->worker->channels->released != ch;
    if (!u->limited || !(behind || user_owes_bytes(u))) {
        list_remove(&ch->held_node);
        return false;
    }
    if (list_empty(&ch->held_node))
        list_append(&u->held, &ch->held_node);
    return true;
}

bool channel_may_post(struct op_channel *ch) {
    return free_post(ch) != NULL;
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
        .service = (uint8_t)(m->type == CHANNEL_PIECE ? ch->kind : RDMAD_CHANNEL_RELIABLE),
        .head = head,
        .head_size = (uint16_t)channel_encode(m, head),
        .user = &post->part,
    };
    fop->length = fop->head_size;
    if (s && channel_has_payload(m->type)) {
        fop->local = (void *)(uintptr_t)m->payload;
        fop->memory = s->op->memory;
        fop->length += m->length;
    }
    op_fabric_wake(ch->fabric, ch->worker->now_ns);
    int rc = ch->fabric->ops->post(ch->lane->route.link, fop);
    ch->due.full |= rc == RDMAD_E_AGAIN;
    if (rc == RDMAD_E_FAULT && fop->fault)
        ch->fabric->env.memory_fault(ch->worker, fop->fault);
    if (rc < 0)
        return rc;
    probe_op_posted(s ? s->op : NULL, fop, ch->lane->route.name, 0, fop->opcode, fop->length);
    post->posted = true;
    ch->posted_sends++;
    return 0;
}

int channel_carry(struct op_channel *ch, struct channel_message *m, struct op_send *s) {
    assert(!s || !s->post.posted);
    int rc = ch->remote ? carry_there(ch, m, s) : 0;
    if (rc < 0)
        return rc;
    if (s && channel_has_payload(m->type))
        user_use_bytes(ch->session->user, m->length, true);
    ch->due.state = false;
    ch->due.acks = 0;
    ch->due.ack_turns = 0;
    if (channel_has_state(m->type) && m->state.limit > ch->in.limit_told)
        ch->in.limit_told = m->state.limit;
    if (!ch->remote)
        letter_post(ch, container_of(m, struct channel_letter, message));
    return rc;
}
