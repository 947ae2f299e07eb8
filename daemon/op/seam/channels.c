/* SPDX-License-Identifier: MIT */
/*
 * channels.c - channels as the control thread calls for them.
 *
 * The control thread keeps a pointer to each channel by its handle, only to know which ones it has
 * ended: it does not deliver an event that was still on its way from one of those.
 */
#include "daemon/op/channel/life.h"
#include "daemon/op/channel/rest.h"
#include "daemon/op/seam/call.h"

/* ---- on the worker ----------------------------------------------------------------------- */

static struct op_channel *channel_of(const struct call *c, uint64_t handle) {
    return slots_get(&c->session->op.channels, handle);
}

static void apply_channel_add(struct call *c) {
    const struct call_channel_add *about = call_channel_add(c);
    if (op_channel_join(about->channel, &c->session->op, about->lane ? &about->lane->op : NULL)) {
        call_finish(c);
        return;
    }
    call_fail(c, RDMAD_E_NOMEM, "channel: no room in the worker's table");
}

/* Once its session has parted it goes on with the next daemon as it stands: what it said by a way
 * of its own would be said again. */
static bool may_begin(const struct call *c, const struct op_channel *ch) {
    return ch && !c->session->op.parting;
}

static void apply_channel_open(struct call *c) {
    const struct call_channel_open *about = call_channel_open(c);
    struct op_channel *ch = channel_of(c, about->handle);
    if (may_begin(c, ch) && ch->sync.state == SYNC_CLOSED)
        op_channel_open(ch, about->peer_number, about->peer_worker);
    call_finish(c);
}

static bool rest_settled(struct call *c) {
    return op_channel_rested(call_channel_rest(c)->channel);
}

/* A handle that names nothing is no error, here and below: the add may have failed. */
static void apply_channel_rest(struct call *c) {
    struct call_channel_rest *about = call_channel_rest(c);
    about->channel = channel_of(c, about->handle);
    if (!about->channel) {
        call_finish(c);
        return;
    }
    if (channel_over(about->channel)) { /* it ends, and gets no other way */
        call_fail(c, RDMAD_E_PEER_LOST, "channel: its other end is over");
        return;
    }
    op_channel_rest(about->channel);
    call_wait(c, rest_settled);
}

static void apply_channel_way(struct call *c) {
    const struct call_channel_way *about = call_channel_way(c);
    struct op_lane *lane = about->lane ? &about->lane->op : NULL;
    struct op_channel *ch = channel_of(c, about->handle);
    if (ch && ch->fabric && (!lane || ch->fabric != lane->route.fabric)) {
        call_fail(c, RDMAD_E_PEER_LOST,
                  "channel: its peer is not reached over its fabric any more");
        return;
    }
    if (!may_begin(c, ch)) {
        call_finish(c);
        return;
    }
    if (!op_channel_wants_way(ch)) {
        call_fail(c, RDMAD_E_PEER_LOST, "channel: it has its way, or its other end is over");
        return;
    }
    op_channel_way(ch, about->number, lane, about->peer_in);
    call_finish(c);
}

static bool end_settled(struct call *c) {
    struct op_channel *ch = call_channel_end(c)->channel;
    if (!op_channel_ended(ch))
        return false;
    op_channel_unwatch(ch);
    return true;
}

static bool forget_settled(struct call *c) {
    struct op_channel *ch = call_channel_end(c)->channel;
    if (!op_channel_ended(ch))
        return false;
    op_channel_forget(ch);
    return true;
}

static void channel_leave(struct call *c, struct op_channel *ch, bool (*settled)(struct call *c)) {
    struct call_channel_end *about = call_channel_end(c);
    about->channel = ch;
    if (!ch) {
        call_finish(c);
        return;
    }
    op_channel_end(ch, about->reason, about->linger);
    call_wait(c, settled);
}

static void apply_channel_end(struct call *c) {
    channel_leave(c, channel_of(c, call_channel_end(c)->handle), end_settled);
}

