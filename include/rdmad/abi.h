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

/* What is spoken on the client socket. A librdmad and a daemon use the highest version that both
 * speak (wire.h); the oldest that this release speaks moves up only with a major release. */
#define RDMAD_ABI_VERSION 3
#define RDMAD_ABI_OLDEST 2
#define RDMAD_ABI_PARTS 3    /* the first that knows RDMAD_EV_LEASE_PART */
#define RDMAD_ABI_LIFELINE 3 /* the first that has RDMAD_MSG_LIFELINE */
#define RDMAD_ABI_WAITED 3   /* the first that has RDMAD_EV_CHANNEL_WAY, and waited_ms */

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
    X(RDMAD_E_FABRIC, -34, "no fabric in common, or the RDMA device failed")         \
    X(RDMAD_E_CONFIG, -35, "configuration error")                                    \
    X(RDMAD_E_SHUTDOWN, -36, "rdmad is stopping")                                    \
    X(RDMAD_E_PROTOCOL, -37, "malformed message")                                    \
    X(RDMAD_E_INTERNAL, -38, "internal error")                                       \
    X(RDMAD_E_CLOSED, -39, "the channel is closed")                                  \
    X(RDMAD_E_TOO_SMALL, -40, "the receive is smaller than its message")             \
    X(RDMAD_E_ALIGN, -41, "atomics need 8 bytes aligned to 8")                       \
    X(RDMAD_E_NO_SERVICE, -42, "no such service")                                    \
    X(RDMAD_E_REFUSED, -43, "refused by the service")                                \
    X(RDMAD_E_NO_WAITER, -44, "nobody takes the lease's notifications")              \
    X(RDMAD_E_BUDGET, -45, "the service has no budget for that")                     \
    X(RDMAD_E_DELEGATE, -46, "the lease may not be handed on")                       \
    X(RDMAD_E_UNSUPPORTED, -47, "not supported by this fabric or machine")           \
    X(RDMAD_E_LEASE_ADMIN, -48, "lease revoked by an administrator")

