/* SPDX-License-Identifier: MIT */
/*
 * Ends of channels whose way is gone, on the control thread: they rest, are away, are found by
 * their key alone, come back, or end in time; and whenever they end, everything comes back.
 */
#include "daemon/base/events.h"
#include "daemon/state/channel_away.h"
#include "tests/unit/channel_steps.h"

#define RETURN_MS 5000

static struct session *a, *b; /* at this daemon, with ends to peers or to each other */
static struct rig_done da, db, closed;
static unsigned rested, let_go, added, sought;

/* ---- who makes ways, in place of the peers ---- */

static void way_added(struct channel *ch) {
    added++;
    channel_connect(ch, 77, NULL);
}
static void way_let_go(struct channel *ch) {
    (void)ch;
    let_go++;
}
static void way_rested(struct channel *ch) {
    cr_expect_eq(ch->way, CHANNEL_RESTING);
    rested++;
}
static const struct channel_ops ways = {
    .added = way_added, .let_go = way_let_go, .rested = way_rested};

static void seek(struct channel *ch) {
    sought++;
    channel_seek_later(ch);
}

static void up(void) {
    rig_up();
    rig.config.peer_return_ms = RETURN_MS;
    a = rig_session(1000);
    b = rig_session(2000);
    a->origin.life = b->origin.life = 1;
    da = db = closed = (struct rig_done){0};
    rested = let_go = added = sought = 0;
}

static void down(void) {
    if (!a->closing)
        rig_close(a);
    if (!b->closing)
        rig_close(b);
    fake_answer_all();
    cr_expect(rig_closed(a) && rig_closed(b), "a session is held");
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    cr_expect_eq(rig.st.channels.used, 0);
    cr_expect_null(rig.st.away.root, "one is away for ever");
    rig_down();
}

TestSuite(channel_return, .init = up, .fini = down);

/* An end to a peer, which is open. key 0: it has none. */
static struct channel *open_end(struct session *s, struct rig_done *done, uint8_t key) {
    struct channel *ch = end_of(s, done);
    ch->ops = &ways;
    ch->remote = true;
    ch->has_key = key;
    memset(ch->key, key, sizeof(ch->key));
    channel_add(ch, NULL, 0);
    fake_answer_all();
    channel_ready(ch);
    cr_assert_eq(ch->stage, CHANNEL_OPEN);
    return ch;
}

static void lose(struct channel *ch) {
    cr_assert(channel_may_return(ch));
    channel_lose_way(ch, "the peer is gone");
    cr_expect_eq(ch->way, CHANNEL_RESTING);
}

static struct channel *away_end(struct session *s, struct rig_done *done, uint8_t key) {
    struct channel *ch = open_end(s, done, key);
    lose(ch);
    fake_answer_all();
    cr_assert_eq(ch->way, CHANNEL_AWAY);
    return ch;
}

/* It is met, and its way is with the data plane. */
static void come(struct channel *ch) {
    channel_come(ch);
    ch->ops = &ways;
    channel_add(ch, NULL, 3);
}

static const uint8_t *key_of(uint8_t byte) {
    static uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
    memset(key, byte, sizeof(key));
    return key;
}

/* ---- lost and found ---- */

Test(channel_return, an_end_that_rested_is_found_by_its_key_and_side_alone) {
    struct channel *ch = open_end(a, &da, 1);
    uint64_t number = ch->number;
    cr_expect_null(channel_away_find(&rig.st, key_of(1), false), "it is there");
    lose(ch);
    cr_expect_null(channel_away_find(&rig.st, key_of(1), false), "it rests");
    cr_expect_eq(rested, 0);
    fake_answer_all();
    cr_expect_eq(rested, 1);
    cr_expect_eq(channel_away_find(&rig.st, key_of(1), false), ch);
    cr_expect_null(channel_away_find(&rig.st, key_of(1), true), "of the other side");
    cr_expect_null(channel_away_find(&rig.st, key_of(2), false), "of another key");
    cr_expect_neq(ch->number, number, "messages of the old way find it");
    cr_expect_null(channel_by_number(&rig.st, number));
    cr_expect_eq(channel_by_handle(a, ch->handle), ch, "its program knows it by the same");
}

