/* SPDX-License-Identifier: MIT */
/*
 * Workers and registration threads are watched: who stands is found in time, a stop of all is not
 * taken for that, and an idle daemon is left alone.
 */
#include "daemon/base/events.h"
#include "daemon/base/offload.h"
#include "daemon/state/thread_watch.h"
#include "tests/unit/fake_plane.h"
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static struct state st;
static struct mailbox box;
static uint64_t now_ns;

static uint64_t scripted(void) {
    return now_ns;
}

static void up(uint64_t watchdog_ns) {
    struct error err;
    st = (struct state){.clock = scripted, .mailbox = &box};
    now_ns = 1000 * NSEC_PER_SEC;
    fake_worker_stands = false;
    fake_workers = 2;
    timers_init(&st.timers, NULL, NULL);
    cr_assert_eq(mailbox_init(&box), 0);
    cr_assert_eq(offload_start(&st.offload), 0);
    cr_assert_eq(thread_watch_new(&st, watchdog_ns, &err), 0);
}

static void down(void) {
    thread_watch_free(&st);
    offload_stop(st.offload);
    mailbox_drain(&box);
    mailbox_fini(&box);
    timers_fini(&st.timers);
}

/* Steps as the daemon's loop makes them. */
static void pass_s(unsigned s) {
    for (unsigned i = 0; i < 10 * s; i++) {
        now_ns += NSEC_PER_SEC / 10;
        timers_run(&st.timers, now_ns);
    }
}

static struct thread_watch_row row(unsigned i) {
    struct thread_watch_row r;
    cr_assert(thread_watch_row(&st, i, &r));
    return r;
}

static unsigned events_of(const char *cause) {
    static struct event_row rows[EVENTS_MAX];
    unsigned n = events_read(0, NULL, NULL, rows, EVENTS_MAX), found = 0;
    for (unsigned i = 0; i < n; i++)
        found += !strcmp(rows[i].what, "thread") && !strcmp(rows[i].cause, cause);
    return found;
}

Test(thread_watch, a_worker_that_stands_is_told_of_and_then_hangs) {
    struct thread_watch_row none;
    up(30 * NSEC_PER_SEC);
    pass_s(10);
    cr_assert(!row(1).silent && row(1).silent_ns == 0);
    fake_worker_stands = true;
    pass_s(8);
    cr_assert(row(1).silent && !row(1).hangs && !row(0).silent && !thread_watch_hangs(&st));
    cr_assert_str_eq(row(1).thread, "rdmad-worker-1");
    cr_assert_eq(events_of("silent"), 1);
    pass_s(10);
    cr_assert(thread_watch_hangs(&st) && row(1).hangs && !row(0).hangs);
    cr_assert_eq(events_of("silent"), 1, "told once");
    fake_worker_stands = false;
    pass_s(2);
    cr_assert(!thread_watch_hangs(&st) && !row(1).silent);
    cr_assert_eq(events_of("goes on"), 1);
    cr_assert(thread_watch_row(&st, 2, &none) && !thread_watch_row(&st, 3, &none),
              "two workers, and a third");
    down();
}

Test(thread_watch, bounds_follow_a_shorter_watchdog) {
    up(3 * NSEC_PER_SEC);
    fake_worker_stands = true;
    pass_s(2);
    cr_assert(thread_watch_hangs(&st), "half of the watchdog's time is over");
    down();
}

Test(thread_watch, a_stop_of_all_is_nobodys_silence) {
    up(30 * NSEC_PER_SEC);
    pass_s(10);
    fake_worker_stands = true; /* it has not run yet when we look */
    now_ns += 3600 * NSEC_PER_SEC;
    timers_run(&st.timers, now_ns);
    cr_assert_not(row(1).silent);
    fake_worker_stands = false;
    pass_s(4);
    cr_assert_eq(events_of("silent"), 0);
    down();
}

Test(thread_watch, without_a_watchdog_it_looks_while_somebody_asks) {
    up(0);
    fake_questions = 0;
    pass_s(20);
    cr_assert_eq(fake_questions, 0, "an idle daemon does not wake up");
    thread_watch_stir(&st);
    cr_assert_eq(fake_questions, 2, "at once");
    pass_s(3);
    cr_assert_eq(fake_questions, 4, "and once more");
    pass_s(20);
    cr_assert_eq(fake_questions, 4);
    fake_worker_stands = true;
    thread_watch_stir(&st);
    pass_s(20);
    cr_assert(row(1).hangs, "it goes on looking at who does not answer");
    down();
}

struct gate {
    struct offload_job job;
    int ends[2];
};

static void gate_run(struct offload_job *job) {
    char c;
    ssize_t n = read(container_of(job, struct gate, job)->ends[0], &c, 1);
    (void)n;
}

static void gate_done(struct offload_job *job) {
    (void)job;
}

Test(thread_watch, a_registration_that_does_not_end_is_told_and_leaves_the_watchdog_alone) {
    struct gate g = {.job = {.reply_to = &box, .run = gate_run, .done = gate_done}};
    up(30 * NSEC_PER_SEC);
    cr_assert_eq(pipe(g.ends), 0);
    offload_post(st.offload, &g.job);
    struct offload_progress p = {0};
    while (!p.oldest)
        offload_progress(st.offload, &p);
    pass_s(50);
    cr_assert_not(row(2).silent);
    pass_s(20);
    cr_assert(row(2).silent && !row(2).hangs && !thread_watch_hangs(&st));
    cr_assert_str_eq(row(2).thread, "rdmad-register");
    close(g.ends[1]);
    while (p.oldest)
        offload_progress(st.offload, &p);
    pass_s(3);
    cr_assert_not(row(2).silent);
    cr_assert_eq(events_of("goes on"), 1);
    down();
    close(g.ends[0]);
}
