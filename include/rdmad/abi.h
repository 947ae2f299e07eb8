/* SPDX-License-Identifier: MIT */
/*
 * abi.h - the numbers both sides of the socket agree on.
 *
 * Error codes, op outcomes, opcodes, rights, the two ring entries and the limits. Values are only
 * ever appended; a change of meaning needs a new RDMAD_ABI_VERSION. No functions live here, and
 * every struct has a fixed size without padding, asserted below.
 */
#ifndef RDMAD_ABI_H
#define RDMAD_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RDMAD_STATIC_ASSERT static_assert
#else
#define RDMAD_STATIC_ASSERT _Static_assert
#endif

#define RDMAD_ABI_VERSION 1

/*
 * Every call of librdmad, every reply of the daemon and every completion carries one of these.
 * Functions return 0 or one of the negative values. X(name, value, text).
 */
#define RDMAD_ERRORS(X)                                                              \
    X(RDMAD_OK, 0, "success")                                                        \
    X(RDMAD_E_INVAL, -1, "invalid argument")                                         \
    X(RDMAD_E_VERSION, -2, "protocol version not supported")                         \
    X(RDMAD_E_TYPE, -3, "unknown message type")                                      \
    X(RDMAD_E_LENGTH, -4, "message has the wrong length")                            \
    X(RDMAD_E_FDS, -5, "wrong number or kind of file descriptors")                   \
    X(RDMAD_E_RESERVED, -6, "reserved field or unknown flag is not zero")            \
    X(RDMAD_E_OPCODE, -7, "unknown opcode")                                          \
    X(RDMAD_E_HANDLE, -8, "no such object")                                          \
    X(RDMAD_E_RANGE, -9, "range lies outside the object")                            \
    X(RDMAD_E_RIGHTS, -10, "the lease does not grant this right")                    \
    X(RDMAD_E_SCOPE, -11, "the lease is not for this lessee")                        \
    X(RDMAD_E_URI, -12, "malformed lease URI")                                       \
    X(RDMAD_E_NAME, -13, "malformed name")                                           \
    X(RDMAD_E_EXISTS, -14, "name is taken")                                          \
    X(RDMAD_E_NO_LEASE, -15, "no such lease")                                        \
    X(RDMAD_E_LEASE_EXPIRED, -16, "lease expired")                                   \
    X(RDMAD_E_LEASE_REVOKED, -17, "lease revoked by its owner")                      \
    X(RDMAD_E_LEASE_RELEASED, -18, "lease released")                                 \
    X(RDMAD_E_LEASE_ORPHANED, -19, "the lease's owner is gone")                      \
    X(RDMAD_E_LIMIT, -20, "limit reached")                                           \
    X(RDMAD_E_NOMEM, -21, "out of memory")                                           \
    X(RDMAD_E_AGAIN, -22, "queue is full, try again")                                \
    X(RDMAD_E_TIMEOUT, -23, "deadline passed")                                       \
    X(RDMAD_E_CANCELED, -24, "canceled")                                             \
    X(RDMAD_E_UNREACHABLE, -25, "peer cannot be reached")                            \
    X(RDMAD_E_PEER_LOST, -26, "connection to the peer was lost")                     \
    X(RDMAD_E_DAEMON_LOST, -27, "connection to rdmad was lost")                      \
    X(RDMAD_E_NO_DAEMON, -28, "rdmad is not running or its socket cannot be opened") \
    X(RDMAD_E_FAULT, -29, "memory vanished under the transfer")                      \
    X(RDMAD_E_PERM, -30, "not permitted")                                            \
    X(RDMAD_E_BUSY, -31, "object is in use")                                         \
    X(RDMAD_E_SYSTEM, -32, "system call failed")                                     \
    X(RDMAD_E_RING, -33, "ring protocol violated")                                   \
    X(RDMAD_E_FABRIC, -34, "no fabric in common with the peer")                      \
    X(RDMAD_E_CONFIG, -35, "configuration error")                                    \
    X(RDMAD_E_SHUTDOWN, -36, "rdmad is stopping")                                    \
    X(RDMAD_E_PROTOCOL, -37, "malformed message")                                    \
    X(RDMAD_E_INTERNAL, -38, "internal error")

