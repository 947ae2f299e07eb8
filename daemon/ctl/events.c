/* SPDX-License-Identifier: MIT */
/*
 * events.c - rdmactl events: what is remembered. Each caller is shown what is its own doing, and
 * who sees everybody's is shown all; what concerns peers and the daemon is theirs alone.
 */
#include "daemon/base/events.h"
#include "daemon/ctl/events_json.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include <stdlib.h>
#include <string.h>

struct wanted {
    bool all;
    uid_t uid;
    const char *kind;
    uint64_t id, since_ns;
};

/* What is a session's is of that, too. */
static bool is_about(const struct event_row *e, const char *kind, uint64_t id) {
    if (e->session && e->session == id && !strcmp(kind, "session"))
        return true;
    return e->object && !strcmp(e->object, kind) && e->id == id;
}

static bool is_wanted(void *arg, const struct event_row *e) {
    const struct wanted *w = arg;
    if (!w->all && (!e->of_user || e->tenant[0] || e->uid != w->uid))
        return false;
    if (w->kind && !is_about(e, w->kind, w->id))
        return false;
    return e->at_ns >= w->since_ns;
}

static json_t *event_json(const struct event_row *e, uint64_t now_ns) {
    return json_pack("{s:I, s:I, s:f, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "number",
                     (json_int_t)e->number, "time", (json_int_t)e->at_s, "ago_s",
                     rows_seconds(clock_left(e->at_ns, now_ns)), "what", e->what, "cause", e->cause,
                     "object", e->object ? json_string(e->object) : json_null(), "id",
                     e->object ? rows_any_number(e->id) : json_null(), "session",
                     e->session ? json_integer((json_int_t)e->session) : json_null(), "uid",
                     e->of_user ? json_integer((json_int_t)e->uid) : json_null(), "tenant",
                     e->tenant[0] ? rows_text(e->tenant) : json_null(), "peer",
                     e->peer[0] ? rows_text(e->peer) : json_null(), "text", rows_text(e->text));
}

json_t *events_json(const struct ctl_call *call, const char *kind, uint64_t id, uint64_t since_ns,
                    uint64_t after) {
    struct wanted w = {.all = ctl_sees_all(call),
                       .uid = ctl_caller(call)->who.uid,
                       .kind = kind,
                       .id = id,
                       .since_ns = since_ns};
    struct event_row *rows = calloc(EVENTS_MAX, sizeof(*rows));
    json_t *list = rows ? json_array() : NULL;
    uint64_t now_ns = clock_now_ns();
    unsigned count = list ? events_read(after, is_wanted, &w, rows, EVENTS_MAX) : 0;
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(list, event_json(&rows[i], now_ns));
    free(rows);
    return list;
}

void ctl_events(struct ctl_call *call, const json_t *params) {
    uint64_t now_ns = clock_now_ns(), span_s = rpc_uint(params, "since_s");
    uint64_t since_ns = 0;
    if (span_s && span_s < now_ns / NSEC_PER_SEC)
        since_ns = now_ns - span_s * NSEC_PER_SEC;
    json_t *list = events_json(call, NULL, 0, since_ns, rpc_uint(params, "after"));
    ctl_reply(call, list ? json_pack("{s:I, s:o}", "life", (json_int_t)ctl_state(call)->life.number,
                                     "events", list)
                         : NULL);
}
