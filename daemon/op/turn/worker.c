/* SPDX-License-Identifier: MIT */
/*
 * worker.c - one turn: mails, sqes, posts, fabrics, deadlines, and then everything is published.
 *
 * The order makes a small local op whole within one turn: taken, posted, copied, answered. All that
 * a turn publishes on a ring goes out together at its end.
 */
#include "daemon/op/engine/worker.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/knocks.h"
#include "daemon/op/engine/message.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/route.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/turn/kinds.h"
#include "daemon/op/turn/loop.h"
#include "daemon/op/turn/turn.h"
#include <string.h>
#include <sys/random.h>

/* ---- what the fabrics call --------------------------------------------------------------- */

static uint64_t env_now(void *user) {
    const struct worker *w = user;
    return w->now_ns;
}

static void env_complete(void *user, struct fabric_op *fop) {
    struct op_part *part = fop->user;
    if (fop->opcode == RDMAD_OP_SEND && (!part->op || part->op->channel))
        channel_part_ended(user, part);
    else
        op_part_ended(user, part);
}

/* What belongs to nobody is of a later version of us, or of a liar: it is dropped. */
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

static struct op_session *owner_of(struct worker *w, const void *address) {
    list_for_each (pos, &w->sessions) {
        struct op_session *s = list_entry(pos, struct op_session, node);
        uint32_t cursor = 0;
        uint64_t handle;
        for (const struct op_pool *p; (p = slots_next(&s->pools, &cursor, &handle));)
            if ((uintptr_t)address - (uintptr_t)p->base < p->bytes)
                return s;
    }
    return NULL;
}

/* The memory may belong to a session of another worker: then the control thread has to find it. */
static void env_memory_fault(void *user, const void *address) {
    struct worker *w = user;
    struct op_session *s = owner_of(w, address);
    if (s) {
        worker_violated(w, s, RDMAD_E_FAULT,
                        "memory of one of its pools vanished under a transfer");
    } else if (!__atomic_load_n(&w->fault_told, __ATOMIC_ACQUIRE)) {
        w->fault_address = address;
        __atomic_store_n(&w->fault_told, true, __ATOMIC_RELAXED);
        mailbox_post(w->control, &w->fault_mail, event_memory_fault);
    }
}

static int open_seat(struct worker *w, struct seat *seat, const struct fabric_ops *ops,
                     struct fabric_host *host, struct error *err) {
    const struct fabric_env env = {
        .user = w,
        .now_ns = env_now,
        .complete = env_complete,
        .link_up = lane_up,
        .link_lost = lane_lost,
        .window_opened = window_opened,
        .window_closed = window_closed,
        .received = env_received,
        .landing = env_landing,
        .landed = env_landed,
        .memory_fault = env_memory_fault,
        .settings = &w->settings->fabric_settings,
        .host = host,
    };
    return seat_open(seat, ops, &env, err);
}

/* ---- life -------------------------------------------------------------------------------- */

static void init_tables(struct worker *w) {
    list_init(&w->sessions);
    list_init(&w->hot);
    list_init(&w->parked);
    list_init(&w->deaf);
    list_init(&w->dirty);
    list_init(&w->runnable);
    list_init(&w->violated);
    list_init(&w->waiting);
    slab_init(&w->ops, sizeof(struct op), w->control);
    slab_init(&w->parts, sizeof(struct op_part), w->control);
    slab_init(&w->batches, sizeof(struct op_batch), w->control);
    list_init(&w->fences);
}

static int open_local(struct worker *w, struct error *err) {
    int rc = open_seat(w, &w->local, &fabric_local, NULL, err);
    if (rc < 0)
        return rc;
    static const struct fabric_blob no_offer;
    struct fabric_blob hello;
    route_init(&w->local_route, &w->local);
    struct fabric_link **link = &w->local_route.link;
    rc = w->local.ops->link_new(w->local.fabric, NULL, link, &hello, err);
    if (rc == 0)
        rc = w->local.ops->link_open(*link, "", &no_offer, err);
    w->local_route.up = rc == 0;
    return rc;
}

