/* SPDX-License-Identifier: MIT */
#include "libclient/channel/not_resumed.h"
#include "libclient/base/error.h"
#include <stdio.h>
#include <string.h>

static bool not_resumed_take_event(struct rdmad_event_source *source, struct rdmad_event *out) {
    const struct rdmad_not_resumed *n = RDMAD_SOURCE_OF(source, struct rdmad_not_resumed);
    out->type = RDMAD_EVENT_NOT_RESUMED;
    out->reason = n->reason;
    out->service = n->service;
    out->channel = n->channel;
    out->user = *n->user;
    memcpy(out->text, n->text, sizeof(out->text));
    return false;
}

void rdmad_not_resumed_tell(struct rdmad_session *s, struct rdmad_not_resumed *n, int reason,
                            const char *what) {
    n->reason = reason;
    n->source.take = not_resumed_take_event;
    snprintf(n->text, sizeof(n->text), "%.90s has not come back with the rdmad that came: %.120s",
             what, rdmad_error_said(s));
    rdmad_event_queue(s, &n->source);
}
