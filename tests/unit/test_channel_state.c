/* SPDX-License-Identifier: MIT */
/*
 * Our ends of channels, between sessions of one daemon: each step done well, refused, late and
 * interrupted; whatever happens, everything comes back.
 */
#include "daemon/state/late_event.h"
#include "tests/unit/channel_steps.h"

static struct session *a, *b; /* who connects, who accepts */
static struct service *sv;
static struct channel *ca, *cb;
static struct rig_done da, db, closed;

static void up(void) {
    rig_up();
    a = rig_session(1000);
    b = rig_session(2000);
    sv = service_up(b, "rpc", 0);
    da = db = closed = (struct rig_done){0};
    ca = cb = NULL;
}

static void down(void) {
    if (!a->closing)
        rig_close(a);
    if (!b->closing)
        rig_close(b);
    fake_answer_all();
    cr_expect(rig_closed(a));
    cr_expect(rig_closed(b));
    cr_expect_eq(rig.st.quota.total.used[QUOTA_SERVICES], 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    cr_expect_eq(rig.st.channels.used, 0);
    cr_expect(list_empty(&a->others) && list_empty(&b->others));
    rig_down();
}

TestSuite(channel, .init = up, .fini = down);

static void connect_a(void) {
    ca = end_of(a, &da);
    channel_connect_local(ca, "rpc", 1000 * MS);
}

static void accept_b(void) {
    cb = end_of(b, &db);
    incoming_accept(waiting(sv), cb, 1000 * MS);
}

/* Both ends are open. */
static void opened(void) {
    connect_a();
    accept_b();
    fake_answer_all();
    cr_assert_eq(da.calls, 1);
    cr_assert_eq(db.calls, 1);
    cr_assert_eq(da.code, 0, "%s", da.text);
    cr_assert_eq(db.code, 0, "%s", db.text);
}

static unsigned ends_of(const struct channel *ch) {
    unsigned n = 0;
    for (int i = 0; i < (int)fake_count(FAKE_CHANNEL_END); i++)
        n += fake_call(FAKE_CHANNEL_END, i)->arg == ch;
    return n;
}

/* ---- done well ------------------------------------------------------------------------------- */

Test(channel, both_ends_are_open_when_the_data_plane_has_both) {
    connect_a();
    accept_b();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), 0);
    cr_expect_eq(fake_count(FAKE_CHANNEL_OPEN), 0, "the other end is not there yet");
    cr_expect_eq(da.calls + db.calls, 0);
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 1), 0);
    cr_expect_eq(da.calls, 1);
    cr_expect_eq(db.calls, 1);
    const struct fake_call *add = fake_call(FAKE_CHANNEL_ADD, 0);
    const struct fake_call *open = fake_call(FAKE_CHANNEL_OPEN, 0);
    cr_expect_null(add->channel.lane);
    cr_expect_eq(add->channel.number, ca->number);
    cr_expect_eq(open->object, a->plane);
    cr_expect_eq(open->peer_number, cb->number);
    cr_expect_eq(open->other_end, b->plane);
    open = fake_call(FAKE_CHANNEL_OPEN, 1);
    cr_expect_eq(open->object, b->plane);
    cr_expect_eq(open->peer_number, ca->number);
    cr_expect_eq(open->other_end, a->plane);
    cr_expect_eq(ca->peer_uid, 2000);
    cr_expect_eq(cb->peer_uid, 1000);
    cr_expect_str_eq(ca->peer_address, "");
    cr_expect_str_eq(cb->peer_node, "rig");
}

Test(channel, a_kind_that_is_not_there_becomes_reliable) {
    struct error err;
    cr_assert_eq(channel_new(a, RDMAD_CHANNEL_DATAGRAM, rig_done, &da, &ca, &err), 0);
    channel_connect_local(ca, "rpc", 1000 * MS);
    cr_expect_eq(waiting(sv)->kind, RDMAD_CHANNEL_DATAGRAM, "the acceptor sees what was asked");
    accept_b();
    fake_answer_all();
    cr_expect_eq(ca->kind, RDMAD_CHANNEL_RELIABLE);
    cr_expect_eq(cb->kind, RDMAD_CHANNEL_RELIABLE);
    cr_expect_eq(fake_call(FAKE_CHANNEL_ADD, 0)->channel.kind, RDMAD_CHANNEL_RELIABLE);
}

Test(channel, a_session_may_connect_to_itself) {
    service_up(a, "own", 0);
    ca = end_of(a, &da);
    channel_connect_local(ca, "own", 1000 * MS);
    cb = end_of(a, &db);
    incoming_accept(waiting(service_own(a, sv->number + 1)), cb, 1);
    fake_answer_all();
    cr_expect_eq(da.calls + db.calls, 2);
    rig_close(a);
}

/* ---- refused --------------------------------------------------------------------------------- */

