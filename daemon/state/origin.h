/* SPDX-License-Identifier: MIT */
/*
 * origin.h - which session a session was first, over the lives of the daemon, and the proof of it.
 *
 * The happy path: a client that has nothing yet asks for a proof (origin_offer). When the daemon
 * has ended and started again, the client shows it in a new session (origin_resume), which has the
 * same origin from then on. Proofs are keyed hashes by a key that is made of the node's secret, so
 * a later life of the daemon can check what nobody has kept. The secret of each lease that such a
 * session grants is made from its origin and the lease's number in the same way (origin_lease_key):
 * so the lease's own secret is the proof of who granted it, and a lessee, who knows that secret, is
 * not that session.
 *
 * A proof is its user's and its tenant's, by that one's name: whatever other sockets there are in
 * the next life, the session is back on the account of the same tenant. It says nothing of what the
 * session had; what a client hands back is judged like anything else that a client brings.
 */
#ifndef RDMAD_STATE_ORIGIN_H
#define RDMAD_STATE_ORIGIN_H

#include "daemon/state/session.h"
#include <rdmad/wire.h>

/* RDMAD_E_UNSUPPORTED where clients' memory cannot be guarded, or the user has had memory that
 * vanished; RDMAD_E_PROTOCOL when the session has an origin or an object already. */
int origin_offer(struct session *s, struct rdmad_resume_proof *out, struct error *err);
/* RDMAD_E_PERM, in the same words whatever is wrong with the proof; RDMAD_E_BUSY while another
 * session of that origin is not gone yet; and as origin_offer. */
int origin_resume(struct session *s, const struct rdmad_resume_proof *proof, struct error *err);

/* Whether the session has one: its pools can be handed to a later life. */
static inline bool origin_is_set(const struct session *s) {
    return s->origin.life != 0;
}
/* RDMAD_E_PROTOCOL: what it asks for ("a pool") is for sessions that were resumed. */
int origin_check_resumed(const struct session *s, const char *what, struct error *err);

/* Whether an object of that kind ("pool") can have had that number. A session has its lowest free
 * number, so it has had none beyond as many as it may have at once, and more of those that have
 * ended. So the tables grow no further for it than for anybody. */
int origin_check_number(const struct session *s, uint64_t number, enum quota_resource what,
                        uint32_t more, const char *words, struct error *err);

/* Memory of the session has vanished: its user's later ones are sealed against that. */
void origin_memory_vanished(struct session *s);

/* The secret of a lease of that number that the session grants. It has an origin. */
void origin_lease_key(const struct session *s, uint64_t lease, uint8_t out[RDMAD_KEY_BYTES]);
/* The proof that a lease was made of one of the session's, and on which terms. It has an origin. */
void origin_part_proof(const struct session *s, const struct rdmad_part *part,
                       uint8_t out[RDMAD_RESUME_SECRET_BYTES]);
/* In constant time. */
bool origin_same_key(const uint8_t *a, const uint8_t *b, size_t bytes);

#endif
