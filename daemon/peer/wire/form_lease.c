/* SPDX-License-Identifier: MIT */
/*
 * form_lease.c - the messages about the connection itself, links and leases: what is in them, and
 * what their values must be.
 */
#include "common/errors.h"
#include "common/uri.h"
#include "daemon/peer/wire/form.h"

/* ---- the messages -------------------------------------------------------------------------- */

/* newest has the place of the serial's two highest bytes, which have always been zero. To who does
 * not know that it is a larger serial, which still only grows in a life. */
static void walk_serial(struct cursor *c, struct peer_hello *hello) {
    uint32_t low = (uint32_t)hello->serial;
    uint16_t high = (uint16_t)(hello->serial >> 32);
    cursor_u32(c, &low);
    cursor_u16(c, &high);
    cursor_u16(c, &hello->newest);
    hello->serial = (uint64_t)high << 32 | low;
}
static void walk_peer_hello(struct cursor *c, struct peer_msg *m) {
    cursor_u32(c, &m->hello.magic);
    cursor_bytes(c, m->hello.node_id, sizeof(m->hello.node_id));
    cursor_bytes(c, m->hello.life.node, sizeof(m->hello.life.node));
    cursor_u32(c, &m->hello.life.number);
    cursor_bytes(c, m->hello.life.key, sizeof(m->hello.life.key));
    walk_serial(c, &m->hello);
    cursor_bytes(c, m->hello.line, sizeof(m->hello.line));
    cursor_text(c, m->hello.node, sizeof(m->hello.node));
    for (unsigned i = 0; i < PEER_FABRICS_MAX; i++)
        cursor_text(c, m->hello.fabrics[i], sizeof(m->hello.fabrics[i]));
    cursor_text(c, m->hello.why_no_more, sizeof(m->hello.why_no_more));
    cursor_u16(c, &m->hello.listen_port);
}
static void walk_bye(struct cursor *c, struct peer_msg *m) {
    cursor_i32(c, &m->bye.code);
    cursor_text(c, m->bye.text, sizeof(m->bye.text));
}
static void walk_ping(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->ping.seq);
}
static void walk_certificate(struct cursor *c, struct peer_msg *m) {
    cursor_u32(c, &m->certificate.total);
    cursor_u32(c, &m->certificate.at);
    cursor_u16(c, &m->certificate.size);
    cursor_bytes(c, m->certificate.data, sizeof(m->certificate.data));
}
static void walk_attach_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->attach_req.lessee_ref);
    cursor_u64(c, &m->attach_req.lease);
    cursor_bytes(c, m->attach_req.key, sizeof(m->attach_req.key));
    cursor_text(c, m->attach_req.name, sizeof(m->attach_req.name));
    cursor_u32(c, &m->attach_req.uid);
    cursor_u64(c, &m->attach_req.via);
}
static void walk_attach_rep(struct cursor *c, struct peer_msg *m) {
    struct peer_attach_rep *r = &m->attach_rep;
    cursor_u64(c, &r->lessee_ref);
    cursor_u64(c, &r->owner_ref);
    cursor_i32(c, &r->status);
    cursor_u32(c, &r->rights);
    cursor_u64(c, &r->lease);
    cursor_u64(c, &r->length);
    cursor_u64(c, &r->ttl_ns);
    cursor_blob(c, &r->key);
    cursor_text(c, r->text, sizeof(r->text));
}
static void walk_release(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->release.owner_ref);
    cursor_u32(c, &m->release.returned);
}
static void walk_revoked(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->revoked.lessee_ref);
    cursor_i32(c, &m->revoked.reason);
    cursor_text(c, m->revoked.text, sizeof(m->revoked.text));
}
static void walk_stopped(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->stopped.owner_ref);
}
static void walk_ttl(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->ttl.ref);
    cursor_u64(c, &m->ttl.ttl_ns);
}
static void walk_link_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->link_req.ref);
    cursor_u32(c, &m->link_req.worker);
    cursor_blob(c, &m->link_req.hello);
}
static void walk_link_rep(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->link_rep.ref);
    cursor_i32(c, &m->link_rep.status);
    cursor_blob(c, &m->link_rep.offer);
    cursor_text(c, m->link_rep.text, sizeof(m->link_rep.text));
}
static void walk_link_gone(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->link_gone.via);
}
static void walk_key_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->key_req.owner_ref);
    cursor_u64(c, &m->key_req.via);
}
static void walk_key_rep(struct cursor *c, struct peer_msg *m) {
    struct peer_key_rep *r = &m->key_rep;
    cursor_u64(c, &r->lessee_ref);
    cursor_u64(c, &r->via);
    cursor_i32(c, &r->status);
    cursor_blob(c, &r->key);
    cursor_text(c, r->text, sizeof(r->text));
}
static void walk_used(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->used.owner_ref);
    cursor_u64(c, &m->used.bytes_read);
    cursor_u64(c, &m->used.bytes_written);
    cursor_u64(c, &m->used.ops);
}
static void walk_delegate_req(struct cursor *c, struct peer_msg *m) {
    struct peer_delegate_req *r = &m->delegate_req;
    cursor_u64(c, &r->ref);
    cursor_u64(c, &r->owner_ref);
    cursor_u64(c, &r->offset);
    cursor_u64(c, &r->length);
    cursor_u64(c, &r->ttl_ns);
    cursor_u32(c, &r->rights);
    cursor_u32(c, &r->max_attaches);
}
static void walk_delegate_rep(struct cursor *c, struct peer_msg *m) {
    struct peer_delegate_rep *r = &m->delegate_rep;
    cursor_u64(c, &r->ref);
    cursor_i32(c, &r->status);
    cursor_u64(c, &r->lease);
    cursor_u64(c, &r->ttl_ns);
    cursor_bytes(c, r->key, sizeof(r->key));
    cursor_text(c, r->text, sizeof(r->text));
}
static void walk_request_req(struct cursor *c, struct peer_msg *m) {
    struct peer_request_req *r = &m->request_req;
    cursor_u64(c, &r->lessee_ref);
    cursor_u64(c, &r->bytes);
    cursor_u64(c, &r->ttl_ns);
    cursor_u32(c, &r->rights);
    cursor_u32(c, &r->uid);
    cursor_u64(c, &r->via);
    cursor_text(c, r->service, sizeof(r->service));
}
static void walk_keep_req(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->keep_req.owner_ref);
}
static void walk_keep_rep(struct cursor *c, struct peer_msg *m) {
    cursor_u64(c, &m->keep_rep.lessee_ref);
    cursor_i32(c, &m->keep_rep.status);
    cursor_text(c, m->keep_rep.text, sizeof(m->keep_rep.text));
}

