/* SPDX-License-Identifier: MIT */
/*
 * handle.h - leases at their lessee: what a session's sqes name.
 *
 * A handle stands for one attach of one session, to a lease of this daemon (it then embeds the
 * owner's attachment) or to one of a peer (it then knows the peer's record of it).
 *
 *   NEW --> ADDING --> USABLE --> ENDING --> UNTOLD --> TOLD --> free
 *    |         |                    |          |
 *    v         v                    v          v
 *   free    FAILING --> free       free       free
 *
 * NEW is charged and numbered, and whoever sets it up may take its time. ADDING: the data plane is
 * taking it up. USABLE: the client has its number. ENDING: the data plane was told first
 * (plane_lease_end); when it has let go, the other side hears of it, then the client gets its
 * event. FAILING: the same for a handle that the client never had; its attach is answered with the
 * reason. UNTOLD, TOLD: it has ended, and the client will hear of it when it reads again, or has
 * heard; sqes that name it are still answered with why it ended, until the client releases it or
 * has heard of HANDLES_ENDED_MAX later ends. It is charged until the client has heard. What the
 * session gives back by itself is freed without an event.
 *
 * A session that closes has its data plane dropped first, so nothing here asks the plane for
 * anything once session->closing is set; handles_release_session then ends all that is left.
 */
#ifndef RDMAD_STATE_HANDLE_H
#define RDMAD_STATE_HANDLE_H

#include "daemon/state/handle_keep.h"
#include "daemon/state/handle_types.h"

/* Makes a handle that is charged and in session->handles, but not usable yet. */
int handle_new(struct session *s, struct handle **out, struct error *err);
/* The same with the number that it had at an earlier life of the daemon. If it fails, then or
 * later, no other handle gets that place until it is tried again, or given up. */
int handle_new_again(struct session *s, uint64_t number, struct handle **out, struct error *err);
/* Nothing but that. */
void handle_reserve(struct session *s, uint64_t number);
void handle_give_up(struct session *s, uint64_t number); /* harmless for any other number */
/* One that is still NEW. */
void handle_free(struct handle *h);
struct handle *handle_find(struct session *s, uint64_t number); /* one the client knows of */

/* Whether a lease with these rights is reached by a link even from this daemon: where the device's
 * atomics are not atomic with the CPU's, all must be the device's. */
bool handle_goes_by_link(const struct state *st, uint32_t rights);
/* The same for lessees elsewhere: whether CAS and FADD that come over that fabric are atomic with
 * all other atomics on a lease of this daemon. */
bool atomics_may_come_over(const struct state *st, unsigned fabric);
/* Attaches to a lease of this daemon. Returns an error (h is still NEW), or 0: then done is called
 * later, and sqes can use h, or there is an error and h is freed. */
int handle_attach_local(struct handle *h, struct lease *l, plane_done *done, void *arg,
                        struct error *err);
/* Makes h usable for a peer's lease. spec has lane and key. done: sqes can use h, or there is an
 * error, let_go was called and h is freed. */
void handle_attach_remote(struct handle *h, const struct plane_lease_spec *spec,
                          const struct handle_ops *ops, void *peer_record, plane_done *done,
                          void *arg);
/* For a peer's lease. handle_wants_key: whether sqes can use it, now or soon. handle_key: the key
 * by which its lane, which is up again, reaches it; ignored when no sqe can use it. */
bool handle_wants_key(const struct handle *h);
void handle_key(struct handle *h, const struct fabric_blob *key);
/* The peer was lost, is back, and has given the lease again, until deadline_ns; it knows the attach
 * by notify_ref. A key has to follow. */
void handle_returned(struct handle *h, uint64_t deadline_ns, uint64_t notify_ref);
/* The lease was renewed. However often that happens, at most one event of it waits for a client
 * that does not read. */
void handle_renewed(struct handle *h, uint64_t deadline_ns);
/* The lease ended: drain, let go, tell the client. Harmless when it is ending already. */
void handle_end(struct handle *h, int reason, const char *text);
/* The session gives it back. done (may be NULL): no op of it is under way and h is freed. */
void handle_release(struct handle *h, plane_done *done, void *arg);
/* For a requested lease that is USABLE: ends it as a release does, and gives its memory to the
 * service's owner. done: that has happened, and nothing of the session can reach the memory; or an
 * error: the lease ended before, and nothing was handed over. h is freed in either case. */
void handle_hand_over(struct handle *h, plane_done *done, void *arg);
/* For a closing session, after plane_session_drop is done. done: the last handle is freed. */
void handles_release_session(struct session *s, plane_done *done, void *arg);

#endif