/*
 * What to do about each. rdmad-errors(7) is made of this.
 *
 * RDMAD_E_INVAL: An argument is wrong by itself, and will be again: the sentence says which. A
 * struct without its INIT is one.
 *
 * RDMAD_E_VERSION: The library, or a peer, and the daemon have no version of their protocol in
 * common: upgrade the older one. `rdmactl doctor` says both.
 *
 * RDMAD_E_TYPE: The daemon does not know what it was asked: the library is newer than it. Upgrade
 * the daemon.
 *
 * RDMAD_E_LENGTH: A client sent a message of another length than its type has. Programs that use
 * librdmad do not see it; one that speaks to the socket by itself has it wrong.
 *
 * RDMAD_E_FDS: A descriptor is no memfd that can be imported, or its seals are not as
 * rdmad_pool_import wants them; or a client sent more or other descriptors than its message has.
 *
 * RDMAD_E_RESERVED: A field or flag that means nothing yet is set: of a struct without its INIT,
 * or of a program that was built for a newer version.
 *
 * RDMAD_E_OPCODE: A ring entry has no known opcode; one that was reserved and whose prep failed is
 * such. Prepare it again or give it back.
 *
 * RDMAD_E_HANDLE: The object is not there any more, or never was: a pool, channel or service that
 * was closed, somebody who does not wait any more, an op that is over.
 *
 * RDMAD_E_RANGE: Offset and length reach beyond the lease, or the buffer lies in no pool of the
 * session: memory for transfers comes from rdmad_alloc or rdmad_pool_base.
 *
 * RDMAD_E_RIGHTS: Ask the lease's owner for one with that right (terms.rights).
 *
 * RDMAD_E_SCOPE: The owner granted it to another user or daemon (terms.scope). One that is scoped
 * to a node by name needs that node's certificate.
 *
 * RDMAD_E_URI: It has to read rdmad://HOST:PORT/lease/ID?key=KEY, rdmad://HOST:PORT/NAME or
 * rdmad:///NAME. Quote it in a shell.
 *
 * RDMAD_E_NAME: A name has 1 to 63 letters, digits and _ . -, does not start with a dot and is not
 * "lease"; the sentence says what is wrong with this one.
 *
 * RDMAD_E_EXISTS: Somebody has published that name, or a directory to fetch to is there: choose
 * another, or end the old one (`rdmactl lease show`, `rdmactl service show`).
 *
 * RDMAD_E_NO_LEASE: The owner's daemon knows none of that number, key or name. Perhaps it ended
 * long ago, or the daemon was started anew: ask the owner for the URI once more.
 *
 * RDMAD_E_LEASE_EXPIRED: Its time is over. Grant for longer (ttl_ms), renew it as its owner, or
 * keep it as a lessee (rdmad_lease_keep).
 *
 * RDMAD_E_LEASE_REVOKED: Its owner took it back on purpose. Ask the owner for another.
 *
 * RDMAD_E_LEASE_RELEASED: It was for one lessee, who is done, or this session gave it back.
 *
 * RDMAD_E_LEASE_ORPHANED: The owner's program ended. The lease comes back by no way; wait for the
 * owner to grant anew.
 *
 * RDMAD_E_LIMIT: The sentence names the limit, what is used and what was asked. Free something, or
 * raise it: limits.* in rdmad.json(5), or `rdmactl limit set`.
 *
 * RDMAD_E_NOMEM: Memory is out, here or in the daemon, or a cgroup's limit is reached. Make pools
 * smaller, or give more.
 *
 * RDMAD_E_AGAIN: Nothing is there, or no entry is free: take completions first, or wait. It is an
 * answer, no failure.
 *
 * RDMAD_E_TIMEOUT: What was waited for did not come in time; with a sentence that tells of the
 * daemon, the daemon hangs: `rdmactl doctor`.
 *
 * RDMAD_E_CANCELED: The op was canceled, one before it in its chain failed, or the program at the
 * other end is gone.
 *
 * RDMAD_E_UNREACHABLE: The owner's daemon cannot be reached at that address: is it running, does
 * it listen there (`rdmactl status`), does a firewall drop it? `rdmactl peer add HOST:PORT` tries.
 *
 * RDMAD_E_PEER_LOST: The connection to the other daemon broke; it is made anew by itself. Of an op:
 * cqe->outcome, or rdmad_last_outcome, says what is known of it; the handle stays, and the op may
 * be tried again. Attach again only when the lease has ended (RDMAD_EVENT_LEASE_ENDED).
 *
 * RDMAD_E_DAEMON_LOST: Of an op: the daemon that had taken it ended, and its outcome says what is
 * known; the session goes on with the next daemon. Of any other call, or with
 * RDMAD_EVENT_SESSION_LOST: the session is lost; open a new one. systemctl status rdmad, or its
 * log, says why the daemon ended.
 *
 * RDMAD_E_NO_DAEMON: Start rdmad (systemctl start rdmad), or name its runtime directory
 * (RDMAD_RUNTIME_DIR, options.runtime_dir, -d). If it runs, its socket may not be opened by this
 * user: the sentence says so.
 *
 * RDMAD_E_FAULT: Pages of a pool vanished: its program punched a hole or truncated the memory, or
 * the machine is out of it. The session is at fault, not the transfer.
 *
 * RDMAD_E_PERM: The policy does not allow it, or it is for the owner alone. `rdmactl policy show`
 * says which line of which file decides.
 *
 * RDMAD_E_BUSY: An op, a lock or a lease holds it; the sentence names the holder. Wait for that to
 * end, then do it again. Or another daemon does not read just now: ask it again a little later.
 *
 * RDMAD_E_SYSTEM: A system call failed; the sentence has its name and why (a full disk, no
 * descriptors, no permission).
 *
 * RDMAD_E_RING: A program wrote into its ring what the protocol does not allow, and its session
 * was ended. Programs that use librdmad do not see it, unless memory was overwritten.
 *
 * RDMAD_E_FABRIC: The two daemons have no fabric in common. One insists on RDMA (--require-rdma,
 * "fabric": "verbs"), the other has none: `rdmactl status` on both. Of an op, or of a lease that
 * cannot be attached: an RDMA device failed at it; the log of that daemon says how.
 *
 * RDMAD_E_CONFIG: The settings are wrong; file, line and column are in the sentence. `rdmactl
 * config check FILE` looks before a start.
 *
 * RDMAD_E_SHUTDOWN: The daemon is stopping and begins nothing new. Wait for the next one: a
 * session that can be resumed goes on there.
 *
 * RDMAD_E_PROTOCOL: What came is not what may come: of a peer or a client that is broken or
 * hostile, or bytes that are damaged. Look at the log of both daemons.
 *
 * RDMAD_E_INTERNAL: A fault of rdmad. Report it, with the sentence and the log.
 *
 * RDMAD_E_CLOSED: The other end closed the channel, or this one did. What was received stays good;
 * connect again. Of rdmad_accept and rdmad_next_incoming: another thread closed the service.
 *
 * RDMAD_E_TOO_SMALL: The message is longer than the receive that it met. Post larger ones; the
 * channel goes on.
 *
 * RDMAD_E_ALIGN: Give an offset that is a multiple of 8.
 *
 * RDMAD_E_NO_SERVICE: Nobody listens on that name there. `rdmactl service show` on that machine
 * lists those who do.
 *
 * RDMAD_E_REFUSED: The service's program rejected the connection; the sentence is its own.
 *
 * RDMAD_E_NO_WAITER: The lease's owner takes notifications too slowly, or cannot (a lease that was
 * requested). Wait, and write again.
 *
 * RDMAD_E_BUDGET: The service has lent what it had. Ask for less, or later.
 *
 * RDMAD_E_DELEGATE: It was granted without RDMAD_RIGHT_DELEGATE, or cannot have it.
 *
 * RDMAD_E_UNSUPPORTED: This kernel, device or daemon cannot; the sentence says what is missing.
 * Other ways are slower, not impossible.
 *
 * RDMAD_E_LEASE_ADMIN: An administrator revoked it (`rdmactl lease revoke`): `rdmactl events` and
 * the audit log say who.
 */
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
    RDMAD_OP_NOP = 0,      /* a round trip to the daemon and back */
    RDMAD_OP_READ = 1,     /* lease -> pool */
    RDMAD_OP_WRITE = 2,    /* pool -> lease */
    RDMAD_OP_CAS = 3,      /* 8 bytes of the lease: if they are compare, they become swap */
    RDMAD_OP_FADD = 4,     /* 8 bytes of the lease: swap is added */
    RDMAD_OP_NOTIFY = 5,   /* a WRITE (of no bytes, too), and then imm for the lease's owner */
    RDMAD_OP_SEND = 6,     /* pool -> the receive that the channel's other end posted first */
    RDMAD_OP_RECV = 7,     /* the channel's next message -> pool */
    RDMAD_OP_NOTIFIED = 8, /* takes the next notification of a lease granted here */
    RDMAD_OP_CANCEL = 9,   /* of an op of the same ring, by its user_data */
    RDMAD_OP_COUNT
};

