/* SPDX-License-Identifier: MIT */
/*
 * session.c - a session is made, held, found and written to. Its end is session_end.c.
 */
#include "daemon/state/session.h"
#include "common/versions.h"
#include "daemon/base/log.h"
#include "daemon/ipc/conn.h"
#include <assert.h>
#include <inttypes.h>
#include <rdmad/wire.h>
#include <stdlib.h>
#include <string.h>

/* The quota's limits are stricter and can be reloaded; these only bound the tables. */
#define RINGS_MAX 4096u
#define POOLS_MAX 65536u
#define HANDLES_MAX (1048576u + HANDLES_ENDED_MAX)
#define CHANNELS_MAX 65536u

/* A user's limits are those that its newest session comes by, for groups may differ. */
static int session_apply_policy(struct session *s) {
    struct quota_limits own;
    policy_user(s->state->policy, &s->who, &s->policy);
    bool any = s->state->policy && policy_limits(&s->policy, s->state->config, &own);
    return quota_set_own(s->uid_account, any ? &own : NULL);
}

/* What the workers know of its user. A share is told only if it is another one, for with each that
 * is told a user's rates begin anew. */
static int session_tell_plane(const struct session *s) {
    struct plane *plane = s->state->plane;
    const struct plane_share share = policy_user_share(&s->policy);
    const struct user_policy *u = &s->policy;
    const struct plane_limits limits = {.uid_ops = u->value[RULE_OPS_PER_UID].number,
                                        .uid_waits = u->value[RULE_WAITS_PER_UID].number,
                                        .session_waits = u->value[RULE_WAITS_PER_SESSION].number};
    const struct user_id who = session_user_id(s);
    struct plane_user_stats now;
    if (!s->state->policy)
        return 0;
    plane_user_limits(plane, who, &limits);
    plane_user_stats(plane, who, &now);
    bool same = now.share.weight == share.weight && now.share.priority == share.priority &&
                now.share.bytes_per_second == share.bytes_per_second &&
                now.share.ops_per_second == share.ops_per_second;
    return same ? 0 : plane_user_share(plane, who, &share);
}

void sessions_apply_policy(struct state *st) {
    list_for_each (node, &st->sessions) {
        struct session *s = list_entry(node, struct session, node);
        if (session_apply_policy(s) || session_tell_plane(s))
            LOG_LIMITED_OF(
                log_of_user(session_user_id(s)), WARNING,
                ("out of memory for the limits of uid %u: the old ones stay", (unsigned)s->uid));
    }
}

static int session_admit(struct session *s, struct error *err) {
    struct state *st = s->state;
    if (state_leaves(st))
        return error_set(err, RDMAD_E_SHUTDOWN, "rdmad %s and takes no new sessions",
                         state_leaves(st));
    policy_user(st->policy, &s->who, &s->policy);
    int rc = policy_check_connect(&s->policy, err);
    if (rc)
        return rc;
    s->uid_account = quota_user_ref(&st->quota, s->uid, s->tenant);
    if (!s->uid_account || session_apply_policy(s))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a session");
    rc = quota_charge(&st->quota, NULL, s->uid_account, QUOTA_SESSIONS, 1, &s->charge, err);
    if (rc)
        return rc;
    s->plane = plane_session_add(st->plane, s->id, session_user_id(s), s);
    if (!s->plane)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a session");
    if (session_tell_plane(s))
        LOG_LIMITED_OF(log_of_user(session_user_id(s)), WARNING,
                       ("out of memory for the share of uid %u", (unsigned)s->uid));
    s->usage = usage_join(&st->usage, session_user_id(s), s->who.socket, &s->usage_node);
    return 0;
}

static void session_free(struct session *s) {
    assert(list_empty(&s->late_events) && !s->usage);
    quota_discharge(&s->charge);
    quota_uid_unref(&s->state->quota, s->uid_account);
    slots_fini(&s->rings);
    slots_fini(&s->pools);
    slots_fini(&s->handles);
    slots_fini(&s->channels);
    list_remove(&s->node);
    free((void *)(uintptr_t)s->who.gids);
    free((void *)(uintptr_t)s->who.socket);
    free(s);
}

static int copy_who(struct session *s, const struct policy_who *who) {
    gid_t *gids = malloc((who->ngids + 1) * sizeof(*gids));
    char *socket = strdup(who->socket);
    s->who =
        (struct policy_who){.uid = who->uid, .gids = gids, .ngids = who->ngids, .socket = socket};
    if (!gids || !socket)
        return RDMAD_E_NOMEM;
    if (who->ngids)
        memcpy(gids, who->gids, who->ngids * sizeof(*gids));
    return 0;
}

int session_new(struct state *st, uid_t uid, gid_t gid, pid_t pid, struct session **out,
                struct error *err) {
    const struct session_user user = {
        .who = {.uid = uid, .gids = &gid, .ngids = 1, .socket = ""}, .gid = gid, .pid = pid};
    return session_new_of(st, &user, out, err);
}

