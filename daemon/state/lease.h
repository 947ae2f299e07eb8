/* SPDX-License-Identifier: MIT */
/*
 * lease.h - leases at their owner: who granted what to whom until when, and how it ends.
 *
 * The happy path: lease_grant puts a lease into the table; each lessee's attach becomes an
 * attachment (of a session here, or of a peer); lease_end takes the lease through ENDING (every
 * attachment is asked to stop, and cut off when it does not answer within the grace) to ENDED (no
 * attachment can reach the memory any more), and then tells the owner and everybody who waits.
 * Expiry is an end that a timer starts at the deadline, without grace. A renewal moves the deadline
 * at owner, windows and lessees. An ended lease leaves a tombstone, of which lease.tombstones are
 * kept. Whoever knows the secret is told why the lease ended; everybody else, that there is no such
 * lease.
 *
 * The data plane knows a lease from before its owner does (lease_when_taken) until nobody reaches
 * its memory, so that its owner can take notifications. A lease that its owner never hears of has
 * no notifications of its own: those about a child are told of its root, and about a requested
 * lease there are none.
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
/* One that the session granted at an earlier life of the daemon, with the number and secret that it
 * had, and left_ns of its ttl. RDMAD_E_NO_LEASE: the key is not that of such a lease. */
struct lease_again {
    uint64_t id, left_ns;
    uint8_t key[RDMAD_KEY_BYTES];
};
int lease_grant_again(struct pool *pool, const struct lease_terms *terms,
                      const struct lease_again *again, struct lease **out, struct error *err);
/* For delegate.c and budget.c: as lease_grant, but the terms are not checked and the data plane is
 * not told. again NULL: it is a new one. */
int lease_make(struct pool *pool, const struct lease_terms *terms, const struct lease_again *again,
               struct lease **out, struct error *err);
/* The same, and the data plane is told. */
int lease_put(struct pool *pool, const struct lease_terms *terms, const struct lease_again *again,
              struct lease **out, struct error *err);
/* done: the data plane knows of the lease (the owner must not be told before), or why it is over.
 */
void lease_when_taken(struct lease *l, plane_done *done, void *arg);
/* Prints the URI that the owner hands out: with the name if it is published, else with number and
 * secret. */
void lease_uri(const struct lease *l, char uri[RDMAD_URI_MAX + 1]);
/* Checks stage, scope, max_attaches; on success a is attached. */
int lease_attach(struct lease *l, const struct lessee *who, struct attachment *a,
                 const struct attachment_ops *ops, struct error *err);
/* The lessee's answer to stop: it does not use the lease any more. */
void attachment_stopped(struct attachment *a);
/* The lessee gives it back by itself: cut, then gone. Of a max_attaches == 1 lease this ends the
 * lease too, as does the ends_after'th release. */
void attachment_release(struct attachment *a);
/* The same for a requested lease, whose memory becomes the owner's. False: the lease had ended
 * before. */
bool attachment_hand_over(struct attachment *a);
/* The lessee never had it, or is lost: cut, then gone; the lease lives on. */
void attachment_drop(struct attachment *a);

/* The lease ends ttl_ns from now instead; its children not later. */
int lease_renew(struct lease *l, uint64_t ttl_ns, struct error *err);
/* A lessee asks for renewal by the lease's ttl. RDMAD_E_PERM unless it is RDMAD_LEASE_RENEWABLE.
 * Does nothing while more than half of the ttl is left. */
int lease_keep(struct lease *l, struct error *err);
/* done (may be NULL): nobody can reach the memory any more. A second call only waits for the end
 * that the first began; if LEASE_WAITERS_MAX wait already, done gets RDMAD_E_BUSY at once. The
 * owner's client gets RDMAD_EV_LEASE_ENDED before any done runs, whatever the reason; a client that
 * does not read gets it when it reads again. */
void lease_end(struct lease *l, int reason, plane_done *done, void *arg);
/* Ends all leases of a session; done when the last has ended. */
void leases_end_session(struct session *s, int reason, plane_done *done, void *arg);

#endif
