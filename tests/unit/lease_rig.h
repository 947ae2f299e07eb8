/* SPDX-License-Identifier: MIT */
/*
 * lease_rig.h - leases and handles with everything around them scripted: the clock, the data plane
 * (fake_plane.h), sessions and pools that only count their references, and a log of what clients
 * are told.
 */
#ifndef RDMAD_TESTS_LEASE_RIG_H
#define RDMAD_TESTS_LEASE_RIG_H

#include "daemon/base/clock.h"
#include "daemon/state/handle.h"
#include "tests/unit/fake_plane.h"
#include <rdmad/wire.h>

#define MS NSEC_PER_MSEC

struct rig_event {
    const struct session *session;
    uint16_t type;
    uint64_t lease, handle, ttl_ns;
    int reason;
    char text[RDMAD_TEXT_MAX + 1];
    /* LEASE_PART: handle is the parent. */
    uint64_t service;   /* CHANNEL_INCOMING, INCOMING_GONE; handle is the incoming or the channel */
    uint32_t uid, kind; /* CHANNEL_SILENT: kind is silent, ttl_ns for how long */
    char node[RDMAD_NAME_MAX + 1], address[RDMAD_NAME_MAX + 1];
};

struct rig {
    struct state st;
    struct config config;
    uint64_t now_ns;
    struct rig_event events[512];
    unsigned nevents;
    bool lags;           /* no client reads */
    unsigned lags_after; /* nor when so many events were told; 0: no such bound */
};
extern struct rig rig;

void rig_up(void);
/* Everything must be back: sessions unheld, pools unreferenced, nothing charged. */
void rig_down(void);

struct session *rig_session(uid_t uid);
/* What session.c does when the socket ends; done when handles and leases are gone. */
void rig_close(struct session *s);
bool rig_closed(const struct session *s);

struct pool *rig_pool(struct session *s);
void rig_advance(uint64_t ns); /* the clock, and the timers that are due */
struct lease *rig_grant(struct session *owner, uint64_t ttl_ms); /* of rig_pool(owner) */
struct lease *rig_grant_terms(struct session *owner, const struct lease_terms *terms);
struct lease_terms rig_terms(uint64_t ttl_ms);
struct rdmad_uri rig_uri(const struct lease *l);
int rig_find_error(const struct rdmad_uri *u, struct error *err); /* of looking it up */
void rig_finish(struct lease *l); /* ends what a test leaves, after a grace of 100 ms */
unsigned rig_events(const struct session *s, uint16_t type);
const struct rig_event *rig_last_event(const struct session *s);

/* A peer's attachment with a window, whose stop only takes notes. */
struct rig_peer {
    struct attachment a;
    bool stopped, gone, renewed;
    int reason;
    bool answer_at_once;
};
struct rig_peer *rig_peer(struct lease *l, const char *address); /* asserts success */
int rig_peer_try(struct rig_peer *p, struct lease *l, const char *address, struct error *err);

/* A plane_done that counts. */
struct rig_done {
    unsigned calls;
    int code;
    char text[RDMAD_TEXT_MAX + 1];
};
void rig_done(void *arg, const struct error *result);

#endif
