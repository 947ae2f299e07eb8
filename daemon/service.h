/* SPDX-License-Identifier: MIT */
/*
 * service.h - what the service manager wants to hear, and what it passes us.
 *
 * Everything here is harmless when nobody manages us.
 */
#ifndef RDMAD_SERVICE_H
#define RDMAD_SERVICE_H

#include "daemon/base/error.h"
#include <stdint.h>

struct event_base;
struct plane;
struct manager;

/* The listening descriptors that came by name ("rdmad.sock", "control.sock"), -1 where none did.
 * Others are closed with a warning. Call once, first thing. */
struct service_sockets {
    int client, control;
};
void service_take_sockets(struct service_sockets *out);

/* Answers the watchdog, if there is one, as long as every worker of plane turns. */
int service_new(struct event_base *base, struct plane *plane, struct manager **out,
                struct error *err);
void service_free(struct manager *s);

void service_ready(const char *status);
void service_reloading(void); /* followed by service_ready */
void service_stopping(uint64_t bound_us);

#endif
