/* SPDX-License-Identifier: MIT */
/*
 * accept.c - from a connected socket to a session, and from the socket's end to the session's.
 */
#include "common/versions.h"
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/base/log.h"
#include "daemon/ipc/conn.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/pace.h"
#include "daemon/serve/serve.h"
#include "daemon/serve/unsent.h"
#include "daemon/state/channel.h"
#include "daemon/state/closing.h"
#include "daemon/state/handle.h"
#include "daemon/state/late_event.h"
#include "daemon/state/session_end.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Who is so far ahead of its rate is turned away: each connection may be ahead by one request, and
 * connections could come without end. */
#define CALLS_AHEAD_NS (4 * NSEC_PER_SEC)

/* Coming is a request, too. One that asks faster is read no further for now; its other sessions
 * come to that with their next request. */
static void pace(struct session *s) {
    uint64_t ahead_ns = pace_count(s);
    if (!ahead_ns)
        return;
    AUDIT(THROTTLED, "calls", session_who(s), audit_object("session", s->id),
          ("uid %u makes more than %" PRIu64
           " requests a second (limits.calls_per_second_per_uid): they wait",
           (unsigned)s->uid, pace_rate(s)));
    conn_rest(s->conn, ahead_ns);
}

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    struct session *s = user;
    pace(s); /* first: a message may end the session */
    serve_message(s, data, size, fds, nfds);
}

static void on_unsent(void *user, const void *data, size_t size, const char *why) {
    serve_unsent(user, data, size, why);
}

static void on_closed(void *user, const char *why) {
    struct session *s = user;
    assert(s->conn);
    s->conn = NULL; /* freed already */
    LOG_LIMITED_OF(log_of_user(session_user_id(s)), DEBUG, ("session %" PRIu64 ": %s", s->id, why),
                   FIELD_U64("SESSION", s->id));
    session_close(s, NULL);
}

static void on_drained(void *user) {
    session_tell_late(user);
    serve_names_go_on(user);
}

static void on_lost(void *user) {
    struct error why;
    error_set(&why, RDMAD_E_SYSTEM,
              "the process that receives descriptors for rdmad ended while it received one of this "
              "session's; open a new session and send it again");
    session_close(user, &why);
}

static void on_sent_fd(void *user, int fd) {
    session_close_fd(user, fd);
}

static const struct conn_events accept_events = {.packet = on_packet,
                                                 .lost = on_lost,
                                                 .unsent = on_unsent,
                                                 .closed = on_closed,
                                                 .drained = on_drained,
                                                 .sent_fd = on_sent_fd};

/* Tells a client that has not asked anything yet why there is no session. */
static void turn_away(struct conn *c, const struct serve_door *door, const struct error *why) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_msg_error body;
    } message = {
        .header = {.magic = RDMAD_WIRE_MAGIC,
                   .version = rdmad_abi_versions.lowest,
                   .type = RDMAD_EV_SESSION_ENDED,
                   .length = sizeof(message),
                   .status = why->code},
    };
    memcpy(message.body.text, why->text, sizeof(why->text));
    const struct conn_peer *peer = conn_peer(c);
    const char *cause = audit_cause_of(why->code);
    struct audit_who who = audit_user(peer->uid, peer->pid);
    who.tenant = door ? door->tenant : NULL;
    AUDIT(REFUSED, cause ? cause : "session", who, audit_nothing(),
          ("a client was turned away: %s", why->text));
    conn_send(c, &message, sizeof(message), NULL, 0);
    conn_close(c);
}

static struct conn *accept_conn(struct state *st, const struct serve_door *door, int fd) {
    struct conn *c = NULL;
    if (conn_new(st->base, st->porter, st->rota, fd, door ? door->number : 0, &accept_events, NULL,
                 &c))
        LOG_LIMITED(WARNING, ("a client could not be taken: out of memory"));
    return c;
}

/* Whoever made the socket, and whatever its mode. */
static int check_group(const struct state *st, const struct conn_peer *peer, struct error *err) {
    if (st->client_group == (gid_t)-1 || peer->uid == 0 || peer->uid == geteuid() ||
        conn_peer_in(peer, st->client_group))
        return 0;
    return error_set(err, RDMAD_E_PERM,
                     "only members of group '%s' may connect (socket_group), and uid %u is none; "
                     "log in again after having been added to it",
                     st->config->socket_group, (unsigned)peer->uid);
}

static int check_pace(struct state *st, uid_t uid, uint32_t tenant, struct error *err) {
    uint64_t now = state_now(st);
    quota_forget_idle(&st->quota, clock_left(PACE_BURST_NS, now));
    const struct quota_account *a = quota_find(&st->quota, uid, tenant);
    if (!a || a->calls_due_ns <= now + CALLS_AHEAD_NS)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "uid %u makes far more requests a second than it may "
                     "(limits.calls_per_second_per_uid; rdmactl limit show): its next is due in "
                     "%" PRIu64 " s; ask less often, or have the limit raised",
                     (unsigned)uid, (a->calls_due_ns - now) / NSEC_PER_SEC);
}

static int accept_session(struct state *st, const struct conn_peer *peer,
                          const struct serve_door *door, struct session **out, struct error *err) {
    int rc = check_pace(st, peer->uid, door ? door->number : 0, err);
    if (rc)
        return rc;
    gid_t *gids = malloc((peer->ngroups + 1) * sizeof(*gids));
    if (!gids)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a session");
    gids[0] = peer->gid;
    for (unsigned i = 0; i < peer->ngroups; i++)
        gids[i + 1] = peer->groups[i];
    const struct session_user user = {.who = {.uid = peer->uid,
                                              .gids = gids,
                                              .ngids = peer->ngroups + 1,
                                              .socket = door ? door->tenant : ""},
                                      .tenant = door ? door->number : 0,
                                      .gid = peer->gid,
                                      .pid = peer->pid};
    rc = session_new_of(st, &user, out, err);
    free(gids);
    return rc;
}

static void accept_client(struct state *st, const struct serve_door *door, int fd) {
    struct session *s;
    struct error why = {0};
    struct conn *c = accept_conn(st, door, fd);
    if (!c)
        return;
    const struct conn_peer *peer = conn_peer(c);
    if ((!door && check_group(st, peer, &why)) || accept_session(st, peer, door, &s, &why)) {
        turn_away(c, door, &why);
        return;
    }
    AUDIT(ADMITTED, "session", session_who(s), audit_object("session", s->id),
          ("session %" PRIu64 " begins", s->id));
    conn_set_user(c, s);
    s->conn = c;
    pace(s);
}

void serve_accept(void *state, int fd) {
    accept_client(state, NULL, fd);
}

void serve_accept_tenant(void *door, int fd) {
    const struct serve_door *d = door;
    accept_client(d->state, d, fd);
}

static void refuse_client(struct state *st, const struct serve_door *door, int fd) {
    struct error why;
    struct conn *c = accept_conn(st, door, fd);
    if (!c)
        return;
    error_set(&why, RDMAD_E_LIMIT,
              "rdmad has no descriptor left for one more client; raise its limit of open files "
              "(LimitNOFILE=) or lower its limits.*");
    turn_away(c, door, &why);
}

void serve_refuse(void *state, int fd) {
    refuse_client(state, NULL, fd);
}

void serve_refuse_tenant(void *door, int fd) {
    const struct serve_door *d = door;
    refuse_client(d->state, d, fd);
}
