/* SPDX-License-Identifier: MIT */
/*
 * metrics_door.h - GET /metrics by HTTP, where the setting metrics.listen says: a port of loopback,
 * RUNTIME_DIR/metrics.sock, or both. Off by default.
 *
 * They are doors for strangers: each has at most METRICS_CONNS connections, of which each is closed
 * after one request, after METRICS_SECONDS whatever it does, or when its request is too long; who
 * comes meanwhile waits in the backlog. So who crowds the port keeps nobody from the socket. All
 * answers of a second are one text.
 */
#ifndef RDMAD_CTL_METRICS_DOOR_H
#define RDMAD_CTL_METRICS_DOOR_H

#include "daemon/base/error.h"
#include "daemon/state/state.h"

#define METRICS_CONNS 8u
#define METRICS_SECONDS 5

struct metrics;

/* The numbers, and the doors that there are to be. */
int metrics_new(struct state *st, struct metrics **out, struct error *err);
/* Whether they could be had (listener_check). A port that is somebody else's is waited for. */
int metrics_check(const struct state *st, struct error *err);
struct kept; /* ipc/kept.h */
/* As listener_tell has it. */
void metrics_tell(const struct metrics *m, struct kept *kept);
/* What it listens on: "127.0.0.1:9471", a path, both with ", " between them, or "". */
const char *metrics_where(const struct metrics *m);
/* Before the tables of st are freed, and before its mailbox is read for the last time. NULL is
 * allowed. */
void metrics_free(struct metrics *m);

#endif
