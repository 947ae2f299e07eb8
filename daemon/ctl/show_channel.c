/* SPDX-License-Identifier: MIT */
/*
 * show_channel.c - services and channels as lists. A channel between two sessions of this daemon
 * has two rows, one for each end.
 */
#include "common/errors.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/plane/plane.h"
#include "daemon/state/budget.h"
#include "daemon/state/channel.h"

static const char *kind_text(uint32_t kind) {
    static const char *const names[] = {[RDMAD_CHANNEL_RELIABLE] = "reliable",
                                        [RDMAD_CHANNEL_DATAGRAM] = "datagram",
                                        [RDMAD_CHANNEL_UNACKED] = "unacked"};
    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

static const char *stage_text(const struct channel *ch) {
    static const char *const names[] = {
        [CHANNEL_NEW] = "opening",    [CHANNEL_ADDING] = "opening", [CHANNEL_OPEN] = "open",
        [CHANNEL_ENDING] = "closing", [CHANNEL_ENDED] = "closed",   [CHANNEL_PARTED] = "closed"};
    return ch->stage == CHANNEL_OPEN && ch->way != CHANNEL_THERE ? "away" : names[ch->stage];
}

/* Not known while the peer is still being dialled. */
static const char *fabric_text(const struct channel *ch) {
    if (ch->fabric)
        return ch->fabric;
    return ch->remote ? "" : "local";
}

static void row_number(json_t *row, const char *key, uint64_t n) {
    json_object_set_new(row, key, json_integer((json_int_t)n));
}

static void add_stats(json_t *row, const struct channel *ch) {
    const struct plane_channel_stats s = channel_stats(ch);
    row_number(row, "messages_sent", s.messages_sent);
    row_number(row, "bytes_sent", s.bytes_sent);
    row_number(row, "messages_received", s.messages_received);
    row_number(row, "bytes_received", s.bytes_received);
    row_number(row, "receives_posted", s.receives_posted);
    row_number(row, "sends_waiting", s.sends_waiting);
    row_number(row, "stalls", s.stalls);
    row_number(row, "lost", s.lost);
    row_number(row, "resent", s.resent);
}

static json_t *channel_row(const struct channel *ch, const struct rows *rows) {
    json_t *row =
        json_pack("{s:I, s:o, s:s, s:I, s:I, s:s, s:o, s:o, s:I, s:s, s:s, s:s, s:s, s:f}", "id",
                  (json_int_t)ch->number, "service", rows_text(ch->service), "side",
                  ch->accepted ? "accepted" : "connected", "session", (json_int_t)ch->session->id,
                  "uid", (json_int_t)ch->session->uid, "state", stage_text(ch), "peer_node",
                  rows_text(ch->peer_node), "peer_address",
                  rows_text(ch->remote || ch->stage == CHANNEL_NEW ? ch->peer_address : "local"),
                  "peer_uid", (json_int_t)ch->peer_uid, "kind", kind_text(ch->kind), "kind_asked",
                  kind_text(ch->asked), "route", ch->remote ? "link" : "local", "fabric",
                  fabric_text(ch), "age_s", rows_seconds(clock_left(ch->since_ns, rows->now_ns)));
    json_object_set_new(row, "tenant", rows_tenant(ch->session->state, ch->session->tenant));
    json_object_set_new(row, "peer_proven", json_boolean(ch->peer_proven));
    add_stats(row, ch);
    if (ch->stage == CHANNEL_OPEN && ch->away_why[0])
        json_object_set_new(row, "why", rows_text(ch->away_why));
    if (ch->reason) {
        json_object_set_new(row, "reason", json_string(rdmad_error_name(ch->reason)));
        json_object_set_new(row, "why", rows_text(ch->text));
    }
    return row;
}

void ctl_channel_show(struct ctl_call *call, const json_t *params) {
    const struct state *st = ctl_state(call);
    struct rows rows = rows_new();
    const struct channel *ch;
    uint32_t cursor = 0;
    uint64_t number;

    (void)params;
    while ((ch = slots_next(&st->channels, &cursor, &number)) && !rows_full(&rows))
        if (ctl_sees(call, ch->session))
            json_array_append_new(rows.list, channel_row(ch, &rows));
    rows_reply(call, &rows, "channels");
}

static json_t *budget_row(const struct budget *b) {
    struct budget_view v;
    if (!b)
        return json_null();
    budget_view(b, &v);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:i}", "bytes", (json_int_t)v.bytes, "free",
                     (json_int_t)v.free, "longest", (json_int_t)v.longest, "leased",
                     (json_int_t)v.leased, "handed_over", (json_int_t)v.handed_over, "leases",
                     (int)v.leases);
}

static json_t *service_row(const struct service *sv, uint64_t now_ns) {
    return json_pack("{s:I, s:o, s:I, s:I, s:o, s:s, s:i, s:i, s:I, s:I, s:o, s:f}", "id",
                     (json_int_t)sv->number, "name", rows_text(sv->terms.name), "session",
                     (json_int_t)sv->session->id, "uid", (json_int_t)sv->session->uid, "tenant",
                     rows_tenant(sv->session->state, sv->session->tenant), "scope",
                     rows_scope(sv->terms.scope), "backlog", (int)sv->terms.backlog, "waiting",
                     (int)sv->waiting, "connections", (json_int_t)sv->offered, "accepted",
                     (json_int_t)sv->accepted, "budget", budget_row(sv->budget), "age_s",
                     rows_seconds(clock_left(sv->since_ns, now_ns)));
}

void ctl_service_show(struct ctl_call *call, const json_t *params) {
    struct rows rows = rows_new();
    (void)params;
    list_for_each (at, &ctl_state(call)->sessions) {
        const struct session *s = list_entry(at, struct session, node);
        if (!ctl_sees(call, s))
            continue;
        list_for_each (node, &s->services) {
            if (rows_full(&rows))
                break;
            json_array_append_new(rows.list,
                                  service_row(list_entry(node, struct service, node), rows.now_ns));
        }
    }
    rows_reply(call, &rows, "services");
}
