/* SPDX-License-Identifier: MIT */
/*
 * channel.c - the life of our end of a channel.
 *
 * The happy path: channel_new, channel_add (the data plane takes it up), channel_connect with the
 * other end's number, channel_ready, then the client's close: the data plane ends it
 * (channel_drained), the way is given back, free.
 *
 * What may cross: the other end can close, its daemon be lost or the session close in any stage.
 * All of these only move the stage to ENDING and count in `pending` what the data plane still owes;
 * channel_drained runs when nothing is owed any more and settles with everybody in one order: the
 * other side, the client, whoever waits.
 */
#include "daemon/state/channel.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include <assert.h>
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct error ok;

static void channel_send_end(struct late_event *e);
static void channel_drained(struct channel *ch);

/* The session's data plane, also while it only waits for others to let go of it; NULL once it is
 * dropped. */
static struct plane_session *plane_of(const struct session *s) {
    return s->closing ? s->leaving : s->plane;
}

static uint64_t counter_get(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

struct plane_channel_stats channel_stats(const struct channel *ch) {
    const struct plane_channel_stats *s = &ch->stats;
    return (struct plane_channel_stats){
        .messages_sent = counter_get(&s->messages_sent),
        .bytes_sent = counter_get(&s->bytes_sent),
        .messages_received = counter_get(&s->messages_received),
        .bytes_received = counter_get(&s->bytes_received),
        .sends = counter_get(&s->sends),
        .sends_waiting = counter_get(&s->sends_waiting),
        .receives_posted = counter_get(&s->receives_posted),
        .stalls = counter_get(&s->stalls),
        .lost = counter_get(&s->lost),
        .resent = counter_get(&s->resent),
    };
}

static void channel_add_stats(struct channel_totals *sum, const struct channel *ch) {
    struct plane_channel_stats s = channel_stats(ch);
    sum->messages_sent += s.messages_sent;
    sum->bytes_sent += s.bytes_sent;
    sum->messages_received += s.messages_received;
    sum->bytes_received += s.bytes_received;
    sum->stalls += s.stalls;
    sum->lost += s.lost;
}

void channels_count(const struct state *st, struct channel_totals *out) {
    const struct channel *ch;
    uint32_t cursor = 0;
    uint64_t number;
    *out = st->messages;
    while ((ch = slots_next(&st->channels, &cursor, &number)))
        channel_add_stats(out, ch);
}

void channels_queues(const struct state *st, struct channel_queues *out) {
    const struct channel *ch;
    uint32_t cursor = 0;
    uint64_t number;
    *out = (struct channel_queues){0};
    while ((ch = slots_next(&st->channels, &cursor, &number))) {
        out->sends_waiting += __atomic_load_n(&ch->stats.sends_waiting, __ATOMIC_RELAXED);
        out->receives_posted += __atomic_load_n(&ch->stats.receives_posted, __ATOMIC_RELAXED);
        out->away += ch->way == CHANNEL_AWAY;
    }
}

/* ---- making and unmaking ----------------------------------------------------------------- */

static void channel_free(struct channel *ch) {
    struct session *s = ch->session;
    struct session_waiter closing = ch->closing;

    late_event_drop(&ch->late_end);
    if (ch->away)
        ch->away->drop(ch);
    if (ch->keepalive)
        ch->keepalive->drop(ch);
    channel_add_stats(&s->state->messages, ch);
    slots_remove(&s->channels, ch->handle);
    slots_remove(&s->state->channels, ch->number);
    quota_discharge(&ch->charge);
    free(ch);
    waiter_answer(&closing, &ok);
    if (s->channels.used == 0)
        waiter_answer(&s->channels_gone, &ok);
    session_release(s);
}

static int channel_no_room(const struct slots *all, uint64_t number, struct error *err) {
    if (!number && all->used >= all->max)
        return error_set(err, RDMAD_E_LIMIT,
                         "rdmad has %u channels, and can have no more: close some", all->used);
    return error_set(err, RDMAD_E_NOMEM, "out of memory for a channel");
}

/* handle 0: any. */
static int channel_make(struct session *s, uint64_t handle, uint32_t kind,
                        struct session_waiter opening, struct channel **out, struct error *err) {
    struct state *st = s->state;
    if (state_leaves(st) || s->closing)
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and opens no more channels",
                         state_leaves_or_ends(st));
    struct channel *ch = calloc(1, sizeof(*ch));
    if (!ch)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a channel");
    int rc =
        quota_charge(&st->quota, &s->account, s->uid_account, QUOTA_CHANNELS, 1, &ch->charge, err);
    if (!rc) {
        ch->handle = !handle                                    ? slots_add(&s->channels, ch)
                     : slots_put(&s->channels, handle, ch) == 0 ? handle
                                                                : 0;
        ch->number = slots_add(&st->channels, ch);
    }
    if (!rc && (!ch->handle || !ch->number))
        rc = channel_no_room(&st->channels, ch->number, err);
    if (rc) {
        if (ch->handle)
            slots_remove(&s->channels, ch->handle);
        slots_remove(&st->channels, ch->number);
        quota_discharge(&ch->charge);
        free(ch);
        return rc;
    }
    ch->session = s;
    ch->asked = ch->kind = kind;
    ch->since_ns = state_now(st);
    ch->opening = opening;
    list_init(&ch->other_node);
    late_event_init(&ch->late_end, channel_send_end);
    session_hold(s);
    *out = ch;
    return 0;
}

