/* SPDX-License-Identifier: MIT */
/*
 * What a program asks for, lets go of and waits for while one daemon follows another. A published
 * lease has another number at each.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/control/control.h"
#include "libclient/session/resume.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 101, HANDLE = 31, PATIENCE_MS = 20000 };

static rdmad_lease *published;
static uint64_t newest = FIRST - 1; /* of the fake's leases */
static uint64_t last_named;         /* by a request about an own one */
static bool ends_at_once;           /* each that is granted */

/* Of an attach that is made again: atomic. */
static bool hold, held;
static struct rdmad_msg_header held_request;
static unsigned releases;

static void answer_grant(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_lease_grant_rep rep = {
        .lease = ++newest, .ttl_ns = UINT64_C(60000000000), .uri = "rdmad:///lease/101?key=00"};
    fake_reply(f, h, &rep, sizeof(rep));
    if (ends_at_once)
        fake_lease_ended(f, rep.lease, 0, RDMAD_E_LEASE_EXPIRED);
}

static void answer_about(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const uint64_t *number) {
    struct rdmad_lease_stat_rep stat = {.lease = *number, .attached = 3};
    last_named = *number;
    if (*number != newest)
        fake_refuse(f, h, RDMAD_E_NO_LEASE, "no such lease in this life");
    else
        fake_reply(f, h, &stat, h->type == RDMAD_MSG_LEASE_STAT ? sizeof(stat) : 0);
}

static void answer_again(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    if (!__atomic_load_n(&hold, __ATOMIC_ACQUIRE)) {
        fake_refuse(f, h, RDMAD_E_BUSY, "its owner is not there yet");
        return;
    }
    held_request = *h;
    __atomic_store_n(&held, true, __ATOMIC_RELEASE);
}

static bool answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    switch (h->type) {
    case RDMAD_MSG_LEASE_GRANT:
        answer_grant(f, h);
        return true;
    case RDMAD_MSG_LEASE_REVOKE:
    case RDMAD_MSG_LEASE_RENEW:
    case RDMAD_MSG_LEASE_STAT:
        answer_about(f, h, body);
        return true;
    case RDMAD_MSG_ATTACH_RESUME:
        answer_again(f, h);
        return true;
    case RDMAD_MSG_LEASE_RELEASE:
        cr_expect_eq(((const struct rdmad_lease_release_req *)body)->handle, HANDLE);
        __atomic_add_fetch(&releases, 1, __ATOMIC_RELEASE);
        fake_refuse(f, h, RDMAD_E_HANDLE, "no such handle");
        return true;
    default:
        return false;
    }
}

static void up(void) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    fake.outlived = true;
    fake.hook = answer;
    rig_set_up();
    terms.name = "published";
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, &terms, &published), 0, "%s",
                 rdmad_last_error(s));
}

TestSuite(away, .init = up, .fini = rig_tear_down, .timeout = 60);

static void (*ask)(void);

static void *ask_it(void *unused) {
    (void)unused;
    ask();
    return NULL;
}

/* It is asked while there is no daemon, or a little later. */
static void meanwhile(void (*it)(void)) {
    pthread_t thread;
    ask = it;
    fake_go(&fake);
    cr_assert_eq(pthread_create(&thread, NULL, ask_it, NULL), 0);
    usleep(100000); /* it waits for the next, or will find it there */
    fake_come_back(&fake);
    pthread_join(thread, NULL);
}

/* ---- a published lease ---------------------------------------------------------------------- */

static void renew_it(void) {
    cr_expect_eq(rdmad_lease_renew(published, 1000), 0, "%s", rdmad_last_error(s));
}

Test(away, a_published_lease_is_renewed_by_the_number_that_it_has_by_then) {
    meanwhile(renew_it);
    cr_expect_eq(last_named, FIRST + 1);
}

static void audit_it(void) {
    struct rdmad_lease_audit said = RDMAD_LEASE_AUDIT_INIT;
    cr_expect_eq(rdmad_lease_get_audit(published, &said), 0, "%s", rdmad_last_error(s));
    cr_expect_eq(said.attached, 3);
}

Test(away, a_published_lease_is_asked_about_by_the_number_that_it_has_by_then) {
    meanwhile(audit_it);
    cr_expect_eq(last_named, FIRST + 1);
}

static void revoke_it(void) {
    cr_expect_eq(rdmad_lease_revoke(published), 0, "%s", rdmad_last_error(s));
}

Test(away, a_published_lease_is_revoked_by_the_number_that_it_has_by_then) {
    meanwhile(revoke_it);
    cr_expect_eq(last_named, FIRST + 1);
}

static void free_it(void) {
    rdmad_lease_free(published);
}

Test(away, a_published_lease_that_is_let_go_of_is_revoked_at_the_next_daemon) {
    meanwhile(free_it);
    cr_expect_eq(last_named, FIRST + 1, "%llu is granted, and %llu was revoked",
                 (unsigned long long)newest, (unsigned long long)last_named);
}

/* The answer and the event may lie in the socket together. */
Test(away, the_end_of_a_lease_that_was_just_granted_anew_is_told) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    ends_at_once = true;
    rig_daemon_follows();
    while (e.type != RDMAD_EVENT_LEASE_ENDED) /* before or after that the session is there again */
        cr_assert_eq(rdmad_next_event(s, PATIENCE_MS, &e), 0, "%s", rdmad_last_error(s));
}

