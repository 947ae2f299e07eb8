/* SPDX-License-Identifier: MIT */
/*
 * protection.h - how a device holds a peer to the ranges that it leased: by registrations of
 * exactly the range in a PD of the peer's own (window/registration.c), or by type-2 memory windows
 * over the pool's registration, each bound to one QP (window/binding.c).
 *
 * Targets and windows know it by this table alone. The device's self-test decides which of the two
 * it is.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_PROTECTION_H
#define RDMAD_FABRIC_VERBS_INSTANCE_PROTECTION_H

#include "daemon/fabric/fabric.h"

struct verbs_target;
struct verbs;
struct verbs_window;

struct protection {
    /* 0 with the key, FABRIC_PENDING (window_told or window_ended follows), or an error: then w is
     * as before. */
    int (*open)(struct verbs_window *w, const struct fabric_window_spec *spec,
                struct fabric_blob *key, struct error *err);
    /* The owner does not need it any more. True: it is closed. False: window_ended will tell. */
    bool (*close)(struct verbs_window *w);
    void (*device_going)(struct verbs *v); /* all are taken back, though nobody closed them */

    /* A target's QPs were made; and a target goes: its windows are let go of before its QPs,
     * because some drivers wait for that. NULL: there is nothing to do. */
    void (*target_made)(struct verbs_target *t);
    void (*target_left)(struct verbs_target *t);
};

#endif
