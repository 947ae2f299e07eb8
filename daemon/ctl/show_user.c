/* SPDX-License-Identifier: MIT */
/*
 * show_user.c - users: what all sessions of each came to, those that have ended, too, as far as it
 * is remembered (state/usage.h).
 *
 * Two answers can be subtracted, also in how long ops took: that is what lat_buckets are for. Who
 * comes after too many of them has null instead.
 */
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/ctl/tally_json.h"
#include "daemon/plane/plane.h"
#include "daemon/state/ring_object.h"

/* What the user's sessions have come to: those that have ended, and those that there are. */
struct user_now {
    struct usage_sums sums;
    struct histogram latency;
    uint64_t sessions, inflight, in_rings;
};

static void user_look(const struct usage_user *user, struct user_now *out) {
    *out = (struct user_now){.sums = user->sums, .latency = user->latency};
    list_for_each (node, &user->sessions) {
        const struct session *s = list_entry(node, struct session, usage_node);
        session_usage(s, &out->sums, &out->latency);
        out->sessions++;
        if (!s->plane)
            continue;
        out->inflight += plane_session_stats_now(s->plane).ops_inflight;
        out->in_rings += ring_objects_unread(s);
    }
}

/* A user without sessions may have a little left, that is still being given back. */
static const uint64_t *user_used(const struct state *st, const struct usage_user *user) {
    static const uint64_t nothing[QUOTA_COUNT];
    const struct list *node = user->sessions.next;
    if (node != &user->sessions)
        return list_entry(node, struct session, usage_node)->uid_account->used;
    const struct quota_account *a = quota_find(&st->quota, user->who.uid, user->who.tenant);
    return a ? a->used : nothing;
}

static json_t *user_row(const struct state *st, const struct usage_user *user,
                        const struct user_now *now) {
    const uint64_t *used = user_used(st, user);
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "uid",
                     (json_int_t)user->who.uid, "tenant", rows_tenant(st, user->who.tenant),
                     "sessions", (json_int_t)now->sessions, "bytes", (json_int_t)used[QUOTA_BYTES],
                     "leases", (json_int_t)used[QUOTA_LEASES], "ops", (json_int_t)now->sums.ops,
                     "ops_inflight", (json_int_t)now->inflight, "ops_in_rings",
                     (json_int_t)now->in_rings, "ops_failed", (json_int_t)now->sums.ops_failed,
                     "bytes_read", (json_int_t)now->sums.bytes_read, "bytes_written",
                     (json_int_t)now->sums.bytes_written, "lat_us", tally_spans(&now->latency));
}

static bool user_seen(const struct ctl_call *call, const struct usage_user *user) {
    return ctl_sees_user(call, user->who.uid, user->who.tenant);
}

void ctl_user_show(struct ctl_call *call, const json_t *params) {
    (void)params;
    const struct state *st = ctl_state(call);
    struct rows rows = rows_new();
    list_for_each (node, &st->usage.users) {
        const struct usage_user *user = list_entry(node, struct usage_user, node);
        struct user_now now;
        if (!user_seen(call, user))
            continue;
        if (rows_full(&rows))
            break;
        user_look(user, &now);
        json_t *row = user_row(st, user, &now);
        json_object_set_new(row, "lat_buckets", tally_buckets(&now.latency, &rows.buckets_told));
        rows_share(st, user->who, row);
        json_array_append_new(rows.list, row);
    }
    rows_reply(call, &rows, "users");
}