Test(channel_return, it_comes_back_as_often_as_it_is_lost) {
    struct channel *ch = away_end(a, &da, 1);
    for (unsigned i = 0; i < 3; i++) {
        come(ch);
        cr_expect_null(channel_away_find(&rig.st, key_of(1), false), "it is met already");
        const struct fake_call *way = fake_call(FAKE_CHANNEL_WAY, -1);
        cr_expect_eq(way->channel.number, ch->number);
        fake_answer_all();
        cr_expect_eq(added, i + 2); /* once when it was new */
        channel_ready(ch);
        cr_expect_eq(ch->way, CHANNEL_THERE);
        rig_advance(2 * RETURN_MS * MS);
        cr_expect_eq(ch->stage, CHANNEL_OPEN, "its bound went on: %s", ch->text);
        lose(ch);
        fake_answer_all();
        cr_expect_eq(ch->way, CHANNEL_AWAY);
    }
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 0);
}

Test(channel_return, a_way_that_is_lost_before_it_led_anywhere_is_sought_again) {
    struct channel *ch = away_end(a, &da, 1);
    come(ch);
    lose(ch); /* while the data plane takes it up */
    fake_answer_all();
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    cr_expect_eq(added, 1);
    come(ch);
    fake_answer_all();
    lose(ch); /* before it was ready */
    fake_answer_all();
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    channel_come(ch);
    channel_stay_away(ch, "nobody answers"); /* before the data plane had it */
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    cr_expect_eq(channel_away_find(&rig.st, key_of(1), false), ch);
}

Test(channel_return, whoever_seeks_does_so_again_and_again_and_ever_more_seldom) {
    struct channel *ch = open_end(a, &da, 1);
    ch->seek = seek;
    lose(ch);
    fake_answer_all();
    for (unsigned ms = 0; ms < 1000; ms++)
        rig_advance(MS);
    unsigned first = sought;
    cr_expect(first >= 4 && first <= 12, "%u times in a second", first);
    for (unsigned ms = 0; ms < 1000; ms++)
        rig_advance(MS);
    cr_expect(sought - first >= 2 && sought - first < first, "%u times in the next",
              sought - first);
}

/* ---- it does not come back ---- */

static void expect_told(struct channel *ch, int reason, const char *words) {
    const struct rig_event *e = rig_last_event(ch->session);
    cr_assert(e && e->type == RDMAD_EV_CHANNEL_CLOSED, "nothing is told");
    cr_expect_eq(e->reason, reason, "%d: %s", e->reason, e->text);
    cr_expect(strstr(e->text, words), "%s", e->text);
    cr_expect_neq(channel_away_find(&rig.st, ch->key, ch->accepted), ch);
}

Test(channel_return, it_ends_in_time_if_it_is_not_met) {
    struct channel *ch = away_end(a, &da, 1);
    rig_advance((RETURN_MS - 1) * MS);
    cr_expect_eq(ch->stage, CHANNEL_OPEN);
    rig_advance(2 * MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "peer.return_ms");
}

Test(channel_return, it_ends_in_time_while_it_rests) {
    struct channel *ch = open_end(a, &da, 1);
    lose(ch);
    rig_advance((RETURN_MS + 1) * MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "the peer is gone");
    cr_expect_eq(rested, 0);
    cr_expect_eq(let_go, 1);
}

Test(channel_return, it_ends_in_time_while_it_comes) {
    struct channel *ch = away_end(a, &da, 1);
    rig_advance(RETURN_MS / 2 * MS);
    come(ch);
    rig_advance((RETURN_MS / 2 + 1) * MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "peer.return_ms");
    cr_expect_eq(let_go, 1);
}

Test(channel_return, what_cannot_return_is_not_waited_for) {
    struct channel *plain = open_end(a, &da, 0), *keyed = open_end(b, &db, 1);
    cr_expect(!channel_may_return(plain), "nobody could ask for it");
    cr_expect(channel_may_return(keyed));
    keyed->kind = RDMAD_CHANNEL_DATAGRAM;
    cr_expect(!channel_may_return(keyed), "messages of it are lost anyway");
    keyed->kind = RDMAD_CHANNEL_RELIABLE;
    b->origin.life = 0;
    cr_expect(!channel_may_return(keyed), "its session ends with its daemon");
    b->origin.life = 1;
    rig.config.peer_return_ms = 0;
    cr_expect(!channel_may_return(keyed), "nobody is waited for");
}

Test(channel_return, of_two_with_one_key_the_second_ends) {
    struct channel *first = away_end(a, &da, 1), *second = open_end(b, &db, 1);
    lose(second);
    fake_answer_all();
    expect_told(second, RDMAD_E_EXISTS, "another channel");
    cr_expect_eq(channel_away_find(&rig.st, key_of(1), false), first);
}

