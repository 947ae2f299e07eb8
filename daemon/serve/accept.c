/* SPDX-License-Identifier: MIT */
/*
 * accept.c - from a connected socket to a session, and from the socket's end to the session's.
 */
#include "daemon/base/audit.h"
#include "daemon/base/audit_cause.h"
#include "daemon/base/log.h"
#include "daemon/ipc/conn.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/serve.h"
#include "daemon/serve/unsent.h"
#include "daemon/state/channel.h"
#include "daemon/state/handle.h"
#include "daemon/state/late_event.h"
#include "daemon/state/session_end.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    serve_message(user, data, size, fds, nfds);
}

static void on_unsent(void *user, const void *data, size_t size, const char *why) {
    serve_unsent(user, data, size, why);
}

static void on_closed(void *user, const char *why) {
    struct session *s = user;
    assert(s->conn);
    s->conn = NULL; /* freed already */
    LOG(DEBUG, ("session %" PRIu64 ": %s", s->id, why), FIELD_U64("SESSION", s->id));
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

static const struct conn_events accept_events = {.packet = on_packet,
                                                 .lost = on_lost,
                                                 .unsent = on_unsent,
                                                 .closed = on_closed,
                                                 .drained = on_drained};

/* Tells a client that has not asked anything yet why there is no session. */
static void turn_away(struct conn *c, const struct error *why) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_msg_error body;
    } message = {
        .header = {.magic = RDMAD_WIRE_MAGIC,
                   .version = RDMAD_ABI_VERSION,
                   .type = RDMAD_EV_SESSION_ENDED,
                   .length = sizeof(message),
                   .status = why->code},
    };
    memcpy(message.body.text, why->text, sizeof(why->text));
    const struct conn_peer *peer = conn_peer(c);
    const char *cause = audit_cause_of(why->code);
    AUDIT(REFUSED, cause ? cause : "session", audit_user(peer->uid, peer->pid), audit_nothing(),
          ("a client was turned away: %s", why->text));
    conn_send(c, &message, sizeof(message), NULL, 0);
    conn_close(c);
}

static struct conn *accept_conn(struct state *st, int fd) {
    struct conn *c = NULL;
    if (conn_new(st->base, st->porter, st->rota, fd, &accept_events, NULL, &c))
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

void serve_accept(void *state, int fd) {
    struct state *st = state;
    struct session *s;
    struct error why = {0};
    struct conn *c = accept_conn(st, fd);
    if (!c)
        return;
    const struct conn_peer *peer = conn_peer(c);
    if (check_group(st, peer, &why) || session_new(st, peer->uid, peer->gid, peer->pid, &s, &why)) {
        turn_away(c, &why);
        return;
    }
    AUDIT(ADMITTED, "session", audit_user(s->uid, s->pid), audit_object("session", s->id),
          ("session %" PRIu64 " begins", s->id));
    conn_set_user(c, s);
    s->conn = c;
}

void serve_refuse(void *state, int fd) {
    struct error why;
    struct conn *c = accept_conn(state, fd);
    if (!c)
        return;
    error_set(&why, RDMAD_E_LIMIT,
              "rdmad has no descriptor left for one more client; raise its limit of open files "
              "(LimitNOFILE=) or lower its limits.*");
    turn_away(c, &why);
}
