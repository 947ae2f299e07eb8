/* SPDX-License-Identifier: MIT */
/*
 * leave.c - a session that goes on with the next daemon: its channels part, and then it leaves.
 */
#include "daemon/op/channel/rest.h"
#include "daemon/op/seam/call.h"

/* ---- part -------------------------------------------------------------------------------- */

static bool all_parted(struct call *c) {
    const struct slots *channels = &c->session->op.channels;
    uint32_t cursor = 0;
    uint64_t handle;
    for (const struct op_channel *ch; (ch = slots_next(channels, &cursor, &handle));)
        if (!op_channel_parted(ch))
            return false;
    return true;
}

static void apply_part(struct call *c) {
    uint32_t cursor = 0;
    uint64_t handle;
    c->session->op.parting = true;
    for (struct op_channel *ch; (ch = slots_next(&c->session->op.channels, &cursor, &handle));)
        op_channel_part(ch);
    call_wait(c, all_parted);
}

void plane_session_part(struct plane_session *s, plane_done *done, void *arg) {
    call_post(call_prepare_of(s, CALL_SESSION, apply_part, done, arg));
}

/* ---- leave ------------------------------------------------------------------------------- */

static bool all_rested(struct call *c) {
    const struct slots *channels = &c->session->op.channels;
    uint32_t cursor = 0;
    uint64_t handle;
    for (struct op_channel *ch; (ch = slots_next(channels, &cursor, &handle));)
        if (!op_channel_rested(ch))
            return false;
    c->session->op.left = true;
    return true;
}

/* Within the daemon a message is on the way until the other end has said that it is not; whoever
 * has not parted by now is not known to have. */
static void apply_leave(struct call *c) {
    uint32_t cursor = 0;
    uint64_t handle;
    bool known = true;
    for (struct op_channel *ch; (ch = slots_next(&c->session->op.channels, &cursor, &handle));) {
        if (ch->remote && !channel_weak(ch))
            op_channel_rest(ch);
        else
            known &= op_channel_parted(ch);
    }
    if (known)
        call_wait(c, all_rested);
    else
        call_finish(c);
}

void plane_session_leave(struct plane_session *s, plane_done *done, void *arg) {
    call_post(call_prepare_of(s, CALL_SESSION, apply_leave, done, arg));
}

bool plane_session_has_left(const struct plane_session *s) {
    return s->op.left;
}
