/* SPDX-License-Identifier: MIT */
/*
 * audit_event.h - what an event of the audit is about: what happened, whose doing, to what.
 */
#ifndef RDMAD_BASE_AUDIT_EVENT_H
#define RDMAD_BASE_AUDIT_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* `journalctl MESSAGE_ID=...` shows these events alone. It never changes. */
#define AUDIT_MESSAGE_ID "5d1b8c0c9a0e4f5f9a5c1e0f6b7d2a43"

enum audit_event {
    AUDIT_ADMITTED,  /* a session, a peer, a link may begin */
    AUDIT_REFUSED,   /* what was asked for is not done */
    AUDIT_GRANTED,   /* a lease was made */
    AUDIT_ATTACHED,  /* somebody became its lessee */
    AUDIT_REVOKED,   /* a right was taken back before its time */
    AUDIT_THROTTLED, /* a rate or a share holds somebody back */
    AUDIT_VIOLATED,  /* what no honest program sends; its session or connection ends */
    AUDIT_ADMIN,     /* somebody changed the daemon: settings, limits, others' leases */
    AUDIT_EVENTS
};

/* Whose doing it was. The texts are copied before audit_write() returns. */
struct audit_who {
    enum { AUDIT_NOBODY, AUDIT_USER, AUDIT_PEER } kind; /* nobody: the daemon itself */
    uid_t uid;
    const char *tenant;  /* by whose socket it came, another user then; NULL or "": nobody's */
    pid_t pid;           /* 0: not known */
    const char *peer;    /* the name of its certificate; "": none was shown, or none was good */
    const char *address; /* HOST or HOST:PORT or [HOST]:PORT */
};

static inline struct audit_who audit_nobody(void) {
    return (struct audit_who){0};
}

static inline struct audit_who audit_user(uid_t uid, pid_t pid) {
    return (struct audit_who){.kind = AUDIT_USER, .uid = uid, .pid = pid};
}

/* name: proven by its certificate, else "". Both may be NULL. */
static inline struct audit_who audit_peer(const char *name, const char *address) {
    return (struct audit_who){.kind = AUDIT_PEER, .peer = name, .address = address};
}

/* What it was about. kind is a literal, as rdmactl has it: "session", "lease", "peer". */
struct audit_object {
    const char *kind; /* NULL: nothing of that sort */
    uint64_t id;
    uint64_t session; /* whose; 0: nobody's, or kind and id say it. For events.h alone */
};

static inline struct audit_object audit_object(const char *kind, uint64_t id) {
    return (struct audit_object){.kind = kind, .id = id};
}

static inline struct audit_object audit_object_of(const char *kind, uint64_t id, uint64_t session) {
    return (struct audit_object){.kind = kind, .id = id, .session = session};
}

static inline struct audit_object audit_nothing(void) {
    return (struct audit_object){0};
}

#endif