enum rdmad_error {
#define RDMAD_X(name, value, text) name = (value),
    RDMAD_ERRORS(RDMAD_X)
#undef RDMAD_X
};

/* What became of an op. The target of a WRITE is the lease's memory, of a READ the own buffer. */
enum rdmad_outcome {
    RDMAD_DONE = 0,             /* complete; a WRITE is placed in the target's memory */
    RDMAD_FAILED_UNTOUCHED = 1, /* failed, no byte of the target changed */
    RDMAD_FAILED_PARTIAL = 2,   /* failed, the target may be partly written */
    RDMAD_UNKNOWN = 3,          /* daemon or peer lost: done or not, nobody can tell */
};

enum rdmad_opcode {
    RDMAD_OP_NOP = 0,   /* a round trip to the daemon and back */
    RDMAD_OP_READ = 1,  /* lease -> pool */
    RDMAD_OP_WRITE = 2, /* pool -> lease */
    RDMAD_OP_COUNT
};

/* Rights of a lease. */
#define RDMAD_RIGHT_READ 1u
#define RDMAD_RIGHT_WRITE 2u
#define RDMAD_RIGHTS_ALL (RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE)

/* Who may attach to a lease. */
enum rdmad_scope {
    RDMAD_SCOPE_ANY = 0,  /* whoever holds the URI */
    RDMAD_SCOPE_PEER = 1, /* clients of the daemon at one address */
    RDMAD_SCOPE_UID = 2,  /* one uid on the owner's own node */
};

/* Flags of a pool. */
#define RDMAD_POOL_HUGETLB 1u /* back by 2 MiB pages; fails where none are reserved */
#define RDMAD_POOL_FLAGS RDMAD_POOL_HUGETLB

/*
 * Submission entry, written by the client, copied once by the daemon, validated in the copy.
 * pool and lease are the handles the daemon gave out; NOP ignores no field: all must be 0 but
 * timeout_ns and user_data.
 */
struct rdmad_sqe {
    uint8_t opcode; /* enum rdmad_opcode */
    uint8_t flags;  /* must be 0 */
    uint16_t reserved0;
    uint32_t reserved1;
    uint64_t pool;
    uint64_t pool_offset;
    uint64_t length;
    uint64_t lease;
    uint64_t lease_offset;
    uint64_t timeout_ns; /* from when the daemon takes the entry; 0: the daemon's default */
    uint64_t user_data;  /* comes back in the completion */
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_sqe) == 64, "sqe is one cache line");

/* Completion entry, written by the daemon. */
struct rdmad_cqe {
    uint64_t user_data;
    uint64_t bytes;  /* bytes known to be placed at the target */
    int32_t status;  /* enum rdmad_error */
    uint8_t outcome; /* enum rdmad_outcome */
    uint8_t opcode;  /* of the sqe; 0xff when it could not be read */
    uint16_t reserved0;
    uint64_t lease_id; /* the owner's lease number when status concerns a lease, else 0 */
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_cqe) == 32, "two cqes a cache line");

/* Limits that are part of the interface; the daemon's configuration may be stricter. */
#define RDMAD_RING_MIN_ENTRIES 2u
#define RDMAD_RING_MAX_ENTRIES 4096u
#define RDMAD_NAME_MAX                                                         \
    63u /* published names, session names: [A-Za-z0-9._-], not starting with . \
         */
#define RDMAD_URI_MAX 511u
#define RDMAD_TEXT_MAX 255u /* an error in words */
#define RDMAD_KEY_BYTES 16u /* a lease's secret */

#endif
