/* SPDX-License-Identifier: MIT */
/*
 * channel_resume.c - a channel's end is proven, and brought from an earlier life of the daemon.
 *
 * The happy path: a client that has a channel asks for its key. When the daemon has ended and
 * started again it shows that, and says whom the other end is; the end is there with its number at
 * once, and finds the other by and by (state/channel_away.h).
 *
 * What a client says is judged like anything else that a client brings. Whoever knows the key could
 * be either end's program: so each end is given back only to whom the other end was told that it
 * is.
 */
#include "common/uri.h"
#include "daemon/peer/peer.h"
#include "daemon/serve/channel_open.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/reach.h"
#include "daemon/state/channel_away.h"
#include "daemon/state/names.h"
#include "daemon/state/origin.h"
#include <stdio.h>
#include <string.h>

void serve_channel_proof(const struct request *rq, const void *body) {
    const struct rdmad_channel_proof_req *req = body;
    const struct channel *ch = channel_open_find(rq, req->channel);
    struct rdmad_channel_proof_rep rep;
    struct error err;
    if (!ch)
        return;
    if (!channel_may_return(ch)) {
        error_set(&err, RDMAD_E_UNSUPPORTED,
                  "the channel ends with this rdmad: only a reliable one of a session that goes on "
                  "with the next can come back, and only if peer.return_ms is not 0");
        serve_fail(rq, &err);
        return;
    }
    memcpy(rep.key, ch->key, sizeof(rep.key));
    serve_reply(rq, &rep, sizeof(rep), NULL, 0);
}

/* Where the service is. Of an end that was accepted only its name is known. */
static int parse_uri(const struct rdmad_channel_resume_req *req, struct rdmad_uri *uri,
                     struct error *err) {
    const char *wrong = req->accepted ? NULL : rdmad_uri_parse(req->uri, uri);
    if (req->accepted && rdmad_name_ok(req->uri))
        snprintf(uri->name, sizeof(uri->name), "%.*s", RDMAD_NAME_MAX, req->uri);
    else if (req->accepted || wrong || !uri->name[0])
        return error_set(err, RDMAD_E_URI, "the channel to be resumed was with no service%s%s",
                         wrong ? ": " : "", wrong ? wrong : "");
    return 0;
}

static int check_resume(const struct session *s, const struct rdmad_channel_resume_req *req,
                        struct rdmad_uri *uri, struct error *err) {
    int rc;
    if ((rc = origin_check_resumed(s, "a channel", err)) ||
        (rc = origin_check_number(s, req->channel, QUOTA_CHANNELS, 0, "channel", err)))
        return rc;
    if (req->accepted > 1 || req->flags & ~RDMAD_CHANNEL_PEER_PROVEN ||
        (req->waited_ms && s->version < RDMAD_ABI_WAITED))
        return error_set(err, RDMAD_E_RESERVED,
                         "a reserved field of CHANNEL_RESUME is not zero, or a flag is unknown");
    if (!serve_text_ok(req->uri, sizeof(req->uri)) ||
        !serve_text_ok(req->peer_node, sizeof(req->peer_node)))
        return error_set(err, RDMAD_E_PROTOCOL, "the texts of a resume must be zero-filled");
    if (!s->state->config->peer_return_ms)
        return error_set(err, RDMAD_E_UNSUPPORTED,
                         "channels end with their rdmad while peer.return_ms is 0");
    return parse_uri(req, uri, err);
}

static void channel_fill(struct channel *ch, const struct rdmad_channel_resume_req *req,
                         const struct rdmad_uri *uri) {
    ch->accepted = req->accepted;
    ch->away_before_ms = req->waited_ms;
    ch->has_key = true;
    memcpy(ch->key, req->key, sizeof(ch->key));
    ch->peer_uid = req->peer_uid;
    ch->peer_proven = req->flags & RDMAD_CHANNEL_PEER_PROVEN;
    memcpy(ch->peer_node, req->peer_node, sizeof(ch->peer_node));
    snprintf(ch->service, sizeof(ch->service), "%s", uri->name);
}

void serve_channel_resume(const struct request *rq, const void *body) {
    const struct rdmad_channel_resume_req *req = body;
    struct peers *peers = rq->session->state->peers;
    struct rdmad_uri uri = {.port = 0};
    struct channel *ch;
    struct error err;

    int rc = check_resume(rq->session, req, &uri, &err);
    bool here = !rc && !req->accepted && peers_is_self(peers, &uri);
    if (!rc && !req->accepted)
        rc = serve_check_reach(rq->session, &uri, here, &err);
    if (rc) {
        serve_fail(rq, &err);
        return;
    }
    ch = channel_open_new(rq, RDMAD_CHANNEL_RELIABLE, req->channel);
    if (!ch)
        return;
    channel_fill(ch, req, &uri);
    ch->seek = here ? channel_seek_local : NULL;
    if (req->accepted || here)
        channel_resume(ch);
    else
        peer_channel_resume(ch, &uri);
}
