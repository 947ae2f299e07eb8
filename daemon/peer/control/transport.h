/* SPDX-License-Identifier: MIT */
/*
 * transport.h - the one place that turns a socket into a stream of a peer.
 *
 * In clear, what is written goes as it is, and what comes is there to be read. With a TLS
 * connection (tls.h) over it, what comes are records: they wait until they are opened one by one
 * (transport_open_record), so whoever reads decides how much of them a turn takes. During the
 * handshake nothing can be written; handshake.c takes the bytes itself.
 *
 *   CLEAR                       for ever
 *   SHAKING --transport_secure--> SECURE
 */
#ifndef RDMAD_PEER_TRANSPORT_H
#define RDMAD_PEER_TRANSPORT_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct evbuffer;
struct sockaddr;
struct tls;
struct transport;

/* From the loop. closed: the other end has closed it; else error is an errno. */
struct transport_calls {
    void (*heard)(void *arg);   /* something has come */
    void (*drained)(void *arg); /* nothing waits any more to be sent */
    void (*ended)(void *arg, bool closed, int error);
};

/* Takes over fd (closed on failure too). NULL: out of memory. */
struct transport *transport_new(struct event_base *base, int fd);
/* Sends as much of what is queued as the socket takes at once, then closes. */
void transport_close(struct transport *t);

/* done: with 0 or an errno, from the loop. False: it failed at once, see errno. */
bool transport_connect(struct transport *t, const struct sockaddr *to, int size,
                       void (*done)(void *arg, int error), void *arg);

/* The socket is connected: reading begins. shaking: by TLS, after a handshake. */
void transport_begin(struct transport *t, bool shaking, const struct transport_calls *calls,
                     void *arg);
/* From now on what is lost is sent again sooner (base/retransmit.h), and the kernel does not end
 * the connection before it has been silent for that many ms, or for two minutes if that is longer.
 */
void transport_bear_silence(struct transport *t, uint64_t ms);
bool transport_read_on(struct transport *t); /* false: out of memory */
void transport_read_pause(struct transport *t);

/* SHAKING: copies the oldest bytes that have come, without taking them. */
size_t transport_peek(const struct transport *t, uint8_t *out, size_t max);
void transport_skip(struct transport *t, size_t size);
/* Sends bytes as they are. False: out of memory. */
bool transport_write_raw(struct transport *t, const void *bytes, size_t size);
/* SHAKING -> SECURE: tls is open, and from now on the transport's. False: out of memory, and it is
 * not. */
bool transport_secure(struct transport *t, struct tls *tls);

/* False: out of memory. SHAKING: nothing is sent. */
bool transport_write(struct transport *t, const void *bytes, size_t size);
size_t transport_unsent(const struct transport *t); /* bytes that wait to be sent */
size_t transport_unread(const struct transport *t); /* bytes that have come and were not taken */

/* What can be read. */
struct evbuffer *transport_input(const struct transport *t);
/* Whether a whole record waits to be opened, or bytes that can never become one. */
bool transport_has_record(const struct transport *t);
/* Opens the next record, of which transport_input gets the bytes. */
int transport_open_record(struct transport *t, struct error *err);

bool transport_is_shaking(const struct transport *t);
struct tls *transport_tls(const struct transport *t); /* NULL: in clear, or still shaking */
int transport_socket(const struct transport *t);

#endif
