/* SPDX-License-Identifier: MIT */
/*
 * probe.h - USDT probes: where a tracer may look on while ops and leases go their way.
 *
 * A probe is one nop in the program and a note in its file, which says where the nop is and in
 * which registers its arguments are. A tracer that is asked to look (bpftrace, perf, SystemTap) has
 * the kernel put a breakpoint in place of the nop; until then nothing is called, tested or stored.
 * What is left is the nop, and the few moves that bring arguments which were not at hand: each
 * probe of an op's way takes what its place has anyway. tests/probes.py counts both.
 *
 * This is the only list. Each probe is one function below, of its name after "probe_", with its
 * arguments; rdmad-probes(7) and the notes in the program have to say the same, or a test fails.
 * Names and arguments are an interface for scripts: new arguments come last. There are six at most,
 * for bpftrace reads no more.
 *
 * Arguments are what rdmactl shows, too: numbers of sessions, leases and peers, codes of
 * rdmad-errors(7), sizes. No probe has a lease's secret, a key of a fabric, or a byte of payload.
 * "op", "part" and "lessee" tell those of one daemon apart while they are there; later others have
 * the same numbers. A session or peer that there is none of is 0.
 *
 * Without <sys/sdt.h>, or with the CMake option RDMAD_PROBES off, all of this is nothing.
 */
#ifndef RDMAD_BASE_PROBE_H
#define RDMAD_BASE_PROBE_H

#include <stdint.h>

#if defined(RDMAD_PROBES) && defined(__has_include)
#if __has_include(<sys/sdt.h>)
#define SDT_USE_VARIADIC 1
#ifdef __clang__
#define STAP_SDT_ARG_CONSTRAINT nr /* of "nor" it would take "o", and store each on the stack */
#endif
#include <sys/sdt.h>
#define SDT(...) STAP_PROBEV(rdmad, __VA_ARGS__)
#endif
#endif
#ifndef SDT
/* The arguments are named, so that they are used; nothing else comes of it. */
static inline void probe_none(int first, ...) {
    (void)first;
}
#define SDT(name, ...)                  \
    do {                                \
        if (0)                          \
            probe_none(0, __VA_ARGS__); \
    } while (0)
#endif

/* A call would cost more than the nop, and compilers take the note for a long function. */
#define SDT_INLINE static inline __attribute__((always_inline)) void

/* ---- an op, on its session's worker -------------------------------------------------------- */

/* An sqe was copied out of its ring. order is its number among those of the ring, 0 for a RECV,
 * NOTIFIED or CANCEL, which are not numbered. */
SDT_INLINE probe_op_taken(uint64_t session, uint64_t ring, uint64_t order, uint64_t user_data,
                          uint8_t opcode, uint64_t bytes) {
    SDT(op_taken, session, ring, order, user_data, opcode, bytes);
}

/* It was refused before it could become an op; a completion with that error follows. lease is 0
 * where the refusal is not about one. */
SDT_INLINE probe_op_refused(uint64_t session, uint64_t ring, uint64_t order, uint8_t opcode,
                            int error, uint64_t lease) {
    SDT(op_refused, session, ring, order, opcode, error, lease);
}

/* It is valid and has become an op. handle is what the sqe names as its lease, see handle_usable,
 * or its channel. Of an op of the daemon's own ring, order and handle are 0. */
SDT_INLINE probe_op_admitted(const void *op, uint64_t session, uint64_t ring, uint64_t order,
                             uint8_t opcode, uint64_t handle) {
    SDT(op_admitted, op, session, ring, order, opcode, handle);
}

/* It waits for its turn on its route. A small op on a route where nobody waits does not; one of
 * several parts may, again and again. */
SDT_INLINE probe_op_queued(const void *op, uint64_t bytes_posted) {
    SDT(op_queued, op, bytes_posted);
}

/* It waits for its route to be there: the link is lost, or the lease has no key for it yet. */
SDT_INLINE probe_op_held(const void *op, uint64_t lease) {
    SDT(op_held, op, lease);
}

/* A part of it was taken by a fabric: "local", "tcp" or "verbs". lease is the number that its owner
 * gave it, 0 for a message. op is 0 for what channels tell each other besides messages. */
SDT_INLINE probe_op_posted(const void *op, const void *part, const char *fabric, uint64_t lease,
                           uint8_t opcode, uint64_t bytes) {
    SDT(op_posted, op, part, fabric, lease, opcode, bytes);
}

/* The fabric gave that part back and does not touch its memory again. op is 0 for a SEND's. */
SDT_INLINE probe_op_part_done(const void *op, const void *part, uint64_t bytes, int error,
                              uint8_t outcome) {
    SDT(op_part_done, op, part, bytes, error, outcome);
}

/* It is over, and nothing is at its buffer. bytes is what the completion says: those done, or the
 * value that a CAS or FADD found. */