Test(channel, who_connects_to_nothing_is_told) {
    ca = end_of(a, &da);
    channel_connect_local(ca, "nothing", 1000 * MS);
    cr_expect_eq(da.code, RDMAD_E_NO_SERVICE);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
}

Test(channel, one_more_than_a_daemon_can_have_is_refused_by_number_and_charged_to_nobody) {
    struct error err;
    rig.st.channels.max = 1;
    connect_a();
    uint64_t used = rig.st.quota.total.used[QUOTA_CHANNELS];
    cr_expect_eq(channel_new(b, RDMAD_CHANNEL_RELIABLE, rig_done, &db, &cb, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "has 1 channels, and can have no more"), "%s", err.text);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], used);
    cr_expect_eq(b->channels.used, 0);
}

Test(channel, a_reject_has_the_services_words) {
    struct error why;
    connect_a();
    error_set(&why, RDMAD_E_REFUSED, "come back on Monday");
    incoming_refuse(waiting(sv), &why);
    cr_expect_eq(da.code, RDMAD_E_REFUSED);
    cr_expect_str_eq(da.text, "come back on Monday");
}

Test(channel, a_service_that_closes_refuses_who_waits) {
    connect_a();
    service_close(sv);
    cr_expect_eq(da.code, RDMAD_E_NO_SERVICE);
}

Test(channel, nobody_waits_longer_than_he_said) {
    connect_a();
    rig_advance(999 * MS);
    cr_expect_eq(da.calls, 0);
    rig_advance(1 * MS);
    cr_expect_eq(da.code, RDMAD_E_TIMEOUT);
    cr_expect_not_null(strstr(da.text, "has not accepted within 1000 ms"), "%s", da.text);
    cr_expect_eq(rig_last_event(b)->type, RDMAD_EV_INCOMING_GONE);
    cr_expect(list_empty(&sv->incoming));
}

Test(channel, the_quota_bounds_ends_and_names_its_key) {
    struct error err = {0};
    rig.st.quota.limits.session[QUOTA_CHANNELS] = 1;
    ca = end_of(a, &da);
    cr_expect_eq(channel_new(a, 0, rig_done, &db, &cb, &err), RDMAD_E_LIMIT);
    cr_expect_not_null(strstr(err.text, "limits.channels_per_session"), "%s", err.text);
    channel_connect_local(ca, "rpc", 1000 * MS);
}

Test(channel, an_end_that_the_data_plane_refuses_ends_both) {
    connect_a();
    accept_b();
    fake_answer(fake_call(FAKE_CHANNEL_ADD, 0), RDMAD_E_NOMEM);
    fake_answer_all();
    cr_expect_eq(da.code, RDMAD_E_NOMEM);
    cr_expect_eq(db.code, RDMAD_E_NOMEM);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 0, "it never knew of it");
}

/* ---- closed ---------------------------------------------------------------------------------- */

Test(channel, a_graceful_close_delivers_first_and_then_ends_the_other) {
    opened();
    channel_close(ca, true, rig_done, &closed);
    const struct fake_call *end = fake_call(FAKE_CHANNEL_END, 0);
    cr_expect(end->linger);
    cr_expect_eq(end->reason, RDMAD_E_CLOSED);
    cr_expect_eq(ends_of(cb), 0, "the other takes what is still to come");
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(closed.calls, 1);
    cr_expect_eq(ends_of(cb), 1);
    cr_expect(!fake_call(FAKE_CHANNEL_END, 1)->linger);
    fake_answer_all();
    const struct rig_event *ev = rig_last_event(b);
    cr_expect_eq(ev->type, RDMAD_EV_CHANNEL_CLOSED);
    cr_expect_eq(ev->handle, cb->handle);
    cr_expect_eq(ev->reason, RDMAD_E_CLOSED);
    cr_expect_eq(cb->stage, CHANNEL_ENDED, "sqes that name it still get the reason");
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 0, "who closed it knows");
    channel_close(cb, true, NULL, NULL);
    cr_expect_eq(fake_count(FAKE_CHANNEL_FORGET), 2);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_CHANNELS], 0);
}

Test(channel, an_abrupt_close_says_so_at_the_other_end) {
    opened();
    channel_close(cb, false, rig_done, &closed);
    cr_expect(!fake_call(FAKE_CHANNEL_END, 0)->linger);
    fake_answer_all();
    cr_expect_eq(rig_last_event(a)->reason, RDMAD_E_CANCELED);
}

Test(channel, the_data_planes_word_ends_it) {
    opened();
    channel_ended_there(ca, RDMAD_E_CLOSED, "the other end closed the channel");
    channel_end(ca, RDMAD_E_PEER_LOST, "later");
    cr_expect_eq(ends_of(ca), 1, "the first reason counts");
    fake_answer_all();
    cr_expect_eq(rig_last_event(a)->reason, RDMAD_E_CLOSED);
}

