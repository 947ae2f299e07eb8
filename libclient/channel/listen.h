/* SPDX-License-Identifier: MIT */
/*
 * listen.h - the end of services that nobody closed.
 */
#ifndef RDMAD_LIBCLIENT_LISTEN_H
#define RDMAD_LIBCLIENT_LISTEN_H

struct rdmad_session;

/* Frees all services; tells nobody. */
void rdmad_services_dispose(struct rdmad_session *s);

#endif
