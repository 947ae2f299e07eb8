/* SPDX-License-Identifier: MIT */
/*
 * proxy.h - a path between two daemons that can be cut, and that brings later what it held back.
 *
 *     struct proxy *p = proxy_start(daemon);      on all ports that the daemon listens on, at an
 *                                                 address that no other process uses
 *     proxy_uri(p, uri, through);                 the lease, by way of the proxy
 *     proxy_hold(p);        what goes over the connections that are there is kept, both ways, and
 *                           their ends; new connections pass
 *     proxy_release(p);     returns when all of it was delivered, or refused
 *     proxy_stop(p);
 *
 * It is a thread of the test. What goes wrong ends the case.
 */
#ifndef RDMAD_TEST_PROXY_H
#define RDMAD_TEST_PROXY_H

#include "tests/support/harness.h"
#include <rdmad/rdmad.h>

struct proxy;

struct proxy *proxy_start(const struct tdaemon *to);
const char *proxy_host(const struct proxy *p); /* its address; p's */
void proxy_uri(const struct proxy *p, const char *uri, char through[RDMAD_URI_MAX + 1]);
void proxy_hold(struct proxy *p);
/* Bytes that are held back on their way to the daemon, now. */
size_t proxy_held(struct proxy *p);
void proxy_release(struct proxy *p);
/* Ends all connections, both ways, with what is under way on them. New ones pass. */
void proxy_cut(struct proxy *p);
void proxy_stop(struct proxy *p);

#endif
