/* SPDX-License-Identifier: MIT */
/*
 * librdmad's part in keep-alive: it answers the daemon's question whenever somebody looks for
 * completions, and tells the program what its daemon has heard of the other end's.
 */
#include "tests/unit/client_rig.h"

#include "common/ringword.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rdmad_channel_keepalive_req asked;

static bool note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    if (h->type == RDMAD_MSG_CHANNEL_KEEPALIVE)
        memcpy(&asked, body, sizeof(asked));
    return false;
}

static void set_up(void) {
    fake.hook = note;
    rig_set_up();
}

TestSuite(client_keepalive, .init = set_up, .fini = rig_tear_down, .timeout = 60);

/* ---- signs of life --------------------------------------------------------------------------- */

static uint32_t alive(void) {
    return ringword_peek(&fake.ring->client->alive);
}

static void ask(uint32_t n) {
    ringword_publish(&fake.ring->daemon->ask, n);
}

Test(client_keepalive, who_looks_for_completions_shows_that_he_lives) {
    const struct rdmad_cqe *cqe;
    cr_expect_eq(alive(), 1, "the daemon cannot know that it is answered");
    ask(1);
    cr_expect_eq(rdmad_ring_peek(ring, &cqe), RDMAD_E_AGAIN);
    cr_expect_eq(alive(), 2);
    ask(2);
    cr_expect_eq(rdmad_ring_arm(ring), 0);
    cr_expect_eq(alive(), 3);
    ask(3);
    cr_expect_eq(rdmad_ring_dispatch(ring, 0, 1), RDMAD_E_INVAL, "nothing is in flight");
    cr_expect_eq(alive(), 4);
}

static void *ask_twice(void *unused) {
    for (uint32_t n = 1; n <= 2; n++) {
        while (!ringword_peek(&fake.ring->client->cq_wait))
            usleep(100);
        ask(n);
        if (send(fake.ring->wakeup, "", 1, MSG_NOSIGNAL) != 1)
            break;
        while (alive() != n + 1)
            usleep(100);
    }
    return unused;
}

Test(client_keepalive, who_waits_is_woken_answers_and_waits_on) {
    const struct rdmad_cqe *cqe;
    pthread_t thread;
    rig_submit_write(1);
    (void)rig_take();
    pthread_create(&thread, NULL, ask_twice, NULL);
    for (int i = 0; i < 10 && alive() != 3; i++) /* who asks may be off its CPU for long */
        cr_expect_eq(rdmad_ring_wait(ring, 3000, &cqe), RDMAD_E_TIMEOUT);
    cr_expect_eq(alive(), 3);
    pthread_join(thread, NULL);
}

static bool at_drain;

/* The library's: what it drains may have come a moment before. */
ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    if (at_drain) {
        at_drain = false;
        ask(1);
        cr_assert_eq(send(fake.ring->wakeup, "", 1, MSG_NOSIGNAL), 1);
    }
    return recvfrom(fd, buffer, size, flags, NULL, NULL);
}

Test(client_keepalive, a_loop_answers_though_it_drains_the_byte_before_it_sleeps) {
    struct pollfd p = {.fd = rdmad_ring_fd(ring), .events = POLLIN};
    cr_assert_eq(rdmad_ring_arm(ring), 0);
    at_drain = true;
    cr_assert_eq(rdmad_ring_arm(ring), 0);
    cr_assert_not(at_drain, "nothing was drained");
    cr_expect_eq(alive(), 2, "the loop sleeps, and has not answered");
    cr_expect_eq(poll(&p, 1, 0), 0, "the loop would turn for ever");
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void tell_silent(uint32_t silent) {
    struct rdmad_ev_channel_silent ev = {
        .channel = 41, .silent = silent, .silent_ns = UINT64_C(1234000000)};
    fake_event(&fake, RDMAD_EV_CHANNEL_SILENT, &ev, sizeof(ev));
}

Test(client_keepalive, a_silence_of_the_other_program_is_told_and_its_end_to_who_knows_of_it) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    struct rdmad_ev_channel_closed closed = {.channel = 41, .reason = RDMAD_E_CLOSED};
    int fd = rdmad_session_fd(s);
    rdmad_channel *channel;
    cr_assert_eq(rdmad_connect(s, "rdmad://127.0.0.1:1/service", 0, 250, &channel), 0);
    rdmad_channel_set_user(channel, &fake);
    cr_assert_eq(rdmad_channel_keepalive(channel, 700, RDMAD_KEEPALIVE_ENDS), 0);
    cr_assert_eq(asked.channel, 41);
    cr_assert_eq(asked.silent_ns, UINT64_C(700000000));
    cr_assert_eq(asked.ends, 1);
    tell_silent(1);
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_SILENT);
    cr_assert_eq(e.channel, channel);
    cr_assert_eq(e.user, &fake);
    cr_assert(strstr(e.text, "1234 ms"), "%s", e.text);
    tell_silent(1); /* a daemon that says it twice */
    tell_silent(0);
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_HEARD);
    tell_silent(1);
    tell_silent(0); /* before the program has taken it */
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &closed, sizeof(closed));
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_CLOSED, "a silence that is over was told");
    tell_silent(1); /* of a channel that is no more */
    rdmad_channel_close(channel);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 0), 0, "an event loop would turn for ever");
}
