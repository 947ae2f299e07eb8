/* SPDX-License-Identifier: MIT */
/*
 * form_channel.c - the messages about channels, and about names: what is in them, and what their
 * values must be.
 */
#include "common/errors.h"
#include "common/uri.h"
#include "daemon/peer/wire/form.h"
#include "daemon/state/names.h"
#include <string.h>

/* ---- the messages -------------------------------------------------------------------------- */

static void walk_chan_req(struct cursor *c, struct peer_msg *m) {
    struct peer_chan_req *r = &m->chan_req;
    cursor_u64(c, &r->ref);
    cursor_bytes(c, r->token, sizeof(r->token));
    cursor_u32(c, &r->kind);
    cursor_u32(c, &r->asked);
    cursor_u32(c, &r->uid);
    cursor_u32(c, &r->worker);
    cursor_u16(c, &r->port);
    cursor_text(c, r->host, sizeof(r->host));
    cursor_text(c, r->service, sizeof(r->service));
}
static void walk_chan_refuse(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->chan_refuse.ref);
    cursor_i32(c, &m->chan_refuse.status);
    cursor_text(c, m->chan_refuse.text, sizeof(m->chan_refuse.text));
}
static void walk_chan_bind(struct cursor *c, struct peer_msg *m) {
    struct peer_chan_bind *r = &m->chan_bind;
    cursor_u64(c, &r->ref);
    cursor_bytes(c, r->token, sizeof(r->token));
    cursor_u64(c, &r->number);
    cursor_u32(c, &r->kind);
    cursor_u32(c, &r->uid);
    cursor_u32(c, &r->worker);
}
static void walk_chan_open(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->chan_open.ref);
}
static void walk_chan_end(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->chan_end.ref);
    cursor_u32(c, &m->chan_end.mine);
    cursor_i32(c, &m->chan_end.reason);
    cursor_text(c, m->chan_end.text, sizeof(m->chan_end.text));
}
static void walk_chan_alive(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->chan_alive.ref);
    cursor_u32(c, &m->chan_alive.answer);
    cursor_u64(c, &m->chan_alive.silent_ns);
}

static void walk_entry(struct cursor *c, struct rdmad_name_entry *e) {
    cursor_text(c, e->name, sizeof(e->name));
    cursor_u32(c, &e->kind);
    cursor_u32(c, &e->rights);
    cursor_u64(c, &e->length);
    cursor_u64(c, &e->ttl_ns);
}
static void walk_names_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->names_req.ref);
    cursor_text(c, m->names_req.prefix, sizeof(m->names_req.prefix));
    cursor_text(c, m->names_req.after, sizeof(m->names_req.after));
}
static void walk_names_rep(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->names_rep.ref);
    cursor_u32(c, &m->names_rep.last);
    walk_entry(c, &m->names_rep.entry);
}
static void walk_watch_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->watch_req.ref);
    cursor_text(c, m->watch_req.prefix, sizeof(m->watch_req.prefix));
}
static void walk_unwatch(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->unwatch.ref);
}
static void walk_watch_more(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->watch_more.ref);
    cursor_u32(c, &m->watch_more.count);
}
static void walk_name_ev(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->name_ev.ref);
    cursor_u32(c, &m->name_ev.gone);
    walk_entry(c, &m->name_ev.entry);
}

/* ---- what the values must be; each returns NULL or what is wrong ---------------------------- */

static const char *check_end(uint32_t kind, uint32_t worker) {
    if (kind > RDMAD_CHANNEL_UNACKED)
        return "the kind of channel is unknown";
    return worker < PEER_WORKERS ? NULL : "no worker is named that a daemon can have";
}

