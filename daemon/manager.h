/* SPDX-License-Identifier: MIT */
/*
 * manager.h - what the service manager wants to hear, and what it passes us.
 *
 * Everything here is harmless when nobody manages us, and waits for nobody.
 */
#ifndef RDMAD_MANAGER_H
#define RDMAD_MANAGER_H

#include "daemon/base/error.h"
#include "daemon/ipc/kept.h"
#include <stdint.h>

struct event_base;
struct state;
struct manager;

/* The listening descriptors that came by name ("rdmad.sock", "control.sock"), -1 where none did,
 * and those that the life before has kept open. Others are closed with a warning. Call once, first
 * thing. */
struct manager_sockets {
    int client, control;
    struct kept kept;
};
void manager_take_sockets(struct manager_sockets *out);

/* How long the service manager's watchdog waits; 0: there is none. */
uint64_t manager_watchdog_ns(void);
/* Answers the watchdog, if there is one, as long as no worker hangs (state/thread_watch.h). */
int manager_new(struct event_base *base, const struct state *st, struct manager **out,
                struct error *err);
void manager_free(struct manager *m);

void manager_ready(struct manager *m, const char *status);
void manager_reloading(struct manager *m); /* followed by manager_ready */
void manager_stopping(struct manager *m, uint64_t bound_us);
/* The next life follows in the same process, and says manager_ready. */
void manager_upgrading(struct manager *m, uint64_t bound_us);

#endif
