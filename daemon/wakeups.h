/* SPDX-License-Identifier: MIT */
/*
 * wakeups.h - what wakes the control thread besides its sockets: its mailbox and its timers.
 *
 * The timers run from a CLOCK_BOOTTIME timerfd that is armed only while one is set: an idle daemon
 * does not wake up.
 */
#ifndef RDMAD_WAKEUPS_H
#define RDMAD_WAKEUPS_H

#include "daemon/base/error.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/timers.h"

struct event_base;
struct wakeups;

/* Initialises box and timers and ties both to the loop. */
int wakeups_new(struct event_base *base, struct mailbox *box, struct timers *timers,
                struct wakeups **out, struct error *err);
void wakeups_free(struct wakeups *w); /* also ends box, which must be empty, and timers */

#endif