int channel_new(struct session *s, uint32_t kind, plane_done *opened, void *arg,
                struct channel **out, struct error *err) {
    return channel_make(s, 0, kind, (struct session_waiter){opened, arg}, out, err);
}

int channel_new_again(struct session *s, uint64_t handle, plane_done *opened, void *arg,
                      struct channel **out, struct error *err) {
    if (slots_get(&s->channels, handle))
        return error_set(err, RDMAD_E_EXISTS, "there is a channel %" PRIu64 " already", handle);
    return channel_make(s, handle, RDMAD_CHANNEL_RELIABLE, (struct session_waiter){opened, arg},
                        out, err);
}

void channel_fail(struct channel *ch, const struct error *why) {
    struct session_waiter opening = ch->opening;
    struct error copy = *why;
    ch->ops = NULL;
    channel_free(ch);
    waiter_answer(&opening, &copy);
}

struct channel *channel_by_number(struct state *st, uint64_t number) {
    return slots_get(&st->channels, number);
}

struct channel *channel_by_handle(struct session *s, uint64_t handle) {
    struct channel *ch = slots_get(&s->channels, handle);
    return ch && ch->known && !ch->closed ? ch : NULL;
}

uint32_t channel_kind_by(const struct state *st, uint32_t kind, unsigned fabric) {
    const struct fabric_ops *ops = plane_fabric(st->plane, fabric);
    unsigned kinds = ops->services ? ops->services(plane_fabric_host(st->plane, fabric)) : 0;
    return kinds & 1u << kind ? kind : RDMAD_CHANNEL_RELIABLE;
}

uint64_t channel_max_message(const struct channel *ch) {
    if (ch->kind == RDMAD_CHANNEL_DATAGRAM)
        return ch->max_datagram;
    return ch->session->state->quota.limits.session[QUOTA_BYTES];
}

/* ---- the way to OPEN --------------------------------------------------------------------- */

static void channel_check_open(struct channel *ch) {
    if (ch->stage != CHANNEL_ADDING || !ch->added || !ch->ready || ch->session->closing)
        return;
    ch->stage = CHANNEL_OPEN;
    ch->known = true;
    waiter_answer(&ch->opening, &ok);
}

/* It is OPEN, and waits for the other end. */
static void channel_is_back(struct channel *ch) {
    ch->added = ch->ready = ch->known = true;
    ch->stage = CHANNEL_OPEN;
    ch->away->resumed(ch);
    waiter_answer(&ch->opening, &ok);
}

static void channel_plane_added(void *arg, const struct error *result) {
    struct channel *ch = arg;
    ch->pending--;
    if (ch->stage == CHANNEL_ADDING && !ch->session->closing) {
        if (result && result->code) {
            channel_end(ch, result->code, result->text);
        } else if (ch->resumed) {
            channel_is_back(ch);
        } else {
            ch->added = true;
            ch->ops->added(ch); /* may end it, but not free it: it is the data plane's */
            channel_check_open(ch);
        }
    } else if (ch->pending == 0 && ch->stage == CHANNEL_ENDING && ch->closed) {
        channel_drained(ch); /* of a session that closes: else its end is answered later */
    }
}

bool channel_rested(struct channel *ch) {
    bool ending = ch->stage == CHANNEL_ENDING && (ch->closed || !ch->session->closing);
    if (--ch->pending > 0 || !ending)
        return false;
    channel_drained(ch);
    return true;
}

/* Of one that was COMING; it may have lost that way, too, meanwhile. */
static void channel_way_added(void *arg, const struct error *result) {
    struct channel *ch = arg;
    if (channel_rested(ch) || ch->way != CHANNEL_COMING || ch->session->closing)
        return;
    if (result && result->code) {
        channel_end(ch, result->code, result->text);
        return;
    }
    ch->added = true;
    ch->ops->added(ch);
}

