/* SPDX-License-Identifier: MIT */
/*
 * transfer.h - what rdmad.h's objects are for: transfers and messages, blocking and by rings.
 * Included by rdmad.h, which is the one header that a program includes.
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

/* ---- who may touch a buffer ---------------------------------------------------------------- */

/*
 * From its preparation until its completion is taken (by peek, wait, dispatch or cancel; of a
 * batch, the batch's) an op holds its buffer, to the byte: an op that reads it (WRITE, NOTIFY,
 * SEND) as one of many readers, one that fills it (READ, RECV) as its only writer. An op that would
 * conflict with another or with a lock is refused when it is prepared, with RDMAD_E_BUSY and a
 * sentence that names the holder; its entry can be prepared again. An op of no bytes holds nothing.
 * rdmad_free of a buffer that is held takes effect when its last holder gives it up.
 *
 * A program can hold buffers too: read (others may read) or write (nobody else may, its own ops
 * included). timeout_ms 0 tries, -1 waits for ever; RDMAD_E_TIMEOUT when it was 0 or passed:
 * rdmad_last_error names the holder. RDMAD_E_RANGE: not all of it lies in the pool. Every lock is
 * ended by the unlock with the same range, by any thread; to unlock what is not locked aborts with
 * a message. To wait for an op, some thread must take its completion. Nobody has precedence: who
 * waits may be overtaken.
 * Errors: RDMAD_E_NOMEM: no memory for the lock's record. RDMAD_E_LIMIT: the pool has as many
 * holds as it can count. RDMAD_E_INVAL: timeout_ms is less than -1. */
RDMAD_API int rdmad_buf_lock_read(rdmad_pool *pool, const void *memory, size_t length,
                                  int timeout_ms);
RDMAD_API int rdmad_buf_lock_write(rdmad_pool *pool, void *memory, size_t length, int timeout_ms);
RDMAD_API void rdmad_buf_unlock_read(rdmad_pool *pool, const void *memory, size_t length);
RDMAD_API void rdmad_buf_unlock_write(rdmad_pool *pool, void *memory, size_t length);

/*
 * Guard mode, with RDMAD_GUARD=1 in the environment when the session is opened: every buffer of
 * rdmad_alloc is on pages of its own, filled with a pattern when it is handed out and when it is
 * given back; a CPU access that conflicts with an op in flight (a write into a buffer that is being
 * read, any access to one that is being filled), any access to a buffer that was given back, an op
 * on one, and giving it back twice end the program at once with a message that names buffer and op.
 * A write beyond a buffer's end is found when it is given back; rdmad_free of a buffer under a
 * lease is told on standard error. Slow and hungry: for tests.
 *
 * It works by page protection and a handler of SIGSEGV, which passes other faults on to the one
 * that was there before. System calls on protected memory fail with EFAULT instead. Memory that the
 * program lays out itself is watched only in pages that an op covers as a whole. Imported pools of
 * huge pages are not watched, nor are mappings that the program has made of imported memory; pools
 * that rdmad makes have small pages in this mode.
 */

/* ---- blocking transfers -------------------------------------------------------------------- */

/*
 * Copies length bytes from buffer (in a pool of the lease's session) to the lease at offset, or the
 * other way. Returns when it is over: 0, the bytes are placed; else what went wrong, and
 * rdmad_last_outcome() tells what became of the target.
 * Errors: RDMAD_E_RANGE: the range lies outside the lease, or the buffer in no pool.
 * RDMAD_E_RIGHTS: the lease does not grant that. RDMAD_E_LEASE_*: it has ended. RDMAD_E_BUSY: the
 * buffer is held. RDMAD_E_TIMEOUT: not done in the daemon's default time. RDMAD_E_PEER_LOST,
 * RDMAD_E_DAEMON_LOST: on the way. RDMAD_E_FAULT: memory vanished under it. RDMAD_E_LIMIT: as many
 * ops as may be in flight. RDMAD_E_NO_LEASE: the lease is not back yet after a restart; try again.
 * RDMAD_E_FABRIC: an RDMA device failed at it. RDMAD_E_INVAL: granted, not attached. */