static int open_fabrics(struct worker *w, struct fabric_host *const *hosts, struct error *err) {
    int rc = open_local(w, err);
    for (unsigned i = 0; rc == 0 && i < plane_settings_fabrics(w->settings); i++) {
        rc = open_seat(w, &w->links[i], w->settings->fabrics[i], hosts[i], err);
        w->nlinks = i + 1;
    }
    return rc;
}

int worker_init(struct worker *w, unsigned index, const struct plane_settings *settings,
                const struct plane_events *events, struct mailbox *control,
                struct fabric_host *const *hosts, uint64_t now_ns, struct error *err) {
    *w = (struct worker){.index = index,
                         .settings = settings,
                         .events = events,
                         .control = control,
                         .now_ns = now_ns,
                         .kinds = op_kinds,
                         .pong = true};
    w->epoll_fd = w->timer_fd = -1;
    if (getrandom(&w->secret, sizeof(w->secret), 0) != sizeof(w->secret))
        w->secret = now_ns; /* CANCELs may then be made to take longer, and are charged for it */
    init_tables(w);
    if (channels_init(w) < 0) {
        w->mailbox.fd = -1;
        return error_set(err, RDMAD_E_NOMEM, "worker %u: out of memory for channels", index);
    }
    deadlines_init(&w->deadlines, now_ns);
    if (mailbox_init(&w->mailbox) < 0) {
        w->mailbox.fd = -1;
        return error_errno(err, RDMAD_E_SYSTEM, "worker %u: cannot create its mailbox", index);
    }
    int rc = open_fabrics(w, hosts, err);
    return rc < 0 ? rc : loop_init(w, err);
}

void worker_fini(struct worker *w) {
    loop_fini(w);
    for (unsigned i = 0; i < w->nlinks; i++)
        seat_close(&w->links[i]);
    if (w->local_route.link)
        w->local.ops->link_close(w->local_route.link);
    seat_close(&w->local);
    channels_fini(w);
    slab_fini(&w->ops);
    slab_fini(&w->parts);
    slab_fini(&w->batches);
    ids_fini(&w->grants);
    ids_fini(&w->notifiers);
    if (w->mailbox.fd >= 0)
        mailbox_fini(&w->mailbox);
}

/* ---- a turn ------------------------------------------------------------------------------ */

/* Not where it was found out: lists were being walked there. */
static void shut_violated(struct worker *w) {
    for (struct list *pos; (pos = list_pop(&w->violated));) {
        struct op_session *s = list_entry(pos, struct op_session, violated_node);
        table_shut_out(s);
        mailbox_post(w->control, &s->violated_mail, event_session_violated);
    }
}

static void fire(void *user, struct deadline *due) {
    op_due(user, container_of(due, struct op, due));
}

unsigned worker_turn(struct worker *w, uint64_t now_ns) {
    unsigned work = 0;
    w->now_ns = now_ns;
    w->turns++;
    if (mailbox_pending(&w->mailbox))
        work += mailbox_drain(&w->mailbox);
    knocks_run(w);
    work += rings_serve(w);
    if (!list_empty(&w->fences))
        fences_run(w);
    work += channels_run(w);
    work += submit_run(w);
    work += routes_poll(w, &w->local);
    for (unsigned i = 0; i < w->nlinks; i++)
        work += routes_poll(w, &w->links[i]);
    work += deadlines_run(&w->deadlines, now_ns, fire, w);
    if (!list_empty(&w->waiting))
        calls_settle(w);
    if (!list_empty(&w->violated))
        shut_violated(w);
    work += w->ends_left;
    w->ends_left = false;
    rings_flush(w);
    return work;
}

uint64_t worker_next_ns(struct worker *w) {
    uint64_t next = deadlines_next(&w->deadlines);
    if (w->local.wake_ns < next)
        next = w->local.wake_ns;
    for (unsigned i = 0; i < w->nlinks; i++)
        if (w->links[i].wake_ns < next)
            next = w->links[i].wake_ns;
    uint64_t deaf_ns = knocks_next_ns(w);
    return deaf_ns < next ? deaf_ns : next;
}