SDT_INLINE probe_op_ended(const void *op, uint64_t session, uint64_t user_data, uint8_t opcode,
                          uint64_t bytes, int error) {
    SDT(op_ended, op, session, user_data, opcode, bytes, error);
}

/* A completion is written to the ring: of an op, a refusal, a batch, a NOP or a CANCEL. */
SDT_INLINE probe_op_told(uint64_t session, uint64_t ring, uint64_t user_data, uint64_t bytes,
                         int error, uint8_t outcome) {
    SDT(op_told, session, ring, user_data, bytes, error, outcome);
}

/* All that was taken from the ring and told on it so far is there for its client to see; taken and
 * told count from the ring's start and wrap at 2^32. woken: the client slept, and was woken. */
SDT_INLINE probe_ring_flushed(uint64_t session, uint64_t ring, uint32_t taken, uint32_t told,
                              int woken) {
    SDT(ring_flushed, session, ring, taken, told, woken);
}

/* ---- a lease at its owner's daemon --------------------------------------------------------- */

/* There is a new lease. */
SDT_INLINE probe_lease_granted(uint64_t lease, uint64_t session, uint32_t uid, uint64_t bytes,
                               uint32_t rights, uint64_t ttl_ns) {
    SDT(lease_granted, lease, session, uid, bytes, rights, ttl_ns);
}

/* A lessee has it: a session of this daemon, or one of a peer. attached counts it already. */
SDT_INLINE probe_lease_attached(uint64_t lease, const void *lessee, uint64_t session, uint64_t peer,
                                uint32_t attached) {
    SDT(lease_attached, lease, lessee, session, peer, attached);
}

/* Its memory is about to be read or written for a lessee: over tcp once a
 * request, on this machine once a slice of one. bytes are the request's. What a device does over
 * verbs no program sees. */
SDT_INLINE probe_access_begun(uint64_t lease, uint64_t peer, uint8_t opcode, uint64_t bytes) {
    SDT(access_begun, lease, peer, opcode, bytes);
}

/* The same was refused: the time is up, the right is missing, or it is out of range. lease is 0
 * where what was named is none. */
SDT_INLINE probe_access_refused(uint64_t lease, uint64_t peer, uint8_t opcode, uint64_t bytes,
                                int error) {
    SDT(access_refused, lease, peer, opcode, bytes, error);
}

/* It ends ttl_ns from now instead. */
SDT_INLINE probe_lease_renewed(uint64_t lease, uint64_t ttl_ns) {
    SDT(lease_renewed, lease, ttl_ns);
}

/* It begins to end; error says why: expired, revoked, revoked by an administrator, released,
 * orphaned. attached lessees have to let go. */
SDT_INLINE probe_lease_ending(uint64_t lease, int error, uint32_t attached) {
    SDT(lease_ending, lease, error, attached);
}

/* A lessee is asked to stop, or gives it back. */
SDT_INLINE probe_lessee_stopping(uint64_t lease, const void *lessee, uint64_t peer, int error) {
    SDT(lessee_stopping, lease, lessee, peer, error);
}

/* The memory is being taken out of its reach, whether it has stopped or not. */
SDT_INLINE probe_lessee_cut(uint64_t lease, const void *lessee, uint64_t peer, int error) {
    SDT(lessee_cut, lease, lessee, peer, error);
}

/* It cannot reach the memory any more, by whatever it tries. */
SDT_INLINE probe_lessee_gone(uint64_t lease, const void *lessee, uint64_t peer, int error) {
    SDT(lessee_gone, lease, lessee, peer, error);
}

/* Nobody reaches the memory; the lease has let go of it. attached_total is how many lessees it had;
 * the bytes are those that were counted here. */
SDT_INLINE probe_lease_ended(uint64_t lease, int error, uint32_t attached_total,
                             uint64_t bytes_read, uint64_t bytes_written) {
    SDT(lease_ended, lease, error, attached_total, bytes_read, bytes_written);
}

/* ---- a lease at its lessee's daemon -------------------------------------------------------- */

/* A session's ops can name the lease by that handle. remote: it is a peer's. */
SDT_INLINE probe_handle_usable(uint64_t session, uint64_t handle, uint64_t lease, uint64_t bytes,
                               int remote) {
    SDT(handle_usable, session, handle, lease, bytes, remote);
}

/* The handle takes no more ops; those under way end. */
SDT_INLINE probe_handle_ending(uint64_t session, uint64_t handle, uint64_t lease, int error) {
    SDT(handle_ending, session, handle, lease, error);
}

/* No op of the session is at the lease any more. */
SDT_INLINE probe_handle_drained(uint64_t session, uint64_t handle, uint64_t lease, int error) {
    SDT(handle_drained, session, handle, lease, error);
}

#endif
