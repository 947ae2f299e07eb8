/* SPDX-License-Identifier: MIT */
/*
 * choice.h - which fabric the daemon uses, and why: a sentence that is logged and shown, because
 * RDMA over TCP instead of RDMA must never go unnoticed.
 */
#ifndef RDMAD_CHOICE_H
#define RDMAD_CHOICE_H

#include "daemon/config/config.h"
#include "daemon/fabric/fabric.h"

struct choice {
    const struct fabric_ops *fabric;
    bool must;        /* nothing else will do */
    struct error why; /* the sentence */
};

/* By the settings and, unless they say tcp, by what devices_survey finds. Fails with
 * RDMAD_E_FABRIC, what is missing and the next step, when verbs must be used and cannot. Opens the
 * devices: not on a thread that has something else to do. */
int fabric_choose(const struct config *config, const struct fabric_settings *settings,
                  struct choice *out, struct error *err);

/* The chosen fabric could not be started for this reason. True: c is now the next best. */
bool fabric_next_best(struct choice *c, const struct error *failure);

/* Logs a warning for each setting by which the chosen fabric may wait without end. */
void fabric_warn(const struct choice *c, const struct config *config);

#endif
