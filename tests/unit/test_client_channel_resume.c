/* SPDX-License-Identifier: MIT */
/* librdmad's channels when one daemon goes and the next comes. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */
#include "libclient/ring/reap.h"

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(channel_resume, .init = away_set_up, .fini = rig_tear_down, .timeout = 30);

/* ---- channels ------------------------------------------------------------------------------- */

Test(channel_resume, an_end_is_handed_back_as_it_was) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
    memset(key, 41, sizeof(key));
    away_go();
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.closed, 0, "it is only away");
    away_come_back();
    cr_assert_eq(away.nasked, 1);
    cr_assert_eq(away.asked[0].channel, 41);
    cr_assert_eq(memcmp(away.asked[0].key, key, sizeof(key)), 0);
    cr_assert_eq(away.asked[0].accepted, 0);
    cr_assert_eq(away.asked[0].peer_uid, 1000);
    cr_assert_eq(away.asked[0].flags, 0);
    cr_assert_str_eq(away.asked[0].peer_node, "there");
    cr_assert_str_eq(away.asked[0].uri, AWAY_URI);
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.closed, 0);
    cr_assert_eq(info.max_message, 4096, "it may have another way now");
    cr_assert_str_eq(info.fabric, "tcp");
    cr_assert_str_eq(info.peer_node, "there");
    away_go();
    away_come_back();
    cr_assert_eq(away.nasked, 2, "each daemon is asked once");
}

/* ---- how long it has waited ----------------------------------------------------------------- */

static void say_way(bool waits) {
    struct rdmad_ev_channel_way e = {.channel = 41, .away = waits};
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    fake_event(&fake, RDMAD_EV_CHANNEL_WAY, &e, sizeof(e));
    usleep(1000);
    rdmad_channel_get_info(channel, &info); /* takes it in */
}

static uint32_t waited_ms(void) {
    away_go();
    usleep(30000); /* without a daemon nothing is waited for */
    away_come_back();
    return away.asked[(away.nasked - 1) % 4].waited_ms;
}

Test(channel_resume, what_it_has_waited_at_one_daemon_the_next_is_told) {
    cr_expect_eq(waited_ms(), 0, "it was there");
    usleep(40000);
    uint32_t first = waited_ms();
    cr_expect(first >= 40, "%u ms", first);
    usleep(40000);
    uint32_t second = waited_ms();
    cr_expect(second >= first + 40, "%u ms after %u ms", second, first);
    say_way(false);
    cr_expect_eq(waited_ms(), 0, "it was there meanwhile");
}

/* When a daemon is killed the kernel may close the ring's socket before the session's. */
Test(channel_resume, what_was_said_last_counts_where_the_ring_is_closed_first) {
    struct rdmad_ev_channel_way there = {.channel = 41};
    waited_ms();
    usleep(40000);
    fake_event(&fake, RDMAD_EV_CHANNEL_WAY, &there, sizeof(there));
    fake_hide(&fake); /* or it would be found again at once */
    rdmad_ring_closed(ring);
    cr_assert(!rdmad_is_open(s));
    fake_hang_up(&fake);
    away_come_back();
    cr_expect_eq(away.asked[(away.nasked - 1) % 4].waited_ms, 0, "it was there");
}

Test(channel_resume, one_whose_other_end_goes_waits_from_then_on) {
    say_way(true);
    usleep(40000);
    say_way(true);
    uint32_t ms = waited_ms();
    cr_expect(ms >= 40, "%u ms", ms);
}

