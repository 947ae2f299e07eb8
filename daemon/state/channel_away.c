/* SPDX-License-Identifier: MIT */
/*
 * channel_away.c - a channel whose way to the other end is gone, and comes back.
 *
 * Those that are AWAY stand in a tree by a keyed hash of their keys: who asks for one learns
 * nothing by the time that it takes about keys that are there, and cannot make many of one place.
 */
#include "daemon/state/channel_away.h"
#include "daemon/base/hash.h"
#include "daemon/base/log.h"
#include "daemon/state/origin.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first pause; each is twice as long, up to the second; and up to half as long again, by the
 * clock's last digits, so that not all of those who lost one daemon come at once. */
#define SEEK_PAUSE_NS (10 * NSEC_PER_MSEC)
#define SEEK_PAUSE_MAX_NS (250 * NSEC_PER_MSEC)

/* ---- who is away --------------------------------------------------------------------------- */

static const struct channel *of_node(const struct tree_node *node) {
    return container_of(node, struct channel, away_node);
}

static int away_compare(const struct tree_node *a, const struct tree_node *b) {
    const struct channel *x = of_node(a), *y = of_node(b);
    int places = memcmp(x->away_place, y->away_place, sizeof(x->away_place));
    return places ? places : (int)x->accepted - (int)y->accepted;
}

static void away_place(struct state *st, struct channel *ch) {
    uint8_t hash[HASH_BYTES];
    hash_keyed(st->resume_key, ch->key, sizeof(ch->key), hash);
    memcpy(ch->away_place, hash, sizeof(ch->away_place));
}

static struct channel *away_of_key(struct state *st, const uint8_t *key, bool accepted) {
    struct channel like = {.accepted = accepted};
    struct tree_node *node;
    struct channel *ch;
    if (!st->away.compare)
        return NULL;
    memcpy(like.key, key, sizeof(like.key));
    away_place(st, &like);
    node = tree_find(&st->away, &like.away_node);
    ch = node ? container_of(node, struct channel, away_node) : NULL;
    return ch && origin_same_key(ch->key, key, sizeof(ch->key)) ? ch : NULL;
}

struct channel *channel_away_find(struct state *st, const uint8_t *key, bool accepted) {
    struct channel *ch = away_of_key(st, key, accepted);
    return ch && channel_may_return(ch) ? ch : NULL;
}

const struct channel *channel_parted_find(struct state *st, const uint8_t *key, bool accepted) {
    const struct channel *ch = away_of_key(st, key, accepted);
    return ch && ch->stage == CHANNEL_PARTED ? ch : NULL;
}

/* False: there is one of that key already. */
static bool away_add(struct channel *ch) {
    struct state *st = ch->session->state;
    if (!st->away.compare)
        tree_init(&st->away, away_compare, NULL);
    away_place(st, ch);
    if (tree_find(&st->away, &ch->away_node))
        return false;
    tree_add(&st->away, &ch->away_node);
    ch->way = CHANNEL_AWAY;
    return true;
}

static void away_remove(struct channel *ch) {
    struct state *st = ch->session->state;
    assert(ch->way == CHANNEL_AWAY);
    tree_remove(&st->away, &ch->away_node);
    timer_unset(&st->timers, &ch->away_seek);
}

/* ---- it seeks, or is found ----------------------------------------------------------------- */

static void seek_now(struct timer *timer, uint64_t now_ns) {
    struct channel *ch = container_of(timer, struct channel, away_seek);
    (void)now_ns;
    if (ch->way == CHANNEL_AWAY && ch->seek && channel_may_return(ch))
        ch->seek(ch);
}

/* Without memory for a timer it ends after peer.return_ms. */
void channel_seek_later(struct channel *ch) {
    struct state *st = ch->session->state;
    uint64_t now_ns = state_now(st),
             pause_ns = ch->away_pause_ns + now_ns % (ch->away_pause_ns / 2);
    assert(ch->way == CHANNEL_AWAY);
    ch->away_pause_ns =
        2 * ch->away_pause_ns < SEEK_PAUSE_MAX_NS ? 2 * ch->away_pause_ns : SEEK_PAUSE_MAX_NS;
    timer_set(&st->timers, &ch->away_seek, clock_after(now_ns, pause_ns));
}