/* Flags of an sqe. */
#define RDMAD_SQE_FENCE 1u  /* starts when all before it on its ring ended, but RECV, NOTIFIED */
#define RDMAD_SQE_SILENT 2u /* no completion if it is done; one only if it is not */
/* A batch: with all entries up to the first without this flag it has one completion, which comes
 * when the last of them has ended, with the user_data of the last, the status of the first that
 * failed, and the sum of bytes. Of READ, WRITE, NOTIFY and SEND; at most RDMAD_BATCH_MAX. */
#define RDMAD_SQE_MORE 4u
#define RDMAD_SQE_IMM 8u    /* SEND: imm goes with the message */
#define RDMAD_SQE_LEASE 16u /* SEND: the message is a lease's URI */
/* A chain: the ring's next transfer (of the kinds that FENCE waits for), whenever it is submitted,
 * and also if another daemon gets it, starts when this one is done. If this one is not, that one
 * ends with RDMAD_E_CANCELED, untouched, and so on along the chain, until an entry without this
 * flag, or a NOP: who has seen a chain break goes on behind one. Of a batch its last entry's to
 * have: then the batch is one link. */
#define RDMAD_SQE_LINK 32u
#define RDMAD_SQE_FLAGS 63u
#define RDMAD_BATCH_MAX 1024u

/* Flags of a cqe. */
#define RDMAD_CQE_IMM 1u   /* imm is valid: RECV, NOTIFIED */
#define RDMAD_CQE_LEASE 2u /* RECV: the message is a lease's URI */

/* What a channel promises. A machine that cannot give the weaker kinds gives RELIABLE, and says so.
 */
enum rdmad_channel_kind {
    RDMAD_CHANNEL_RELIABLE = 0, /* every message, once, in order (RC) */
    RDMAD_CHANNEL_DATAGRAM = 1, /* messages of one packet at most; may be lost, or late (UD) */
    RDMAD_CHANNEL_UNACKED = 2,  /* in order, may be lost, any size (UC) */
};

/* Rights of a lease. */
#define RDMAD_RIGHT_READ 1u
#define RDMAD_RIGHT_WRITE 2u
#define RDMAD_RIGHT_ATOMIC 4u   /* CAS and FADD */
#define RDMAD_RIGHT_DELEGATE 8u /* a lessee may make narrower leases of it */
#define RDMAD_RIGHTS_ALL \
    (RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE | RDMAD_RIGHT_ATOMIC | RDMAD_RIGHT_DELEGATE)
