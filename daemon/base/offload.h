/* SPDX-License-Identifier: MIT */
/*
 * offload.h - the registration thread: calls that may take seconds, off the control thread.
 *
 * Creating, prefaulting, registering and unmapping pool memory goes through here. Jobs run one
 * after the other in order; when run returns, done is delivered through the mailbox of whoever
 * posted.
 */
#ifndef RDMAD_BASE_OFFLOAD_H
#define RDMAD_BASE_OFFLOAD_H

#include "daemon/base/mailbox.h"

struct offload;

struct offload_job {
    struct mail mail; /* internal */
    struct mailbox *reply_to;
    void (*run)(struct offload_job *job);  /* on the registration thread */
    void (*done)(struct offload_job *job); /* on the thread of reply_to; may free the job */
};

int offload_start(struct offload **out);
void offload_stop(struct offload *o); /* finishes what is queued, joins the thread */
void offload_post(struct offload *o, struct offload_job *job);

#endif
