/* SPDX-License-Identifier: MIT */
/*
 * choice.h - which fabrics the daemon uses, and why: sentences that are logged and shown, because
 * RDMA over TCP instead of RDMA must never go unnoticed.
 */
#ifndef RDMAD_CHOICE_H
#define RDMAD_CHOICE_H

#include "daemon/config/config.h"
#include "daemon/plane/plane.h"

struct fabric_choice {
    /* The one chosen, then what peers are offered besides it, or NULL; as plane_settings has them.
     */
    const struct fabric_ops *fabrics[PLANE_FABRICS_MAX];
    bool must;          /* nothing else will do for the first */
    struct error why;   /* the sentence */
    struct error alone; /* why there is no second; "": there is */
};

/* Chooses by the settings and, unless they say tcp, by what devices_survey finds. When verbs must
 * be used and cannot, fails with RDMAD_E_FABRIC, and says what is missing and what to do next.
 * Opens the devices, so call it on a thread that may wait. */
int choice_make(const struct config *config, const struct fabric_settings *settings,
                struct fabric_choice *out, struct error *err);

/* The chosen fabric could not be started for this reason. True: c is now the next best. */
bool choice_next_best(struct fabric_choice *c, const struct error *failure);

/* Logs a warning for each setting that lets the chosen fabric wait without end. */
void choice_warn(const struct fabric_choice *c, const struct config *config);

#endif
