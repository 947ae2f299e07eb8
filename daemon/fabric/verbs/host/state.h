/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - the inside of a fabric_host, shared by host.c, keeper.c, seats.c, events.c, device.c,
 * selftest.c and memory.c.
 *
 * Who may touch what. Fields under "lock" need it, whoever you are. It is held for a few lines and
 * never across a verb. Fields of the keeper are its thread's alone, but for host_open before the
 * thread and host_close after it. An open_device is made and closed by the keeper; others may look
 * into it while they hold it: members from device_came to host_let_go, memory.c by its users count.
 */
#ifndef RDMAD_FABRIC_VERBS_KEEPER_H
#define RDMAD_FABRIC_VERBS_KEEPER_H

#include "daemon/base/clock.h"
#include "daemon/fabric/verbs/device/survey.h"
#include "daemon/fabric/verbs/host/host.h"
#include <pthread.h>
#include <sys/types.h>

struct open_device {
    struct device d;
    char uverbs[32]; /* its path, and the inode it had when it was opened */
    ino_t inode;
    uint64_t opened_ns;
    char self_test[DEVICE_WHY];
    unsigned users; /* under lock: calls of memory.c under way on it */
};

struct fabric_host {
    const struct fabric_settings *settings;
    struct listen_gids listen;
    struct offload *registrar, *revoker;

    pthread_mutex_t lock;
    pthread_cond_t memory_idle; /* a memory is busy no more */
    /* Under lock. */
    struct list members, memories;
    struct open_device *now; /* which members get; NULL: none */
    struct port_now port;    /* of now */
    struct error why;        /* why there is none */
    bool stopping;
    const struct device *failed; /* who said so, until the keeper has seen it */
    struct error failed_why;

    /* The keeper's. */
    pthread_t thread;
    int wake_fd, inotify_fd, watch_dev, watch_dir;
    struct open_device *open; /* now, or the one that goes */
    bool going;
    uint64_t going_since_ns;
    uint64_t retry_ns, retry_after_ns; /* while there is none: when to look again */
    uint64_t look_ns;                  /* at the port, once more */
    unsigned failures;                 /* devices that broke soon after they were adopted */
    unsigned told;                     /* enum lowered and the warnings that were logged */
    struct error looked, said;         /* why there was none at the last look, and in the log */
    uint64_t looked_ns;                /* since when it is so */
};

/* ---- keeper.c ----------------------------------------------------------------------------- */

void keeper_wake(struct fabric_host *h); /* any thread */
/* Looks for a device and adopts it; on the keeper's thread or before it runs. */
int keeper_adopt(struct fabric_host *h, struct error *err);
/* The device goes: members are told; it is closed when the last has let go. */
void keeper_forget(struct fabric_host *h, const struct error *why);
/* Asks the port again, tells members of a change. */
void keeper_look(struct fabric_host *h);
int keeper_start(struct fabric_host *h, struct error *err);
void keeper_stop(struct fabric_host *h); /* the device is closed */

/* ---- seats.c: what is told to members ----------------------------------------------------- */

/* All need the lock. */
void seats_came(struct fabric_host *h);
void seats_port(struct fabric_host *h);
void seats_going(struct fabric_host *h, const struct error *why);
void seats_qp(struct fabric_host *h, uint32_t qp_num, enum ibv_event_type event);
bool seats_hold(const struct fabric_host *h); /* a member has not let go of the device yet */

/* ---- events.c ----------------------------------------------------------------------------- */

enum event_kind {
    EVENT_PORT,   /* the port or its tables changed: ask again */
    EVENT_QP,     /* the members' */
    EVENT_DEVICE, /* the device is broken: let go of it */
    EVENT_NOTE,   /* nothing to do but to say so */
};
struct event_rule {
    enum event_kind kind;
    int level; /* of its log line */
    const char *name, *says;
};
const struct event_rule *event_rule(enum ibv_event_type type); /* never NULL */
/* Reads and acts on all events that wait. */
void events_take(struct fabric_host *h);

/* ---- device.c ----------------------------------------------------------------------------- */

/* Opens what the survey chose, and tests it. told: see fabric_host. */
int device_open(struct fabric_host *h, const struct device_view *view, unsigned port,
                struct open_device **out, struct port_now *now, struct error *err);
/* Nothing is left on it but the PD. */
void device_close(struct open_device *o);
/* How the port is now. Fails only for lack of memory; not usable is an answer. */
int device_port(const struct fabric_host *h, const struct device *d, struct port_now *out,
                struct error *err);
bool device_there(const struct open_device *o); /* its file is still the same */

/* ---- selftest.c --------------------------------------------------------------------------- */

struct verdict {
    bool ran;           /* a write to ourselves worked; else nothing below means anything */
    bool late;          /* it ran out of time, as on a machine under load: another try may help */
    bool registrations; /* hold */
    bool windows;       /* hold */
    char says[DEVICE_WHY];
};
/* What the device enforces, seen on loopback QPs; waits for less than a second in all. */
void selftest(const struct device *d, const struct port_now *port, struct verdict *out);
bool device_has_windows(const struct ibv_device_attr *a);

/* ---- memory.c ----------------------------------------------------------------------------- */

/* Registers all memory on h->open, which nobody else has yet; stops early when the device is there
 * no more. Returns with the lock taken, so that no memory slips in before the device is given out.
 */
void memories_register(struct fabric_host *h);
/* Deregisters all memory of h->open, which no member holds; waits for calls under way. */
void memories_deregister(struct fabric_host *h);

#endif