void channel_add(struct channel *ch, struct plane_lane *lane, uint64_t peer_in) {
    struct plane_channel_spec spec = {
        .number = ch->number,
        .kind = ch->kind,
        .lane = lane,
        .peer_in = peer_in,
        .stats = &ch->stats,
        .cookie = ch,
    };
    ch->pending++;
    if (lane || !ch->resumed)
        ch->fabric = lane ? plane_lane_fabric(lane)->name : "local";
    if (ch->way == CHANNEL_COMING) {
        ch->added = false;
        plane_channel_way(ch->session->plane, ch->handle, ch->number, lane, peer_in,
                          channel_way_added, ch);
        return;
    }
    ch->stage = CHANNEL_ADDING;
    plane_channel_add(ch->session->plane, ch->handle, &spec, channel_plane_added, ch);
}

void channel_connect(struct channel *ch, uint64_t other, struct session *other_session) {
    ch->other = other;
    if ((ch->stage != CHANNEL_ADDING && ch->way != CHANNEL_COMING) || ch->session->closing)
        return;
    if (other_session && other_session->closing) {
        channel_end(ch, RDMAD_E_CANCELED, "the other end's program is gone");
        return;
    }
    if (other_session) {
        ch->other_session = other_session;
        list_append(&other_session->others, &ch->other_node);
    }
    plane_channel_open(ch->session->plane, ch->handle, other,
                       other_session ? other_session->plane : NULL);
}

