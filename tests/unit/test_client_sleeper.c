/* SPDX-License-Identifier: MIT */
/*
 * A thread that sleeps on the socket for all, and another that looks only whether the daemon is
 * gone. Link with -Wl,--wrap=poll.
 */
#include "libclient/control/control.h" /* first: its parameters are named as our globals */

#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t seen, look_on, asleep, sleep_on;
static bool held; /* atomic; the request that is answered by hand has come */
static struct rdmad_msg_header held_request;

static __thread bool stalls_after_poll, stalls_before_poll;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout) {
    if (stalls_before_poll) {
        stalls_before_poll = false;
        sem_post(&asleep);
        sem_wait(&sleep_on);
    }
    int rc = __real_poll(fds, count, timeout);
    if (stalls_after_poll && rc > 0) {
        stalls_after_poll = false;
        sem_post(&seen);
        sem_wait(&look_on);
    }
    return rc;
}

static bool hold_stat(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    (void)body;
    if (h->type != RDMAD_MSG_LEASE_STAT)
        return false;
    held_request = *h;
    __atomic_store_n(&held, true, __ATOMIC_RELEASE);
    return true;
}

static void up(void) {
    sem_init(&seen, 0, 0);
    sem_init(&look_on, 0, 0);
    sem_init(&asleep, 0, 0);
    sem_init(&sleep_on, 0, 0);
    fake.outlived = true;
    fake.hook = hold_stat;
    rig_set_up();
}

TestSuite(sleeper, .init = up, .fini = rig_tear_down, .timeout = 60);

static void *look_whether_gone(void *unused) {
    stalls_before_poll = stalls_after_poll = true;
    (void)rdmad_check_gone(s);
    return unused;
}

static void *ask_and_sleep(void *granted) {
    struct rdmad_lease_audit said = RDMAD_LEASE_AUDIT_INIT;
    stalls_before_poll = true;
    cr_expect_eq(rdmad_lease_get_audit(granted, &said), 0, "%s", rdmad_last_error(s));
    return NULL;
}

static void await_held(void) {
    for (unsigned ms = 0; ms < 20000 && !__atomic_load_n(&held, __ATOMIC_ACQUIRE); ms++)
        usleep(1000);
    cr_assert(__atomic_load_n(&held, __ATOMIC_ACQUIRE), "nothing was asked");
}

static void answer_held(void) {
    const struct rdmad_lease_stat_rep stat = {.lease = 7};
    struct pollfd p = {.fd = s->sock, .events = POLLIN};
    fake_reply(&fake, &held_request, &stat, sizeof(stat));
    cr_assert_eq(poll(&p, 1, 20000), 1, "no answer");
}

static bool has_calls(void) {
    pthread_mutex_lock(&s->lock);
    bool has = s->calls;
    pthread_mutex_unlock(&s->lock);
    return has;
}

Test(sleeper, who_saw_the_last_daemon_go_leaves_the_next_ones_socket_to_who_sleeps_on_it) {
    pthread_t looker, asker;
    rdmad_lease *granted;
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, NULL, &granted), 0);
    pthread_create(&looker, NULL, look_whether_gone, NULL);
    sem_wait(&asleep); /* the session was open, and it is about to look at the socket */
    fake_go(&fake);
    while (rdmad_is_open(s))
        usleep(1000);
    sem_post(&sleep_on);
    sem_wait(&seen); /* it goes on when the next daemon has the session */
    fake_come_back(&fake);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    pthread_create(&asker, NULL, ask_and_sleep, granted);
    sem_wait(&asleep);
    await_held();
    answer_held();
    sem_post(&look_on);
    pthread_join(looker, NULL);
    cr_expect(has_calls(), "the answer was taken from under who sleeps");
    sem_post(&sleep_on);
    pthread_join(asker, NULL);
}
