/* SPDX-License-Identifier: MIT */
/*
 * ctl_rig.h - control.sock with a table of the test's own methods, on a real socket and a real
 * event loop, which run in the test's own thread by turns.
 */
#ifndef RDMAD_TEST_CTL_RIG_H
#define RDMAD_TEST_CTL_RIG_H

#include "daemon/ctl/call.h"
#include "daemon/ctl/ctl.h"
#include <event2/event.h>
#include <unistd.h>

extern struct config config;
extern struct state st;
extern struct ctl *ctl;

/* With these methods, which outlive it. */
void ctl_rig_up(const struct ctl_method *methods, size_t count);
void ctl_rig_down(void);
const struct ctl_method *ctl_rig_find(const char *name); /* among them */

void turn(void); /* some passes of the loop */

/* Turns until it holds, at most 20 s: who has asked for much rests. */
#define TURN_UNTIL(condition)                                        \
    for (int tries_ = 0; !(condition) && tries_ < 20000; tries_++) { \
        turn();                                                      \
        usleep(1000);                                                \
    }

int dial(void);
void say(int fd, const char *data, size_t size);
/* All that comes until nothing has for some turns of the loop, into heard. False at end of file. */
bool hear(int fd);
extern char heard[1 << 20];
void ask(int fd, const char *line); /* says it and hears */

#define CALL(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}\n"
/* One that gets no answer. */
#define ORDER(method) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\"}\n"

#endif
