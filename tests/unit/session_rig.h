/* SPDX-License-Identifier: MIT */
/*
 * session_rig.h - the control thread's tables without a daemon: a fake data plane, a real mailbox
 * and registration threads, and clients who do what theirs is to do.
 */
#ifndef RDMAD_TEST_SESSION_RIG_H
#define RDMAD_TEST_SESSION_RIG_H

#include "common/memfd.h"
#include "daemon/ipc/ring.h"
#include "daemon/state/pool.h"
#include "daemon/state/ring_object.h"
#include "daemon/state/session_end.h"
#include "tests/unit/fake_plane.h"
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_BYTES 100000u /* 25 pages */
#define POOL_CHARGE 102400u

extern struct state st;
extern struct mailbox box;

/* Delivers mail until it holds, at most ten seconds. */
#define UNTIL(condition)                                             \
    for (int tries = 0; !(condition); tries++) {                     \
        struct pollfd mail_ = {.fd = box.fd, .events = POLLIN};      \
        cr_assert_lt(tries, 1000, "waited in vain: %s", #condition); \
        poll(&mail_, 1, 10);                                         \
        mailbox_drain(&box);                                         \
    }

/* What a creation reported. */
extern struct outcome {
    unsigned calls;
    int code, fd;
    struct pool *pool;
    struct ring_object *ring;
    char text[RDMAD_TEXT_MAX + 1];
} out;

unsigned mappings_of(const char *name);
void rig_set_up(void);
uint64_t charged(enum quota_resource r);
void rig_tear_down(void);
/* How many descriptors the case leaves on purpose; 0 unless it says so. */
extern unsigned rig_kept_fds;
struct session *session(void);
void populate_and_seal(int fd, size_t bytes, bool writable);
void on_pool(void *arg, struct pool *pool, int fd, const struct error *result);
void on_done(void *arg, const struct error *result);
void ask_pool(struct session *s, uint64_t bytes, uint32_t flags);
void on_ready(void *arg, const struct error *result);
struct pool *made(struct session *s, uint64_t bytes);
void ask_ready(const struct pool *p);
struct pool *nearly_ready(struct session *s, uint64_t bytes);
struct pool *make_pool(struct session *s);
void ask_ring(struct session *s);
struct ring_object *nearly_ready_ring(struct session *s);
struct ring_object *make_ring(struct session *s);

#endif
