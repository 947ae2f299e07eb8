/* SPDX-License-Identifier: MIT */
/*
 * bystander.h - a neighbour under another uid, whose waits are what an attack is judged by.
 *
 *     struct bystander *b = bystander_start(d);
 *     ... attack d ...
 *     bystander_stop(b, "doorbells full of lingering sockets");
 *
 * The neighbour is a process of its own. Without pause it opens a session, makes a pool, writes to
 * a lease of its own and asks for that lease's use; each wait is timed. Stop prints its worst op
 * and its worst control call, and fails the case when either took longer than ten times
 * BYSTANDER_BOUND_MS, or when nothing at all was done.
 *
 * A wait beyond the bound does not count what the machine added: the time in which the neighbour or
 * a thread of the daemon was ready to run and somebody else ran. On a quiet machine that is
 * nothing, and what the daemon waits for itself, a lock, a file, a client, is never part of it.
 */
#ifndef RDMAD_TEST_BYSTANDER_H
#define RDMAD_TEST_BYSTANDER_H

#include "tests/support/harness.h"

#define BYSTANDER_UID 65533u
/* What a neighbour waits at most on a quiet machine. */
#define BYSTANDER_BOUND_MS 100u

struct bystander;

/* Returns when the neighbour has done its first round. It needs root, to be somebody else; where
 * the test is not root it is the same user. */
struct bystander *bystander_start(struct tdaemon *d);
/* What it waited so far, in ms, for tests that want to see an effect. */
double bystander_worst_op_ms(const struct bystander *b);
double bystander_worst_call_ms(const struct bystander *b);
/* Ends it and judges. */
void bystander_stop(struct bystander *b, const char *attack);

#endif