/* ---- a lessee's handle ---------------------------------------------------------------------- */

Test(away, a_handle_that_is_let_go_of_while_it_is_attached_again_is_given_back) {
    struct rdmad_lease_attach_rep rep = {
        .handle = HANDLE, .lease = 7, .length = 4096, .rights = RDMAD_RIGHTS_ALL, .fabric = "tcp"};
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    __atomic_store_n(&hold, true, __ATOMIC_RELEASE);
    for (unsigned ms = 0; ms < PATIENCE_MS && !__atomic_load_n(&held, __ATOMIC_ACQUIRE); ms++)
        usleep(1000);
    rdmad_lease_free(lease); /* the daemon does not have it yet */
    cr_expect_eq(__atomic_load_n(&releases, __ATOMIC_ACQUIRE), 1);
    fake_reply(&fake, &held_request, &rep, sizeof(rep));
    for (unsigned ms = 0; ms < PATIENCE_MS; ms++) {
        if (__atomic_load_n(&releases, __ATOMIC_ACQUIRE) == 2)
            break;
        usleep(1000);
    }
    cr_expect_eq(__atomic_load_n(&releases, __ATOMIC_ACQUIRE), 2, "the daemon keeps the handle");
}

/* ---- pauses --------------------------------------------------------------------------------- */

static uint32_t paused; /* what the next daemon says after HELLO; 0: nothing */

static void tell_paused(struct fake_daemon *f, uint32_t on) {
    struct rdmad_ev_session_paused ev = {.paused = on, .text = "uid 0 did it"};
    fake_event(f, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev));
}

static bool answer_paused(struct fake_daemon *f, const struct rdmad_msg_header *h,
                          const void *body) {
    if (h->type == RDMAD_MSG_SESSION_RESUME && paused)
        tell_paused(f, paused);
    return h->type != RDMAD_MSG_ATTACH_RESUME && answer(f, h, body);
}

static void pauses_up(void) {
    up();
    fake.hook = answer_paused;
}

TestSuite(away_pause, .init = pauses_up, .fini = rig_tear_down, .timeout = 60);

Test(away_pause, a_pause_ends_with_the_daemon_that_made_it) {
    tell_paused(&fake, 1);
    rig_expect_event(RDMAD_EVENT_PAUSED);
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_RESUMED);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

Test(away_pause, a_pause_that_nobody_took_is_not_told_at_the_next_daemon) {
    struct rdmad_lease_audit said = RDMAD_LEASE_AUDIT_INIT;
    tell_paused(&fake, 1);
    cr_assert_eq(rdmad_lease_get_audit(published, &said), 0); /* it lies behind the event */
    rig_daemon_follows();
    while (!rdmad_is_open(s))
        usleep(1000);
    rig_expect_event(RDMAD_EVENT_RESUMED);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

Test(away_pause, the_next_daemon_may_have_it_paused_too) {
    struct rdmad_lease_audit said = RDMAD_LEASE_AUDIT_INIT;
    tell_paused(&fake, 1);
    cr_assert_eq(rdmad_lease_get_audit(published, &said), 0);
    paused = 1;
    fake_go(&fake);
    usleep(100000);
    fake_come_back(&fake);
    while (rdmad_resumes(s) == 0 || !rdmad_is_open(s))
        usleep(1000);
    rig_expect_event(RDMAD_EVENT_PAUSED);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

/* ---- loops ---------------------------------------------------------------------------------- */

Test(away, a_descriptor_that_is_made_while_there_is_no_daemon_does_not_spin) {
    shutdown(fake.rings[0].wakeup, SHUT_WR);
    fake_go(&fake);
    while (rdmad_is_open(s))
        rig_expect_nothing();
    rig_expect_nothing(); /* the ring looks, and has left loops until the next comes */
    struct pollfd p = {.fd = rdmad_session_fd(s), .events = POLLIN};
    cr_expect_eq(poll(&p, 1, 0), 0, "it is readable, and there is nothing to be told");
    fake_come_back(&fake);
    cr_expect_eq(poll(&p, 1, PATIENCE_MS), 1);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}

/* ---- its resumer ----------------------------------------------------------------------------- */

static sem_t looked, look_on;
static bool stalls; /* atomic: the thread, once, when it has seen that nothing is due */

uint64_t __real_rdmad_resume_next_ns(const struct rdmad_resume *r);
uint64_t __wrap_rdmad_resume_next_ns(const struct rdmad_resume *r);

uint64_t __wrap_rdmad_resume_next_ns(const struct rdmad_resume *r) {
    uint64_t next_ns = __real_rdmad_resume_next_ns(r);
    if (__atomic_exchange_n(&stalls, false, __ATOMIC_ACQ_REL)) {
        sem_post(&looked);
        sem_wait(&look_on);
    }
    return next_ns;
}

Test(away, a_session_that_goes_while_its_resumer_is_about_to_sleep_is_resumed) {
    sem_init(&looked, 0, 0);
    sem_init(&look_on, 0, 0);
    usleep(20000); /* it sleeps, and has nothing to do */
    __atomic_store_n(&stalls, true, __ATOMIC_RELEASE);
    s->wake_resumer(s);
    sem_wait(&looked);
    fake_go(&fake);
    while (!rdmad_check_gone(s))
        usleep(1000);
    sem_post(&look_on);
    fake_come_back(&fake);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
}