/* Messages to the old number are of the way that is gone. */
static void renumber(struct channel *ch) {
    struct slots *all = &ch->session->state->channels;
    slots_remove(all, ch->number);
    ch->number = slots_add(all, ch);
    assert(ch->number);
}

/* Each has to be whom the other was told that it is. */
static bool away_same_users(const struct channel *a, const struct channel *b) {
    return a->peer_uid == b->session->uid && b->peer_uid == a->session->uid;
}

static void away_begin(struct channel *ch) {
    const struct channel *parted;
    struct channel *seeker;
    ch->ops = NULL;
    renumber(ch);
    if (!away_add(ch)) {
        channel_end(ch, RDMAD_E_EXISTS, "another channel has shown its key");
        return;
    }
    if (ch->session->state->stopping)
        return; /* it goes on with the next daemon */
    parted = channel_parted_find(ch->session->state, ch->key, !ch->accepted);
    if (parted && away_same_users(ch, parted)) {
        channel_end(ch, channel_reason_there(parted), parted->text);
        return;
    }
    if (ch->seek) {
        channel_seek_later(ch);
        return;
    }
    seeker = channel_away_find(ch->session->state, ch->key, false);
    if (seeker && seeker->seek)
        seeker->seek(seeker); /* it need not wait for its time */
}

void channel_come(struct channel *ch) {
    away_remove(ch);
    ch->way = CHANNEL_COMING;
}

void channel_stay_away(struct channel *ch, const char *why) {
    assert(ch->way == CHANNEL_COMING);
    snprintf(ch->away_why, sizeof(ch->away_why), "%s", why);
    away_begin(ch);
}

/* ---- its way is gone ----------------------------------------------------------------------- */

bool channel_may_return(const struct channel *ch) {
    const struct session *s = ch->session;
    bool wanted = ch->stage == CHANNEL_OPEN || (ch->stage == CHANNEL_ENDING && ch->lingers);
    return wanted && ch->has_key && ch->kind == RDMAD_CHANNEL_RELIABLE && origin_is_set(s) &&
           !s->closing && s->state->config->peer_return_ms;
}

static void away_is_over(struct timer *timer, uint64_t now_ns) {
    struct channel *ch = container_of(timer, struct channel, away_bound);
    const struct config *config = ch->session->state->config;
    char text[RDMAD_TEXT_MAX + 1];
    (void)now_ns;
    if (ch->stage == CHANNEL_PARTED) {
        channel_free_parted(ch);
        return;
    }
    snprintf(text, sizeof(text),
             "the other end has not come back within %" PRIu64 " ms (peer.return_ms)%s%.120s",
             config->peer_return_ms, ch->away_why[0] ? ": " : "", ch->away_why);
    channel_end(ch, RDMAD_E_PEER_LOST, text);
}

static const struct channel_away_ops away_ops;

/* For how long an end has waited is lost with its daemon, so its client keeps it, and tells the
 * next (CHANNEL_RESUME): else it would wait for ever at daemons that do not live long. */
static void away_send(struct late_event *e) {
    const struct channel *ch = container_of(e, struct channel, late_way);
    struct rdmad_ev_channel_way ev = {.channel = ch->handle, .away = timer_is_set(&ch->away_bound)};
    session_send(ch->session, RDMAD_EV_CHANNEL_WAY, 0, &ev, sizeof(ev), NULL, 0);
}

static void away_tell(struct channel *ch) {
    if (ch->known && !ch->closed && ch->session->version >= RDMAD_ABI_WAITED)
        session_tell(ch->session, &ch->late_way);
}

static void away_init(struct channel *ch) {
    if (ch->away)
        return;
    ch->away = &away_ops;
    late_event_init(&ch->late_way, away_send);
    timer_init(&ch->away_bound, away_is_over);
    timer_init(&ch->away_seek, seek_now);
}

