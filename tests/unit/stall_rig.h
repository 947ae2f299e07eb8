/* SPDX-License-Identifier: MIT */
/*
 * stall_rig.h - a thread that stands still while one daemon follows another: its call was answered
 * by the first, and it goes on when the next has the session.
 *
 * Another thread receives, so the caller sleeps in its call, and stands still where it lets go of
 * the session's lock after the answer. Link with -Wl,--wrap=pthread_mutex_unlock.
 */
#ifndef RDMAD_TESTS_STALL_RIG_H
#define RDMAD_TESTS_STALL_RIG_H

#include "tests/unit/client_rig.h"

/* Makes the call in a thread, which stands still after its first request of that type. Returns when
 * the call has, and SESSION_RESUMED was taken. fake is outlived; once a case. */
void stall_call(uint16_t type, void (*call)(void));

/* Of what the next daemon was asked: which one the last request of that type was, from 1 on; 0:
 * there was none. body, unless it is NULL, gets size bytes of it. */
unsigned stall_asked(uint16_t type, void *body, size_t size);
/* How many such events came meanwhile. */
unsigned stall_events(uint32_t type);

#endif
