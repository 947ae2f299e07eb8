/* SPDX-License-Identifier: MIT */
/* librdmad: an accept of whoever comes goes on with the next when it comes to no channel with one,
 * and ends for what is wrong here. */
#include "libclient/channel/service.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

static rdmad_service *service;
static rdmad_channel *channel;

/* What the daemon answers for 7, who connects first. */
static struct {
    int status;
    unsigned after_ms;
} answer;
static unsigned accepts; /* atomic */
static struct rdmad_channel_accept_req last;

static bool refuse_the_first(struct fake_daemon *f, const struct rdmad_msg_header *h,
                             const void *body) {
    if (h->type != RDMAD_MSG_CHANNEL_ACCEPT)
        return false;
    memcpy(&last, body, sizeof(last));
    __atomic_add_fetch(&accepts, 1, __ATOMIC_RELEASE);
    if (last.incoming != 7)
        return false;
    usleep(answer.after_ms * 1000);
    fake_refuse(f, h, answer.status, "it did not come to a channel");
    return true;
}

static void set_up(void) {
    fake.hook = refuse_the_first;
    rig_set_up();
    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0, "%s", rdmad_last_error(s));
}

TestSuite(accept, .init = set_up, .fini = rig_tear_down, .timeout = 20);

static void somebody_connects(uint64_t incoming) {
    const struct rdmad_ev_channel_incoming e = {.service = 51, .incoming = incoming};
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &e, sizeof(e));
}

/* ---- who comes ------------------------------------------------------------------------------ */

static const int about_who_connects[] = {
    RDMAD_E_HANDLE, RDMAD_E_CANCELED,    RDMAD_E_PEER_LOST, RDMAD_E_UNREACHABLE, RDMAD_E_TIMEOUT,
    RDMAD_E_FABRIC, RDMAD_E_DAEMON_LOST, RDMAD_E_PERM,      RDMAD_E_PROTOCOL,    RDMAD_E_CLOSED,
};

static void passes_over(int timeout_ms) {
    for (size_t i = 0; i < sizeof(about_who_connects) / sizeof(*about_who_connects); i++) {
        answer.status = about_who_connects[i];
        somebody_connects(7);
        somebody_connects(8 + i);
        int rc = rdmad_accept(service, NULL, timeout_ms, &channel);
        cr_assert_eq(rc, 0, "%s: %d", rdmad_strerror(answer.status), rc);
        cr_assert_eq(last.incoming, 8 + i);
    }
}

Test(accept, passes_over_with_whom_it_comes_to_nothing) {
    passes_over(10000);
}

Test(accept, that_waits_for_ever_passes_over_them_too) {
    passes_over(-1);
}

Test(accept, ends_for_what_is_wrong_here) {
    static const int ours[] = {RDMAD_E_LIMIT, RDMAD_E_NOMEM, RDMAD_E_SYSTEM, RDMAD_E_SHUTDOWN};
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
        answer.status = ours[i];
        somebody_connects(7);
        cr_expect_eq(rdmad_accept(service, NULL, -1, &channel), ours[i]);
        cr_expect_not_null(strstr(rdmad_last_error(s), "did not come to a channel"), "%s",
                           rdmad_last_error(s));
    }
}

static int of_one(int status) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    answer.status = status;
    somebody_connects(7);
    cr_assert_eq(rdmad_next_incoming(service, 10000, &who), 0);
    return rdmad_accept(service, &who, -1, &channel);
}

Test(accept, of_one_says_what_became_of_that) {
    cr_expect_eq(of_one(RDMAD_E_UNREACHABLE), RDMAD_E_UNREACHABLE);
}

/* An older daemon passes that on. */
Test(accept, of_one_who_has_closed_is_not_that_the_service_was) {
    cr_expect_eq(of_one(RDMAD_E_CLOSED), RDMAD_E_PEER_LOST);
    cr_expect_not_null(strstr(rdmad_last_error(s), "did not come to a channel"), "%s",
                       rdmad_last_error(s));
}

/* ---- how long it lasts ---------------------------------------------------------------------- */

