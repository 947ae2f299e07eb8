/* SPDX-License-Identifier: MIT */
/*
 * renewed.h - certificates that come after the one of the handshake: a connection outlives the one
 * by which it was made, and who renews in time loses nothing.
 */
#ifndef RDMAD_PEER_CONNECT_RENEWED_H
#define RDMAD_PEER_CONNECT_RENEWED_H

#include "daemon/peer/control/record.h"
#include <openssl/x509.h>

#define RENEWED_REST_NS (20 * NSEC_PER_MSEC)

void renewed_start(struct peers *ps);
void renewed_stop(struct peers *ps);

/* p is UP: shows it our certificate, if that is another than the handshake's, for the same key. */
void renewed_tell(struct peer *p);
void renewed_take(struct peer *p, const struct peer_msg *msg);
/* Judges what it has shown last, if that is not in use yet. */
void renewed_judge(struct peer *p);
/* The certificate by which p is judged, and what came with it. */
X509 *renewed_certificate(const struct peer *p, STACK_OF(X509) * *chain);
void renewed_forget(struct peer *p);

#endif
