/* SPDX-License-Identifier: MIT */
/*
 * answer.h - a peer asks for our names, or watches them, and is told.
 */
#ifndef RDMAD_PEER_NAMES_ANSWER_H
#define RDMAD_PEER_NAMES_ANSWER_H

#include "daemon/peer/control/record.h"

#define PEER_WATCHES_MAX 256u /* that one peer has here */

void answer_take_names_req(struct peer *p, const struct peer_msg *msg);
void answer_take_watch_req(struct peer *p, const struct peer_msg *msg);
void answer_take_watch_more(struct peer *p, const struct peer_msg *msg);
void answer_take_unwatch(struct peer *p, const struct peer_msg *msg);
void answer_go_on(struct peer *p); /* its output has drained */
void answer_lose(struct peer *p);  /* its connection is gone */

#endif