Test(channel, the_event_tells_what_the_ops_were_told) {
    opened();
    channel_end(ca, RDMAD_E_PEER_LOST, "its daemon is stopping");
    channel_ended_there(ca, RDMAD_E_CANCELED, "the other end closed it abruptly");
    channel_end(ca, RDMAD_E_PEER_LOST, "later");
    cr_expect_eq(ends_of(ca), 1);
    fake_answer_all();
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 1);
    cr_expect_eq(rig_last_event(a)->reason, RDMAD_E_CANCELED);
}

Test(channel, both_may_close_at_once) {
    struct rig_done other = {0};
    opened();
    channel_close(ca, true, rig_done, &closed);
    channel_close(cb, true, rig_done, &other);
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
    cr_expect_eq(other.calls, 1);
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED) + rig_events(b, RDMAD_EV_CHANNEL_CLOSED),
                 0);
}

Test(channel, a_handle_is_closed_once) {
    opened();
    uint64_t handle = ca->handle;
    cr_expect_eq(channel_by_handle(a, handle), ca);
    cr_expect_null(channel_by_handle(b, handle + 1));
    channel_close(ca, true, rig_done, &closed);
    cr_expect_null(channel_by_handle(a, handle));
    fake_answer_all();
    cr_expect_null(channel_by_handle(a, handle));
}

Test(channel, a_client_that_does_not_read_hears_of_an_end_when_it_does) {
    opened();
    rig.lags = true;
    channel_end(ca, RDMAD_E_PEER_LOST, "gone");
    fake_answer_all();
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 0);
    rig.lags = false;
    session_tell_late(a);
    session_tell_late(a);
    cr_expect_eq(rig_events(a, RDMAD_EV_CHANNEL_CLOSED), 1);
}

/* ---- sessions end ---------------------------------------------------------------------------- */

Test(channel, a_session_is_dropped_only_when_the_other_ends_have_let_go_of_it) {
    opened();
    rig_close(b);
    cr_expect_eq(fake_count(FAKE_SESSION_DROP), 0, "a's end still sends to it");
    cr_expect_eq(ends_of(ca), 1);
    cr_expect_eq(fake_call(FAKE_CHANNEL_END, 0)->reason, RDMAD_E_CANCELED);
    fake_answer(fake_call(FAKE_CHANNEL_END, 0), 0);
    cr_expect_eq(fake_count(FAKE_SESSION_DROP), 1);
    fake_answer_all();
    cr_expect_eq(rig_last_event(a)->reason, RDMAD_E_CANCELED, "as after an abrupt close");
}

Test(channel, a_lingering_close_does_not_hold_up_the_others_end) {
    opened();
    channel_close(ca, true, rig_done, &closed);
    rig_close(b);
    cr_expect_eq(ends_of(ca), 2);
    cr_expect(!fake_call(FAKE_CHANNEL_END, -1)->linger, "there is nobody left to deliver to");
    fake_answer_all();
    cr_expect_eq(closed.calls, 1);
}

Test(channel, both_sessions_may_end_at_once) {
    opened();
    rig_close(a);
    rig_close(b);
    fake_answer_all();
    cr_expect(rig_closed(a) && rig_closed(b));
}

Test(channel, a_session_that_ends_before_it_is_accepted_withdraws) {
    connect_a();
    rig_close(a);
    cr_expect_eq(da.code, RDMAD_E_CANCELED);
    cr_expect(list_empty(&sv->incoming));
    fake_answer_all();
}

/* In whatever order the answers of the data plane come. */
Test(channel, a_session_may_end_while_either_end_is_taken_up) {
    for (int first = 0; first < 2; first++)
        for (int who = 0; who < 2; who++) {
            int adds = (int)fake_count(FAKE_CHANNEL_ADD);
            struct session *x = rig_session(1), *y = rig_session(2);
            struct service *s = service_up(y, who ? "w" : "v", 0);
            da = db = (struct rig_done){0};
            ca = end_of(x, &da);
            channel_connect_local(ca, s->terms.name, 1000 * MS);
            cb = end_of(y, &db);
            incoming_accept(waiting(s), cb, 1);
            rig_close(who ? y : x);
            fake_answer(fake_call(FAKE_CHANNEL_ADD, adds + first), 0);
            fake_answer(fake_call(FAKE_CHANNEL_ADD, adds + !first), 0);
            fake_answer_all();
            cr_expect_eq(da.calls, 1);
            cr_expect_eq(db.calls, 1);
            cr_expect_neq(da.code, 0);
            cr_expect_neq(db.code, 0);
            rig_close(who ? x : y);
            fake_answer_all();
            cr_expect(rig_closed(x) && rig_closed(y));
        }
}
