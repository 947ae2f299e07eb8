/* SPDX-License-Identifier: MIT */
/*
 * one_worker.h - a plane of one worker, on the local fabric, that a fuzzer turns by hand.
 */
#ifndef RDMAD_TESTS_FUZZ_ONE_WORKER_H
#define RDMAD_TESTS_FUZZ_ONE_WORKER_H

#include "daemon/base/guard.h"
#include "daemon/base/log.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/plane.h"
#include "tests/fuzz/must.h"

static inline void one_worker_violated(void *user, void *cookie, const struct error *why) {
    (void)user, (void)cookie, (void)why;
    abort();
}

/* control: what the plane answers to. No session may be said to violate anything. */
static inline struct plane *one_worker_start(struct mailbox *control, uint64_t now_ns) {
    struct plane *plane = NULL;
    struct error err;
    struct plane_settings settings = {.workers = 1,
                                      .default_timeout_ns = NSEC_PER_SEC,
                                      .max_timeout_ns = NSEC_PER_SEC,
                                      .max_session_ops = 64,
                                      .max_uid_ops = 16384,
                                      .max_ops = 32768,
                                      .max_session_waits = 8192,
                                      .max_uid_waits = 16384,
                                      .max_waits = 32768,
                                      .fabrics = {&fabric_local}};
    struct plane_events events = {.session_violated = one_worker_violated};
    log_set_level(LOG_EMERG);
    must(guard_install() == 0 && mailbox_init(control) == 0);
    must(plane_assemble(&settings, &events, control, now_ns, &plane, &err) == 0);
    return plane;
}

#endif
