/* SPDX-License-Identifier: MIT */
/*
 * Several sessions of a process at one daemon, when the next one says nothing. A fake daemon serves
 * one session, so each has its own, which takes the place of the one before. What comes after them
 * is a socket on which nobody accepts: a daemon that is stopped.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "libclient/session/resume.h"
#include "tests/unit/fake_daemon.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SESSIONS = 6, TRY_MS = 300, PATIENCE_MS = 20000 };

static struct fake_daemon daemons[SESSIONS]; /* the first one's socket is where all are */
static rdmad_session *sessions[SESSIONS];
static int listener;

static void place(const struct fake_daemon *f, const char *name, char path[108]) {
    snprintf(path, 108, "%.63s/%s", f->dir, name);
}

static void open_one(unsigned i) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    char from[108], to[108];
    daemons[i].outlived = true;
    fake_start(&daemons[i]);
    place(&daemons[i], "rdmad.sock", from);
    place(&daemons[0], "rdmad.sock", to);
    cr_assert_eq(rename(from, to), 0, "%s to %s", from, to);
    o.runtime_dir = daemons[0].dir;
    cr_assert_eq(rdmad_open(&o, &sessions[i]), 0, "%s", rdmad_last_error(NULL));
    sessions[i]->call_timeout_ns = UINT64_MAX;
    sessions[i]->resume_call_ns = TRY_MS * RDMAD_NS_PER_MS;
    if (i == 0)
        fake_hide(&daemons[0]);
}

static void up(void) {
    char path[108];
    for (unsigned i = 0; i < SESSIONS; i++)
        open_one(i);
    place(&daemons[0], "rdmad.sock", path);
    cr_assert_eq(unlink(path), 0);
}

static void down(void) {
    for (unsigned i = 0; i < SESSIONS; i++)
        rdmad_close(sessions[i]);
    for (unsigned i = SESSIONS; i-- > 0;)
        fake_stop(&daemons[i]);
    close(listener);
}

TestSuite(resume_silent, .init = up, .fini = down, .timeout = 60);

/* All have been away for longer than a try takes. */
static void all_go_away(void) {
    for (unsigned i = 0; i < SESSIONS; i++)
        fake_hang_up(&daemons[i]);
    for (unsigned i = 0; i < SESSIONS; i++) {
        while (!__atomic_load_n(&sessions[i]->resume->away_since_ns, __ATOMIC_ACQUIRE))
            usleep(1000);
    }
    usleep(TRY_MS * 1000);
}

/* Returns when a first session has been shown to it. */
static void a_silent_one_comes(void) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    place(&daemons[0], "rdmad.sock", sun.sun_path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    cr_assert_eq(listen(listener, 10 * SESSIONS), 0);
    struct pollfd p = {.fd = listener, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, PATIENCE_MS), 1, "nobody has found it");
}

/* From now on, of those from first on. */
static void lose_patience(unsigned first) {
    for (unsigned i = first; i < SESSIONS; i++)
        sessions[i]->call_timeout_ns = TRY_MS * RDMAD_NS_PER_MS;
}

static void expect_lost(rdmad_session *s) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, PATIENCE_MS, &e), 0, "it is not given up");
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST, "%u: %s", e.type, e.text);
    cr_expect_not_null(strstr(e.text, "; none that answers has come at "), "%s", e.text);
}

static unsigned count_tries(void) {
    unsigned count = 0;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; count++)
        close(fd);
    return count;
}

/* The first try begins before they lose their patience, and may have been over then. */
Test(resume_silent, a_daemon_that_says_nothing_to_one_is_not_waited_for_by_each_in_turn) {
    all_go_away();
    a_silent_one_comes();
    lose_patience(0);
    for (unsigned i = 0; i < SESSIONS; i++)
        expect_lost(sessions[i]);
    unsigned tries = count_tries();
    cr_expect_leq(tries, 2, "it was waited for %u times, each for %u ms", tries, TRY_MS);
}

Test(resume_silent, who_has_more_patience_than_others_still_waits_for_one_that_answers) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    all_go_away();
    a_silent_one_comes();
    lose_patience(1);
    for (unsigned i = 1; i < SESSIONS; i++)
        expect_lost(sessions[i]);
    cr_expect_not(rdmad_is_lost(sessions[0]), "it was to be waited for without a limit");
    fake_come_back(&daemons[0]);
    cr_assert_eq(rdmad_next_event(sessions[0], PATIENCE_MS, &e), 0, "it is not resumed");
    cr_expect_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
}

/* What is silence to one may be too short to be that to another. */
Test(resume_silent, who_would_wait_longer_than_whoever_met_it_is_tried) {
    struct rdmad_resume *r = sessions[0]->resume;
    all_go_away();
    sessions[1]->resume_call_ns = sessions[0]->resume_call_ns / 2;
    sessions[0]->call_timeout_ns = TRY_MS * RDMAD_NS_PER_MS;
    rdmad_resume_despair(r, sessions[1], rdmad_monotonic_ns());
    cr_expect_not(r->hopeless);
    rdmad_resume_despair(r, sessions[2], rdmad_monotonic_ns());
    cr_expect(r->hopeless || rdmad_is_lost(sessions[0]));
    listener = -1;
}

/* It was resumed, and its daemon has gone again before the thread has looked at it. */
Test(resume_silent, who_has_just_gone_away_again_has_all_its_patience) {
    struct rdmad_resume *r = sessions[0]->resume, fresh = {.session = sessions[0]};
    all_go_away();
    sessions[0]->call_timeout_ns = TRY_MS * RDMAD_NS_PER_MS;
    rdmad_resume_despair(&fresh, r->session, rdmad_monotonic_ns());
    cr_expect_not(fresh.hopeless);
    listener = -1;
}
