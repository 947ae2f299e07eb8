/* SPDX-License-Identifier: MIT */
/*
 * transfer.h - what rdmad.h's objects are for: transfers, blocking and by rings. Included by
 * rdmad.h, which is the one header that a program includes.
 */
#ifndef RDMAD_TRANSFER_H
#define RDMAD_TRANSFER_H

#include <rdmad/rdmad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what comes before what ---------------------------------------------------------------- */

/*
 * The same on every fabric (local, tcp, verbs), unless it says otherwise; nothing else is promised.
 *
 * Ops. Between two ops there is no order, not on one ring and not to the same bytes: they start,
 * place their bytes and complete in any order, and a small one overtakes a large one. What makes an
 * order: the completion of the first was seen before the second is submitted (a blocking call has
 * returned), or the second has RDMAD_SQE_FENCE. Then, if the first was done, all of it is placed
 * before any of the second is.
 *
 * WRITE. Done means placed in the target's memory: its CPU, and whoever reads it by an op begun
 * after that, see the bytes. Before that, and within one WRITE, they arrive in any order: to see
 * the last byte of a WRITE, or of one flag beside its data, says nothing of the others.
 *
 * NOTIFY. Who has taken the notification sees the bytes of that NOTIFY, and of what was ordered
 * before it as above; not of other WRITEs that were only submitted earlier. Notifications of two
 * NOTIFYs without an order between them come in any order.
 *
 * Batches. The members are ops like others, without an order among them; with FENCE a member waits
 * for those before it. The batch's completion comes when all have ended.
 *
 * Messages. On a channel that is RDMAD_CHANNEL_RELIABLE or _UNACKED they arrive, and receives
 * complete, in the order in which the sends were submitted on one ring; between rings, and with the
 * library's blocking calls, only in an order made as above. Who has received a message sees its
 * bytes, and of WRITEs what was ordered before it.
 *
 * Completions. Each is seen once. Their order tells nothing, but for receives of one channel.
 *
 * Atomic operations are atomic with each other on a lease; with the owner's CPU over local and tcp,
 * and over verbs where the device says so (docs/ARCHITECTURE.md, "Atomics").
 *
 * READ and the owner's CPU, or another op that writes there at the same time: no unit is promised
 * to be read as a whole, on no fabric; not 8 bytes, aligned or not. The bytes are fetched in any
 * order and may be a mix of old and new ones; a version number before and after the data does not
 * show that, a checksum over it does. Where atomics are atomic with the CPU, rdmad_fetch_add of 0
 * reads 8 bytes as a whole. The same holds for the owner's CPU that reads what a WRITE is just
 * placing.
 */

/* ---- blocking transfers -------------------------------------------------------------------- */

/*
 * Copies length bytes from buffer (in a pool of the lease's session) to the lease at offset, or the
 * other way. Returns when it is over: 0, the bytes are placed; else what went wrong, and
 * rdmad_last_outcome() tells what became of the target.
 */
RDMAD_API int rdmad_write(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length);
RDMAD_API int rdmad_read(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length);
/* The same for memory that is in no pool: copied by way of a pool of the library's own (1.1 MiB of
 * the session's, made by the first such call), in pieces of 64 KiB. When one fails, those before it
 * were done: rdmad_last_outcome() is RDMAD_FAILED_PARTIAL then. */
RDMAD_API int rdmad_write_copy(rdmad_lease *lease, uint64_t offset, const void *data,
                               size_t length);
RDMAD_API int rdmad_read_copy(rdmad_lease *lease, uint64_t offset, void *data, size_t length);

/* Several ranges as one transfer; of very many (half the entries of the blocking calls' ring)
 * several transfers, one after the other. */
struct rdmad_segment {
    void *buffer;
    size_t length;
    uint64_t offset; /* in the lease */
};
RDMAD_API int rdmad_writev(rdmad_lease *lease, const struct rdmad_segment *segments,
                           unsigned count);
RDMAD_API int rdmad_readv(rdmad_lease *lease, const struct rdmad_segment *segments, unsigned count);

/* 8 bytes of the lease at offset (aligned to 8, RDMAD_E_ALIGN): set to desired if they are
 * expected; *old (may be NULL) is what was there. Needs RDMAD_RIGHT_ATOMIC. Atomic with every other
 * such op on the lease; with the owner's CPU where the fabric's atomics are (docs/ARCHITECTURE.md,
 * "Atomics").
 */
RDMAD_API int rdmad_cas(rdmad_lease *lease, uint64_t offset, uint64_t expected, uint64_t desired,
                        uint64_t *old);
RDMAD_API int rdmad_fetch_add(rdmad_lease *lease, uint64_t offset, uint64_t add, uint64_t *old);

