/* SPDX-License-Identifier: MIT */
/*
 * prompt.h - rings whose client waits for one answer, and asks again at once.
 *
 * A turn that moves long local ops takes long. So the rings of those whose last op, a small local
 * READ or WRITE, was answered before long ones move are looked at again between any two slices of
 * these. What is found there is taken from the same part of the turn that the ring's user and
 * session have anyway (admit.c): it comes sooner, and it is no more.
 *
 * A user has PROMPT_OF_USER such rings at a worker (one with a rate none), and all users
 * PROMPT_MOST; other rings are looked at once a turn. A ring on which nothing was found
 * PROMPT_LOOKS times in a row is prompt no longer, and its user pays for the looks.
 */
#ifndef RDMAD_OP_ENGINE_PROMPT_H
#define RDMAD_OP_ENGINE_PROMPT_H

#include "daemon/op/engine/user.h"

#define PROMPT_MOST 16u
#define PROMPT_OF_USER 2u
#define PROMPT_LOOKS 16u
#define PROMPT_BYTES 4096u             /* of a small op */
#define PROMPT_COST (4 * USER_OP_COST) /* of the looks in vain */

/* Before rings_flush: which of those that it answers have nothing else under way. */
void prompt_note(struct worker *w);
/* Takes what they have; returns how many had something. */
unsigned prompt_serve(struct worker *w);
void prompt_forget(struct op_ring *r); /* it is about to end */

static inline bool prompt_waits(const struct worker *w) {
    return !list_empty(&w->prompt);
}

#endif
