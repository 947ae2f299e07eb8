/* SPDX-License-Identifier: MIT */
/*
 * thread_watch.h - whether the other threads that sessions need go on: workers, and registration
 * threads.
 *
 * A worker is asked by a mail, never by a second one before the first was read. It is silent when
 * it has not read that for a while, and hangs when it has not for longer: then the service
 * manager's watchdog is not answered any more, and replaces the daemon. Registration threads stand
 * still when the oldest of their jobs goes on and on, or nothing that waits is begun. What a user
 * made large takes its time, so that is told only.
 *
 * With a watchdog it looks always. Without one it looks while clients ask the control thread for
 * anything, or somebody for status or metrics, and once more, so that an idle daemon does not wake
 * up. A program that waits for a worker asks once in its call_timeout_ms
 * (libclient/control/presence.h), so a worker that hangs is told of then.
 */
#ifndef RDMAD_STATE_THREAD_WATCH_H
#define RDMAD_STATE_THREAD_WATCH_H

#include "daemon/base/error.h"
#include "daemon/state/state.h"

/* Of a watchdog of 30 s, and where there is none; a shorter one makes all of them shorter. */
#define THREAD_WATCH_EVERY_NS (2 * NSEC_PER_SEC)
#define THREAD_WATCH_SILENT_NS (5 * NSEC_PER_SEC)
#define THREAD_WATCH_HANGS_NS (15 * NSEC_PER_SEC)
#define THREAD_WATCH_REGISTERS_NS (60 * NSEC_PER_SEC)
#define THREAD_WATCH_OF_NS (30 * NSEC_PER_SEC)

/* watchdog_ns: 0: there is none. Sets st->watch. */
int thread_watch_new(struct state *st, uint64_t watchdog_ns, struct error *err);
void thread_watch_free(struct state *st); /* that was never made, too */

/* Somebody asks for something. */
void thread_watch_stir(struct state *st);
/* A worker hangs: the watchdog is not to be answered. */
bool thread_watch_hangs(const struct state *st);

struct thread_watch_row {
    char thread[24];    /* as /proc has it */
    uint64_t silent_ns; /* as of the last look; 0: it answers */
    bool silent, hangs;
};
/* Row i: the workers, then all registration threads as one. False: there is none. */
bool thread_watch_row(const struct state *st, unsigned i, struct thread_watch_row *out);

#endif
