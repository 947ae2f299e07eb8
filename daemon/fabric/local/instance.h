/* SPDX-License-Identifier: MIT */
/*
 * instance.h - the fabric between two sessions of one daemon: memory to memory, by this CPU.
 *
 * Read local.c (instances, links, windows), then copy.c (the way of an op).
 *
 * The happy path: post checks the window and queues the op; a poll copies short ops whole, in
 * order, and leaves long ones, if there are any, to the next, so that who polls can tell of the
 * short ones first; the next copies a slice of long ops in all, in turn. No short op that was
 * posted waits for more than one slice, and a slice is short if who polls says that somebody waits.
 * Each slice looks its window up again by the handle in the key. A CAS or FADD is a short op, and
 * atomic with all that this machine's CPUs do to the word: other workers, and the clients
 * themselves.
 *
 * There is no SEND, because messages between two sessions of one daemon never leave op/. A SEND
 * that is posted fails as unsupported.
 *
 * Failures: memory that vanishes under a copy (base/guard.h) fails that op alone and is reported;
 * the end of a window fails its ops from the next slice on.
 */
#ifndef RDMAD_FABRIC_LOCAL_INSTANCE_H
#define RDMAD_FABRIC_LOCAL_INSTANCE_H

#include "daemon/base/slots.h"
#include "daemon/fabric/fabric.h"

#define LOCAL_SLICE (512u * 1024u)   /* bytes of long ops copied in one poll, */
#define LOCAL_HURRY (32u * 1024u)    /* and if somebody waits for its end */
#define LOCAL_SHORT (16u * 1024u)    /* longer ops are sliced */
#define LOCAL_MAX_MESSAGE UINT64_MAX /* slices make splitting needless */
#define LOCAL_NUMBER 1u              /* of every link: they are all alike */

struct local {
    struct fabric base;
    const struct fabric_env *env;
    struct list links;     /* of struct local_link */
    struct list connected; /* links whose link_up is not told yet */
    struct list shorts;    /* of struct fabric_op, by node */
    struct list longs;
    uint64_t turn;     /* bytes that the first of them may still move before the next one's turn */
    bool longs_waited; /* in the last poll, for the short ones to be told */
    struct list ended; /* status and outcome are set, complete is not called yet */
    struct slots windows;
};

struct local_link {
    struct fabric_link base;
    struct list node; /* in local->connected, then local->links; in none before it is opened */
    void *cookie;
};

struct local_window {
    struct fabric_window base;
    struct fabric_window_spec spec;
    uint64_t handle;
};

/* The scratch words of an op. */
enum { LOCAL_MOVED, LOCAL_WINDOW }; /* bytes copied so far; the window's handle */

#endif
