/* SPDX-License-Identifier: MIT */
/*
 * life.c - a channel's end is made, opened, ended and forgotten.
 */
#include "daemon/op/channel/life.h"
#include "daemon/op/channel/arrivals.h"
#include "daemon/op/channel/core.h"
#include "daemon/op/channel/inbox.h"
#include "daemon/op/channel/landing.h"
#include "daemon/op/channel/send.h"
#include "daemon/op/channel/sync.h"
#include <assert.h>
#include <stdlib.h>

/* ---- a worker's channels ----------------------------------------------------------------- */

int channels_init(struct worker *w) {
    struct channels *all = calloc(1, sizeof(*all));
    if (!all)
        return RDMAD_E_NOMEM;
    ids_init(&all->by_number, w->secret);
    list_init(&all->run);
    list_init(&all->anew);
    list_init(&all->full);
    list_init(&all->unended);
    slab_init(&all->sends, sizeof(struct op_send), w->control);
    slab_init(&all->arrivals, sizeof(struct op_arrival), w->control);
    w->channels = all;
    return 0;
}

void channels_fini(struct worker *w) {
    struct channels *all = w->channels;
    if (!all)
        return;
    slab_fini(&all->sends);
    slab_fini(&all->arrivals);
    ids_fini(&all->by_number);
    letters_free(all);
    free(all);
    w->channels = NULL;
}

/* ---- one --------------------------------------------------------------------------------- */

struct op_channel *op_channel_new(struct worker *w, uint64_t handle,
                                  const struct plane_channel_spec *spec, struct op_lane *lane,
                                  void (*closed_event)(struct mail *mail)) {
    struct op_channel *ch = calloc(1, sizeof(*ch));
    if (!ch)
        return NULL;
    ch->worker = w;
    ch->handle = handle;
    ch->remote = lane != NULL;
    ch->fabric = lane ? lane->route.fabric : NULL;
    ch->number = spec->number;
    ch->peer_in = spec->peer_in;
    ch->kind = ch->remote ? spec->kind : RDMAD_CHANNEL_RELIABLE;
    ch->stats = spec->stats;
    ch->control.cookie = spec->cookie;
    ch->end.closed_event = closed_event;
    ch->in.rollback = ch->in.stopped_from = CLOCK_NEVER;
    list_init(&ch->run_node);
    list_init(&ch->anew_node);
    list_init(&ch->unended_node);
    list_init(&ch->held_node);
    list_init(&ch->lane_node);
    list_init(&ch->full_node);
    list_init(&ch->out.waiting);
    list_init(&ch->out.sent);
    list_init(&ch->out.leaving);
    list_init(&ch->out.due);
    list_init(&ch->in.recvs);
    list_init(&ch->in.arrivals);
    list_init(&ch->in.attention);
    list_init(&ch->inbox);
    ch->end.letter = malloc(sizeof(*ch->end.letter));
    if (!ch->end.letter) {
        free(ch);
        return NULL;
    }
    return ch;
}

void op_channel_free(struct op_channel *ch) {
    free(ch->end.letter);
    free(ch);
}

bool op_channel_join(struct op_channel *ch, struct op_session *s, struct op_lane *lane) {
    assert(!ch->session && (lane != NULL) == ch->remote);
    if (slots_put(&s->channels, ch->handle, ch) < 0)
        return false;
    ch->session = s;
    ch->lane = lane;
    if (lane)
        list_append(&lane->channels, &ch->lane_node);
    channels_add(ch);
    return true;
}

void op_channel_open(struct op_channel *ch, uint64_t peer_number, struct worker *peer) {
    sync_open(ch);
    ch->peer_number = peer_number;
    ch->peer_worker = peer;
    ch->due.state = true;
    channel_touch(ch);
}

void op_channel_end(struct op_channel *ch, int reason, bool linger) {
    assert(reason);
    if (ch->end.state == END_ALIVE || !linger) {
        ch->end.state = linger ? END_LINGERING : END_STOPPING;
        ch->end.reason = reason;
    }
    channel_touch(ch);
}

bool op_channel_ended(const struct op_channel *ch) {
    if (ch->ops)
        return false;
    return ch->end.fin == FIN_TOLD || !channel_can_say(ch) ||
           (ch->end.fin == FIN_TRIED && ch->remote && ch->end.state != END_LINGERING);
}

/* The other end does not know of its end yet, and the control thread may let go of its numbers. */
void op_channel_unwatch(struct op_channel *ch) {
    ch->stats = &ch->unwatched;
}

static void free_channel(struct mail *mail) {
    free(container_of(mail, struct op_channel, end.free_mail));
}

/* Frees it when the fabric has nothing of it any more, by a mail that comes after any that told of
 * its end. */
void channel_posts_gone(struct op_channel *ch) {
    assert(!ch->session);
    if (ch->posted_sends)
        return;
    free(ch->end.letter);
    mailbox_post(ch->worker->control, &ch->end.free_mail, free_channel);
}

void op_channel_forget(struct op_channel *ch) {
    assert(ch->ops == 0 && list_empty(&ch->out.waiting) && list_empty(&ch->out.leaving));
    assert(list_empty(&ch->in.recvs));
    for (struct list *pos; (pos = list_pop(&ch->out.sent));) /* given up: without ops */
        slab_put(&ch->worker->channels->sends, list_entry(pos, struct op_send, node));
    for (struct list *pos;
         (pos = list_first(&ch->in.arrivals));) { /* taken back: without receives */
        struct op_arrival *a = list_entry(pos, struct op_arrival, node);
        landing_stop(a, RDMAD_E_CANCELED);
        arrival_drop(a);
    }
    inbox_clear(ch);
    op_channel_unwatch(ch);
    ch->session = NULL;
    channels_remove(ch);
    list_remove(&ch->run_node);
    list_remove(&ch->unended_node);
    list_remove(&ch->held_node);
    channel_off_lane(ch);
    channel_posts_gone(ch);
}

/* ---- all of a session's ------------------------------------------------------------------ */

void channels_session_end(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    /* What was closed before the session's end stays so, and waits for nothing any more. */
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        op_channel_end(ch, ch->end.reason == RDMAD_E_CLOSED ? RDMAD_E_CLOSED : RDMAD_E_CANCELED,
                       false);
}

bool channels_session_settled(struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        if (!op_channel_ended(ch))
            return false;
    return true;
}

void channels_session_gone(struct worker *w, struct op_session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    (void)w;
    for (struct op_channel *ch; (ch = slots_next(&s->channels, &cursor, &handle));)
        op_channel_forget(ch);
    list_remove(&s->unended_node);
}