Test(channel_resume, who_the_other_end_had_proven_to_be_it_has_to_prove_again) {
    rdmad_channel_abort(channel);
    away.peer_flags = RDMAD_CHANNEL_PEER_PROVEN;
    cr_assert_eq(rdmad_connect(s, AWAY_URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0);
    away_go();
    away_come_back();
    cr_assert_eq(away.asked[0].channel, 42);
    cr_assert_eq(away.asked[0].flags, RDMAD_CHANNEL_PEER_PROVEN);
}

Test(channel_resume, an_accepted_end_names_its_service) {
    struct rdmad_ev_channel_incoming e = {.service = 51, .incoming = 7};
    rdmad_service *service;
    rdmad_channel *c;
    cr_assert_eq(rdmad_listen(s, "a.service", NULL, &service), 0);
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &e, sizeof(e));
    cr_assert_eq(rdmad_accept(service, NULL, 1000, &c), 0);
    rdmad_channel_abort(channel);
    away_go();
    away_come_back();
    cr_assert_eq(away.nasked, 1);
    cr_assert_eq(away.asked[0].channel, 42);
    cr_assert_eq(away.asked[0].accepted, 1);
    cr_assert_str_eq(away.asked[0].uri, "a.service");
}

static void expect_closed(int reason, const char *text) {
    struct rdmad_event e = away_next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_CLOSED, "%u: %s", e.type, e.text);
    cr_assert_eq(e.channel, channel);
    cr_assert_eq(e.reason, reason);
    cr_assert_not_null(strstr(e.text, text), "%s", e.text);
}

/* An entry on it is refused by a daemon that does not know it. */
static void expect_unknown(uint64_t user_data, int status, const char *text) {
    const struct rdmad_cqe *cqe;
    char buf[512];
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(rdmad_ring_wait(ring, 2000, &cqe), 0);
    cr_assert_eq(cqe->user_data, user_data);
    cr_assert_eq(cqe->status, status, "%d", cqe->status);
    rdmad_ring_explain(ring, cqe, buf, sizeof(buf));
    cr_assert_not_null(strstr(buf, text), "%s", buf);
    rdmad_ring_seen(ring, cqe);
}

Test(channel_resume, one_without_a_key_is_closed_with_its_daemon) {
    char before[256];
    unsigned closes;
    rdmad_channel_abort(channel);
    away.refuse_proof = RDMAD_E_UNSUPPORTED;
    snprintf(before, sizeof(before), "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_connect(s, AWAY_URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0);
    cr_assert_str_eq(rdmad_last_error(s), before, "nothing has failed");
    away_submit_recv(1);
    away_take();
    fake_go(&fake);
    away_expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    fake_come_back(&fake);
    expect_closed(RDMAD_E_DAEMON_LOST, "is gone: connect again");
    away_await_resumed();
    cr_assert_eq(away.nasked, 0);
    rig_expect_nothing();
    away_submit_send(2);
    expect_unknown(2, RDMAD_E_DAEMON_LOST, "is gone: connect again");
    closes = away.nclosed;
    cr_assert_eq(rdmad_channel_close(channel), 0);
    cr_assert_eq(away.nclosed, closes, "nobody knows it");
}

static void refused(int status, int reason) {
    away_submit_recv(1);
    away_take();
    away_go();
    away.refuse_resume = status;
    fake_come_back(&fake);
    expect_closed(reason, "does not outlive its rdmad: as the test has it");
    away_await_resumed();
    rig_expect_nothing();
    expect_unknown(1, reason, "does not outlive its rdmad: as the test has it");
    cr_assert_eq(rdmad_channel_close(channel), 0);
    cr_assert_eq(away.nclosed, 0, "nobody knows it");
}

Test(channel_resume, one_that_is_refused_says_why) {
    refused(RDMAD_E_NO_SERVICE, RDMAD_E_NO_SERVICE);
}

Test(channel_resume, one_that_no_daemon_can_take_back_was_lost_with_its_own) {
    refused(RDMAD_E_TYPE, RDMAD_E_DAEMON_LOST);
}

/* The other end's close is told by the daemon that has the channel. */
Test(channel_resume, one_that_had_been_closed_is_not_handed_back) {
    struct rdmad_ev_channel_closed e = {.channel = 41, .reason = RDMAD_E_CLOSED};
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &e, sizeof(e));
    expect_closed(RDMAD_E_CLOSED, "");
    away_submit_recv(1);
    away_take();
    away_go();
    away_come_back();
    cr_assert_eq(away.nasked, 0);
    expect_unknown(1, RDMAD_E_CLOSED, "closed");
    cr_assert_eq(rdmad_channel_close(channel), 0);
}

