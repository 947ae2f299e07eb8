/* SPDX-License-Identifier: MIT */
/*
 * judge.h - whether connections may go on that came to be what they are by another identity.
 */
#ifndef RDMAD_PEER_CONNECT_JUDGE_H
#define RDMAD_PEER_CONNECT_JUDGE_H

#include "daemon/peer/control/record.h"

#define JUDGED_A_TURN 8u

/* Another identity was loaded: all are judged, JUDGED_A_TURN in a turn of the loop. */
void judge_all(struct peers *ps);
void judge_next_turn(struct peers *ps);
void judge_forget(struct peer *p);

#endif
