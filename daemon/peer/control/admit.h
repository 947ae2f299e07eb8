/* SPDX-License-Identifier: MIT */
/*
 * admit.h - whether a user of ours may reach a peer: its policy's key "peers".
 *
 * The name that decides is the certificate's, known only when the peer is UP. So everything
 * that a session asks of a peer is held against it when it is about to be sent. So is a channel
 * that a peer asks of a session: its way there is dialled for that session.
 */
#ifndef RDMAD_PEER_CONTROL_ADMIT_H
#define RDMAD_PEER_CONTROL_ADMIT_H

#include "daemon/peer/control/record.h"
#include "daemon/state/session.h"

/* A peer that is not UP yet admits everybody: who asks then comes again when it is. */
int admit_session(const struct peer *p, const struct session *s, struct error *err);

#endif
