/* SPDX-License-Identifier: MIT */
/*
 * env.c - what the fabrics call: completions, messages, links, windows, faults.
 */
#include "daemon/op/turn/env.h"
#include "daemon/base/clock.h"
#include "daemon/base/probe.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/landing.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/message.h"
#include "daemon/op/engine/prompt.h"
#include "daemon/op/engine/window.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/lanes.h"

/* Asked before every access to a lease's memory, which must not be made by the time before a stop.
 */
static uint64_t env_now(void *user) {
    struct worker *w = user;
    uint64_t ticks = w->now_ticks ? clock_ticks() : 0;
    if (ticks - w->now_ticks > CLOCK_STALE_TICKS) {
        w->now_ticks = ticks;
        w->now_ns = clock_now_ns();
    }
    return w->now_ns;
}

static void env_complete(void *user, struct fabric_op *fop) {
    struct op_part *part = fop->user;
    probe_op_part_done(part->op, fop, fop->length, fop->status, fop->outcome);
    if (fop->opcode == RDMAD_OP_SEND && (!part->op || part->op->channel))
        channel_part_ended(user, part);
    else
        op_part_ended(user, part);
}

/* A message of an unknown kind is from a later version of us, or from a liar: it is dropped. */
static uint64_t env_received(void *user, uint64_t peer, uint64_t number, const void *bytes,
                             size_t size) {
    const uint8_t *message = bytes;
    if (size > 0 && message[0] == OP_MESSAGE_NOTIFY)
        return notify_received(user, peer, message, size);
    if (size > 0 && message[0] == OP_MESSAGE_CHANNEL)
        channel_received(user, peer, number, message, size);
    return 0;
}

static struct fabric_landing *env_landing(void *user, uint64_t peer, uint64_t number,
                                          const void *head, size_t size, uint64_t length) {
    const uint8_t *message = head;
    if (size == 0 || message[0] != OP_MESSAGE_CHANNEL)
        return NULL;
    return channel_landing(user, peer, number, message, size, length);
}

static void env_landed(void *user, struct fabric_landing *landing, int status) {
    (void)user;
    channel_landed(landing, status);
}

static void tell_memory_fault(struct mail *mail) {
    struct worker *w = container_of(mail, struct worker, fault_mail);
    const void *address = w->fault_address;
    __atomic_store_n(&w->fault_told, false, __ATOMIC_RELEASE);
    if (w->events->memory_fault)
        w->events->memory_fault(w->events->user, address);
}

/* The memory may belong to a session of another worker: then the control thread has to find it. A
 * client may have thousands of pools, and as many ops that fault in one turn. */
static void env_memory_fault(void *user, const void *address) {
    struct worker *w = user;
    const struct range *range = ranges_find(&w->pools, address);
    if (range) {
        worker_violated(w, container_of(range, const struct op_pool, range)->session, RDMAD_E_FAULT,
                        "memory of one of its pools vanished under a transfer");
    } else if (!__atomic_load_n(&w->fault_told, __ATOMIC_ACQUIRE)) {
        w->fault_address = address;
        __atomic_store_n(&w->fault_told, true, __ATOMIC_RELAXED);
        mailbox_post(w->control, &w->fault_mail, tell_memory_fault);
    }
}

static bool env_is_hurried(void *user) {
    return prompt_waits(user);
}

static void tell_peer_throttled(struct mail *mail) {
    struct worker *w = container_of(mail, struct worker, held_mail);
    uint64_t peer = w->held_peer;
    enum plane_rate by = w->held_by;
    __atomic_store_n(&w->held_told, false, __ATOMIC_RELEASE);
    if (w->events->peer_throttled)
        w->events->peer_throttled(w->events->user, peer, by);
}

static bool env_peer_throttled(void *user, uint64_t peer, bool by_bytes) {
    struct worker *w = user;
    if (__atomic_load_n(&w->held_told, __ATOMIC_ACQUIRE))
        return false;
    w->held_peer = peer;
    w->held_by = by_bytes ? PLANE_RATE_BYTES : PLANE_RATE_OPS;
    __atomic_store_n(&w->held_told, true, __ATOMIC_RELAXED);
    mailbox_post(w->control, &w->held_mail, tell_peer_throttled);
    return true;
}

int env_open_fabric(struct worker *w, struct op_fabric *fabric, const struct fabric_ops *ops,
                    struct fabric_host *host, struct error *err) {
    const struct fabric_env env = {
        .user = w,
        .now_ns = env_now,
        .complete = env_complete,
        .link_up = lane_link_up,
        .link_lost = lane_link_lost,
        .window_opened = op_window_opened,
        .window_closed = op_window_closed,
        .received = env_received,
        .landing = env_landing,
        .landed = env_landed,
        .memory_fault = env_memory_fault,
        .is_hurried = env_is_hurried,
        .peer_throttled = env_peer_throttled,
        .settings = &w->settings->fabric_settings,
        .host = host,
    };
    return op_fabric_open(fabric, ops, &env, err);
}
