/* SPDX-License-Identifier: MIT */
/*
 * lease.h - leases at their owner: who granted what to whom until when, and how it ends.
 *
 * The happy path: lease_grant puts a lease into the table; each lessee's attach becomes an
 * attachment (of a session here, or of a peer); lease_end takes the lease through ENDING (every
 * attachment is asked to stop, and cut off when it does not answer within the grace) to ENDED (no
 * attachment can reach the memory any more), and then tells the owner and everybody who waits.
 * Expiry is an end that a timer starts at the deadline, without grace. A renewal moves the deadline
 * at owner, windows and lessees. An ended lease leaves a tombstone, the last lease_tombstones of
 * them: who knows the secret is told why it ended, who does not, that there is no such lease.
 *
 * The data plane knows a lease from before its owner does (lease_when_taken) until nobody reaches
 * its memory, so that its owner can take notifications. One that its owner never hears of has none
 * of its own: those of a child are its root's, and of a requested lease there are none.
 *
 * A lease with RDMAD_RIGHT_DELEGATE may have children (delegate.c): leases of the same owner that
 * grant no more than it does, and that end before it has.
 *
 * How an attachment is stopped is its maker's business (struct attachment_ops), so this file knows
 * neither sockets nor peers.
 *
 * Callbacks (done, attachment_ops) may run inside the call that causes them.
 */
#ifndef RDMAD_STATE_LEASE_H
#define RDMAD_STATE_LEASE_H

#include "daemon/state/lease_audit.h"
#include "daemon/state/lease_table.h"
#include "daemon/state/lease_told.h"
#include "daemon/state/lease_types.h"
#include "daemon/state/pool.h"

int lease_grant(struct pool *pool, const struct lease_terms *terms, struct lease **out,
                struct error *err);
/* For delegate.c and budget.c: as lease_grant, without a look at the terms, and the data plane is
 * not told of it. */
int lease_make(struct pool *pool, const struct lease_terms *terms, struct lease **out,
               struct error *err);
/* done once the data plane knows of it, before which its owner must not; or why it is over. */
void lease_when_taken(struct lease *l, plane_done *done, void *arg);
/* Prints what the owner hands out: by name when published, else by number and secret. */
void lease_uri(const struct lease *l, char uri[RDMAD_URI_MAX + 1]);
/* Checks stage, scope, max_attaches; on success a is attached. */
int lease_attach(struct lease *l, const struct lessee *who, struct attachment *a,
                 const struct attachment_ops *ops, struct error *err);
/* The answer to stop: it does not use the lease any more. */
void attachment_stopped(struct attachment *a);
/* The lessee gives it back by itself: cut, then gone. Of a max_attaches == 1 lease this ends the
 * lease too, as does the ends_after'th release. */
void attachment_release(struct attachment *a);
/* The same, of a requested lease: its memory becomes the owner's. false: it has ended before. */
bool attachment_hand_over(struct attachment *a);
/* The lessee never had it, or is lost: cut, then gone; the lease lives on. */
void attachment_drop(struct attachment *a);

/* The lease ends ttl_ns from now instead; its children not later. */
int lease_renew(struct lease *l, uint64_t ttl_ns, struct error *err);
/* A lessee asks for renewal by its ttl: RDMAD_E_PERM unless RDMAD_LEASE_RENEWABLE. While more than
 * half of the ttl is left there is nothing to do. */
int lease_keep(struct lease *l, struct error *err);
/* done (may be NULL) when nobody can reach the memory. Ending twice just waits for the first; but
 * done gets RDMAD_E_BUSY at once when LEASE_WAITERS_MAX wait already. The owner's client gets
 * RDMAD_EV_LEASE_ENDED before any done runs, whatever the reason; one that does not read, when it
 * reads again. */
void lease_end(struct lease *l, int reason, plane_done *done, void *arg);
/* Ends all leases of a session; done when the last has ended. */
void leases_end_session(struct session *s, int reason, plane_done *done, void *arg);

#endif