/* ---- what the values must be; each returns NULL or what is wrong ---------------------------- */

static const char *check_hello(struct peer_msg *m) {
    if (m->hello.magic != PEER_WIRE_MAGIC)
        return "the magic number is not that of an rdmad";
    if (!m->hello.node[0])
        return "the node has no name";
    if (m->hello.life.number > LIFE_LAST)
        return "no node has so many lives";
    return m->hello.fabrics[0][0] ? NULL : "no fabric is named";
}
static const char *check_bye(struct peer_msg *m) {
    if (!rdmad_error_known(m->bye.code)) /* of a later version, perhaps */
        m->bye.code = RDMAD_E_PROTOCOL;
    return NULL;
}
static const char *check_attach_req(struct peer_msg *m) {
    const struct peer_attach_req *r = &m->attach_req;
    if (r->name[0] && r->lease)
        return "a lease is named both by number and by name";
    if (r->name[0] ? !rdmad_name_ok(r->name) : !r->lease)
        return "no lease is named";
    return NULL;
}
static const char *check_attach_rep(struct peer_msg *m) {
    const struct peer_attach_rep *r = &m->attach_rep;
    if (!rdmad_error_known(r->status))
        return "the status is unknown";
    if (r->status != RDMAD_OK)
        return r->key.size ? "a refusal has a key" : NULL;
    if (!r->lease || !r->rights || (r->rights & ~RDMAD_RIGHTS_ALL))
        return "a lease without number or rights is granted";
    return NULL;
}
static const char *check_release(struct peer_msg *m) {
    return m->release.returned > PEER_HANDED_OVER ? "returned is neither 0, 1 nor 2" : NULL;
}
static const char *check_revoked(struct peer_msg *m) {
    return rdmad_error_ends_lease(m->revoked.reason) ? NULL
                                                     : "the reason is none for which a lease ends";
}
static const char *check_link_rep(struct peer_msg *m) {
    if (!rdmad_error_known(m->link_rep.status))
        return "the status is unknown";
    if (m->link_rep.status != RDMAD_OK)
        return m->link_rep.offer.size ? "a refusal has an offer" : NULL;
    return m->link_rep.offer.size ? NULL : "the offer is empty";
}
static const char *check_link_gone(struct peer_msg *m) {
    return m->link_gone.via ? NULL : "no link is named";
}
static const char *check_key_req(struct peer_msg *m) {
    return m->key_req.via ? NULL : "no link is named";
}
static const char *check_key_rep(struct peer_msg *m) {
    const struct peer_key_rep *r = &m->key_rep;
    if (!rdmad_error_known(r->status))
        return "the status is unknown";
    if (!r->via)
        return "no link is named";
    if (r->status != RDMAD_OK)
        return r->key.size ? "a refusal has a key" : NULL;
    return r->key.size ? NULL : "the key is empty";
}
static const char *check_rights(uint32_t rights) {
    return rights && !(rights & ~RDMAD_RIGHTS_ALL) ? NULL
                                                   : "the rights asked for are none or unknown";
}
static const char *check_delegate_req(struct peer_msg *m) {
    const struct peer_delegate_req *r = &m->delegate_req;
    if (!r->length || r->offset > UINT64_MAX - r->length)
        return "the range asked for is none";
    return check_rights(r->rights);
}
static const char *check_delegate_rep(struct peer_msg *m) {
    const struct peer_delegate_rep *r = &m->delegate_rep;
    if (!rdmad_error_known(r->status))
        return "the status is unknown";
    if (r->status != RDMAD_OK)
        return r->lease ? "a refusal has a lease" : NULL;
    return r->lease ? NULL : "a lease without number is granted";
}
static const char *check_request_req(struct peer_msg *m) {
    const struct peer_request_req *r = &m->request_req;
    if (!r->bytes)
        return "no bytes are asked for";
    if (!rdmad_name_ok(r->service))
        return "no service is named";
    return check_rights(r->rights);
}
static const char *check_keep_rep(struct peer_msg *m) {
    return rdmad_error_known(m->keep_rep.status) ? NULL : "the status is unknown";
}