Test(channel_resume, one_whose_daemon_goes_before_it_gives_a_key_was_connected) {
    rdmad_channel_abort(channel);
    away.go_for_proof = true;
    cr_assert_eq(rdmad_connect(s, AWAY_URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0, "%s",
                 rdmad_last_error(s));
    fake_come_back(&fake);
    expect_closed(RDMAD_E_DAEMON_LOST, "is gone: connect again");
    away_await_resumed();
    cr_assert_eq(away.nasked, 0);
}

Test(channel_resume, kinds_without_acknowledgements_need_no_key) {
    rdmad_channel *c;
    cr_assert_eq(away.nproofs, 1);
    away.weak = true;
    cr_assert_eq(rdmad_connect(s, AWAY_URI, RDMAD_CHANNEL_UNACKED, 0, &c), 0);
    cr_assert_eq(away.nproofs, 1);
}

/* ---- closed meanwhile ----------------------------------------------------------------------- */

static void *close_it(void *rc) {
    *(int *)rc = rdmad_channel_close(channel);
    return NULL;
}

Test(channel_resume, a_close_waits_for_the_end_to_be_back) {
    int rc = 1;
    pthread_t t;
    away_go();
    pthread_create(&t, NULL, close_it, &rc);
    usleep(20000);
    cr_assert_eq(away.nclosed, 0);
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
    cr_assert_eq(away.nasked, 1);
    cr_assert_eq(away.nclosed, 1);
    cr_assert_eq(away.closed.channel, 41);
    cr_assert_eq(away.closed.abrupt, 0);
}

/* Its receives end as those do whose daemon is there. */
static void close_with_a_receive(bool looked_at) {
    int rc = 1;
    pthread_t t;
    away_submit_recv(1);
    away_take();
    if (looked_at)
        away_go();
    else
        fake_go(&fake);
    pthread_create(&t, NULL, close_it, &rc);
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
    rig_expect_nothing();
    expect_unknown(1, RDMAD_E_CLOSED, "the channel is closed");
}

Test(channel_resume, a_close_ends_receives_that_were_kept) {
    close_with_a_receive(true);
}

Test(channel_resume, a_close_ends_receives_that_nobody_knew_to_be_kept) {
    close_with_a_receive(false);
}

Test(channel_resume, a_send_that_a_daemon_has_left_is_known_to_come_too_late_for_a_close) {
    int rc = 1;
    pthread_t t;
    away_submit_send(1);
    __atomic_store_n(&away_newest()->daemon->sq_left, RDMAD_SQ_LEFT, __ATOMIC_RELEASE);
    fake_go(&fake);
    pthread_create(&t, NULL, close_it, &rc);
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
    rig_expect_nothing();
    struct rdmad_sqe sqe = away_take();
    away_answer(&sqe, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    away_expect_end(1, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
}

Test(channel_resume, a_close_of_one_that_is_refused_is_done) {
    int rc = 1;
    pthread_t t;
    away_go();
    pthread_create(&t, NULL, close_it, &rc);
    usleep(20000);
    away.refuse_resume = RDMAD_E_NO_SERVICE;
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%d", rc);
}

/* It has waited for as long as it may, and the daemon that has the channel now hears of it. */
static void impatient(uint16_t slow_type) {
    int rc = 1;
    away_without_patience(slow_type, close_it, &rc);
    cr_assert_eq(rc, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(away_count_of(&away.nasked), 1);
    __atomic_store_n(&away.released, true, __ATOMIC_RELEASE);
    away_await(&away.nclosed, 1);
    cr_assert_eq(away.closed.channel, 41);
    cr_assert_eq(away.closed.abrupt, 1);
    away_await_resumed();
}

Test(channel_resume, a_close_without_patience_is_told_when_the_end_is_back) {
    impatient(RDMAD_MSG_ATTACH_RESUME); /* so the session is not opened yet */
}

Test(channel_resume, a_close_without_patience_is_told_when_the_end_comes_back) {
    impatient(RDMAD_MSG_CHANNEL_RESUME);
}

/* ---- what else does not come back ------------------------------------------------------------ */

static void expect_not_resumed(int reason, const char *words, void *user) {
    struct rdmad_event e = away_next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_NOT_RESUMED, "%u: %s", e.type, e.text);
    cr_expect_eq(e.reason, reason);
    cr_expect_eq(e.user, user);
    cr_expect(strstr(e.text, words), "%s", e.text);
    away_await_resumed();
}

static rdmad_service *listen_here(size_t budget) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    rdmad_service *service;
    terms.budget = budget ? memory : NULL;
    terms.budget_bytes = budget;
    cr_assert_eq(rdmad_listen(s, "a.service", &terms, &service), 0, "%s", rdmad_last_error(s));
    rdmad_service_set_user(service, &away);
    return service;
}

Test(channel_resume, a_service_that_the_next_daemon_refuses_says_so_and_takes_nobody_any_more) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_service *service = listen_here(4096);
    rdmad_channel *c;
    away_go();
    away.refuse_service = RDMAD_E_EXISTS;
    fake_come_back(&fake);
    expect_not_resumed(RDMAD_E_EXISTS, "service a.service has not come back with the rdmad", &away);
    cr_expect_eq(rdmad_accept(service, NULL, -1, &c), RDMAD_E_EXISTS);
    cr_expect(strstr(rdmad_last_error(s), "as the test has it"), "%s", rdmad_last_error(s));
    cr_expect_eq(rdmad_next_incoming(service, -1, &who), RDMAD_E_EXISTS);
    rig_expect_nothing(); /* the ring is made anew */
    away_go();
    away_come_back();
    cr_expect_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT, "it is told once: %s", e.text);
    rdmad_service_close(service);
    cr_expect_eq(rdmad_pool_destroy(pool), 0, "its budget stays lent: %s", rdmad_last_error(s));
}