#define RDMAD_RIGHTS_DEFAULT (RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE)

/* Flags of a lease. */
#define RDMAD_LEASE_KEEP_ALIVE 1u /* the daemon renews it as long as its owner's session lives */
#define RDMAD_LEASE_RENEWABLE 2u  /* lessees may ask for renewal (rdmad_lease_keep) */
#define RDMAD_LEASE_FLAGS 3u

/* Who may attach to a lease. */
enum rdmad_scope {
    RDMAD_SCOPE_ANY = 0,  /* whoever holds the URI */
    RDMAD_SCOPE_PEER = 1, /* clients of one other daemon, by its address or proven name */
    RDMAD_SCOPE_UID = 2,  /* one uid on the owner's own node */
};

/* Flags of a pool. */
#define RDMAD_POOL_HUGETLB 1u /* back by 2 MiB pages; fails where none are reserved */
#define RDMAD_POOL_FLAGS RDMAD_POOL_HUGETLB

/*
 * Submission entry, written by the client, copied once by the daemon, validated in the copy. Fields
 * that an opcode does not use must be 0. pool and lease are the handles the daemon gave out.
 *
 *             pool, pool_offset   length     lease           lease_offset   imm
 *   NOP
 *   READ      of the buffer       bytes      handle          yes
 *   WRITE     of the buffer       bytes      handle          yes
 *   NOTIFY    of the buffer       bytes      handle          yes            yes
 *   CAS       compare, swap       8          handle          yes
 *   FADD      0, what is added    8          handle          yes
 *   SEND      of the buffer       bytes      channel                        with RDMAD_SQE_IMM
 *   RECV      of the buffer       bytes      channel
 *   NOTIFIED                                 owner's number
 *   CANCEL                                   user_data of what is to end
 *
 * A NOTIFY of no bytes may leave pool and pool_offset 0.
 */
struct rdmad_sqe {
    uint8_t opcode; /* enum rdmad_opcode */
    uint8_t flags;  /* RDMAD_SQE_* */
    uint16_t reserved0;
    uint32_t imm;
    union {
        uint64_t pool;
        uint64_t compare;
    };
    union {
        uint64_t pool_offset;
        uint64_t swap;
    };
    uint64_t length;
    uint64_t lease; /* or channel */
    uint64_t lease_offset;
    /* From when the daemon takes the entry. 0: the daemon's default; RECV and NOTIFIED: none. */
    uint64_t timeout_ns;
    uint64_t user_data; /* comes back in the completion */
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_sqe) == 64, "sqe is one cache line");

/* Completion entry, written by the daemon. */
struct rdmad_cqe {
    uint64_t user_data;
    union {
        uint64_t bytes; /* known to be placed at the target; RECV and NOTIFIED: of the message */
        uint64_t value; /* CAS, FADD: what was there before */
    };
    int32_t status;  /* enum rdmad_error */
    uint8_t outcome; /* enum rdmad_outcome */
    uint8_t opcode;  /* of the sqe; 0xff when it could not be read */
    uint16_t flags;  /* RDMAD_CQE_* */
    union {
        uint64_t lease_id; /* the owner's lease number when status concerns a lease; with LIMIT of
                              a RECV or NOTIFIED enum rdmad_limit_of; else 0 */
        uint64_t imm;      /* with RDMAD_CQE_IMM */
    };
};
RDMAD_STATIC_ASSERT(sizeof(struct rdmad_cqe) == 32, "two cqes a cache line");

/* Whose limit a RECV or NOTIFIED would exceed. */
enum rdmad_limit_of { RDMAD_LIMIT_SESSION = 1, RDMAD_LIMIT_UID, RDMAD_LIMIT_DAEMON };

/* Limits that are part of the interface; the daemon's configuration may be stricter. */
#define RDMAD_RING_MIN_ENTRIES 2u
#define RDMAD_RING_MAX_ENTRIES 4096u
#define RDMAD_NAME_MAX                                                         \
    63u /* published names, session names: [A-Za-z0-9._-], not starting with . \
         */
#define RDMAD_URI_MAX 511u
#define RDMAD_TEXT_MAX 255u /* an error in words */
#define RDMAD_KEY_BYTES 16u /* a lease's secret */
/* Notifications of one lessee that its lease's owner has not taken yet; further ones are refused
 * with RDMAD_E_NO_WAITER before anything is written, as is every one of a requested lease. */
#define RDMAD_NOTIFY_DEPTH 64u

#endif
