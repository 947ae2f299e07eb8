/* SPDX-License-Identifier: MIT */
/*
 * channel_call.c - channels as the control thread calls for them; see control.c.
 *
 * Of each channel the control thread keeps a pointer by handle, only to know which ones it has
 * ended: an event that was on its way then is not delivered any more.
 */
#include "daemon/op/channel/channel.h"
#include "daemon/op/seam/call.h"
#include <stdlib.h>

static struct op_channel *new_channel(struct plane_session *s, uint64_t handle,
                                      const struct plane_channel_spec *spec) {
    struct op_channel *ch = calloc(1, sizeof(*ch));
    if (!ch)
        return NULL;
    ch->worker = s->worker;
    ch->handle = handle;
    ch->remote = spec->lane != NULL;
    ch->seat = spec->lane ? spec->lane->op.route.seat : NULL;
    ch->number = spec->number;
    ch->peer_in = spec->peer_in;
    ch->kind = ch->remote ? spec->kind : RDMAD_CHANNEL_RELIABLE;
    ch->stats = spec->stats;
    ch->cookie = spec->cookie;
    ch->owner = s;
    ch->rollback = CLOCK_NEVER;
    list_init(&ch->hash_node);
    list_init(&ch->run_node);
    list_init(&ch->lane_node);
    list_init(&ch->waiting);
    list_init(&ch->sent);
    list_init(&ch->leaving);
    list_init(&ch->recvs);
    list_init(&ch->arrivals);
    ch->fin = channel_mail_new();
    if (!ch->fin || slots_put(&s->channels, handle, ch) < 0) {
        free(ch->fin);
        free(ch);
        return NULL;
    }
    return ch;
}

void plane_channel_add(struct plane_session *s, uint64_t handle,
                       const struct plane_channel_spec *spec, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_ADD, table_channel_add, done, arg);
    struct op_channel *ch = new_channel(s, handle, spec);
    *call_channel_add(c) =
        (struct call_channel_add){.handle = handle, .channel = ch, .lane = spec->lane};
    if (ch)
        call_post(c);
    else
        call_refuse(c, RDMAD_E_NOMEM, "channel: out of memory");
}

void plane_channel_open(struct plane_session *s, uint64_t handle, uint64_t peer_number,
                        struct plane_session *peer) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_OPEN, table_channel_open, NULL, NULL);
    *call_channel_open(c) = (struct call_channel_open){
        .handle = handle, .peer_number = peer_number, .peer_worker = peer ? peer->worker : NULL};
    call_post(c);
}

void plane_channel_end(struct plane_session *s, uint64_t handle, int reason, bool linger,
                       plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_END, table_channel_end, done, arg);
    *call_channel_end(c) =
        (struct call_channel_end){.handle = handle, .reason = reason, .linger = linger};
    call_post(c);
}

void plane_channel_forget(struct plane_session *s, uint64_t handle) {
    struct op_channel *ch = slots_remove(&s->channels, handle);
    if (ch)
        ch->forgotten = true;
    struct call *c = call_prepare_of(s, CALL_CHANNEL_END, table_channel_forget, NULL, NULL);
    call_channel_end(c)->handle = handle;
    call_post(c);
}