/* A name, or an IP address as inet_ntop writes it, perhaps with a zone: it is dialled. */
static bool host_ok(const char *host) {
    static const char chars[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                ".-_:%";
    return host[strspn(host, chars)] == '\0';
}

static const char *check_chan_req(struct peer_msg *m) {
    const struct peer_chan_req *r = &m->chan_req;
    if (!r->ref)
        return "the channel has no number";
    if (!rdmad_name_ok(r->service))
        return "no service is named";
    if (!r->port || !host_ok(r->host))
        return "the address to dial is none";
    if (r->asked > RDMAD_CHANNEL_UNACKED ||
        (r->kind != RDMAD_CHANNEL_RELIABLE && r->kind != r->asked))
        return "the kind of channel is none that can be made of what was asked for";
    return check_end(r->kind, r->worker);
}
static const char *check_chan_again(struct peer_msg *m) {
    return m->chan_req.asked == RDMAD_CHANNEL_RELIABLE
               ? check_chan_req(m)
               : "a channel of that kind does not come back";
}
static const char *check_chan_refuse(struct peer_msg *m) {
    return rdmad_error_known(m->chan_refuse.status) && m->chan_refuse.status
               ? NULL
               : "the status is none of a refusal";
}
static const char *check_chan_bind(struct peer_msg *m) {
    if (!m->chan_bind.ref || !m->chan_bind.number)
        return "the channel has no number";
    return check_end(m->chan_bind.kind, m->chan_bind.worker);
}
static const char *check_chan_alive(struct peer_msg *m) {
    if (m->chan_alive.answer > 1)
        return "it is neither a question nor an answer";
    return !m->chan_alive.answer && m->chan_alive.silent_ns ? "a question that answers" : NULL;
}
static const char *check_chan_end(struct peer_msg *m) {
    if (m->chan_end.mine > 1)
        return "mine is neither 0 nor 1";
    return rdmad_error_known(m->chan_end.reason) && m->chan_end.reason
               ? NULL
               : "the reason is none for which a channel ends";
}

static const char *check_entry(const struct rdmad_name_entry *e, bool there) {
    if (!there)
        return e->name[0] ? "a name comes after the last" : NULL;
    if (!rdmad_name_ok(e->name))
        return "no name is told";
    if (e->kind > RDMAD_NAME_SERVICE)
        return "the name is of an unknown kind";
    return e->rights & ~RDMAD_RIGHTS_ALL ? "the rights are unknown" : NULL;
}
/* A prefix that no name begins with is right; one that no name can begin with is not. */
static bool part_ok(const char *part) {
    return !part[0] || rdmad_name_ok(part) || !strcmp(part, "lease");
}
static const char *check_names_req(struct peer_msg *m) {
    return part_ok(m->names_req.prefix) && part_ok(m->names_req.after)
               ? NULL
               : "the prefix or the name to go on after is malformed";
}
static const char *check_names_rep(struct peer_msg *m) {
    const struct peer_names_rep *r = &m->names_rep;
    if (r->last > 2)
        return "last is neither 0, 1 nor 2";
    return check_entry(&r->entry, r->last == 0);
}
static const char *check_watch_req(struct peer_msg *m) {
    return part_ok(m->watch_req.prefix) ? NULL : "the prefix is malformed";
}
static const char *check_name_ev(struct peer_msg *m) {
    const struct peer_name_ev *r = &m->name_ev;
    if (r->gone > NAMES_ANEW)
        return "gone is none of 0, 1 and 2";
    if (r->gone == NAMES_ANEW && r->entry.name[0])
        return "all names anew, and one of them";
    return check_entry(&r->entry, r->entry.name[0]);
}

static const char *check_watch_more(struct peer_msg *m) {
    return m->watch_more.count ? NULL : "no more names";
}

#define ENTRY_BYTES (NAME_BYTES + 4 + 4 + 8 + 8)

const struct form form_channel_messages[PEER_MSG_COUNT] = {
    [PEER_MSG_CHAN_REQ] = {"CHAN_REQ", 8 + 16 + 4 * 4 + 2 + 2 * NAME_BYTES, DIALLER, walk_chan_req,
                           check_chan_req},
    [PEER_MSG_CHAN_AGAIN] = {"CHAN_AGAIN", 8 + 16 + 4 * 4 + 2 + 2 * NAME_BYTES, DIALLER,
                             walk_chan_req, check_chan_again},
    [PEER_MSG_CHAN_REFUSE] = {"CHAN_REFUSE", 8 + 4 + TEXT_BYTES, ACCEPTOR, walk_chan_refuse,
                              check_chan_refuse},
    [PEER_MSG_CHAN_BIND] = {"CHAN_BIND", 8 + 16 + 8 + 3 * 4, DIALLER, walk_chan_bind,
                            check_chan_bind},
    [PEER_MSG_CHAN_OPEN] = {"CHAN_OPEN", 8, DIALLER, walk_chan_open, NULL},
    [PEER_MSG_CHAN_END] = {"CHAN_END", 8 + 4 + 4 + TEXT_BYTES, BOTH, walk_chan_end, check_chan_end},
    [PEER_MSG_CHAN_ALIVE] = {"CHAN_ALIVE", 8 + 4 + 8, BOTH, walk_chan_alive, check_chan_alive},
    [PEER_MSG_NAMES_REQ] = {"NAMES_REQ", 8 + 2 * NAME_BYTES, DIALLER, walk_names_req,
                            check_names_req},
    [PEER_MSG_NAMES_REP] = {"NAMES_REP", 8 + 4 + ENTRY_BYTES, ACCEPTOR, walk_names_rep,
                            check_names_rep},
    [PEER_MSG_WATCH_REQ] = {"WATCH_REQ", 8 + NAME_BYTES, DIALLER, walk_watch_req, check_watch_req},
    [PEER_MSG_WATCH_MORE] = {"WATCH_MORE", 8 + 4, DIALLER, walk_watch_more, check_watch_more},
    [PEER_MSG_UNWATCH] = {"UNWATCH", 8, DIALLER, walk_unwatch, NULL},
    [PEER_MSG_NAME_EV] = {"NAME_EV", 8 + 4 + ENTRY_BYTES, ACCEPTOR, walk_name_ev, check_name_ev},
};
