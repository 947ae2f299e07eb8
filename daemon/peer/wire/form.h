/* SPDX-License-Identifier: MIT */
/*
 * form.h - how this folder describes a message.
 *
 * A form has a walk over the message's fields, which writes or reads them as the cursor says, and a
 * check of those fields in which not every value makes sense.
 */
#ifndef RDMAD_PEER_WIRE_FORM_H
#define RDMAD_PEER_WIRE_FORM_H

#include "daemon/peer/wire/cursor.h"
#include "daemon/peer/wire/message.h"

enum { DIALLER = 1, ACCEPTOR = 2, BOTH = 3 };

struct form {
    const char *name;
    uint16_t size; /* of the body */
    uint8_t from;
    void (*walk)(struct cursor *c, struct peer_msg *m);
    const char *(*check)(struct peer_msg *m); /* NULL, or what is wrong with it */
};

#define TEXT_BYTES (RDMAD_TEXT_MAX + 1)
#define FABRICS_BYTES (PEER_FABRICS_MAX * 16 + PEER_WHY_BYTES)
#define NAME_BYTES (RDMAD_NAME_MAX + 1)
#define BLOB_BYTES (1 + FABRIC_BLOB_MAX)

/* By type; each type has its form in one of them. */
extern const struct form form_lease_messages[PEER_MSG_COUNT];   /* and hello, links, liveness */
extern const struct form form_channel_messages[PEER_MSG_COUNT]; /* and names */

#endif