RDMAD_API int rdmad_write(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length);
RDMAD_API int rdmad_read(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length);
/* The same for memory that is in no pool: copied by way of a pool of the library's own (1.1 MiB of
 * the session's, made by the first such call), in pieces of 64 KiB. When one fails, those before it
 * were done: rdmad_last_outcome() is RDMAD_FAILED_PARTIAL then.
 * Errors: as rdmad_write. RDMAD_E_LIMIT, RDMAD_E_NOMEM: the library's pool could not be made. */
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
/* One that fails is rdmad_last_outcome RDMAD_FAILED_PARTIAL, unless no segment was touched.
 * Errors: as rdmad_write. RDMAD_E_INVAL: no segments. */
RDMAD_API int rdmad_writev(rdmad_lease *lease, const struct rdmad_segment *segments,
                           unsigned count);
RDMAD_API int rdmad_readv(rdmad_lease *lease, const struct rdmad_segment *segments, unsigned count);

/* 8 bytes of the lease at offset (aligned to 8, RDMAD_E_ALIGN): set to desired if they are
 * expected; *old (may be NULL) is what was there. Needs RDMAD_RIGHT_ATOMIC. Atomic with every other
 * such op on the lease; with the owner's CPU where the fabric's atomics are (docs/ARCHITECTURE.md,
 * "Atomics").
 * Errors: as rdmad_write. */
RDMAD_API int rdmad_cas(rdmad_lease *lease, uint64_t offset, uint64_t expected, uint64_t desired,
                        uint64_t *old);
RDMAD_API int rdmad_fetch_add(rdmad_lease *lease, uint64_t offset, uint64_t add, uint64_t *old);

/* Writes, and then tells the lease's owner imm: whoever takes the notification sees the bytes.
 * RDMAD_E_NO_WAITER, and nothing is written: RDMAD_NOTIFY_DEPTH of this attach's are under way or
 * untaken, or the lease was requested of a service, whose owner is told by rdmad_lease_hand_over.
 * One behind a refused one may be let in: where that is a hole, link them (RDMAD_SQE_LINK).
 * Errors: as rdmad_write. */
RDMAD_API int rdmad_write_notify(rdmad_lease *lease, uint64_t offset, const void *buffer,
                                 size_t length, uint32_t imm);
/* Owner: takes the next notification of a lease that it granted, or of what was delegated of it;
 * bytes (may be NULL): as many were written with it. timeout_ms as in rdmad_next_event.
 * Errors: RDMAD_E_TIMEOUT: none came. RDMAD_E_LEASE_*: it has ended. RDMAD_E_INVAL: the lease was
 * attached, not granted. */
RDMAD_API int rdmad_wait_notified(rdmad_lease *lease, int timeout_ms, uint32_t *imm,
                                  uint64_t *bytes);

/* enum rdmad_outcome of the calling thread's last blocking transfer.
 * RDMAD_DONE before the first. Each thread has one of its own. */
RDMAD_API int rdmad_last_outcome(void);

/* ---- messages ------------------------------------------------------------------------------ */

/*
 * Messages. A message goes straight into the receive that the other end posted first; until there
 * is one it waits with its sender, so no memory but the posted receives is ever needed. It is done
 * when it is in that receive. A message longer than its receive ends both with RDMAD_E_TOO_SMALL,
 * and the channel goes on.
 *
 * On a channel that came to be RDMAD_CHANNEL_DATAGRAM or _UNACKED a send waits for nobody: it is
 * done when it has left. What arrives is whole, and arrives once; what does not is counted as lost
 * at the receiver's end (rdmad_channel_get_audit) when the next message comes or the sender closes.
 * Only the receiver hears that its receive was too small.
 */
