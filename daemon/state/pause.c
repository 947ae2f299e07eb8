/* SPDX-License-Identifier: MIT */
/*
 * pause.c - who may, the worker, the client.
 */
#include "daemon/state/pause.h"
#include "daemon/base/log.h"
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pause_send(struct late_event *e) {
    const struct session_pause *p = container_of(e, struct session_pause, told);
    struct rdmad_ev_session_paused ev = {.paused = p->on, .uid = p->uid};
    memcpy(ev.text, p->why, sizeof(ev.text));
    session_send(p->session, RDMAD_EV_SESSION_PAUSED, 0, &ev, sizeof(ev), NULL, 0);
}

static struct session_pause *pause_of(struct session *s) {
    struct session_pause *p = s->pause;
    if (p)
        return p;
    p = s->pause = calloc(1, sizeof(*p));
    if (p) {
        p->session = s;
        late_event_init(&p->told, pause_send);
    }
    return p;
}

/* For a client's terminal, and whoever reads the log. */
static void pause_say(struct session_pause *p, const struct pause_order *order) {
    snprintf(p->why, sizeof(p->why), "uid %u %s the session%s%.160s", (unsigned)order->uid,
             order->pause ? "paused" : "resumed", order->why ? ": " : "",
             order->why ? order->why : "");
    for (char *c = p->why; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

int session_may_pause(const struct session *s, const struct pause_order *order, struct error *err) {
    const struct session_pause *p = session_paused(s);
    if (p && p->by_admin && !order->by_admin)
        return error_set(err, RDMAD_E_PERM,
                         "uid %u, who administers this daemon, has paused session %" PRIu64
                         ": only who has admin \"act\" changes that",
                         (unsigned)p->uid, s->id);
    if (!order->pause && s->state->draining)
        return error_set(err, RDMAD_E_BUSY,
                         "rdmad is drained: session %" PRIu64 " goes on with rdmactl drain --off",
                         s->id);
    return 0;
}

int session_pause(struct session *s, const struct pause_order *order, plane_done *done, void *arg,
                  struct error *err) {
    int rc = session_may_pause(s, order, err);
    if (rc)
        return rc;
    struct session_pause *p = pause_of(s);
    if (!p)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a pause");
    bool news = p->on || order->pause;
    if (news) {
        p->since_ns = order->pause && p->on ? p->since_ns : state_now(s->state);
        p->on = order->pause;
        p->by_admin = order->by_admin;
        p->by_drain = order->by_drain;
        p->uid = order->uid;
        pause_say(p, order);
        LOG_LIMITED_OF(log_of_user(session_user_id(s)), NOTICE,
                       ("session %" PRIu64 ": %s", s->id, p->why), FIELD_U64("SESSION", s->id),
                       FIELD_U64("UID", s->uid));
    }
    if (news && s->greeted)
        session_tell(s, &p->told);
    /* A daemon that stops has paused them all. */
    plane_session_pause(s->plane, order->pause || s->state->stopping, done, arg);
    return 0;
}

const struct session_pause *session_paused(const struct session *s) {
    return s->pause && s->pause->on ? s->pause : NULL;
}

void session_pause_greeted(struct session *s) {
    if (session_paused(s))
        session_tell(s, &s->pause->told);
}

void session_pause_forget(struct session *s) {
    if (s->pause)
        late_event_drop(&s->pause->told);
    free(s->pause);
    s->pause = NULL;
}
