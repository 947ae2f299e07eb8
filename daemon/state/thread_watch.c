/* SPDX-License-Identifier: MIT */
/*
 * thread_watch.c - a timer, and a silence for each that is looked at.
 *
 * Bound: a worker that stops just after a question is asked anew one look later. From then on it
 * hangs after THREAD_WATCH_HANGS_NS, seen one look later at most; the last answer to the watchdog
 * was before that, and its own time runs from there. So of 30 s it is 2 + 15 + 2 + 30 s at most.
 */
#include "daemon/state/thread_watch.h"
#include "daemon/base/events.h"
#include "daemon/base/offload.h"
#include "daemon/base/silence.h"
#include "daemon/plane/plane.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct thread_watch {
    struct state *state;
    struct timer timer;
    bool always, stirred;
    uint64_t every_ns, silent_ns, hangs_ns, registers_ns;
    uint64_t looked_ns;
    struct offload_progress progress; /* of registration threads, at the last look */
    unsigned workers;
    struct silence silence[]; /* of each worker, then of registration threads */
};

static void thread_watch_name(const struct thread_watch *w, unsigned i, char name[24]) {
    if (i < w->workers)
        snprintf(name, 24, "rdmad-worker-%u", i % 100);
    else
        snprintf(name, 24, "rdmad-register");
}

static void thread_watch_tell_began(const struct thread_watch *w, unsigned i, const char *name) {
    const double s = (double)w->silence[i].silent_ns / 1e9;
    char text[RDMAD_TEXT_MAX + 1];
    if (i < w->workers)
        snprintf(text, sizeof(text),
                 "%s has not turned for %.1f s: its sessions stand still; the service manager's "
                 "watchdog is not answered after %.1f s",
                 name, s, (double)w->hangs_ns / 1e9);
    else
        snprintf(text, sizeof(text),
                 "%s has been at the same job for %.1f s, or begins none: memory is being "
                 "registered that is very large, or a device or the kernel hangs",
                 name, s);
    LOG(ERR, ("%s", text));
    EVENT("thread", "silent", audit_nobody(), audit_nothing(), ("%s", text));
}

static void thread_watch_judge(struct thread_watch *w, unsigned i, bool answered,
                               uint64_t since_ns) {
    struct silence *s = &w->silence[i];
    const uint64_t was_ns = s->silent_ns;
    const uint64_t bound_ns = i < w->workers ? w->silent_ns : w->registers_ns;
    char name[24];
    thread_watch_name(w, i, name);
    switch (silence_look(s, answered, since_ns, w->every_ns, bound_ns)) {
    case SILENCE_BEGAN:
        thread_watch_tell_began(w, i, name);
        break;
    case SILENCE_ENDED:
        LOG(NOTICE, ("%s goes on, after %.1f s", name, (double)was_ns / 1e9));
        EVENT("thread", "goes on", audit_nobody(), audit_nothing(),
              ("%s goes on, after %.1f s", name, (double)was_ns / 1e9));
        break;
    case SILENCE_NO_NEWS:
        break;
    }
}

/* The same job is the oldest that runs, or what waits was not begun. */
static bool thread_watch_registers(struct thread_watch *w) {
    const struct offload_progress before = w->progress;
    offload_progress(w->state->offload, &w->progress);
    bool same_job = w->progress.oldest && w->progress.oldest == before.oldest;
    bool stuck = w->progress.waiting && before.waiting && w->progress.begun == before.begun;
    return !same_job && !stuck;
}

/* Whether anything is to be looked at again. */
static bool thread_watch_look(struct thread_watch *w, uint64_t now_ns) {
    const uint64_t since_ns = now_ns - w->looked_ns;
    bool silent = false;
    w->looked_ns = now_ns;
    for (unsigned i = 0; i < w->workers; i++)
        thread_watch_judge(w, i, plane_worker_turns(w->state->plane, i), since_ns);
    thread_watch_judge(w, w->workers, thread_watch_registers(w), since_ns);
    for (unsigned i = 0; i <= w->workers; i++)
        silent = silent || w->silence[i].silent_ns;
    return silent;
}

static void thread_watch_tick(struct timer *timer, uint64_t now_ns) {
    struct thread_watch *w = container_of(timer, struct thread_watch, timer);
    bool again = thread_watch_look(w, now_ns) || w->always || w->stirred;
    w->stirred = false;
    if (again)
        (void)timer_set(&w->state->timers, timer, clock_after(now_ns, w->every_ns));
}

void thread_watch_stir(struct state *st) {
    struct thread_watch *w = st->watch;
    if (!w)
        return;
    w->stirred = true;
    if (timer_is_set(&w->timer))
        return;
    uint64_t now_ns = state_now(st);
    w->looked_ns = now_ns; /* nobody looked before, and that is no silence */
    (void)thread_watch_look(w, now_ns);
    w->stirred = false;
    (void)timer_set(&st->timers, &w->timer, clock_after(now_ns, w->every_ns));
}

void thread_watch_free(struct state *st) {
    if (st->watch)
        timer_unset(&st->timers, &st->watch->timer);
    free(st->watch);
    st->watch = NULL;
}

int thread_watch_new(struct state *st, uint64_t watchdog_ns, struct error *err) {
    const unsigned workers = plane_workers(st->plane);
    const uint64_t of_ns =
        watchdog_ns && watchdog_ns < THREAD_WATCH_OF_NS ? watchdog_ns : THREAD_WATCH_OF_NS;
    const uint64_t unit_ns = of_ns / 30; /* a second of those above */
    struct thread_watch *w = calloc(1, sizeof(*w) + (workers + 1) * sizeof(w->silence[0]));
    if (!w)
        return error_set(err, RDMAD_E_NOMEM, "no memory to watch threads");
    w->state = st;
    w->workers = workers;
    w->always = watchdog_ns > 0;
    w->every_ns = THREAD_WATCH_EVERY_NS / NSEC_PER_SEC * unit_ns;
    w->silent_ns = THREAD_WATCH_SILENT_NS / NSEC_PER_SEC * unit_ns;
    w->hangs_ns = THREAD_WATCH_HANGS_NS / NSEC_PER_SEC * unit_ns;
    w->registers_ns = THREAD_WATCH_REGISTERS_NS / NSEC_PER_SEC * unit_ns;
    timer_init(&w->timer, thread_watch_tick);
    st->watch = w;
    if (!w->always)
        return 0;
    thread_watch_stir(st);
    if (timer_is_set(&w->timer))
        return 0;
    thread_watch_free(st); /* or the watchdog would be answered, and nobody would look */
    return error_set(err, RDMAD_E_NOMEM, "no memory for the timer that watches threads");
}

static bool thread_watch_worker_hangs(const struct thread_watch *w, unsigned i) {
    return i < w->workers && w->silence[i].silent_ns >= w->hangs_ns;
}

bool thread_watch_hangs(const struct state *st) {
    bool hangs = false;
    for (unsigned i = 0; st->watch && i < st->watch->workers; i++)
        hangs = hangs || thread_watch_worker_hangs(st->watch, i);
    return hangs;
}

bool thread_watch_row(const struct state *st, unsigned i, struct thread_watch_row *out) {
    const struct thread_watch *w = st->watch;
    if (!w || i > w->workers)
        return false;
    thread_watch_name(w, i, out->thread);
    out->silent_ns = w->silence[i].silent_ns;
    out->silent = w->silence[i].told;
    out->hangs = thread_watch_worker_hangs(w, i);
    return true;
}
