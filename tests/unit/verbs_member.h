/* SPDX-License-Identifier: MIT */
/*
 * verbs_member.h - a host on a real device, and a member of it on the test's own thread.
 *
 * The device under test is rxe0 over va, as tests/vm makes it. What fails ends the process (CHECK).
 */
#ifndef RDMAD_TEST_VERBS_MEMBER_H
#define RDMAD_TEST_VERBS_MEMBER_H

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/fabric/verbs/device/selftest.h"
#include "daemon/fabric/verbs/host/host.h"
#include "daemon/fabric/verbs/host/member.h"
#include "daemon/fabric/verbs/host/memory.h"
#include "tests/support/harness.h"
#include "tests/support/runner.h"
#include <poll.h>

#define DEVICE "rxe0"
#define NETDEV "va"
#define ADDRESS "10.77.0.1"
#define MIB ((uint64_t)1 << 20)

struct member {
    struct host_member m;
    struct device *device;
    struct port_now port;
    struct ibv_cq *cq; /* so that it has something of the device */
    struct ibv_qp *qp;
    bool lazy; /* lets go only when told to */
    unsigned came, changed, going, qp_events;
    uint32_t event_qp;
    enum ibv_event_type event;
    struct error why;
};

extern struct fabric_settings settings;
extern struct fabric_host *host;
extern struct member member; /* the first */

void join(struct member *t);
void leave(struct member *t);
void put_down(struct member *t); /* lets go of the device */

/* Runs the member until a condition holds. */
#define UNTIL(t, condition)                                                           \
    do {                                                                              \
        uint64_t until_ms_ = now_ms() + 5000u * test_patience();                      \
        while (!(condition)) {                                                        \
            CHECK(now_ms() < until_ms_, "does not come: " #condition);                \
            poll(&(struct pollfd){.fd = (t)->m.mailbox.fd, .events = POLLIN}, 1, 50); \
            mailbox_drain(&(t)->m.mailbox);                                           \
        }                                                                             \
    } while (0)

struct verbs_settings usual(void);
void start(void);      /* host and member, by settings */
void open_usual(void); /* by the usual ones */
void finish(void);

void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned long resource(const char *what); /* a count that `rdma resource show` has of the device */
struct fabric_memory *add(void *base, uint64_t bytes);
void *map(uint64_t bytes);

#endif