/* ---- its program lets go of it ---- */

/* parted: it is kept for its other end, for as long as that may wait. */
static void close_it(struct channel *ch, bool parted) {
    channel_close(ch, false, rig_done, &closed);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1, "nobody is told that it is closed");
    cr_expect_eq(rig.st.channels.used, parted);
    rig_advance((RETURN_MS + 1) * MS);
    cr_expect_eq(rig.st.channels.used, 0, "it is kept for ever");
}

Test(channel_return, it_can_be_closed_while_it_rests) {
    struct channel *ch = open_end(a, &da, 1);
    lose(ch);
    close_it(ch, true);
}

Test(channel_return, it_can_be_closed_while_it_is_away) {
    close_it(away_end(a, &da, 1), true);
}

Test(channel_return, it_can_be_closed_while_it_comes) {
    struct channel *ch = away_end(a, &da, 1);
    come(ch);
    close_it(ch, true);
}

/* What it has sent before is delivered by the next way; the data plane says when that is done. */
Test(channel_return, one_that_lingers_comes_back_first) {
    struct channel *ch = away_end(a, &da, 1);
    channel_close(ch, true, rig_done, &closed);
    cr_expect_eq(channel_away_find(&rig.st, key_of(1), false), ch);
    channel_come(ch);
    ch->ops = &ways;
    channel_add(ch, NULL, 3);
    fake_answer(fake_call(FAKE_CHANNEL_WAY, -1), 0);
    channel_ready(ch);
    cr_expect_eq(ch->way, CHANNEL_THERE);
    cr_expect_eq(closed.calls, 0);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
}

Test(channel_return, one_that_lingers_does_so_for_a_time) {
    struct channel *ch = away_end(a, &da, 1);
    channel_close(ch, true, rig_done, &closed);
    struct fake_call *first = fake_call(FAKE_CHANNEL_END, -1);
    cr_expect(first->linger);
    rig_advance((RETURN_MS + 1) * MS);
    cr_expect(!fake_call(FAKE_CHANNEL_END, -1)->linger, "there is nobody to deliver to");
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
}

static struct event_row remembered[8];

static unsigned remember(void) {
    return events_read(0, NULL, NULL, remembered, 8);
}

Test(channel_return, what_became_of_one_that_was_closed_while_it_was_away_is_remembered) {
    struct channel *ch = away_end(a, &da, 1);
    uint64_t number = ch->number;
    events_forget();
    channel_close(ch, true, rig_done, &closed);
    cr_assert_eq(remember(), 1);
    cr_expect(strstr(remembered[0].text, "its program closed it, while its other end was away: "
                                         "the peer is gone"),
              "%s", remembered[0].text);
    rig_advance((RETURN_MS + 1) * MS);
    fake_answer_all();
    cr_assert_eq(remember(), 2);
    const struct event_row *e = &remembered[1];
    cr_expect(!strcmp(e->what, "channel") && !strcmp(e->cause, "lost") &&
                  !strcmp(e->object, "channel") && e->id == number && e->of_user,
              "%s %s", e->what, e->cause);
    cr_expect(strstr(e->text, "lost, perhaps before it had taken all that was sent: ") &&
                  strstr(e->text, "the other end has not come back within") &&
                  strstr(e->text, "the peer is gone"),
              "%s", e->text);
}

Test(channel_return, its_session_may_close_whenever_it_likes) {
    struct channel *rests = open_end(a, &da, 1), *comes;
    away_end(a, &db, 2);
    comes = away_end(a, &db, 3);
    come(comes);
    lose(rests);
    rig_close(a);
    fake_answer_all();
    cr_expect(rig_closed(a));
    cr_expect_eq(rig.st.channels.used, 0);
}

/* ---- from an earlier life ---- */

static struct channel *resumed_end(struct session *s, struct rig_done *done, bool accepted,
                                   uint32_t peer_uid, uint64_t handle) {
    struct channel *ch = NULL;
    struct error err = {0};
    cr_assert_eq(channel_new_again(s, handle, rig_done, done, &ch, &err), 0, "%s", err.text);
    ch->accepted = accepted;
    ch->has_key = true;
    memset(ch->key, 9, sizeof(ch->key));
    ch->peer_uid = peer_uid;
    ch->seek = accepted ? NULL : channel_seek_local;
    channel_resume(ch);
    return ch;
}

