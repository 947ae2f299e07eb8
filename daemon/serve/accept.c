/* SPDX-License-Identifier: MIT */
/*
 * accept.c - from a connected socket to a session, and from the socket's end to the session's.
 */
#include "daemon/base/log.h"
#include "daemon/ipc/conn.h"
#include "daemon/serve/serve.h"
#include "daemon/state/channel.h"
#include "daemon/state/handle.h"
#include <inttypes.h>
#include <string.h>

static void on_packet(void *user, const void *data, size_t size, int *fds, unsigned nfds) {
    serve_message(user, data, size, fds, nfds);
}

static void on_closed(void *user, const char *why) {
    struct session *s = user;
    s->conn = NULL; /* freed already */
    LOG(DEBUG, ("session %" PRIu64 ": %s", s->id, why), FIELD_U64("SESSION", s->id));
    session_close(s, NULL);
}

static void on_drained(void *user) {
    leases_tell(user);
    handles_tell(user);
    services_tell(user);
    channels_tell(user);
    serve_names_go_on(user);
}

static const struct conn_events events = {
    .packet = on_packet, .closed = on_closed, .drained = on_drained};

/* Says why there is no session to somebody who has not asked anything yet. */
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
    LOG_LIMITED(NOTICE, ("a client was turned away: %s", why->text),
                FIELD_U64("UID", conn_peer(c)->uid));
    conn_send(c, &message, sizeof(message), NULL, 0);
    conn_close(c);
}

void serve_accept(void *state, int fd) {
    struct state *st = state;
    struct conn *c;
    struct session *s;
    struct error why = {0};
    if (conn_new(st->base, fd, &events, NULL, &c)) {
        LOG_LIMITED(WARNING, ("a client could not be taken: out of memory"));
        return;
    }
    const struct conn_peer *peer = conn_peer(c);
    if (session_new(st, peer->uid, peer->gid, peer->pid, &s, &why)) {
        turn_away(c, &why);
        return;
    }
    conn_set_user(c, s);
    s->conn = c;
}
