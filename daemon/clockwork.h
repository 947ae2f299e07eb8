/* SPDX-License-Identifier: MIT */
/*
 * clockwork.h - what turns the control thread besides its sockets: its mailbox and its timers.
 *
 * The timers run from a CLOCK_BOOTTIME timerfd that is armed only while one is set: an idle daemon
 * does not wake up.
 */
#ifndef RDMAD_CLOCKWORK_H
#define RDMAD_CLOCKWORK_H

#include "daemon/base/error.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/timers.h"

struct event_base;
struct clockwork;

/* Initialises box and timers and ties both to the loop. */
int clockwork_new(struct event_base *base, struct mailbox *box, struct timers *timers,
                  struct clockwork **out, struct error *err);
void clockwork_free(struct clockwork *c); /* also ends box, which must be empty, and timers */

#endif
