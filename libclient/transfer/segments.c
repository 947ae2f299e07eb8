/* SPDX-License-Identifier: MIT */
/*
 * segments.c - several ranges as a batch: entries that are all prepared, or none.
 */
#include "libclient/transfer/segments.h"
#include "libclient/base/error.h"
#include "libclient/lease/lease.h"
#include "libclient/ring/reap.h"
#include "libclient/ring/slots.h"
#include "libclient/ring/submit.h"

static int segment_prep(struct rdmad_ring *r, enum rdmad_opcode opcode, struct rdmad_lease *lease,
                        const struct rdmad_segment *segment, bool last, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(r);
    int rc;

    if (opcode == RDMAD_OP_READ)
        rc = rdmad_prep_read(r, sqe, lease, segment->offset, segment->buffer, segment->length,
                             user_data);
    else
        rc = rdmad_prep_write(r, sqe, lease, segment->offset, segment->buffer, segment->length,
                              user_data);
    rdmad_sqe_set_flags(sqe, last ? 0 : RDMAD_SQE_MORE);
    return rc;
}

int rdmad_ring_batch(struct rdmad_ring *r, enum rdmad_opcode opcode, struct rdmad_lease *lease,
                     const struct rdmad_segment *segments, unsigned count, uint64_t user_data) {
    unsigned limit = r->entries < RDMAD_BATCH_MAX ? r->entries : RDMAD_BATCH_MAX;

    if (count == 0 || count > limit)
        return rdmad_fail(r->session, RDMAD_E_INVAL,
                          "%u segments: on a ring of %u entries one transfer has 1 to %u of them",
                          count, r->entries, limit);
    if (r->free_slots < count && r->silents)
        rdmad_ring_gather(r);
    if (r->free_slots < count)
        return RDMAD_E_AGAIN;
    for (unsigned i = 0; i < count; i++) {
        int rc = segment_prep(r, opcode, lease, &segments[i], i + 1 == count, user_data);
        if (rc) {
            rdmad_ring_take_back(r, i + 1);
            return rc;
        }
    }
    return 0;
}

int rdmad_ring_writev(rdmad_ring *r, rdmad_lease *lease, const struct rdmad_segment *segments,
                      unsigned count, uint64_t user_data) {
    RDMAD_LIVE(r, RING);
    RDMAD_LIVE(lease, LEASE);
    return rdmad_ring_batch(r, RDMAD_OP_WRITE, lease, segments, count, user_data);
}

int rdmad_ring_readv(rdmad_ring *r, rdmad_lease *lease, const struct rdmad_segment *segments,
                     unsigned count, uint64_t user_data) {
    RDMAD_LIVE(r, RING);
    RDMAD_LIVE(lease, LEASE);
    return rdmad_ring_batch(r, RDMAD_OP_READ, lease, segments, count, user_data);
}
