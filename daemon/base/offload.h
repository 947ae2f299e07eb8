/* SPDX-License-Identifier: MIT */
/*
 * offload.h - registration threads: calls that may take seconds, off the control thread.
 *
 * Mapping, prefaulting, registering and unmapping client memory goes through here. A job belongs to
 * an owner, any number (a user's; 0 where there is only one): an owner's jobs run one after the
 * other, in order, and owners take turns. So an owner with a thousand jobs, or one that takes a
 * minute, has one thread and keeps nobody else waiting; only OFFLOAD_THREADS such owners at once
 * would. When run returns, done is delivered through the mailbox of whoever posted.
 */
#ifndef RDMAD_BASE_OFFLOAD_H
#define RDMAD_BASE_OFFLOAD_H

#include "daemon/base/list.h"
#include "daemon/base/mailbox.h"
#include <stdbool.h>
#include <stdint.h>

/* How many threads there are at most. The first is there from the start, others are started when an
 * owner has to wait. */
#define OFFLOAD_THREADS 16u

struct offload;

struct offload_job {
    struct mail mail; /* internal, as are node and line */
    struct list node;
    struct list line; /* of the owner's first job that waits: those behind it */
    uint64_t owner;
    struct mailbox *reply_to;
    void (*run)(struct offload_job *job);  /* on a registration thread */
    void (*done)(struct offload_job *job); /* on the thread of reply_to; may free the job */
};

/* 0, RDMAD_E_NOMEM or RDMAD_E_SYSTEM, with errno. */
int offload_start(struct offload **out);
void offload_stop(struct offload *o); /* finishes what is queued, joins the threads */
/* How many owners wait for a thread just now. */
unsigned offload_waiting(struct offload *o);
struct offload_progress {
    uint64_t begun;  /* jobs, so far */
    uint64_t oldest; /* the number of the one that has run longest, from 1 on; 0: none runs */
    bool waiting;    /* somebody waits for a thread */
};
void offload_progress(struct offload *o, struct offload_progress *out);
void offload_post(struct offload *o, struct offload_job *job);

#endif
