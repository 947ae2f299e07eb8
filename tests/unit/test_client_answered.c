/* SPDX-License-Identifier: MIT */
/*
 * What becomes of pools, services and channels when their daemon answers a call about one and goes
 * before the thread that made the call runs on.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/stall_rig.h"
#include <criterion/criterion.h>

static rdmad_pool *other;
static rdmad_service *service;
static rdmad_channel *channel;
static int result;

static void up(void) {
    fake.outlived = true;
    rig_set_up();
}

TestSuite(client_answered, .init = up, .fini = rig_tear_down, .timeout = 30);

/* ---- pools --------------------------------------------------------------------------------- */

static void create_pool(void) {
    cr_assert_eq(rdmad_pool_create(s, 1 << 16, 0, &other), 0, "%s", rdmad_last_error(s));
}

Test(client_answered, a_pool_that_is_ready_is_handed_to_the_next_daemon) {
    struct rdmad_pool_resume_req resumed = {.pool = 0};
    stall_call(RDMAD_MSG_POOL_READY, create_pool);
    stall_asked(RDMAD_MSG_POOL_RESUME, &resumed, sizeof(resumed));
    cr_expect_eq(resumed.pool, FAKE_POOL + 1, "the last was %llu",
                 (unsigned long long)resumed.pool);
    cr_expect_not_null(rdmad_alloc(other, 64));
}

static void destroy_pool(void) {
    result = rdmad_pool_destroy(other);
}

Test(client_answered, a_destroyed_pool_is_not_handed_to_the_next_daemon) {
    struct rdmad_pool_resume_req resumed = {.pool = 0};
    create_pool();
    stall_call(RDMAD_MSG_POOL_DESTROY, destroy_pool);
    cr_expect_eq(result, 0, "%s", rdmad_last_error(s));
    stall_asked(RDMAD_MSG_POOL_RESUME, &resumed, sizeof(resumed));
    cr_expect_eq(resumed.pool, FAKE_POOL, "the last was %llu", (unsigned long long)resumed.pool);
}

/* ---- services ------------------------------------------------------------------------------ */

static void close_service(void) {
    rdmad_service_close(service);
}

Test(client_answered, a_closed_service_does_not_listen_at_the_next_daemon) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    terms.budget = rdmad_alloc(pool, 1 << 16);
    terms.budget_bytes = 1 << 16;
    cr_assert_eq(rdmad_listen(s, "a.service", &terms, &service), 0, "%s", rdmad_last_error(s));
    stall_call(RDMAD_MSG_SERVICE_CLOSE, close_service);
    cr_expect_eq(stall_asked(RDMAD_MSG_SERVICE_RESUME, NULL, 0), 0, "it listens on");
    rdmad_free(pool, terms.budget);
    cr_expect_not_null(rdmad_alloc(pool, 1 << 16), "%s", rdmad_last_error(s));
}

/* ---- channels ------------------------------------------------------------------------------ */

static void connect_there(void) {
    cr_assert_eq(
        rdmad_connect(s, "rdmad://127.0.0.1:1/service", RDMAD_CHANNEL_RELIABLE, 0, &channel), 0,
        "%s", rdmad_last_error(s));
}

static void close_channel(void) {
    result = rdmad_channel_close(channel);
}

Test(client_answered, a_closed_channel_is_not_handed_to_the_next_daemon) {
    connect_there();
    stall_call(RDMAD_MSG_CHANNEL_CLOSE, close_channel);
    cr_expect_eq(result, 0, "%s", rdmad_last_error(s));
    cr_expect_eq(stall_asked(RDMAD_MSG_CHANNEL_RESUME, NULL, 0), 0, "the next one has it");
}

static bool refuse_close(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)body;
    if (h->type == RDMAD_MSG_CHANNEL_CLOSE)
        fake_refuse(f, h, RDMAD_E_TIMEOUT, "not delivered in time");
    return h->type == RDMAD_MSG_CHANNEL_CLOSE;
}

Test(client_answered, a_channel_whose_close_failed_is_let_go_of_by_the_next_daemon) {
    struct rdmad_channel_close_req closed = {.channel = 0};
    connect_there();
    fake.hook = refuse_close;
    stall_call(RDMAD_MSG_CHANNEL_CLOSE, close_channel);
    cr_expect_eq(result, RDMAD_E_TIMEOUT, "%d", result);
    unsigned resumed = stall_asked(RDMAD_MSG_CHANNEL_RESUME, NULL, 0);
    cr_expect(resumed);
    cr_expect_gt(stall_asked(RDMAD_MSG_CHANNEL_CLOSE, &closed, sizeof(closed)), resumed,
                 "the next one keeps it");
    cr_expect_eq(closed.abrupt, 1);
}

static void watch_channel(void) {
    result = rdmad_channel_keepalive(channel, 700, RDMAD_KEEPALIVE_ENDS);
}

Test(client_answered, a_keep_alive_is_asked_for_at_the_next_daemon) {
    struct rdmad_channel_keepalive_req asked = {.channel = 0};
    connect_there();
    stall_call(RDMAD_MSG_CHANNEL_KEEPALIVE, watch_channel);
    cr_expect_eq(result, 0, "%s", rdmad_last_error(s));
    cr_expect(stall_asked(RDMAD_MSG_CHANNEL_KEEPALIVE, &asked, sizeof(asked)),
              "it watches nothing");
    cr_expect_eq(asked.silent_ns, 700000000);
    cr_expect_eq(asked.ends, 1);
}

static bool silent_at_once(struct fake_daemon *f, const struct rdmad_msg_header *h,
                           const void *body) {
    struct rdmad_ev_channel_silent e = {.channel = 41, .silent = 1, .silent_ns = 700000000};
    (void)body;
    if (h->type != RDMAD_MSG_CHANNEL_KEEPALIVE)
        return false;
    pthread_mutex_lock(&s->lock); /* so the two are taken in together */
    fake_reply(f, h, NULL, 0);
    fake_event(f, RDMAD_EV_CHANNEL_SILENT, &e, sizeof(e));
    pthread_mutex_unlock(&s->lock);
    return true;
}

Test(client_answered, a_silence_that_is_told_behind_the_answer_is_kept) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    connect_there();
    fake.hook = silent_at_once;
    watch_channel();
    cr_expect_eq(rdmad_next_event(s, 0, &e), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(e.type, RDMAD_EVENT_CHANNEL_SILENT, "%u: %s", e.type, e.text);
}