static void *close_service(void *service) {
    rdmad_service_close(service);
    return NULL;
}

Test(channel_resume, the_budget_of_one_that_is_refused_while_it_is_closed_is_free_again) {
    pthread_t t;
    void *all = rdmad_alloc(pool, 1 << 16);
    cr_assert_eq(all, memory);
    rdmad_service *service = listen_here(1 << 16);
    away_go();
    pthread_create(&t, NULL, close_service, service);
    usleep(20000);
    away.refuse_service = RDMAD_E_EXISTS;
    fake_come_back(&fake);
    pthread_join(t, NULL);
    rdmad_free(pool, all);
    cr_expect_not_null(rdmad_alloc(pool, 1 << 16), "it stays lent: %s", rdmad_last_error(s));
}

static void impatient_of_service(uint16_t slow_type) {
    rdmad_service *service = listen_here(4096);
    away_without_patience(slow_type, close_service, service);
    __atomic_store_n(&away.released, true, __ATOMIC_RELEASE);
    away_await(&away.nservice_closes, 1);
    cr_expect_eq(away.service_closed.service, 51);
    away_await_resumed();
}

Test(channel_resume, a_service_s_close_without_patience_is_told_when_it_listens_again) {
    impatient_of_service(RDMAD_MSG_ATTACH_RESUME); /* so the session is not opened yet */
}

Test(channel_resume, a_service_s_close_without_patience_is_told_when_it_comes_back) {
    impatient_of_service(RDMAD_MSG_SERVICE_RESUME);
}

Test(channel_resume, a_budget_that_an_older_daemon_does_not_know_is_missed_in_words) {
    rdmad_service *service = listen_here(4096);
    rdmad_channel *c;
    away_go();
    away.refuse_service = RDMAD_E_TYPE;
    fake_come_back(&fake);
    expect_not_resumed(RDMAD_E_TYPE, "the budget of service a.service has not come back", &away);
    cr_expect_eq(rdmad_accept(service, NULL, 0, &c), RDMAD_E_TIMEOUT, "it listens");
    rdmad_service_close(service);
}