int session_new_of(struct state *st, const struct session_user *user, struct session **out,
                   struct error *err) {
    struct session *s = calloc(1, sizeof(*s));
    uid_t uid = user->who.uid;
    if (!s)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a session");
    s->state = st;
    s->id = ++st->next_session_id;
    s->uid = uid;
    s->gid = user->gid;
    s->pid = user->pid;
    s->tenant = user->tenant;
    s->holds = 1;
    s->version = rdmad_abi_versions.lowest; /* which whoever comes may understand */
    s->since_ns = state_now(st);
    s->account.uid = uid;
    list_init(&s->account.node);
    list_init(&s->node);
    list_init(&s->failures.node);
    list_init(&s->usage_node);
    list_init(&s->leases);
    list_init(&s->handles_ended);
    list_init(&s->late_events);
    list_init(&s->services);
    list_init(&s->watches);
    list_init(&s->others);
    list_init(&s->calls);
    slots_init(&s->channels, CHANNELS_MAX);
    slots_init(&s->rings, RINGS_MAX);
    slots_init(&s->pools, POOLS_MAX);
    slots_init(&s->handles, HANDLES_MAX);

    int rc = copy_who(s, &user->who);
    if (rc)
        error_set(err, rc, "out of memory for a session");
    else
        rc = session_admit(s, err);
    if (rc) {
        session_free(s);
        return rc;
    }
    list_append(&st->sessions, &s->node);
    *out = s;
    return 0;
}

void session_hold(struct session *s) {
    s->holds++;
}

void session_release(struct session *s) {
    if (--s->holds)
        return;
    LOG_LIMITED_OF(log_of_user(session_user_id(s)), DEBUG, ("session %" PRIu64 " is gone", s->id),
                   FIELD_U64("SESSION", s->id));
    session_free(s);
}

struct session *session_find(struct state *st, uint64_t id) {
    list_for_each (node, &st->sessions) {
        struct session *s = list_entry(node, struct session, node);
        if (s->id == id)
            return s;
    }
    return NULL;
}

/* ---- messages ---------------------------------------------------------------------------- */

static bool send_message(struct session *s, uint16_t type, uint32_t seq, int status,
                         const void *body, size_t size, const int *fds, unsigned nfds) {
    unsigned char message[RDMAD_MSG_MAX];
    struct rdmad_msg_header h = {.magic = RDMAD_WIRE_MAGIC,
                                 .version = s->version,
                                 .type = type,
                                 .seq = seq,
                                 .length = (uint32_t)(sizeof(h) + size),
                                 .status = status};
    if (!s->conn || sizeof(h) + size > sizeof(message))
        return false;
    memcpy(message, &h, sizeof(h));
    if (size)
        memcpy(message + sizeof(h), body, size);
    return conn_send(s->conn, message, sizeof(h) + size, fds, nfds);
}

bool session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds) {
    return send_message(s, type, seq, RDMAD_OK, body, size, fds, nfds);
}

bool session_lags(const struct session *s) {
    return s->conn && conn_lags(s->conn);
}

void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why) {
    struct rdmad_msg_error body = {{0}};
    _Static_assert(sizeof(body.text) == sizeof(why->text), "an error's text fits its message");
    memcpy(body.text, why->text, strnlen(why->text, sizeof(body.text) - 1));
    send_message(s, type, seq, why->code, &body, sizeof(body), NULL, 0);
}

/* ---- its memory -------------------------------------------------------------------------- */

int session_charge(struct session *s, struct session_charges *c, enum quota_resource what,
                   uint64_t maps, uint64_t bytes, struct error *err) {
    struct quota *q = &s->state->quota;
    int rc = quota_charge(q, &s->account, s->uid_account, what, 1, &c->count, err);
    if (!rc)
        rc = quota_charge(q, &s->account, s->uid_account, QUOTA_MAPPINGS, maps, &c->maps, err);
    if (!rc)
        rc = quota_charge(q, &s->account, s->uid_account, QUOTA_BYTES, bytes, &c->bytes, err);
    if (rc)
        session_discharge(c);
    return rc;
}

void session_discharge(struct session_charges *c) {
    quota_discharge(&c->maps);
    quota_discharge(&c->bytes);
    quota_discharge(&c->count);
}

void session_post(const struct session *s, struct offload_job *job,
                  void (*run)(struct offload_job *), void (*done)(struct offload_job *)) {
    *job = (struct offload_job){.owner = user_id_number(session_user_id(s)),
                                .reply_to = s->state->mailbox,
                                .run = run,
                                .done = done};
    offload_post(s->state->offload, job);
}

bool session_is_open(const void *session) {
    const struct session *s = session;
    return !__atomic_load_n(&s->closing, __ATOMIC_SEQ_CST);
}

int session_fail_ending(struct error *err) {
    return error_set(err, RDMAD_E_SHUTDOWN, "the session is ending");
}

void session_usage(const struct session *s, struct usage_sums *sums, struct histogram *latency) {
    const struct plane_session *plane = s->plane ? s->plane : s->leaving ? s->leaving : s->dropped;
    if (!plane)
        return;
    const struct plane_session_stats stats = plane_session_stats_now(plane);
    struct usage_sums more = {.ops = stats.ops,
                              .ops_failed = stats.ops_failed,
                              .bytes_read = stats.bytes_read,
                              .bytes_written = stats.bytes_written};
    if (stats.ops_failed)
        plane_session_by_status(plane, more.failed);
    usage_add(sums, &more);
    if (latency)
        plane_session_latency(plane, latency);
}