/* The next channel may have its place at once: nobody calls for this one any more. */
static void apply_channel_forget(struct call *c) {
    channel_leave(c, slots_remove(&c->session->op.channels, call_channel_end(c)->handle),
                  forget_settled);
}

/* ---- on the control thread --------------------------------------------------------------- */

static void event_closed(struct mail *mail) {
    struct op_channel *ch = container_of(mail, struct op_channel, end.closed_mail);
    const struct plane_session *ps = ch->control.owner;
    if (!ch->control.forgotten && !ps->dropped && ps->plane->events.channel_closed)
        ps->plane->events.channel_closed(ps->plane->events.user, ch->control.cookie,
                                         &ch->end.closed_why);
}

static struct op_channel *new_channel(struct plane_session *s, uint64_t handle,
                                      const struct plane_channel_spec *spec) {
    struct op_lane *lane = spec->lane ? &spec->lane->op : NULL;
    struct op_channel *ch = op_channel_new(s->worker, handle, spec, lane, event_closed);
    if (!ch)
        return NULL;
    ch->control.owner = s;
    if (slots_put(&s->channels, handle, ch) == 0)
        return ch;
    op_channel_free(ch);
    return NULL;
}

/* What no worker took is the control thread's again, which must not find it under its handle. */
static void channel_added(void *arg, const struct error *result) {
    struct call *c = arg;
    const struct call_channel_add *about = call_channel_add(c);
    if (result->code && about->channel) {
        if (!c->session->dropped)
            slots_remove(&c->session->channels, about->handle);
        op_channel_free(about->channel);
    }
    about->done(about->arg, result);
}

void plane_channel_add(struct plane_session *s, uint64_t handle,
                       const struct plane_channel_spec *spec, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_ADD, apply_channel_add, channel_added, NULL);
    struct op_channel *ch = new_channel(s, handle, spec);
    c->arg = c;
    *call_channel_add(c) = (struct call_channel_add){
        .handle = handle, .channel = ch, .lane = spec->lane, .done = done, .arg = arg};
    if (ch)
        call_post(c);
    else
        call_refuse(c, RDMAD_E_NOMEM, "channel: out of memory");
}

void plane_channel_open(struct plane_session *s, uint64_t handle, uint64_t peer_number,
                        struct plane_session *peer) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_OPEN, apply_channel_open, NULL, NULL);
    *call_channel_open(c) = (struct call_channel_open){
        .handle = handle, .peer_number = peer_number, .peer_worker = peer ? peer->worker : NULL};
    call_post(c);
}

void plane_channel_rest(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_REST, apply_channel_rest, done, arg);
    *call_channel_rest(c) = (struct call_channel_rest){.handle = handle};
    call_post(c);
}

void plane_channel_way(struct plane_session *s, uint64_t handle, uint64_t number,
                       struct plane_lane *lane, uint64_t peer_in, plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_WAY, apply_channel_way, done, arg);
    *call_channel_way(c) = (struct call_channel_way){
        .handle = handle, .number = number, .lane = lane, .peer_in = peer_in};
    call_post(c);
}

void plane_channel_end(struct plane_session *s, uint64_t handle, int reason, bool linger,
                       plane_done *done, void *arg) {
    struct call *c = call_prepare_of(s, CALL_CHANNEL_END, apply_channel_end, done, arg);
    *call_channel_end(c) =
        (struct call_channel_end){.handle = handle, .reason = reason, .linger = linger};
    call_post(c);
}

void plane_channel_forget(struct plane_session *s, uint64_t handle) {
    struct op_channel *ch = slots_remove(&s->channels, handle);
    if (ch)
        ch->control.forgotten = true;
    struct call *c = call_prepare_of(s, CALL_CHANNEL_END, apply_channel_forget, NULL, NULL);
    *call_channel_end(c) = (struct call_channel_end){.handle = handle, .reason = RDMAD_E_CLOSED};
    call_post(c);
}
