/* SPDX-License-Identifier: MIT */
/*
 * keepalive.c - a timer, a question, and what comes of the answer.
 *
 * Bound: the time that was asked for, a quarter of it until the question that finds out, and as
 * much for the look behind it, whose answer comes with the next question.
 *
 * An earlier daemon may have told the client of a silence, of which this one knows nothing. So the
 * client of a channel from an earlier life is told once how it is, as soon as that is certain.
 */
#include "daemon/state/keepalive.h"
#include "daemon/state/alive.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct keepalive {
    struct channel_keepalive base;
    struct channel *channel;
    struct keepalive_terms terms;
    struct timer timer;
    uint32_t questions; /* a second, at most; the user's account has them */
    bool silent, told;  /* as is known; as the client was told */
    bool may_be_told;   /* of a silence, by an earlier daemon */
    uint64_t silent_ns;
    uint64_t first_ns; /* when the first answer came; 0: none has */
    struct late_event event;
};

static struct keepalive *keepalive_of(const struct channel *ch) {
    return container_of(ch->keepalive, struct keepalive, base);
}

static void keepalive_send(struct late_event *e) {
    struct keepalive *k = container_of(e, struct keepalive, event);
    struct rdmad_ev_channel_silent ev = {
        .channel = k->channel->handle, .silent_ns = k->silent_ns, .silent = k->silent};
    if (k->told == k->silent && !k->may_be_told)
        return; /* it has changed back before the client read */
    k->told = k->silent;
    k->may_be_told = false;
    session_send(k->channel->session, RDMAD_EV_CHANNEL_SILENT, 0, &ev, sizeof(ev), NULL, 0);
}

static uint64_t keepalive_every_ns(const struct keepalive_terms *terms) {
    uint64_t quarter_ns = terms->silent_ns / 4;
    return quarter_ns < ALIVE_ASK_NS ? quarter_ns : ALIVE_ASK_NS;
}

/* Without memory for the timer it ends as if it had not been wanted; a heap that has had room for
 * it has. */
static bool keepalive_rearm(struct keepalive *k) {
    struct state *st = k->channel->session->state;
    uint64_t at_ns = clock_after(state_now(st), keepalive_every_ns(&k->terms));
    return timer_set(&st->timers, &k->timer, at_ns) == 0;
}

static void keepalive_ask(struct channel *ch) {
    struct channel *other;
    if (ch->stage != CHANNEL_OPEN || ch->way != CHANNEL_THERE || ch->session->closing) {
        keepalive_of(ch)->first_ns = 0; /* whoever answers next may know nothing of before */
        return;
    }
    if (ch->remote) {
        ch->ops->ask_alive(ch);
        return;
    }
    other = channel_by_number(ch->session->state, ch->other);
    if (other)
        keepalive_told(ch, alive_silent_ns(other->session));
}

static void keepalive_tick(struct timer *timer, uint64_t now_ns) {
    struct keepalive *k = container_of(timer, struct keepalive, timer);
    (void)now_ns;
    if (k->channel->stage != CHANNEL_OPEN)
        return; /* it never is again */
    (void)keepalive_rearm(k);
    keepalive_ask(k->channel);
}

static void keepalive_drop(struct channel *ch) {
    struct keepalive *k = keepalive_of(ch);
    ch->keepalive = NULL;
    ch->session->uid_account->keepalive_questions -= k->questions;
    timer_unset(&ch->session->state->timers, &k->timer);
    late_event_drop(&k->event);
    free(k);
}

static struct keepalive *keepalive_new(struct channel *ch, const struct keepalive_terms *terms,
                                       uint32_t questions) {
    struct keepalive *k = calloc(1, sizeof(*k));
    if (!k)
        return NULL;
    k->base.drop = keepalive_drop;
    k->channel = ch;
    k->terms = *terms;
    k->questions = questions;
    k->may_be_told = ch->resumed;
    timer_init(&k->timer, keepalive_tick);
    late_event_init(&k->event, keepalive_send);
    if (keepalive_rearm(k))
        return k;
    free(k);
    return NULL;
}

int keepalive_set(struct channel *ch, const struct keepalive_terms *terms, struct error *err) {
    struct quota_account *user = ch->session->uid_account;
    struct keepalive *k = NULL;
    if (terms->silent_ns) { /* what is refused leaves the one that there is */
        uint64_t every_ns = keepalive_every_ns(terms);
        uint64_t questions = (NSEC_PER_SEC + every_ns - 1) / every_ns;
        uint32_t others =
            user->keepalive_questions - (ch->keepalive ? keepalive_of(ch)->questions : 0);
        if (others + questions > KEEPALIVE_QUESTIONS_MAX)
            return error_set(err, RDMAD_E_LIMIT,
                             "keep-alives of uid %u's other channels ask %" PRIu32
                             " times a second, this one would %" PRIu64
                             " times, and %u is the limit: have fewer, or longer ones",
                             (unsigned)ch->session->uid, others, questions,
                             KEEPALIVE_QUESTIONS_MAX);
        k = keepalive_new(ch, terms, (uint32_t)questions);
        if (!k)
            return error_set(err, RDMAD_E_NOMEM, "out of memory for a channel's keep-alive");
    }
    if (ch->keepalive)
        keepalive_drop(ch);
    if (!k)
        return 0;
    ch->keepalive = &k->base;
    user->keepalive_questions += k->questions;
    keepalive_ask(ch); /* so that the time counts from now on */
    return 0;
}

static void keepalive_end(struct channel *ch, const struct keepalive *k) {
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(text, sizeof(text),
             "the program at the other end has shown no sign of life for %" PRIu64
             " ms, of %" PRIu64
             " that its keep-alive allows: it is stopped, hangs, or looks at none of its rings",
             k->silent_ns / NSEC_PER_MSEC, k->terms.silent_ns / NSEC_PER_MSEC);
    ch->given_up = true;
    channel_end(ch, RDMAD_E_TIMEOUT, text);
}

/* Whether an answer of no silence says that it lives. The first ones do not: of a program that has
 * been silent all along only the time since the first question counts. */
static bool keepalive_has_seen(const struct keepalive *k, uint64_t now_ns) {
    return clock_left(k->first_ns, now_ns) > k->terms.silent_ns + keepalive_every_ns(&k->terms);
}

void keepalive_told(struct channel *ch, uint64_t silent_ns) {
    struct keepalive *k = ch->keepalive ? keepalive_of(ch) : NULL;
    if (!k || ch->stage != CHANNEL_OPEN)
        return;
    uint64_t now_ns = state_now(ch->session->state);
    if (!k->first_ns)
        k->first_ns = now_ns;
    k->silent_ns = silent_ns;
    k->silent = silent_ns >= k->terms.silent_ns;
    if (k->silent && k->terms.ends)
        keepalive_end(ch, k);
    else if (k->silent != k->told || (k->may_be_told && keepalive_has_seen(k, now_ns)))
        session_tell(ch->session, &k->event);
}
