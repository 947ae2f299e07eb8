/* SPDX-License-Identifier: MIT */
/*
 * renewal.h - this node's next certificate, asked for in time; and the list of revoked ones, now
 * and then.
 *
 * When two thirds of a certificate's life are over, a node that has joined by a token asks the
 * daemon of the CA for the next, and where the CA is the daemon signs its own. Every
 * RENEWAL_LIST_NS a node that has joined also asks for the list of revoked certificates. It is
 * tried again after RENEWAL_AGAIN_NS if it fails, and the log says so once an hour. A node whose
 * identity was made by somebody else's PKI asks nobody.
 */
#ifndef RDMAD_PEER_CONNECT_RENEWAL_H
#define RDMAD_PEER_CONNECT_RENEWAL_H

#include "daemon/peer/control/record.h"

#define RENEWAL_LOOK_NS (10 * NSEC_PER_SEC)
#define RENEWAL_AGAIN_NS (60 * NSEC_PER_SEC)
#define RENEWAL_LIST_NS (600 * NSEC_PER_SEC)

int renewal_new(struct peers *ps, struct error *err);
/* Another identity is there, or the first: looks at it soon. */
void renewal_look(struct peers *ps);
/* A call may still be on its thread, which ends soon. */
void renewal_free(struct peers *ps);

#endif
