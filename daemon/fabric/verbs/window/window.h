/* SPDX-License-Identifier: MIT */
/*
 * window.h - a window as its owner knows it, and what its owner is told.
 *
 * What holds a window on the device is a registration, which windows of one peer to the same range
 * with the same rights share, or a binding: memory windows on the QPs of one target. A window with
 * neither is gone: the device or its target went, and nothing can reach the range any more; only
 * its owner does not know yet.
 */
#ifndef RDMAD_FABRIC_VERBS_WINDOW_WINDOW_H
#define RDMAD_FABRIC_VERBS_WINDOW_WINDOW_H

#include "daemon/fabric/verbs/instance/protection.h"
#include "daemon/fabric/verbs/target/target.h"

struct registration;
struct binding;

extern const struct protection protection_registrations, protection_memory_windows;

/*
 *     OPENING --window_told--> OPEN --its owner closes it--> CLOSING --window_ended--> freed
 *        |                                                      ^
 *        +--its owner closes it---------------------------------+
 *        +--window_ended: its owner is told why--> freed
 *
 * An OPEN window that ends stays, with nothing behind it, until its owner closes it.
 */
enum window_state {
    WINDOW_OPENING,
    WINDOW_OPEN,    /* its owner has the key */
    WINDOW_CLOSING, /* its owner waits for window_closed */
};

struct verbs_window {
    struct fabric_window base;
    struct list node; /* in vpeer.windows */
    struct list at;   /* in registration.windows or target.windows */
    struct vpeer *peer;
    void *cookie;
    uint64_t lease_id;
    enum window_state state;
    const struct protection *by; /* NULL: nothing is behind it; else tells which of the two is */
    union {
        struct registration *registration;
        struct binding *binding;
    };
};

/* The device has it: tells its owner. */
void window_told(struct verbs_window *w, const struct verbs_key *key);
/* The device has nothing of it any more: tells an owner that waits for it to close, or, with why,
 * to open. May free w. */
void window_ended(struct verbs_window *w, const struct error *why);
void window_free(struct verbs_window *w); /* without a word */

/* ---- all of an instance (windows.c): fabric_ops.window_*, and what happens to them ------------
 */

int verbs_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                      struct fabric_window **out, struct fabric_blob *key, struct error *err);
void verbs_window_extend(struct fabric_window *w, uint64_t deadline_ns);
bool verbs_window_close(struct fabric_window *w, int reason);

void windows_init(struct verbs *v);
void windows_device_came(struct verbs *v);  /* chooses how leases are held on it */
void windows_device_going(struct verbs *v); /* all are taken back; their owners still close them */
void windows_close(struct verbs *v);        /* waits for all jobs; for the instance's end */

#endif