/* False: there is no memory for the bound. */
static bool set_bound(struct channel *ch) {
    struct state *st = ch->session->state;
    uint64_t most_ms = st->config->peer_return_ms, before_ms = ch->away_before_ms;
    away_init(ch);
    if (timer_is_set(&ch->away_bound))
        return true;
    ch->away_since_ns = state_now(st);
    ch->away_pause_ns = SEEK_PAUSE_NS;
    if (timer_set(&st->timers, &ch->away_bound,
                  clock_after(ch->away_since_ns,
                              (before_ms < most_ms ? most_ms - before_ms : 0) * NSEC_PER_MSEC)))
        return false;
    away_tell(ch);
    return true;
}

static void plane_rested(void *arg, const struct error *result) {
    struct channel *ch = arg;
    bool over = result && result->code; /* its worker knows more than we do, or did */
    if (channel_rested(ch) || over || !channel_may_return(ch))
        return; /* its ops hear of its end */
    ch->ops->rested(ch);
    away_begin(ch);
}

void channel_lose_way(struct channel *ch, const char *why) {
    assert(channel_may_return(ch) && ch->way != CHANNEL_RESTING && ch->way != CHANNEL_AWAY);
    snprintf(ch->away_why, sizeof(ch->away_why), "%s", why);
    if (!set_bound(ch)) {
        channel_end(ch, RDMAD_E_PEER_LOST, why);
        return;
    }
    ch->way = CHANNEL_RESTING;
    ch->pending++;
    plane_channel_rest(ch->session->plane, ch->handle, plane_rested, ch);
}

/* ---- it comes from an earlier life --------------------------------------------------------- */

void channel_resume(struct channel *ch) {
    assert(ch->stage == CHANNEL_NEW && ch->has_key);
    ch->resumed = true;
    away_init(ch);
    channel_add(ch, NULL, 0);
}

static void away_resumed(struct channel *ch) {
    if (set_bound(ch))
        away_begin(ch);
    else
        channel_end(ch, RDMAD_E_NOMEM, "out of memory for a channel");
}

/* ---- the end of it ------------------------------------------------------------------------- */

static void away_there(struct channel *ch) {
    struct state *st = ch->session->state;
    assert(ch->way == CHANNEL_COMING);
    ch->way = CHANNEL_THERE;
    ch->away_why[0] = '\0';
    ch->away_before_ms = 0;
    timer_unset(&st->timers, &ch->away_bound);
    away_tell(ch);
    LOG_LIMITED_OF(log_of_user(session_user_id(ch->session)), INFO,
                   ("channel %" PRIu64 " of session %" PRIu64 " goes on after %" PRIu64 " ms",
                    ch->number, ch->session->id,
                    clock_left(ch->away_since_ns, state_now(st)) / NSEC_PER_MSEC),
                   FIELD_U64("SESSION", ch->session->id));
}

/* It is kept as long as it could have waited, on its own charge. */
static bool away_part(struct channel *ch) {
    struct state *st = ch->session->state;
    if (st->stopping || !timer_is_set(&ch->away_bound))
        return false;
    if (ch->way != CHANNEL_AWAY && !away_add(ch)) /* whom it was telling may be lost as well */
        return false;
    struct channel *other = channel_away_find(st, ch->key, !ch->accepted);
    if (!other || !away_same_users(ch, other))
        return true;
    channel_end(other, channel_reason_there(ch), ch->text);
    return false;
}

static void away_drop(struct channel *ch) {
    struct timers *timers = &ch->session->state->timers;
    if (ch->way == CHANNEL_AWAY)
        away_remove(ch);
    late_event_drop(&ch->late_way);
    timer_unset(timers, &ch->away_bound);
    timer_unset(timers, &ch->away_seek);
}

static const struct channel_away_ops away_ops = {
    .resumed = away_resumed, .there = away_there, .part = away_part, .drop = away_drop};
