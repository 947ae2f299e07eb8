/* SPDX-License-Identifier: MIT */
/*
 * pause.c - how it stands is one event: of pauses and resumes that nobody took the last is told.
 *
 * Nothing in the library waits differently in a pause: a call that has the daemon do something
 * sleeps until that is done, as it does behind a busy daemon.
 */
#include "libclient/session/pause.h"
#include "libclient/base/error.h"
#include "libclient/base/session.h"
#include "libclient/control/event_queue.h"
#include <rdmad/wire.h>
#include <stdlib.h>
#include <string.h>

struct rdmad_pause {
    struct rdmad_event_source source;
    bool on;
    char text[RDMAD_TEXT_MAX + 1];
};

static bool pause_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    const struct rdmad_pause *p = RDMAD_SOURCE_OF(source, struct rdmad_pause);
    out->type = p->on ? RDMAD_EVENT_PAUSED : RDMAD_EVENT_RESUMED;
    memcpy(out->text, p->text, sizeof(out->text));
    return false;
}

int rdmad_pause_new(struct rdmad_session *s) {
    s->pause = calloc(1, sizeof(*s->pause));
    if (!s->pause)
        return rdmad_fail(NULL, RDMAD_E_NOMEM, "out of memory for a session");
    s->pause->source.take = pause_take_event;
    return 0;
}

void rdmad_pause_on_event(struct rdmad_session *s, const void *body) {
    struct rdmad_ev_session_paused ev;
    memcpy(&ev, body, sizeof(ev));
    s->pause->on = ev.paused != 0;
    memcpy(s->pause->text, ev.text, sizeof(s->pause->text));
    s->pause->text[RDMAD_TEXT_MAX] = '\0';
    rdmad_event_queue(s, &s->pause->source);
}

void rdmad_pause_leave(struct rdmad_session *s) {
    static const char text[] = "the rdmad that had the session paused is gone";
    if (!s->pause->on)
        return;
    s->pause->on = false;
    memcpy(s->pause->text, text, sizeof(text));
    rdmad_event_queue(s, &s->pause->source);
}

void rdmad_pause_free(struct rdmad_session *s) {
    if (s->pause)
        rdmad_event_unqueue(s, &s->pause->source);
    free(s->pause);
    s->pause = NULL;
}
