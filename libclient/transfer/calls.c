/* SPDX-License-Identifier: MIT */
/*
 * calls.c - the blocking calls: each says what it wants, blocking.c does it.
 */
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/channel/channel.h"
#include "libclient/lease/lease.h"
#include "libclient/transfer/blocking.h"
#include <string.h>

static void *unconst(const void *p) {
    return (void *)(uintptr_t)p; /* ops that only read it say so by their opcode */
}

int rdmad_write(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {.opcode = RDMAD_OP_WRITE,
                                    .lease = lease,
                                    .offset = offset,
                                    .buffer = unconst(buffer),
                                    .length = length};
    return rdmad_blocking_do(lease->session, &want, NULL);
}

int rdmad_read(rdmad_lease *lease, uint64_t offset, void *buffer, size_t length) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {.opcode = RDMAD_OP_READ,
                                    .lease = lease,
                                    .offset = offset,
                                    .buffer = buffer,
                                    .length = length};
    return rdmad_blocking_do(lease->session, &want, NULL);
}

/* More segments than a batch may have are several batches, one after the other. */
static int call_segments(enum rdmad_opcode opcode, rdmad_lease *lease,
                         const struct rdmad_segment *segments, unsigned count) {
    struct rdmad_session *s = lease->session;
    struct rdmad_want want = {.opcode = (uint8_t)opcode, .lease = lease};
    unsigned most, done;
    int rc;

    rdmad_blocking_untouched();
    if (rdmad_is_inherited(s))
        return rdmad_fail_lost(s);
    if (count == 0)
        return rdmad_fail(s, RDMAD_E_INVAL, "a transfer of no segments");
    rc = rdmad_blocking_segments(s, &most);
    for (done = 0; !rc && done < count; done += want.count) {
        want.segments = segments + done;
        want.count = count - done < most ? count - done : most;
        rc = rdmad_blocking_do(s, &want, NULL);
        if (rc && done)
            rdmad_blocking_part_done();
    }
    return rc;
}

int rdmad_writev(rdmad_lease *lease, const struct rdmad_segment *segments, unsigned count) {
    RDMAD_LIVE(lease, LEASE);
    return call_segments(RDMAD_OP_WRITE, lease, segments, count);
}

int rdmad_readv(rdmad_lease *lease, const struct rdmad_segment *segments, unsigned count) {
    RDMAD_LIVE(lease, LEASE);
    return call_segments(RDMAD_OP_READ, lease, segments, count);
}

/* ---- atomics ------------------------------------------------------------------------------- */

static int call_atomic(const struct rdmad_want *want, uint64_t *old) {
    struct rdmad_cqe cqe;
    int rc = rdmad_blocking_do(want->lease->session, want, &cqe);
    if (!rc && old)
        *old = cqe.value;
    return rc;
}

int rdmad_cas(rdmad_lease *lease, uint64_t offset, uint64_t expected, uint64_t desired,
              uint64_t *old) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {.opcode = RDMAD_OP_CAS,
                                    .lease = lease,
                                    .offset = offset,
                                    .compare = expected,
                                    .swap = desired};

    return call_atomic(&want, old);
}

int rdmad_fetch_add(rdmad_lease *lease, uint64_t offset, uint64_t add, uint64_t *old) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {
        .opcode = RDMAD_OP_FADD, .lease = lease, .offset = offset, .swap = add};
    return call_atomic(&want, old);
}

/* ---- notifications ------------------------------------------------------------------------- */

int rdmad_write_notify(rdmad_lease *lease, uint64_t offset, const void *buffer, size_t length,
                       uint32_t imm) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {.opcode = RDMAD_OP_NOTIFY,
                                    .imm = imm,
                                    .lease = lease,
                                    .offset = offset,
                                    .buffer = unconst(buffer),
                                    .length = length};

    return rdmad_blocking_do(lease->session, &want, NULL);
}

int rdmad_wait_notified(rdmad_lease *lease, int timeout_ms, uint32_t *imm, uint64_t *bytes) {
    RDMAD_LIVE(lease, LEASE);
    const struct rdmad_want want = {.opcode = RDMAD_OP_NOTIFIED,
                                    .lease = lease,
                                    .timeout_ns = rdmad_blocking_timeout(timeout_ms)};
    struct rdmad_cqe cqe;
    int rc = rdmad_check_wait(lease->session, timeout_ms);
    rdmad_blocking_untouched();
    if (!rc)
        rc = rdmad_blocking_do(lease->session, &want, &cqe);
    if (rc)
        return rc;
    if (imm)
        *imm = (uint32_t)cqe.imm;
    if (bytes)
        *bytes = cqe.bytes;
    return 0;
}

/* ---- messages ------------------------------------------------------------------------------ */

int rdmad_send(rdmad_channel *channel, const void *buffer, size_t length) {
    RDMAD_LIVE(channel, CHANNEL);
    const struct rdmad_want want = {.opcode = RDMAD_OP_SEND,
                                    .channel = channel->handle,
                                    .buffer = unconst(buffer),
                                    .length = length};
    return rdmad_blocking_do(channel->session, &want, NULL);
}

int rdmad_send_imm(rdmad_channel *channel, const void *buffer, size_t length, uint32_t imm) {
    RDMAD_LIVE(channel, CHANNEL);
    const struct rdmad_want want = {.opcode = RDMAD_OP_SEND,
                                    .flags = RDMAD_SQE_IMM,
                                    .imm = imm,
                                    .channel = channel->handle,
                                    .buffer = unconst(buffer),
                                    .length = length};
    return rdmad_blocking_do(channel->session, &want, NULL);
}

int rdmad_recv(rdmad_channel *channel, void *buffer, size_t size, int timeout_ms,
               struct rdmad_message *out) {
    RDMAD_LIVE(channel, CHANNEL);
    struct rdmad_session *s = channel->session; /* the channel may be closed from here on */
    const struct rdmad_want want = {.opcode = RDMAD_OP_RECV,
                                    .channel = channel->handle,
                                    .buffer = buffer,
                                    .length = size,
                                    .timeout_ns = rdmad_blocking_timeout(timeout_ms)};
    struct rdmad_message full = {.size = 0};
    struct rdmad_cqe cqe;
    int rc = 0;

    rdmad_blocking_untouched();
    if (out)
        rc = rdmad_sized_check(s, &rdmad_sized_message, out);
    if (!rc)
        rc = rdmad_check_wait(s, timeout_ms);
    if (rc)
        return rc; /* before a message is taken */
    rc = rdmad_blocking_do(s, &want, &cqe);
    if (rc == 0 || rc == RDMAD_E_TOO_SMALL)
        full.length = cqe.bytes;
    if (rc == 0) {
        full.flags = cqe.flags;
        if (cqe.flags & RDMAD_CQE_IMM)
            full.imm = (uint32_t)cqe.imm;
    }
    if (out)
        rdmad_sized_fill(&rdmad_sized_message, out, &full);
    return rc;
}
