/* SPDX-License-Identifier: MIT */
/*
 * session_end.c - the steps of a session's end, as session_end.h tells them, in their order.
 */
#include "daemon/state/session_end.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include "daemon/ipc/conn.h"
#include "daemon/state/channel.h"
#include "daemon/state/failures.h"
#include "daemon/state/handle.h"
#include "daemon/state/names.h"
#include "daemon/state/origin.h"
#include "daemon/state/pause.h"
#include "daemon/state/pool.h"
#include "daemon/state/ring_object.h"
#include <assert.h>
#include <inttypes.h>

/* ---- 4: nobody reaches its memory ------------------------------------------------------ */

static void unmap_everything(struct session *s) {
    uint32_t cursor = 0;
    uint64_t handle;
    struct ring_object *ro;
    struct pool *p;
    while ((ro = slots_next(&s->rings, &cursor, &handle))) {
        slots_remove(&s->rings, handle);
        ring_object_unref(ro);
    }
    cursor = 0;
    while ((p = slots_next(&s->pools, &cursor, &handle))) {
        slots_remove(&s->pools, handle);
        pool_unref(p);
    }
    session_release(s);
}

/* ---- 3: the data plane has let go of it ------------------------------------------------ */

static void object_gone(void *arg, const struct error *result) {
    struct session *s = arg;
    (void)result;
    assert(s->steps > 0);
    if (--s->steps == 0)
        unmap_everything(s);
}

/* Only now: an op may have ended while the worker let go of it. */
static void say_last_word(struct session *s) {
    struct usage_sums sums = {0};
    struct histogram latency = {0};
    session_usage(s, &sums, &latency);
    usage_leave(&s->state->usage, s->usage, &s->usage_node, &sums, &latency);
    s->usage = NULL;
    s->dropped = NULL;
}

static void plane_dropped(void *arg, const struct error *result) {
    struct session *s = arg;
    (void)result;
    say_last_word(s);
    s->steps = 3; /* each may report before it returns */
    leases_end_session(s, RDMAD_E_LEASE_ORPHANED, object_gone, s);
    handles_release_session(s, object_gone, s);
    channels_release_session(s, object_gone, s);
}

/* ---- 2: no session of this daemon sends to it ------------------------------------------ */

static void others_gone(void *arg, const struct error *result) {
    struct session *s = arg;
    (void)result;
    assert(s->closing && s->leaving && !s->plane);
    failures_end(s);
    s->dropped = s->leaving;
    s->leaving = NULL;
    plane_session_drop(s->dropped, plane_dropped, s);
}

/* ---- 1: nobody is asked any more, nobody asks ------------------------------------------ */

/* A client that can go on with the next daemon is left as if this one had died: without a word. */
static bool goes_on_elsewhere(const struct session *s, const struct error *why) {
    return why && why->code == RDMAD_E_SHUTDOWN && origin_is_set(s);
}

static void tell_client(struct session *s, const struct error *why) {
    EVENT("session", "ended", session_who(s), audit_object("session", s->id),
          ("session %" PRIu64 " (%s, pid %ld) ended: %s", s->id, s->name[0] ? s->name : "no name",
           (long)s->pid, why ? why->text : "its program closed it, or ended"));
    if (why)
        LOG_LIMITED_OF(log_of_user(session_user_id(s)), NOTICE,
                       ("session %" PRIu64 " ends: %s", s->id, why->text),
                       FIELD_U64("SESSION", s->id), FIELD_U64("UID", s->uid),
                       FIELD_STR("NAME", s->name));
    else
        LOG_LIMITED_OF(log_of_user(session_user_id(s)), DEBUG, ("session %" PRIu64 " ends", s->id),
                       FIELD_U64("SESSION", s->id));
    if (s->conn) {
        if (why && !s->goes_on)
            session_send_error(s, RDMAD_EV_SESSION_ENDED, 0, why);
        conn_close(s->conn);
        s->conn = NULL;
    }
}

static void end_watches(struct session *s) {
    list_for_each_safe (node, &s->watches) {
        struct watch *w = list_entry(node, struct watch, of_session);
        w->ops->over(w, RDMAD_E_CANCELED);
    }
}

static void give_up_calls(struct session *s) {
    struct error why;
    struct list *node;
    error_set(&why, RDMAD_E_CANCELED, "the session ended before the answer came");
    while ((node = list_pop(&s->calls))) {
        struct session_call *call = list_entry(node, struct session_call, node);
        call->give_up(call, &why);
    }
}

void session_close(struct session *s, const struct error *why) {
    if (s->closing)
        return;
    __atomic_store_n(&s->closing, true, __ATOMIC_SEQ_CST);
    s->goes_on = goes_on_elsewhere(s, why);
    tell_client(s, why);
    session_pause_forget(s);
    end_watches(s);
    give_up_calls(s);
    s->leaving = s->plane;
    s->plane = NULL;
    services_close_session(s);
    channels_end_others(s, others_gone, s);
}
