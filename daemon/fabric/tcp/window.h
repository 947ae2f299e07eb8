/* SPDX-License-Identifier: MIT */
/*
 * window.h - the owner's windows, and the one place that decides about an access.
 */
#ifndef RDMAD_FABRIC_TCP_WINDOW_H
#define RDMAD_FABRIC_TCP_WINDOW_H

#include "daemon/fabric/tcp/frame.h"
#include "daemon/fabric/tcp/instance.h"

struct tcp_window {
    struct fabric_window base;
    struct fabric_window_spec spec;
    uint64_t handle; /* in tcp.windows */
    uint64_t key;
    uint32_t queued; /* pieces of send queues that point into it */
};

/* Makes a window in t's table, with a key. */
int window_add(struct tcp *t, const struct fabric_window_spec *spec, struct tcp_window **out,
               struct error *err);
void window_remove(struct tcp *t, struct tcp_window *w); /* nothing points into it any more */
void tcp_window_extend(struct fabric_window *w, uint64_t deadline_ns);
/* The window that f names, if f may access it: f came from peer, by its connection of that number.
 * Else NULL, and *status says why. */
struct tcp_window *window_check(struct tcp *t, uint64_t peer, uint64_t number,
                                const struct frame *f, int *status);
void window_count(const struct tcp *t, struct tcp_window *w, const struct frame *f);

#endif
