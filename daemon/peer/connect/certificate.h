/* SPDX-License-Identifier: MIT */
/*
 * certificate.h - who the other end is, as its certificate says.
 */
#ifndef RDMAD_PEER_CONNECT_CERTIFICATE_H
#define RDMAD_PEER_CONNECT_CERTIFICATE_H

#include "daemon/peer/control/record.h"

struct x509_st;

/* p is secured: notes its certificate's fingerprint. False: that is not whom we have dialled, and p
 * is refused. */
bool certificate_take(struct peer *p);
/* Whether cert (X509) has the name or address by which p was dialled, if it was. */
bool certificate_fits(const struct peer *p, struct x509_st *cert);
/* Whether its certificate's name is the one that it calls itself; else p is refused. */
bool certificate_names(struct peer *p, const char *node);

#endif