/* ---- one that comes and leaves -------------------------------------------------------------- */

static void leaves_for(uint16_t type) {
    away_go();
    away.leaves_for = type;
    fake_come_back(&fake);
    away_await_resumed(); /* and nothing is told to have ended */
    cr_expect_eq(away.leaves_for, 0);
}

Test(channel_resume, a_service_is_not_ended_by_a_daemon_that_is_drained) {
    rdmad_service *service = listen_here(4096);
    rdmad_channel *c;
    leaves_for(RDMAD_MSG_SERVICE_RESUME);
    cr_expect_eq(rdmad_accept(service, NULL, 0, &c), RDMAD_E_TIMEOUT, "it listens");
    rdmad_service_close(service);
}

Test(channel_resume, a_channel_is_not_ended_by_a_daemon_that_is_drained) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    leaves_for(RDMAD_MSG_CHANNEL_RESUME);
    rdmad_channel_get_info(channel, &info);
    cr_expect_eq(info.closed, 0);
    cr_expect_eq(away.nasked, 1);
}

/* ---- one that is out of memory for a moment ------------------------------------------------- */

static void is_short_for(uint16_t type) {
    away_go();
    away.short_for = type;
    away.short_times = 3;
    fake_come_back(&fake);
    away_await_resumed(); /* and nothing is told to have ended */
    cr_expect_eq(away.short_times, 0);
}

Test(channel_resume, a_service_is_not_ended_by_a_daemon_that_is_out_of_memory_for_a_moment) {
    rdmad_service *service = listen_here(4096);
    rdmad_channel *c;
    is_short_for(RDMAD_MSG_SERVICE_RESUME);
    cr_expect_eq(rdmad_accept(service, NULL, 0, &c), RDMAD_E_TIMEOUT, "it listens");
    rdmad_service_close(service);
}

Test(channel_resume, a_channel_is_not_ended_by_a_daemon_that_is_out_of_memory_for_a_moment) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    is_short_for(RDMAD_MSG_CHANNEL_RESUME);
    rdmad_channel_get_info(channel, &info);
    cr_expect_eq(info.closed, 0);
}

Test(channel_resume, a_lease_is_not_ended_by_a_daemon_that_is_out_of_memory_for_a_moment) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    rdmad_lease *own;
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, &terms, &own), 0, "%s", rdmad_last_error(s));
    is_short_for(RDMAD_MSG_LEASE_RESUME);
    rdmad_lease_get_info(own, &info);
    cr_expect_eq(info.ended, 0, "%d", info.ended);
}

Test(channel_resume, a_keep_alive_that_the_next_daemon_refuses_is_missed_in_words) {
    rdmad_channel_set_user(channel, &away);
    cr_assert_eq(rdmad_channel_keepalive(channel, 700, 0), 0);
    away_go();
    away.refuse_keepalive = RDMAD_E_NOMEM;
    fake_come_back(&fake);
    expect_not_resumed(RDMAD_E_NOMEM, "the keep-alive of channel 41 has not come back", &away);
}

Test(channel_resume, a_daemon_that_stays_out_of_memory_is_not_asked_for_ever) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    away_go();
    away.short_for = RDMAD_MSG_CHANNEL_RESUME;
    away.short_times = 1000;
    fake_come_back(&fake);
    struct rdmad_event e = away_next_event();
    cr_expect_eq(e.type, RDMAD_EVENT_CHANNEL_CLOSED, "%u: %s", e.type, e.text);
    cr_expect_geq(away.short_times, 900, "it was asked %u times", 1000 - away.short_times);
    rdmad_channel_get_info(channel, &info);
    cr_expect_eq(info.closed, RDMAD_E_NOMEM, "%d", info.closed);
}
