/* SPDX-License-Identifier: MIT */
/*
 * channel.c - the doors of channels: there are none yet, so every SEND and RECV is refused.
 */
#include "daemon/op/worker.h"

int channel_take(struct worker *w, struct op_ring *r, const struct rdmad_sqe *sqe,
                 const struct op_request *rq) {
    (void)w;
    (void)r;
    (void)sqe;
    (void)rq;
    return RDMAD_E_HANDLE;
}

void channel_op_cancel(struct worker *w, struct op *op, int status) {
    op_end(w, op,
           &(struct op_result){
               .status = status, .outcome = RDMAD_FAILED_UNTOUCHED, .bytes = op->placed});
}

void channel_part_ended(struct worker *w, struct op_part *part) {
    (void)w;
    (void)part;
}

void channel_received(struct worker *w, uint64_t peer, uint64_t number, const uint8_t *bytes,
                      size_t size) {
    (void)w;
    (void)peer;
    (void)number;
    (void)bytes;
    (void)size;
}

void channels_lane_up(struct worker *w, struct op_lane *lane) {
    (void)w;
    (void)lane;
}

void channels_lane_down(struct worker *w, struct op_lane *lane) {
    (void)w;
    (void)lane;
}

void channels_session_gone(struct worker *w, struct op_session *s) {
    (void)w;
    (void)s;
}

unsigned channels_run(struct worker *w) {
    (void)w;
    return 0;
}
