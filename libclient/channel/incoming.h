/* SPDX-License-Identifier: MIT */
/*
 * incoming.h - connections that wait at a service to be accepted.
 */
#ifndef RDMAD_LIBCLIENT_INCOMING_H
#define RDMAD_LIBCLIENT_INCOMING_H

#include "libclient/channel/service.h"

/* With the lock: takes who (NULL: the first) out of the list of those that wait; false: it is not
 * there. */
bool rdmad_incoming_claim(struct rdmad_service *service, const struct rdmad_incoming *who,
                          struct rdmad_incoming *out);

/* With the lock, released meanwhile: until no thread waits at the service, which is closing, any
 * more. */
void rdmad_incoming_await_users(struct rdmad_service *service);

/* What events bring, with the lock. */
void rdmad_service_on_incoming(struct rdmad_session *s, const void *body);
void rdmad_service_on_gone(struct rdmad_session *s, const void *body);

#endif