static const char *check_certificate(struct peer_msg *m) {
    const struct peer_certificate *r = &m->certificate;
    if (!r->total || r->total > PEER_CERTIFICATES_MAX)
        return "certificates of so many bytes are not taken";
    if (r->at >= r->total || r->at % PEER_PIECE_BYTES)
        return "no piece begins there";
    uint32_t left = r->total - r->at;
    return r->size == (left < PEER_PIECE_BYTES ? left : PEER_PIECE_BYTES)
               ? NULL
               : "no piece has that size";
}

const struct form form_lease_messages[PEER_MSG_COUNT] = {
    [PEER_MSG_HELLO] = {"HELLO", 4 + 16 + (16 + 4 + 32) + 8 + 16 + 64 + FABRICS_BYTES + 2, BOTH,
                        walk_peer_hello, check_hello},
    [PEER_MSG_BYE] = {"BYE", 4 + TEXT_BYTES, BOTH, walk_bye, check_bye},
    [PEER_MSG_PING] = {"PING", 8, BOTH, walk_ping, NULL},
    [PEER_MSG_PONG] = {"PONG", 8, BOTH, walk_ping, NULL},
    [PEER_MSG_CERTIFICATE] = {"CERTIFICATE", 4 + 4 + 2 + PEER_PIECE_BYTES, BOTH, walk_certificate,
                              check_certificate},
    [PEER_MSG_ATTACH_REQ] = {"ATTACH_REQ", 8 + 8 + 16 + 64 + 4 + 8, DIALLER, walk_attach_req,
                             check_attach_req},
    [PEER_MSG_ATTACH_REP] = {"ATTACH_REP", 8 + 8 + 4 + 4 + 3 * 8 + BLOB_BYTES + TEXT_BYTES,
                             ACCEPTOR, walk_attach_rep, check_attach_rep},
    [PEER_MSG_RELEASE] = {"RELEASE", 8 + 4, DIALLER, walk_release, check_release},
    [PEER_MSG_REVOKED] = {"REVOKED", 8 + 4 + TEXT_BYTES, ACCEPTOR, walk_revoked, check_revoked},
    [PEER_MSG_USED] = {"USED", 4 * 8, DIALLER, walk_used, NULL},
    [PEER_MSG_STOPPED] = {"STOPPED", 8, DIALLER, walk_stopped, NULL},
    [PEER_MSG_RENEWED] = {"RENEWED", 16, ACCEPTOR, walk_ttl, NULL},
    [PEER_MSG_TTL_REQ] = {"TTL_REQ", 16, DIALLER, walk_ttl, NULL},
    [PEER_MSG_TTL_REP] = {"TTL_REP", 16, ACCEPTOR, walk_ttl, NULL},
    [PEER_MSG_LINK_REQ] = {"LINK_REQ", 8 + 4 + BLOB_BYTES, DIALLER, walk_link_req, NULL},
    [PEER_MSG_LINK_REP] = {"LINK_REP", 8 + 4 + BLOB_BYTES + TEXT_BYTES, ACCEPTOR, walk_link_rep,
                           check_link_rep},
    [PEER_MSG_LINK_GONE] = {"LINK_GONE", 8, DIALLER, walk_link_gone, check_link_gone},
    [PEER_MSG_KEY_REQ] = {"KEY_REQ", 8 + 8, DIALLER, walk_key_req, check_key_req},
    [PEER_MSG_KEY_REP] = {"KEY_REP", 8 + 8 + 4 + BLOB_BYTES + TEXT_BYTES, ACCEPTOR, walk_key_rep,
                          check_key_rep},
    [PEER_MSG_DELEGATE_REQ] = {"DELEGATE_REQ", 5 * 8 + 4 + 4, DIALLER, walk_delegate_req,
                               check_delegate_req},
    [PEER_MSG_DELEGATE_REP] = {"DELEGATE_REP", 8 + 4 + 8 + 8 + RDMAD_KEY_BYTES + TEXT_BYTES,
                               ACCEPTOR, walk_delegate_rep, check_delegate_rep},
    [PEER_MSG_REQUEST_REQ] = {"REQUEST_REQ", 3 * 8 + 4 + 4 + 8 + NAME_BYTES, DIALLER,
                              walk_request_req, check_request_req},
    [PEER_MSG_KEEP_REQ] = {"KEEP_REQ", 8, DIALLER, walk_keep_req, NULL},
    [PEER_MSG_KEEP_REP] = {"KEEP_REP", 8 + 4 + TEXT_BYTES, ACCEPTOR, walk_keep_rep, check_keep_rep},
};