/* Writes, and then tells the lease's owner imm: whoever takes the notification sees the bytes.
 * RDMAD_E_NO_WAITER, and nothing is written: RDMAD_NOTIFY_DEPTH of this attach's are under way or
 * untaken, or the lease was requested of a service, whose owner is told by rdmad_lease_hand_over.
 * One behind a refused one may be let in: where that is a hole, link them (RDMAD_SQE_LINK). */
RDMAD_API int rdmad_write_notify(rdmad_lease *lease, uint64_t offset, const void *buffer,
                                 size_t length, uint32_t imm);
/* Owner: takes the next notification of a lease that it granted, or of what was delegated of it;
 * bytes (may be NULL): as many were written with it. timeout_ms as in rdmad_next_event. */
RDMAD_API int rdmad_wait_notified(rdmad_lease *lease, int timeout_ms, uint32_t *imm,
                                  uint64_t *bytes);

/* enum rdmad_outcome of the calling thread's last blocking transfer. */
RDMAD_API int rdmad_last_outcome(void);

/* ---- rings: asynchronous transfers --------------------------------------------------------- */

/* A ring for up to entries ops in flight (rounded up to a power of two). */
RDMAD_API int rdmad_ring_create(rdmad_session *session, uint32_t entries, rdmad_ring **out);
/* Ops in flight are ended by the daemon first; their completions are lost. NULL is allowed. */
RDMAD_API void rdmad_ring_destroy(rdmad_ring *ring);

/* A free entry to prepare, or NULL when entries ops are in flight or prepared: reap some first. An
 * op's entry is free again when its completion was seen, each of a batch's with the batch's. */
RDMAD_API struct rdmad_sqe *rdmad_ring_reserve(rdmad_ring *ring);
/* Gives back the entry that was reserved last, prepared or not, as if it had not been reserved. An
 * entry that others were reserved after cannot be given back (RDMAD_E_INVAL): make it a NOP. */
RDMAD_API int rdmad_ring_unreserve(rdmad_ring *ring, struct rdmad_sqe *sqe);
/* Fill in a reserved entry; user_data comes back in the completion. A bad range shows there too,
 * the daemon checks it; prep_* return RDMAD_E_RANGE only when buffer is in no pool of the session,
 * RDMAD_E_BUSY when it is held ("who may touch a buffer"), and RDMAD_E_INVAL when lease was
 * granted, not attached, or belongs to another session, or when sqe is no entry that was reserved
 * on ring and not submitted. An entry whose prep failed can be prepared again, or given back; as it
 * is the daemon refuses it (RDMAD_E_OPCODE). */
RDMAD_API int rdmad_prep_write(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                               uint64_t offset, const void *buffer, size_t length,
                               uint64_t user_data);
RDMAD_API int rdmad_prep_read(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                              uint64_t offset, void *buffer, size_t length, uint64_t user_data);
RDMAD_API int rdmad_prep_nop(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t user_data);
/* The blocking calls of the same names say what these do. The completion of CAS and FADD has the
 * old value in value; that of RECV and NOTIFIED length in bytes, imm in imm. */
RDMAD_API int rdmad_prep_cas(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                             uint64_t offset, uint64_t expected, uint64_t desired,
                             uint64_t user_data);
RDMAD_API int rdmad_prep_fetch_add(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                                   uint64_t offset, uint64_t add, uint64_t user_data);
RDMAD_API int rdmad_prep_write_notify(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                                      uint64_t offset, const void *buffer, size_t length,
                                      uint32_t imm, uint64_t user_data);
RDMAD_API int rdmad_prep_notified(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                                  uint64_t user_data);
RDMAD_API int rdmad_prep_send(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_channel *channel,
                              const void *buffer, size_t length, uint64_t user_data);
RDMAD_API int rdmad_prep_recv(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_channel *channel,
                              void *buffer, size_t size, uint64_t user_data);
RDMAD_API void rdmad_sqe_set_imm(struct rdmad_sqe *sqe, uint32_t imm); /* of a SEND */
/* RDMAD_SQE_FENCE, RDMAD_SQE_SILENT, RDMAD_SQE_MORE, RDMAD_SQE_LINK, in addition to what prep_*
 * set. Of a batch the last entry's user_data, callback, silence and link count. A silent op that is
 * done frees its entry and its buffer when the library next looks at the ring's completions, which
 * reserve does, too, when it finds no free entry. */
RDMAD_API void rdmad_sqe_set_flags(struct rdmad_sqe *sqe, unsigned flags);
/* Entries for several ranges with one completion: reserves and prepares count of them, or none
 * (RDMAD_E_AGAIN: not enough are free; RDMAD_E_INVAL: 0, or more than the ring has entries, or than
 * RDMAD_BATCH_MAX). */