void channel_ready(struct channel *ch) {
    ch->ready = true;
    if (ch->way == CHANNEL_COMING)
        ch->away->there(ch);
    else
        channel_check_open(ch);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Nothing of it sends to the other end's session any more. */
static void leave_other(struct channel *ch) {
    struct session *other = ch->other_session;
    if (!other)
        return;
    ch->other_session = NULL;
    list_remove(&ch->other_node);
    if (list_empty(&other->others))
        waiter_answer(&other->others_gone, &ok);
}

static void channel_send_end(struct late_event *e) {
    const struct channel *ch = container_of(e, struct channel, late_end);
    struct rdmad_ev_channel_closed ev = {.channel = ch->handle, .reason = ch->reason};
    memcpy(ev.text, ch->text, sizeof(ev.text));
    session_send(ch->session, RDMAD_EV_CHANNEL_CLOSED, 0, &ev, sizeof(ev), NULL, 0);
}

/* True: it is not freed. Its program is answered as if it were. */
static bool channel_part(struct channel *ch) {
    struct session_waiter closing = ch->closing;
    if (!ch->closed || ch->session->closing || !ch->away || !ch->away->part(ch))
        return false;
    ch->stage = CHANNEL_PARTED;
    ch->closing = (struct session_waiter){0};
    waiter_answer(&closing, &ok);
    return true;
}

void channel_free_parted(struct channel *ch) {
    assert(ch->stage == CHANNEL_PARTED);
    channel_free(ch);
}

static void channel_drained(struct channel *ch) {
    struct session *s = ch->session;
    const struct channel_ops *ops = ch->ops;
    struct error why;

    leave_other(ch);
    ch->ops = NULL;
    if (ops)
        ops->let_go(ch);
    error_set(&why, ch->reason, "%s", ch->text);
    waiter_answer(&ch->opening, &why);
    if (ch->closed || !ch->known || s->closing) {
        if (!s->closing)
            plane_channel_forget(s->plane, ch->handle);
        if (!channel_part(ch))
            channel_free(ch);
        return;
    }
    ch->stage = CHANNEL_ENDED;
    session_tell(s, &ch->late_end);
}

static void channel_plane_let_go(void *arg, const struct error *result) {
    struct channel *ch = arg;
    (void)result;
    if (--ch->pending == 0)
        channel_drained(ch);
}

static void tell_plane(struct channel *ch, bool linger) {
    struct plane_session *plane = plane_of(ch->session);
    ch->lingers = linger;
    if (!plane)
        return; /* dropped, with all that was in it */
    ch->pending++;
    plane_channel_end(plane, ch->handle, ch->reason, linger, channel_plane_let_go, ch);
}

static void set_reason(struct channel *ch, int reason, const char *text) {
    ch->reason = reason;
    snprintf(ch->text, sizeof(ch->text), "%s", text);
}

/* of: of its end, in the words of this side. Was the other end away, that is said, too. */
static void channel_remember_end(const struct channel *ch, const char *of) {
    bool away = ch->way == CHANNEL_RESTING || ch->way == CHANNEL_AWAY;
    EVENT("channel", "ended", session_who(ch->session), audit_object("channel", ch->number),
          ("channel %" PRIu64 " of session %" PRIu64 " ended: %s%s%s", ch->number, ch->session->id,
           of, away ? ", while its other end was away: " : "", away ? ch->away_why : ""));
}

/* Its program has closed it, and its end was told of already. The last of it may have been taken a
 * moment ago, of which the worker's word is still on its way here. */
static void channel_remember_loss(const struct channel *ch, const char *why) {
    EVENT("channel", "lost", session_who(ch->session), audit_object("channel", ch->number),
          ("channel %" PRIu64 " of session %" PRIu64 " was closed, and its other end was lost, "
           "perhaps before it had taken all that was sent: %s",
           ch->number, ch->session->id, why));
}

static void channel_begin_end(struct channel *ch, int reason, bool linger, const char *text) {
    ch->stage = CHANNEL_ENDING;
    set_reason(ch, reason, text);
    tell_plane(ch, linger);
}

void channel_end(struct channel *ch, int reason, const char *text) {
    struct error why;
    if (ch->stage == CHANNEL_NEW) {
        error_set(&why, reason, "%s", text);
        if (ch->ops)
            ch->ops->cancel(ch, &why);
        channel_fail(ch, &why);
    } else if (ch->stage == CHANNEL_ADDING || ch->stage == CHANNEL_OPEN) {
        channel_remember_end(ch, text);
        channel_begin_end(ch, reason, false, text);
    } else if (ch->stage == CHANNEL_ENDING && ch->lingers) {
        if (reason == RDMAD_E_PEER_LOST)
            channel_remember_loss(ch, text);
        tell_plane(ch, false); /* there is nobody left to deliver to */
    }
}

void channel_ended_there(struct channel *ch, int reason, const char *text) {
    channel_end(ch, reason, text);
    if (ch->stage == CHANNEL_ENDING && !ch->closed)
        set_reason(ch, reason, text);
}

void channel_close(struct channel *ch, bool linger, plane_done *done, void *arg) {
    ch->closed = true;
    ch->closing = (struct session_waiter){done, arg};
    if (ch->stage == CHANNEL_ENDED) {
        if (!ch->session->closing)
            plane_channel_forget(ch->session->plane, ch->handle);
        channel_free(ch);
    } else if (ch->stage != CHANNEL_ENDING) {
        channel_remember_end(ch,
                             linger ? "its program closed it" : "its program closed it abruptly");
        channel_begin_end(ch, linger ? RDMAD_E_CLOSED : RDMAD_E_CANCELED, linger,
                          linger ? "the other end closed the channel"
                                 : "the other end closed the channel abruptly");
    }
}

/* ---- the session closes ------------------------------------------------------------------- */

void channels_end_others(struct session *s, plane_done *done, void *arg) {
    uint32_t cursor = 0;
    uint64_t handle;
    struct channel *ch;

    while ((ch = slots_next(&s->channels, &cursor, &handle))) {
        if (ch->stage == CHANNEL_NEW)
            channel_end(ch, RDMAD_E_CANCELED, "the session ended before the channel was open");
    }
    list_for_each_safe (node, &s->others) {
        ch = list_entry(node, struct channel, other_node);
        const struct channel *other = channel_by_number(s->state, ch->other);
        if (other && other->reason == RDMAD_E_CLOSED) /* it said so before it left */
            channel_end(ch, RDMAD_E_CLOSED, "the other end closed the channel");
        else
            channel_end(ch, RDMAD_E_CANCELED, "the other end's program is gone");
    }
    if (list_empty(&s->others))
        done(arg, &ok);
    else
        s->others_gone = (struct session_waiter){done, arg};
}

static void channel_release_closing(struct channel *ch) {
    ch->moves = ch->session->goes_on && ch->stage == CHANNEL_OPEN && ch->has_key;
    ch->closed = true;
    if (ch->stage == CHANNEL_ENDED || ch->stage == CHANNEL_PARTED) {
        channel_free(ch);
        return;
    }
    if (ch->stage != CHANNEL_ENDING) {
        channel_remember_end(ch, "its session ended");
        channel_begin_end(ch, RDMAD_E_CANCELED, false, "the other end's program is gone");
    }
    if (ch->pending == 0)
        channel_drained(ch);
}

void channels_release_session(struct session *s, plane_done *done, void *arg) {
    uint32_t cursor = 0;
    uint64_t handle;
    struct channel *ch;

    session_hold(s);
    while ((ch = slots_next(&s->channels, &cursor, &handle)))
        channel_release_closing(ch);
    if (s->channels.used == 0)
        done(arg, &ok);
    else
        s->channels_gone = (struct session_waiter){done, arg};
    session_release(s);
}