#define HANDLE (UINT64_C(5) << 32 | 3)

Test(channel_return, an_end_from_an_earlier_life_is_there_at_once_with_its_number) {
    struct channel *ch = resumed_end(a, &da, true, 2000, HANDLE), *again = NULL;
    struct error err;
    cr_expect_eq(da.calls, 0);
    fake_answer_all();
    cr_expect_eq(da.calls, 1);
    cr_expect_eq(da.code, 0);
    cr_expect_eq(channel_by_handle(a, HANDLE), ch);
    cr_expect_eq(ch->way, CHANNEL_AWAY);
    cr_expect_eq(channel_new_again(a, HANDLE, rig_done, &db, &again, &err), RDMAD_E_EXISTS);
    rig_advance((RETURN_MS + 1) * MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "peer.return_ms");
}

/* ---- over several lives ---- */

static void expect_way_told(const struct channel *ch, unsigned events, bool away) {
    const struct rig_event *e = rig_last_event(ch->session);
    cr_assert_eq(rig_events(ch->session, RDMAD_EV_CHANNEL_WAY), events, "%u are told",
                 rig_events(ch->session, RDMAD_EV_CHANNEL_WAY));
    cr_expect(e && e->type == RDMAD_EV_CHANNEL_WAY && e->handle == ch->handle && e->kind == away);
}

Test(channel_return, what_it_has_waited_in_earlier_lives_counts) {
    a->version = RDMAD_ABI_WAITED;
    struct channel *ch = resumed_end(a, &da, true, 2000, HANDLE);
    ch->away_before_ms = RETURN_MS - 100;
    fake_answer_all();
    expect_way_told(ch, 1, true);
    rig_advance(99 * MS);
    cr_expect_eq(ch->stage, CHANNEL_OPEN, "%s", ch->text);
    rig_advance(2 * MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "peer.return_ms");
}

Test(channel_return, one_that_has_waited_for_all_of_it_ends_with_a_word) {
    struct channel *ch = resumed_end(a, &da, true, 2000, HANDLE);
    ch->away_before_ms = UINT32_MAX;
    fake_answer_all();
    rig_advance(MS);
    fake_answer_all();
    expect_told(ch, RDMAD_E_PEER_LOST, "peer.return_ms");
}

Test(channel_return, its_client_hears_when_it_begins_to_wait_and_when_it_need_not) {
    struct channel *ch = open_end(a, &da, 1);
    a->version = RDMAD_ABI_WAITED;
    lose(ch);
    expect_way_told(ch, 1, true);
    fake_answer_all();
    come(ch);
    lose(ch); /* before it was ready: it has waited all the time */
    fake_answer_all();
    come(ch);
    fake_answer_all();
    expect_way_told(ch, 1, true);
    ch->away_before_ms = RETURN_MS;
    channel_ready(ch);
    expect_way_told(ch, 2, false);
    lose(ch);
    expect_way_told(ch, 3, true);
    rig_advance((RETURN_MS - 1) * MS);
    cr_expect_eq(ch->stage, CHANNEL_OPEN, "what was before it came back counts: %s", ch->text);
}

Test(channel_return, a_client_that_is_older_hears_nothing_of_it) {
    struct channel *ch = open_end(a, &da, 1);
    a->version = RDMAD_ABI_WAITED - 1;
    lose(ch);
    fake_answer_all();
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_WAY), 0);
}

/* ---- one of the two is closed before they have met ---- */

/* a's end, of an earlier life, that its program has closed before b's is there. */
static struct channel *parted_end(bool accepted) {
    struct channel *ch = resumed_end(a, &da, accepted, 2000, HANDLE);
    fake_answer_all();
    channel_close(ch, false, rig_done, &closed);
    fake_answer_all();
    cr_assert_eq(closed.calls, 1, "its program waits for the other");
    cr_expect_null(channel_away_find(&rig.st, key_of(9), accepted), "it could come back");
    cr_expect_null(channel_by_handle(a, HANDLE), "its program can use it on");
    cr_expect_eq(channel_parted_find(&rig.st, key_of(9), accepted), ch);
    cr_expect_null(channel_parted_find(&rig.st, key_of(9), !accepted));
    cr_expect_null(channel_parted_find(&rig.st, key_of(8), accepted));
    return ch;
}