RDMAD_API int rdmad_ring_writev(rdmad_ring *ring, rdmad_lease *lease,
                                const struct rdmad_segment *segments, unsigned count,
                                uint64_t user_data);
RDMAD_API int rdmad_ring_readv(rdmad_ring *ring, rdmad_lease *lease,
                               const struct rdmad_segment *segments, unsigned count,
                               uint64_t user_data);
/* The op's own deadline, from when the daemon takes the entry; without it the daemon's default
 * holds. Of an sqe, timeout_ns has the same more finely. */
RDMAD_API void rdmad_sqe_set_deadline(struct rdmad_sqe *sqe, uint64_t timeout_ms);
/* Publishes all entries reserved so far (each must have been prepared) and wakes the daemon if it
 * sleeps. Returns how many, or RDMAD_E_DAEMON_LOST; then they complete with it, too. */
RDMAD_API int rdmad_ring_submit(rdmad_ring *ring);

/*
 * The next completion without waiting: 0 and *cqe, or RDMAD_E_AGAIN. *cqe is valid, and the same is
 * brought again, until rdmad_ring_seen. When the daemon is lost, ops in flight complete with
 * RDMAD_E_DAEMON_LOST.
 */
RDMAD_API int rdmad_ring_peek(rdmad_ring *ring, const struct rdmad_cqe **cqe);
/* The same, waiting up to timeout_ms (-1: for ever): spins first, then sleeps. RDMAD_E_TIMEOUT, or
 * RDMAD_E_INVAL when nothing is in flight that could complete (here: without a callback), also when
 * the last silent op was done meanwhile. An armed ring must be armed again after it. */
RDMAD_API int rdmad_ring_wait(rdmad_ring *ring, int timeout_ms, const struct rdmad_cqe **cqe);
/* cqe is what peek or wait brought last; any other, also the same once more, aborts with a message.
 */
RDMAD_API void rdmad_ring_seen(rdmad_ring *ring, const struct rdmad_cqe *cqe);
/* What cqe says in full words, with the lease's or channel's number in it; between peek and seen,
 * or in its callback. Writes at most size bytes. */
RDMAD_API void rdmad_ring_explain(const rdmad_ring *ring, const struct rdmad_cqe *cqe, char *buf,
                                  size_t size);

/*
 * Callbacks instead: an entry with one is not seen by peek and wait, only by dispatch, which calls
 * it with its completion (valid until it returns). It may prepare and submit on the same ring, and
 * also destroy the ring or close the session: dispatch calls nothing more then, and returns.
 * Completions without a callback stay for peek, and are not waited for.
 */
typedef void rdmad_callback(void *arg, const struct rdmad_cqe *cqe);
RDMAD_API int rdmad_sqe_set_callback(rdmad_ring *ring, struct rdmad_sqe *sqe,
                                     rdmad_callback *callback, void *arg);
/* Waits up to timeout_ms for a first, then calls what is there, at most max (0: all); what
 * callbacks submit waits for the next dispatch. Returns how many were called, 0 when the time
 * passed, or an error as rdmad_ring_wait. */
RDMAD_API int rdmad_ring_dispatch(rdmad_ring *ring, int timeout_ms, unsigned max);

/*
 * Cancels the op in flight with that user_data (the first prepared of several) and returns when
 * nothing can touch its buffers any more, at most the link's quiesce bound later: 0, and *cqe (may
 * be NULL) tells which of the outcomes it came to (also DONE). Its completion is taken by this
 * call, its callback is not called; those of other ops stay. A batch is canceled whole, by its last
 * entry's user_data. Entries reserved before are submitted first (each must have been prepared).
 * Works on a full ring. RDMAD_E_HANDLE: no such op is in flight; RDMAD_E_INVAL: a batch's last
 * entry has not been prepared yet.
 */
RDMAD_API int rdmad_ring_cancel(rdmad_ring *ring, uint64_t user_data, struct rdmad_cqe *cqe);
/* The same without waiting: its own completion says RDMAD_E_HANDLE when there is nothing to cancel;
 * the canceled op completes as always. target is looked for when the entry is submitted. */
RDMAD_API int rdmad_prep_cancel(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t target,
                                uint64_t user_data);

/* Event loops: asks for the session's descriptor (or rdmad_ring_fd) to become readable at the next
 * completion, once. Returns 0 when armed, RDMAD_E_AGAIN when a completion is there already: peek
 * and dispatch, or RDMAD_E_DAEMON_LOST when the daemon is lost and every completion was taken. */
RDMAD_API int rdmad_ring_arm(rdmad_ring *ring);
RDMAD_API int rdmad_ring_fd(rdmad_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