struct rdmad_message {
    size_t size;
    size_t length;
    uint32_t imm;
    uint32_t flags; /* RDMAD_CQE_* */
};
#define RDMAD_MESSAGE_INIT \
    { sizeof(struct rdmad_message), 0, 0, 0 }
/* Blocking, for the daemon's default time at most. buffer lies in a pool, also for no bytes.
 * Returns when the message is in the other end's receive.
 * Errors: RDMAD_E_RANGE: the buffer lies in no pool, or the message is longer than max_message.
 * RDMAD_E_BUSY: the buffer is held. RDMAD_E_TIMEOUT: no receive was posted in time; nothing was
 * sent. RDMAD_E_TOO_SMALL: the receive was. RDMAD_E_CLOSED, RDMAD_E_CANCELED: the channel is.
 * RDMAD_E_PEER_LOST, RDMAD_E_DAEMON_LOST: rdmad_last_outcome tells what is known. */
RDMAD_API int rdmad_send(rdmad_channel *channel, const void *buffer, size_t length);
RDMAD_API int rdmad_send_imm(rdmad_channel *channel, const void *buffer, size_t length,
                             uint32_t imm);
/* timeout_ms as in rdmad_next_event; out may be NULL; after RDMAD_E_TOO_SMALL it tells the length
 * that was sent. When the time is over the receive is taken
 * back: a message that came meanwhile is received, one that had begun to come goes to the next
 * receive whole. As messages wait with their sender until a receive is posted, a time of 0 finds
 * hardly any from another node: to look for messages now and then, keep an RDMAD_OP_RECV on a ring.
 * Errors: RDMAD_E_TIMEOUT: nothing came. RDMAD_E_TOO_SMALL: buffer is. RDMAD_E_RANGE: it lies in
 * no pool. RDMAD_E_BUSY: it is held. RDMAD_E_CLOSED, RDMAD_E_CANCELED: the channel is.
 * RDMAD_E_LIMIT: as many receives wait as may. */
RDMAD_API int rdmad_recv(rdmad_channel *channel, void *buffer, size_t size, int timeout_ms,
                         struct rdmad_message *out);
/* Sends a lease's URI, for the other end to attach to: of rdmad_lease_uri or rdmad_lease_delegate.
 * Errors: RDMAD_E_URI: that is no URI of a lease; else as rdmad_send. */
RDMAD_API int rdmad_send_lease(rdmad_channel *channel, const char *uri);
/* Receives one and attaches. RDMAD_E_PROTOCOL when the next message is none; it is lost then. At
 * most 128 leases are sent and received at one time in a session (RDMAD_E_LIMIT).
 * On success *out is the caller's to rdmad_lease_free.
 * Errors: as rdmad_recv and rdmad_lease_attach, but for RDMAD_E_TIMEOUT: nothing came.
 * RDMAD_E_UNREACHABLE, too, when a lease came and its owner's daemon did not answer in time: it is
 * lost unless it is sent again. */
RDMAD_API int rdmad_recv_lease(rdmad_channel *channel, int timeout_ms, rdmad_lease **out);

/* ---- rings: asynchronous transfers --------------------------------------------------------- */

/* A ring for up to entries ops in flight (rounded up to a power of two).
 * On success *out is the caller's to rdmad_ring_destroy.
 * Errors: RDMAD_E_INVAL: no entries, or more than RDMAD_RING_MAX_ENTRIES. RDMAD_E_LIMIT: as many
 * rings as there may be. RDMAD_E_NOMEM: its memory cannot be had. RDMAD_E_PERM: it could not be
 * sealed. RDMAD_E_SYSTEM: no descriptor. */
RDMAD_API int rdmad_ring_create(rdmad_session *session, uint32_t entries, rdmad_ring **out);
/* Ops in flight are ended by the daemon first, also when it is lost; their completions are lost.
 * NULL is allowed. */
RDMAD_API void rdmad_ring_destroy(rdmad_ring *ring);