static void other_hears(bool accepted) {
    parted_end(accepted);
    struct channel *cb = resumed_end(b, &db, !accepted, 1000, HANDLE);
    fake_answer_all();
    expect_told(cb, RDMAD_E_CANCELED, "abruptly");
}

Test(channel_return, an_end_that_comes_hears_that_the_one_that_connected_was_closed) {
    other_hears(false);
}

Test(channel_return, an_end_that_comes_hears_that_the_one_that_accepted_was_closed) {
    other_hears(true);
}

Test(channel_return, an_end_that_waits_hears_at_once_that_the_other_is_closed) {
    struct channel *cb = resumed_end(b, &db, true, 1000, HANDLE);
    struct channel *ca = resumed_end(a, &da, false, 2000, HANDLE);
    ca->seek = NULL; /* it has not looked yet */
    fake_answer_all();
    channel_close(ca, false, rig_done, &closed);
    fake_answer_all();
    expect_told(cb, RDMAD_E_CANCELED, "abruptly");
    cr_expect_eq(rig.st.channels.used, 1, "it is kept for nobody");
}

Test(channel_return, who_is_not_the_other_end_hears_nothing) {
    parted_end(false);
    struct channel *cb = resumed_end(b, &db, true, 1001, HANDLE);
    fake_answer_all();
    cr_expect_eq(cb->stage, CHANNEL_OPEN);
    cr_expect_eq(cb->way, CHANNEL_AWAY);
}

Test(channel_return, a_session_that_closes_takes_its_parted_ends_along) {
    parted_end(false);
    rig_close(a);
    fake_answer_all();
    cr_expect(rig_closed(a));
    cr_expect_eq(rig.st.channels.used, 0);
}

Test(channel_return, a_parted_end_is_charged_until_it_is_forgotten) {
    parted_end(false);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 1);
    rig_advance((RETURN_MS + 1) * MS);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
}

static void expect_met(struct channel *ca, struct channel *cb) {
    fake_answer_all();
    cr_expect_eq(ca->way, CHANNEL_THERE);
    cr_expect_eq(cb->way, CHANNEL_THERE);
    const struct fake_call *open = fake_call(FAKE_CHANNEL_OPEN, -1);
    cr_assert(open, "neither is opened");
    cr_expect(open->peer_number == ca->number || open->peer_number == cb->number);
    rig_advance(2 * RETURN_MS * MS);
    cr_expect_eq(ca->stage, CHANNEL_OPEN);
    cr_expect_eq(cb->stage, CHANNEL_OPEN);
}

Test(channel_return, two_ends_of_one_daemon_meet_whoever_is_first) {
    struct channel *ca = resumed_end(a, &da, false, 2000, HANDLE);
    fake_answer_all();
    rig_advance(50 * MS);
    struct channel *cb = resumed_end(b, &db, true, 1000, HANDLE);
    expect_met(ca, cb);
}

Test(channel_return, two_ends_of_one_daemon_meet_whoever_is_last) {
    struct channel *cb = resumed_end(b, &db, true, 1000, HANDLE);
    fake_answer_all();
    struct channel *ca = resumed_end(a, &da, false, 2000, HANDLE);
    fake_answer_all();
    for (unsigned ms = 0; ms < 100; ms++)
        rig_advance(MS);
    expect_met(ca, cb);
}

Test(channel_return, two_ends_do_not_meet_if_one_is_somebody_elses) {
    struct channel *ca = resumed_end(a, &da, false, 2001, HANDLE);
    struct channel *cb = resumed_end(b, &db, true, 1000, HANDLE);
    fake_answer_all();
    for (unsigned ms = 0; ms < 1000; ms++)
        rig_advance(MS);
    fake_answer_all();
    cr_expect_eq(ca->way, CHANNEL_AWAY);
    cr_expect_eq(cb->way, CHANNEL_AWAY);
}

/* The one that was met first is no way back any more. */
Test(channel_return, one_of_two_ends_may_close_while_they_meet) {
    struct channel *cb = resumed_end(b, &db, true, 1000, HANDLE);
    fake_answer_all();
    struct channel *ca = resumed_end(a, &da, false, 2000, HANDLE);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, -1), 0);
    for (unsigned ms = 0; ms < 100 && ca->way == CHANNEL_AWAY; ms++)
        rig_advance(MS);
    cr_assert_eq(ca->way, CHANNEL_COMING);
    channel_close(ca, false, rig_done, &closed);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
    expect_told(cb, RDMAD_E_CANCELED, "closed");
}
