/* SPDX-License-Identifier: MIT */
/*
 * question.h - our sessions ask for a peer's names: the answers.
 */
#ifndef RDMAD_PEER_NAMES_QUESTION_H
#define RDMAD_PEER_NAMES_QUESTION_H

#include "daemon/peer/control/record.h"

void question_take_names_rep(struct peer *p, const struct peer_msg *msg);
void question_take_name_ev(struct peer *p, const struct peer_msg *msg);

#endif