/* A free entry to prepare, or NULL when entries ops are in flight or prepared: reap some first. An
 * op's entry is free again when its completion was seen, each of a batch's with the batch's. */
RDMAD_API struct rdmad_sqe *rdmad_ring_reserve(rdmad_ring *ring);
/* Gives back the entry that was reserved last, prepared or not, as if it had not been reserved. An
 * entry that others were reserved after cannot be given back (RDMAD_E_INVAL): make it a NOP.
 * Errors: RDMAD_E_INVAL, as told. */
RDMAD_API int rdmad_ring_unreserve(rdmad_ring *ring, struct rdmad_sqe *sqe);
/* Fill in a reserved entry; user_data comes back in the completion. A bad range shows there too,
 * the daemon checks it; prep_* return RDMAD_E_RANGE only when buffer is in no pool of the session,
 * RDMAD_E_BUSY when it is held ("who may touch a buffer"), and RDMAD_E_INVAL when lease was
 * granted, not attached, or belongs to another session, or when sqe is no entry that was reserved
 * on ring and not submitted. An entry whose prep failed can be prepared again, or given back; as it
 * is the daemon refuses it (RDMAD_E_OPCODE).
 * Errors: what the daemon finds wrong is the completion's status, as the errors of rdmad_write. */
RDMAD_API int rdmad_prep_write(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                               uint64_t offset, const void *buffer, size_t length,
                               uint64_t user_data);
RDMAD_API int rdmad_prep_read(rdmad_ring *ring, struct rdmad_sqe *sqe, rdmad_lease *lease,
                              uint64_t offset, void *buffer, size_t length, uint64_t user_data);
RDMAD_API int rdmad_prep_nop(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t user_data);
/* Fill in a reserved entry, too; the blocking calls of the same names say what they do. The
 * completion of CAS and FADD has the old value in value; that of RECV and NOTIFIED length in bytes,
 * imm in imm.
 * Errors: as rdmad_prep_write; the completion's are those of the blocking calls. */
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
/* Sets the number that a SEND's message brings along. */
RDMAD_API void rdmad_sqe_set_imm(struct rdmad_sqe *sqe, uint32_t imm);
/* RDMAD_SQE_FENCE, RDMAD_SQE_SILENT, RDMAD_SQE_MORE, RDMAD_SQE_LINK, in addition to what prep_*
 * set. Of a batch the last entry's user_data, callback, silence and link count. A silent op that is
 * done frees its entry and its buffer when the library next looks at the ring's completions, which
 * reserve does, too, when it finds no free entry. */
RDMAD_API void rdmad_sqe_set_flags(struct rdmad_sqe *sqe, unsigned flags);
/* Entries for several ranges with one completion: reserves and prepares count of them, or none
 * (RDMAD_E_AGAIN: not enough are free; RDMAD_E_INVAL: 0, or more than the ring has entries, or than
 * RDMAD_BATCH_MAX).
 * Errors: as rdmad_prep_write. */
RDMAD_API int rdmad_ring_writev(rdmad_ring *ring, rdmad_lease *lease,
                                const struct rdmad_segment *segments, unsigned count,
                                uint64_t user_data);
RDMAD_API int rdmad_ring_readv(rdmad_ring *ring, rdmad_lease *lease,
                               const struct rdmad_segment *segments, unsigned count,
                               uint64_t user_data);
/* The op's own deadline, from when the daemon takes the entry; without it, and with 0, the daemon's
 * default holds, and a receive or a NOTIFIED waits until it is canceled. Of an sqe, timeout_ns has
 * the same more finely. */
RDMAD_API void rdmad_sqe_set_deadline(struct rdmad_sqe *sqe, uint64_t timeout_ms);
/* Publishes all entries reserved so far (each must have been prepared: one that was not completes
 * with RDMAD_E_OPCODE) and wakes the daemon if it sleeps. Returns how many, or RDMAD_E_DAEMON_LOST;
 * then they complete with it, too.
 * Errors: RDMAD_E_DAEMON_LOST: the session is lost, or has been away in the midst of a batch. */
