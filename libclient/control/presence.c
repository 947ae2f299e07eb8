/* SPDX-License-Identifier: MIT */
/*
 * presence.c - one question at a time, and its answer is looked for when the next one is due.
 *
 * The happy path: the answer lies in the socket within moments, and nobody wakes for it. The next
 * thread that is due finds that something has come since, and asks anew.
 *
 * Nothing has come, and the time for it is over: the daemon hangs. But who looks much later than it
 * was due was stopped itself, perhaps with its daemon (a frozen machine), or has not waited all the
 * time. It asks once more instead, and judges the next time.
 *
 * A session that is away has no daemon that could hang; session/resume.c looks after that one. What
 * another daemon says when it comes counts as an answer.
 */
#include "libclient/control/presence.h"
#include "libclient/base/clock.h"
#include "libclient/control/control.h"

#define LATE_LEAST_NS UINT64_C(100000000)

void rdmad_presence_begin(struct rdmad_session *s) {
    __atomic_store_n(&s->ask_ns, rdmad_ns_later(rdmad_monotonic_ns(), s->call_timeout_ns),
                     __ATOMIC_RELAXED);
}

/* By how much one may be late and still judge. */
static uint64_t late_ns(const struct rdmad_session *s) {
    uint64_t quarter_ns = s->call_timeout_ns / 4;
    return quarter_ns > LATE_LEAST_NS ? quarter_ns : LATE_LEAST_NS;
}

/* With the lock. */
static void presence_look(struct rdmad_session *s) {
    uint64_t now = rdmad_monotonic_ns(), due_ns = rdmad_presence_due_ns(s);
    if (now < due_ns)
        return;
    rdmad_control_look(s);
    bool silent = rdmad_is_open(s) && s->heard == s->asked_heard;
    if (silent && (s->asked_again || now - due_ns <= late_ns(s))) {
        rdmad_control_give_up(s, "say whether it is there");
        return;
    }
    s->asked_again = silent;
    s->asked_heard = s->heard;
    if (rdmad_is_open(s))
        rdmad_control_ask(s);
    __atomic_store_n(&s->ask_ns, rdmad_ns_later(now, s->call_timeout_ns), __ATOMIC_RELAXED);
}

void rdmad_presence_ask(struct rdmad_session *s) {
    uint64_t due_ns = rdmad_presence_due_ns(s);
    if (due_ns == UINT64_MAX || rdmad_monotonic_ns() < due_ns)
        return;
    pthread_mutex_lock(&s->lock);
    presence_look(s);
    pthread_mutex_unlock(&s->lock);
}

void rdmad_presence_wait(struct rdmad_session *s, bool (*ready)(struct rdmad_session *, void *),
                         void *arg, uint64_t deadline_ns) {
    for (;;) {
        uint64_t due_ns = rdmad_presence_due_ns(s);
        rdmad_control_wait(s, ready, arg, due_ns < deadline_ns ? due_ns : deadline_ns);
        if (ready(s, arg) || rdmad_is_lost(s))
            return;
        presence_look(s);
        if (rdmad_poll_timeout(deadline_ns) == 0)
            return;
    }
}
