/* SPDX-License-Identifier: MIT */
/*
 * objects.h - plane/plane.h's opaque objects: what the control thread keeps, around what a worker
 * keeps.
 *
 * In each, the member op and what comes after it are the worker's, once the first call about the
 * object has reached the worker. What comes before op is the control thread's.
 */
#ifndef RDMAD_OP_OBJECTS_H
#define RDMAD_OP_OBJECTS_H

#include "daemon/op/engine/account.h"
#include "daemon/op/engine/window.h"

struct plane {
    struct plane_settings settings;
    struct plane_events events;
    struct mailbox *control;
    struct fabric_host *hosts[PLANE_FABRICS_MAX]; /* NULL where the fabric has none */
    struct worker *worker;                        /* settings.workers of them */
    unsigned *sessions;                           /* on each */
    struct op_account all;                        /* sessions */
    struct list accounts;                         /* of struct op_account, one a user */
    struct list idle_accounts;                    /* of them, those without sessions */
    struct list reserve;                          /* of struct call, by node */
    unsigned reserve_used;
};

struct plane_session {
    struct plane *plane;
    struct worker *worker;
    bool dropped;
    struct slots channels; /* of struct op_channel, by handle; channels.c */
    struct op_session op;
};

struct plane_lane {
    struct plane *plane;
    struct worker *worker;
    void *cookie;
    bool dropped;
    uint64_t hellos;   /* asked for so far */
    uint64_t number;   /* the peer's for the link, once opening it was answered; atomic */
    uint64_t datagram; /* the longest message of one, as number; atomic */
    enum fabric_encryption encryption; /* likewise */
    bool secured;                      /* is the peer's control connection */
    char host[256];
    struct op_lane op;
    uint64_t links;       /* how many were asked of the fabric so far */
    uint64_t retransmits; /* of the link, that are counted */
    struct mail lost_mail;
    struct error lost_why;
    uint64_t lost_link;   /* which of them lost_mail is about */
    struct call *opening; /* the open that is not answered yet */
};

struct plane_trace {
    unsigned workers;
    struct op_trace *of[]; /* one a worker */
};

struct plane_window {
    struct plane *plane;
    struct worker *worker;
    struct op_window op;
    struct call *opening; /* the open or reopen that is not answered yet; */
    struct call *closing; /* the close */
};

#endif
