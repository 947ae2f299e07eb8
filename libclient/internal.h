/* SPDX-License-Identifier: MIT */
/*
 * internal.h - the objects behind librdmad's handles, and what its files ask of each other.
 *
 * session.c opens and closes; control.c talks to the daemon over the socket; event.c keeps what the
 * daemon says unasked; pool.c, alloc.c, lease.c, service.c, channel.c are the objects; ring.h's
 * files are the asynchronous transfers, blocking.h's the blocking ones on top of them.
 *
 * Locks: session->lock guards the session's tables and everything the socket brings. It is held
 * for moments only, never while something waits. Rings take no lock, but on the way to an error.
 */
#ifndef RDMAD_LIBCLIENT_INTERNAL_H
#define RDMAD_LIBCLIENT_INTERNAL_H

#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/object.h"
#include "libclient/base/session.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/lease/lease.h"
#include "libclient/memory/pool_create.h"
#include "libclient/ring/create.h"
#include "libclient/ring/submit.h"
#include <pthread.h>
#include <rdmad/rdmad.h>
#include <rdmad/ring.h>
#include <rdmad/wire.h>
#include <stdbool.h>

/* ---- session/event.c ----------------------------------------------------------------------- */

/* With the lock: an event as it came. Returns a sentence when the wire does not allow it. */
const char *rdmad_event_take(struct rdmad_session *s, const struct rdmad_msg_header *h,
                             const void *body);

/* ---- fork.c -------------------------------------------------------------------------------- */

/* From add to remove: in a child of fork the session is lost, and inherited. */
void rdmad_fork_add(struct rdmad_session *s);
void rdmad_fork_remove(struct rdmad_session *s);

/* ---- service.c, channel.c ------------------------------------------------------------------ */

/* What events bring, with the lock. */
void rdmad_name_event(struct rdmad_session *s, const void *body); /* names.c */
void rdmad_service_incoming(struct rdmad_session *s, const void *body);
void rdmad_service_incoming_gone(struct rdmad_session *s, const void *body);
void rdmad_service_handed_over(struct rdmad_session *s, const void *body);
void rdmad_channel_closed(struct rdmad_session *s, const void *body);
/* With the lock: the session is about to hang up, which is no accident. */
void rdmad_channels_farewell(struct rdmad_session *s);
/* Free all of them; tell nobody. */
void rdmad_services_dispose(struct rdmad_session *s);
void rdmad_names_dispose(struct rdmad_session *s);
void rdmad_channels_dispose(struct rdmad_session *s);

/* ---- segments.c ---------------------------------------------------------------------------- */

/* As rdmad_ring_writev and readv; silent about having no room. */
int rdmad_ring_batch(struct rdmad_ring *ring, enum rdmad_opcode opcode, struct rdmad_lease *lease,
                     const struct rdmad_segment *segments, unsigned count, uint64_t user_data);

/* ---- blocking.c ---------------------------------------------------------------------------- */

int rdmad_blocking_new(struct rdmad_session *s);
void rdmad_blocking_free(struct rdmad_blocking *b);

/* ---- copies.c ------------------------------------------------------------------------------ */

int rdmad_copies_new(struct rdmad_session *s);
void rdmad_copies_free(struct rdmad_copies *c);

#endif
