/* SPDX-License-Identifier: MIT */
/*
 * transport.h - the one place that turns a socket into a stream of a peer.
 *
 * Plain TCP in this version. Mutual TLS goes in here and nowhere else: all above it reads and
 * writes a bufferevent.
 */
#ifndef RDMAD_PEER_TRANSPORT_H
#define RDMAD_PEER_TRANSPORT_H

#include <event2/bufferevent.h>
#include <event2/event.h>

/* Takes over fd (closed on failure too). NULL: out of memory. */
struct bufferevent *transport_new(struct event_base *base, int fd);

/* Sends as much of what is queued as the socket takes at once, then closes. */
void transport_close(struct bufferevent *bev);

#endif
