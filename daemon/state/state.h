/* SPDX-License-Identifier: MIT */
/*
 * state.h - the control thread's world: what every table and handler needs at hand.
 *
 * Made and ended by daemon.c. All of it is touched on the control thread only.
 */
#ifndef RDMAD_STATE_STATE_H
#define RDMAD_STATE_STATE_H

#include "daemon/base/clock.h"
#include "daemon/base/life.h"
#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/slots.h"
#include "daemon/base/timers.h"
#include "daemon/base/tree.h"
#include "daemon/config/config.h"
#include "daemon/state/quota.h"
#include "daemon/state/usage.h"
#include <stdbool.h>
#include <sys/types.h>

struct event_base;
struct fabric_settings; /* fabric/settings.h */
struct plane;
struct offload;
struct leases;       /* state/lease.h */
struct name_table;   /* state/names.h */
struct peers;        /* peer/peer.h */
struct policy;       /* state/policy.h */
struct porter;       /* ipc/porter.h */
struct rota;         /* ipc/rota.h */
struct survey;       /* ctl/device.c */
struct metrics;      /* ctl/metrics_door.h */
struct tracer;       /* ctl/trace.c */
struct identity;     /* state/identity.h */
struct kept;         /* ipc/kept.h */
struct thread_watch; /* state/thread_watch.h */

struct state {
    struct event_base *base;
    const struct config *config;
    struct plane *plane;
    struct offload *offload;
    struct mailbox *mailbox; /* of the control thread */
    struct timers timers;
    struct quota quota;
    struct list sessions; /* of struct session, all alive or closing */
    uint64_t next_session_id;
    struct porter *porter; /* receives packets that bring descriptors */
    struct rota *rota;     /* whose packets are read when; ipc/rota.h */
    struct policy *policy; /* who may do what; NULL: nothing is configured */
    gid_t client_group;    /* whose members may connect; (gid_t)-1: everybody may */
    struct name_table *names;
    struct leases *leases;
    struct channel_totals {
        uint64_t messages_sent, bytes_sent, messages_received, bytes_received, stalls, lost;
    } messages;             /* of channels that are gone */
    struct usage usage;     /* of users and peers, as far as it has ended */
    struct failures {       /* state/failures.h; zero-initialised */
        struct list users;  /* of struct quota_account, that have sessions with some to tell */
        struct timer timer; /* set while there are any */
    } failures;
    struct slots channels;    /* of struct channel (state/channel.h), by number */
    struct tree away;         /* those whose way is gone (state/channel_away.h) */
    uint64_t service_numbers; /* given out to services, and to connections that wait at them */
    struct peers *peers;
    struct identity *identity;      /* NULL in tests that have none */
    struct survey *survey;          /* of devices, under way */
    struct tracer *tracers;         /* who traces ops */
    struct metrics *metrics;        /* NULL in tests that have none */
    struct thread_watch *watch;     /* of workers; likewise */
    uint8_t node_id[16];            /* random, new at each start */
    struct life life;               /* which of the node's this start is; number 0 in tests: none */
    uint8_t resume_key[HASH_BYTES]; /* of the node's secret, for state/origin.h; with a life only */
    uint8_t line_secret[16];        /* random, new at each start, told to nobody */
    char node_name[RDMAD_NAME_MAX + 1];
    char listen_host[256];                         /* what peers reach us by, for URIs */
    uint16_t listen_port;                          /* the real one, also when 0 was asked for */
    const struct fabric_settings *fabric_settings; /* as the data plane has them */
    char fabric_why[RDMAD_TEXT_MAX + 1];           /* why the best fabric in use is this one */
    char fabric_why_no_more[RDMAD_TEXT_MAX + 1];   /* why peers are offered no other, or "" */
    uint64_t descriptors; /* peers leave those from this one on to clients; 0: without a bound */
    uint64_t started_ns;
    uint64_t (*clock)(void); /* NULL: clock_now_ns; tests script theirs */
    /* Reads the settings again; later is called for each that takes effect only at the next start.
     * Set by the owner of the state; NULL: there is none. */
    int (*reload)(struct state *st, void (*later)(void *arg, const char *key), void *arg,
                  struct error *err);
    /* Has the program file checked, and if that is good lets the next life of the daemon follow
     * this one in the same process. checked is called in a later turn: the stop for it has begun,
     * or why it has not; not called when this returns an error. program: another file; NULL: the
     * one that there is. NULL: there is none. */
    int (*upgrade)(struct state *st, const char *program,
                   void (*checked)(void *arg, const struct error *result), void *arg,
                   struct error *err);
    /* Names of the tenants that this life has sockets for, whatever is read again: that of number N
     * is the Nth, and the last is NULL. NULL: there are none. */
    const char *const *tenants;
    int lifeline;      /* its reading end, for clients (base/lifeline.h) */
    struct kept *kept; /* listening sockets of the life before; NULL: none */
    /* The life before, if this one has followed it in the same process. */
    struct state_upgraded {
        unsigned times; /* since the process was started; 0: never */
        char from[32];  /* the version that was before */
        uint64_t pause_ns;
    } upgraded;
    bool stopping; /* refuses new sessions, leases and attaches */
    bool draining; /* the same, until drain_end (drain.h) */
    unsigned drain_asked;
};

/* By the tenant's number; "": nobody's. */
static inline const char *state_tenant(const struct state *st, uint32_t number) {
    return number && st->tenants ? st->tenants[number - 1] : "";
}

/* Why nothing new is taken; NULL: it is. */
static inline const char *state_leaves(const struct state *st) {
    if (st->stopping)
        return "is stopping";
    return st->draining ? "is drained (rdmactl drain)" : NULL;
}
/* The same for one of a session that is closing. */
static inline const char *state_leaves_or_ends(const struct state *st) {
    const char *why = state_leaves(st);
    return why ? why : "ends the session";
}

/* What time it is for everything that decides by time on the control thread. */
static inline uint64_t state_now(const struct state *st) {
    return st->clock ? st->clock() : clock_now_ns();
}

#endif
