/* SPDX-License-Identifier: MIT */
/*
 * judge.h - whether connections may go on: by another identity than they were made with, and when
 * their certificates end.
 */
#ifndef RDMAD_PEER_CONNECT_JUDGE_H
#define RDMAD_PEER_CONNECT_JUDGE_H

#include "daemon/peer/control/record.h"

#define JUDGED_A_TURN 8u

/* Another identity was loaded: all are judged, JUDGED_A_TURN in a turn of the loop. */
void judge_all(struct peers *ps);
void judge_next_turn(struct peers *ps);

/* p is connected, and secured if it will be. It ends with its certificate, looked at once in a
 * while, as clocks may be set. */
#define JUDGE_EXPIRY_NS (60 * NSEC_PER_SEC)
void judge_begin(struct peer *p);
void judge_forget(struct peer *p);

#endif