RDMAD_API int rdmad_ring_submit(rdmad_ring *ring);

/*
 * The next completion without waiting: 0 and *cqe, or RDMAD_E_AGAIN. *cqe is valid, and the same is
 * brought again, until rdmad_ring_seen. When the daemon is lost, ops in flight complete with
 * RDMAD_E_DAEMON_LOST.
 */
RDMAD_API int rdmad_ring_peek(rdmad_ring *ring, const struct rdmad_cqe **cqe);
/* The same, waiting up to timeout_ms (-1: for ever): spins first, then sleeps. RDMAD_E_TIMEOUT, or
 * RDMAD_E_INVAL when nothing is in flight that could complete (here: without a callback), also when
 * the last silent op was done meanwhile, or when the daemon that had the first entries of a batch
 * is gone: receives wait until the rest is submitted. With timeout_ms 0 it is RDMAD_E_TIMEOUT
 * whenever nothing is there. An armed ring must be armed again after it.
 * Errors: RDMAD_E_DAEMON_LOST when the daemon is lost and every completion was taken. */
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
/* arg is the caller's to keep until then.
 * Errors: RDMAD_E_INVAL: sqe is no entry that was reserved on ring and not submitted.
 * RDMAD_E_NOMEM: no memory for callbacks. */
RDMAD_API int rdmad_sqe_set_callback(rdmad_ring *ring, struct rdmad_sqe *sqe,
                                     rdmad_callback *callback, void *arg);
/* Waits up to timeout_ms for a first, then calls what is there, at most max (0: all); what
 * callbacks submit waits for the next dispatch. Returns how many were called, 0 when the time
 * passed, or an error.
 * Errors: as of rdmad_ring_wait. */
RDMAD_API int rdmad_ring_dispatch(rdmad_ring *ring, int timeout_ms, unsigned max);

/*
 * Cancels the op in flight with that user_data (the first prepared of several) and returns when
 * nothing can touch its buffers any more, at most the link's quiesce bound later: 0, and *cqe (may
 * be NULL) tells which of the outcomes it came to (also DONE). Its completion is taken by this
 * call, its callback is not called; those of other ops stay. A batch is canceled whole, by its last
 * entry's user_data. Entries reserved before are submitted first (each must have been prepared).
 * Works on a full ring. If the daemon is lost meanwhile the op ends with it: 0, and cqe->status is
 * RDMAD_E_DAEMON_LOST.
 * Errors: RDMAD_E_HANDLE: no such op is in flight. RDMAD_E_INVAL: a batch's last entry has not been
 * prepared yet. */
RDMAD_API int rdmad_ring_cancel(rdmad_ring *ring, uint64_t user_data, struct rdmad_cqe *cqe);
/* The same without waiting: its own completion says RDMAD_E_HANDLE when there is nothing to cancel;
 * the canceled op completes as always. target is looked for when the entry is submitted.
 * Errors: as rdmad_prep_nop. */
RDMAD_API int rdmad_prep_cancel(rdmad_ring *ring, struct rdmad_sqe *sqe, uint64_t target,
                                uint64_t user_data);

/* Event loops: asks for the session's descriptor (or rdmad_ring_fd) to become readable at the next
 * completion, once. Returns 0 when armed, RDMAD_E_AGAIN when a completion is there already: peek
 * and dispatch, or RDMAD_E_DAEMON_LOST when the daemon is lost and every completion was taken.
 * Returns of rdmad_ring_fd: the descriptor, which stays the ring's.
 * Errors: RDMAD_E_SYSTEM, of rdmad_ring_fd: it could not be made; nothing has changed then. */
RDMAD_API int rdmad_ring_arm(rdmad_ring *ring);
RDMAD_API int rdmad_ring_fd(rdmad_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
