/* SPDX-License-Identifier: MIT */
/*
 * unserved.c - messages that this daemon understands and does not serve (yet): who sends one is
 * told so, and leaves.
 */
#include "daemon/peer/internal.h"

static void unserved(struct peer *p, const char *name) {
    peer_refuse(p, RDMAD_E_UNSUPPORTED, "%s is not served here", name);
}

void claim_notify_taken(struct peer *p, const struct peer_notify_taken *m) {
    (void)m;
    unserved(p, "NOTIFY_TAKEN");
}
void claim_delegate_rep(struct peer *p, const struct peer_delegate_rep *m) {
    (void)m;
    unserved(p, "DELEGATE_REP");
}
void claim_keep_rep(struct peer *p, const struct peer_keep_rep *m) {
    (void)m;
    unserved(p, "KEEP_REP");
}
void grant_delegate_req(struct peer *p, const struct peer_delegate_req *m) {
    (void)m;
    unserved(p, "DELEGATE_REQ");
}
void grant_request_req(struct peer *p, const struct peer_request_req *m) {
    (void)m;
    unserved(p, "REQUEST_REQ");
}
void grant_keep_req(struct peer *p, const struct peer_keep_req *m) {
    (void)m;
    unserved(p, "KEEP_REQ");
}
void names_req(struct peer *p, const struct peer_names_req *m) {
    (void)m;
    unserved(p, "NAMES_REQ");
}
void names_watch_req(struct peer *p, const struct peer_watch_req *m) {
    (void)m;
    unserved(p, "WATCH_REQ");
}
void names_unwatch(struct peer *p, const struct peer_unwatch *m) {
    (void)m;
    unserved(p, "UNWATCH");
}
void names_rep(struct peer *p, const struct peer_names_rep *m) {
    (void)m;
    unserved(p, "NAMES_REP");
}
void names_ev(struct peer *p, const struct peer_name_ev *m) {
    (void)m;
    unserved(p, "NAME_EV");
}