static uint64_t asked_for_with(int timeout_ms) {
    somebody_connects(8);
    cr_assert_eq(rdmad_accept(service, NULL, timeout_ms, &channel), 0, "%s", rdmad_last_error(s));
    return last.timeout_ns;
}

Test(accept, gives_the_channel_the_time_that_is_left) {
    uint64_t ns = asked_for_with(5000);
    cr_expect(ns <= 5 * NS_PER_S && ns >= NS_PER_S, "%llu", (unsigned long long)ns);
}

/* Else one that does not answer would hold a long accept to its end. */
Test(accept, gives_nobody_all_of_a_long_time) {
    cr_expect_eq(asked_for_with(3600000), 0);
}

Test(accept, of_one_gives_it_all_of_the_time) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    somebody_connects(8);
    cr_assert_eq(rdmad_next_incoming(service, 10000, &who), 0);
    cr_expect_eq(rdmad_accept(service, &who, 3600000, &channel), 0);
    cr_expect_gt(last.timeout_ns, 3000 * NS_PER_S);
}

Test(accept, of_who_comes_at_the_last_moment_lasts_a_second) {
    cr_expect_eq(asked_for_with(100), NS_PER_S);
}

Test(accept, without_a_time_has_the_daemons_default) {
    cr_expect_eq(asked_for_with(-1), 0);
    somebody_connects(8);
    while (rdmad_accept(service, NULL, 0, &channel))
        usleep(1000);
    cr_expect_eq(last.timeout_ns, 0);
}

/* Else each that connects and does not answer would hold it for longer. */
Test(accept, is_over_when_its_time_is_whoever_else_waits) {
    answer.status = RDMAD_E_TIMEOUT;
    answer.after_ms = 1100;
    somebody_connects(7);
    somebody_connects(8);
    cr_expect_eq(rdmad_accept(service, NULL, 100, &channel), RDMAD_E_TIMEOUT);
    cr_expect_null(channel);
    cr_expect_eq(accepts, 1);
    cr_expect_eq(rdmad_accept(service, NULL, 100, &channel), 0);
    cr_expect_eq(last.incoming, 8);
}

/* ---- the service is closed meanwhile --------------------------------------------------------- */

static void *accept_anybody(void *rc) {
    rdmad_channel *mine;
    *(int *)rc = rdmad_accept(service, NULL, -1, &mine);
    cr_expect_not_null(strstr(rdmad_last_error(s), "the service was closed"), "%s",
                       rdmad_last_error(s));
    return NULL;
}

static void *look_at_anybody(void *rc) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    *(int *)rc = rdmad_next_incoming(service, -1, &who);
    return NULL;
}

static unsigned users(void) {
    pthread_mutex_lock(&s->lock);
    unsigned n = service->users;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* It is closed when the thread is at the service, and has asked for so many. */
static int ends_with(void *(*wait)(void *), unsigned asked) {
    pthread_t thread;
    int rc = 0;
    cr_assert_eq(pthread_create(&thread, NULL, wait, &rc), 0);
    while (users() == 0 || __atomic_load_n(&accepts, __ATOMIC_ACQUIRE) < asked)
        usleep(1000);
    rdmad_service_close(service);
    pthread_join(thread, NULL);
    return rc;
}

Test(accept, ends_when_the_service_is_closed) {
    cr_expect_eq(ends_with(accept_anybody, 0), RDMAD_E_CLOSED);
    cr_expect_eq(accepts, 0);
}

Test(accept, nobody_comes_to_a_service_that_is_closed) {
    cr_expect_eq(ends_with(look_at_anybody, 0), RDMAD_E_CLOSED);
}

/* The close has to wait for it: it looks at the service once more. */
Test(accept, that_tries_somebody_when_the_service_is_closed_ends_then) {
    answer.status = RDMAD_E_UNREACHABLE;
    answer.after_ms = 300;
    somebody_connects(7);
    cr_expect_eq(ends_with(accept_anybody, 1), RDMAD_E_CLOSED);
    cr_expect_eq(accepts, 1);
}
