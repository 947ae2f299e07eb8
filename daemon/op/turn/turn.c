/* SPDX-License-Identifier: MIT */
/*
 * turn.c - a worker made and ended, and one turn of it: mails, sqes, posts, fabrics, deadlines, and
 * then everything is published.
 *
 * The order makes a small local op whole within one turn: taken, posted, copied, answered. All that
 * a turn publishes on a ring goes out together at its end, but for small local ops beside long
 * ones, which are told before those move.
 */
#include "daemon/op/turn/turn.h"
#include "daemon/op/channel/channel.h"
#include "daemon/op/channel/entry.h"
#include "daemon/op/channel/turn.h"
#include "daemon/op/engine/admit.h"
#include "daemon/op/engine/batch.h"
#include "daemon/op/engine/complete.h"
#include "daemon/op/engine/doorbells.h"
#include "daemon/op/engine/fence.h"
#include "daemon/op/engine/poll.h"
#include "daemon/op/engine/prompt.h"
#include "daemon/op/engine/rings.h"
#include "daemon/op/engine/sooner.h"
#include "daemon/op/engine/submit.h"
#include "daemon/op/engine/tally.h"
#include "daemon/op/engine/trace.h"
#include "daemon/op/engine/untaken.h"
#include "daemon/op/engine/user.h"
#include "daemon/op/engine/watch.h"
#include "daemon/op/notify/grant.h"
#include "daemon/op/seam/call.h"
#include "daemon/op/seam/sessions.h"
#include "daemon/op/turn/env.h"
#include "daemon/op/turn/kinds.h"
#include <assert.h>
#include <sys/random.h>

/* In a turn: slices of all that is posted ahead of long ops, and small ones between them. */
#define LOCAL_POLLS 48u

/* ---- life -------------------------------------------------------------------------------- */

static void init_tables(struct worker *w) {
    list_init(&w->sessions);
    ranges_init(&w->pools);
    list_init(&w->users);
    list_init(&w->seen);
    list_init(&w->aside);
    list_init(&w->released);
    w->aside_ns = CLOCK_NEVER;
    list_init(&w->hot);
    list_init(&w->parked);
    list_init(&w->deaf);
    list_init(&w->sooner);
    list_init(&w->dirty);
    list_init(&w->owed);
    list_init(&w->prompt);
    list_init(&w->runnable);
    list_init(&w->violated);
    list_init(&w->waiting);
    slab_init(&w->ops, sizeof(struct op), w->control);
    slab_init(&w->parts, sizeof(struct op_part), w->control);
    slab_init(&w->batches, sizeof(struct op_batch), w->control);
    list_init(&w->fences);
    list_init(&w->notices_due);
    list_init(&w->untaken);
    ids_init(&w->grants, w->secret);
    ids_init(&w->notifiers, w->secret);
}

static int open_local_fabric(struct worker *w, struct error *err) {
    int rc = env_open_fabric(w, &w->local, &fabric_local, NULL, err);
    if (rc < 0)
        return rc;
    static const struct fabric_blob no_offer;
    struct fabric_blob hello;
    route_init(&w->local_route, &w->local);
    w->local_route.local = true;
    struct fabric_link **link = &w->local_route.link;
    rc = w->local.ops->link_new(w->local.instance, NULL, true, link, &hello, err);
    if (rc == 0)
        rc = w->local.ops->link_open(*link, "", &no_offer, err);
    w->local_route.up = rc == 0;
    return rc;
}

static int open_fabrics(struct worker *w, struct fabric_host *const *hosts, struct error *err) {
    int rc = open_local_fabric(w, err);
    for (unsigned i = 0; rc == 0 && i < plane_settings_fabrics(w->settings); i++) {
        rc = env_open_fabric(w, &w->links[i], w->settings->fabrics[i], hosts[i], err);
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
        w->secret = now_ns; /* CANCELs may then be made to take longer, and are charged for it; so
                             * may finding a channel, a grant or an attach */
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
    return rc < 0 ? rc : watch_open(w, err);
}

void worker_fini(struct worker *w) {
    assert(!w->started && list_empty(&w->sessions) && list_empty(&w->waiting));
    assert(list_empty(&w->prompt));
    watch_close(w);
    for (unsigned i = 0; i < w->nlinks; i++)
        op_fabric_close(&w->links[i]);
    if (w->local_route.link)
        w->local.ops->link_close(w->local_route.link);
    op_fabric_close(&w->local);
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

static void fire(void *user, struct deadline *due) {
    op_due(user, container_of(due, struct op, due));
}

/* What has ended was published at that time. */
static void turn_settle(struct worker *w, uint64_t now_ns) {
    if (w->latency.count)
        tally_settle(w, now_ns);
    if (trace_is_on(w))
        trace_settle(w, now_ns);
}

/* Those who wait for one answer have it, and what they ask then is taken. */
static unsigned answer_early(struct worker *w) {
    prompt_note(w);
    rings_flush_early(w);
    if (w->now_ticks) {
        w->now_ticks = clock_ticks();
        w->now_ns = clock_now_ns();
    }
    turn_settle(w, w->now_ns);
    return prompt_serve(w);
}

/* Long ops move slice by slice while somebody is prompt, and else as much as may be at once. */
static unsigned poll_local(struct worker *w) {
    unsigned work = prompt_serve(w) + poll_fabric(w, &w->local);
    for (unsigned polls = 1; polls < LOCAL_POLLS && w->local_route.out; polls++) {
        if (polls == 1 || prompt_waits(w))
            work += answer_early(w);
        work += poll_fabric(w, &w->local);
    }
    return work;
}

unsigned worker_turn(struct worker *w, uint64_t now_ns) {
    unsigned work = 0;
    w->now_ns = now_ns;
    w->turns++;
    turn_settle(w, now_ns);
    users_begin(w);
    if (mailbox_pending(&w->mailbox))
        work += mailbox_drain(&w->mailbox);
    doorbells_run(w);
    work += rings_serve(w);
    if (prompt_waits(w) && w->local_route.out) { /* before much is queued again */
        work += poll_fabric(w, &w->local);
        work += answer_early(w);
    }
    if (!list_empty(&w->fences))
        fences_run(w);
    if (!list_empty(&w->runnable))
        work += submit_overtaken(w);
    work += channels_run(w);
    work += submit_run(w);
    work += poll_local(w);
    for (unsigned i = 0; i < w->nlinks; i++)
        work += poll_fabric(w, &w->links[i]);
    if (!list_empty(&w->notices_due))
        work += notices_run(w);
    if (!list_empty(&w->sooner))
        sooner_run(w);
    work += deadlines_run(&w->deadlines, now_ns, fire, w);
    if (!list_empty(&w->waiting))
        calls_settle(w);
    if (!list_empty(&w->violated))
        sessions_shut_violated(w);
    work += w->ends_left + w->gated;
    w->ends_left = false;
    rings_flush(w);
    if (!list_empty(&w->untaken))
        untaken_tell_all(w);
    return work;
}

uint64_t worker_next_ns(struct worker *w) {
    uint64_t next = deadlines_next(&w->deadlines);
    if (w->local.wake_ns < next)
        next = w->local.wake_ns;
    for (unsigned i = 0; i < w->nlinks; i++)
        if (w->links[i].wake_ns < next)
            next = w->links[i].wake_ns;
    uint64_t deaf_ns = doorbells_next_ns(w), aside_ns = users_next_ns(w);
    uint64_t owed_ns = rings_next_ns(w);
    if (aside_ns < next)
        next = aside_ns;
    if (owed_ns < next)
        next = owed_ns;
    return deaf_ns < next ? deaf_ns : next;
}
