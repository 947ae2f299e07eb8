/* SPDX-License-Identifier: MIT */
/*
 * serve.c - one validator for every message, every reject with a sentence of its own.
 *
 * The header is copied out, checked field by field in the order of the struct, and only a message
 * that is right in everything all messages have in common reaches its handler. A malformed message
 * is answered and changes nothing; the session goes on. Without a whole header, or without our
 * magic, there is no seq to answer to: such answers have seq 0 and type RDMAD_MSG_REPLY.
 */
#include "daemon/serve/serve.h"
#include "common/versions.h"
#include "daemon/ipc/porter.h"
#include "daemon/serve/handlers.h"
#include "daemon/state/closing.h"
#include "daemon/state/thread_watch.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

static const struct {
    serve_handler *handler;
    size_t body_size;
} table[RDMAD_MSG_COUNT] = {
    [RDMAD_MSG_HELLO] = {serve_hello, sizeof(struct rdmad_hello_req)},
    [RDMAD_MSG_RING_CREATE] = {serve_ring_create, sizeof(struct rdmad_ring_create_req)},
    [RDMAD_MSG_RING_DESTROY] = {serve_ring_destroy, sizeof(struct rdmad_ring_destroy_req)},
    [RDMAD_MSG_POOL_CREATE] = {serve_pool_create, sizeof(struct rdmad_pool_create_req)},
    [RDMAD_MSG_POOL_DESTROY] = {serve_pool_destroy, sizeof(struct rdmad_pool_destroy_req)},
    [RDMAD_MSG_LEASE_GRANT] = {serve_lease_grant, sizeof(struct rdmad_lease_grant_req)},
    [RDMAD_MSG_LEASE_ATTACH] = {serve_lease_attach, sizeof(struct rdmad_lease_attach_req)},
    [RDMAD_MSG_LEASE_RENEW] = {serve_lease_renew, sizeof(struct rdmad_lease_renew_req)},
    [RDMAD_MSG_LEASE_RELEASE] = {serve_lease_release, sizeof(struct rdmad_lease_release_req)},
    [RDMAD_MSG_LEASE_REVOKE] = {serve_lease_revoke, sizeof(struct rdmad_lease_revoke_req)},
    [RDMAD_MSG_LEASE_STAT] = {serve_lease_stat, sizeof(struct rdmad_lease_stat_req)},
    [RDMAD_MSG_POOL_IMPORT] = {serve_pool_import, sizeof(struct rdmad_pool_import_req)},
    [RDMAD_MSG_LEASE_DELEGATE] = {serve_lease_delegate, sizeof(struct rdmad_lease_delegate_req)},
    [RDMAD_MSG_LEASE_REQUEST] = {serve_lease_request, sizeof(struct rdmad_lease_request_req)},
    [RDMAD_MSG_LEASE_HAND_OVER] = {serve_lease_hand_over, sizeof(struct rdmad_lease_hand_over_req)},
    [RDMAD_MSG_BUDGET_FREE] = {serve_budget_free, sizeof(struct rdmad_budget_free_req)},
    [RDMAD_MSG_NAMES_LIST] = {serve_names_list, sizeof(struct rdmad_names_list_req)},
    [RDMAD_MSG_NAMES_WATCH] = {serve_names_watch, sizeof(struct rdmad_names_watch_req)},
    [RDMAD_MSG_NAMES_UNWATCH] = {serve_names_unwatch, sizeof(struct rdmad_names_unwatch_req)},
    [RDMAD_MSG_LEASE_KEEP] = {serve_lease_keep, sizeof(struct rdmad_lease_keep_req)},
    [RDMAD_MSG_SERVICE_LISTEN] = {serve_service_listen, sizeof(struct rdmad_service_listen_req)},
    [RDMAD_MSG_SERVICE_CLOSE] = {serve_service_close, sizeof(struct rdmad_service_close_req)},
    [RDMAD_MSG_CHANNEL_CONNECT] = {serve_channel_connect, sizeof(struct rdmad_channel_connect_req)},
    [RDMAD_MSG_CHANNEL_ACCEPT] = {serve_channel_accept, sizeof(struct rdmad_channel_accept_req)},
    [RDMAD_MSG_CHANNEL_REJECT] = {serve_channel_reject, sizeof(struct rdmad_channel_reject_req)},
    [RDMAD_MSG_CHANNEL_CLOSE] = {serve_channel_close, sizeof(struct rdmad_channel_close_req)},
    [RDMAD_MSG_POOL_READY] = {serve_pool_ready, sizeof(struct rdmad_pool_ready_req)},
    [RDMAD_MSG_RING_READY] = {serve_ring_ready, sizeof(struct rdmad_ring_ready_req)},
    [RDMAD_MSG_LIFELINE] = {serve_lifeline, sizeof(struct rdmad_lifeline_req)},
    [RDMAD_MSG_RESUME_OFFER] = {serve_resume_offer, sizeof(struct rdmad_resume_offer_req)},
    [RDMAD_MSG_SESSION_RESUME] = {serve_session_resume, sizeof(struct rdmad_session_resume_req)},
    [RDMAD_MSG_POOL_RESUME] = {serve_pool_resume, sizeof(struct rdmad_pool_resume_req)},
    [RDMAD_MSG_LEASE_RESUME] = {serve_lease_resume, sizeof(struct rdmad_lease_resume_req)},
    [RDMAD_MSG_ATTACH_RESUME] = {serve_attach_resume, sizeof(struct rdmad_attach_resume_req)},
    [RDMAD_MSG_CHANNEL_PROOF] = {serve_channel_proof, sizeof(struct rdmad_channel_proof_req)},
    [RDMAD_MSG_CHANNEL_RESUME] = {serve_channel_resume, sizeof(struct rdmad_channel_resume_req)},
    [RDMAD_MSG_CHANNEL_KEEPALIVE] = {serve_channel_keepalive,
                                     sizeof(struct rdmad_channel_keepalive_req)},
    [RDMAD_MSG_SERVICE_RESUME] = {serve_service_resume, sizeof(struct rdmad_service_resume_req)},
    [RDMAD_MSG_BUDGET_RESUME] = {serve_budget_resume, sizeof(struct rdmad_budget_resume_req)},
    [RDMAD_MSG_PART_RESUME] = {serve_part_resume, sizeof(struct rdmad_part_resume_req)},
    [RDMAD_MSG_CHANNEL_STAT] = {serve_channel_stat, sizeof(struct rdmad_channel_stat_req)},
};

/* Fills in h and what an answer needs of it. */
static int read_header(const void *data, size_t size, struct rdmad_msg_header *h,
                       struct request *rq, struct error *err) {
    if (size < sizeof(*h))
        return error_set(err, RDMAD_E_LENGTH,
                         "a packet of %zu bytes is shorter than a message header, %zu bytes", size,
                         sizeof(*h));
    memcpy(h, data, sizeof(*h));
    if (h->magic != RDMAD_WIRE_MAGIC)
        return error_set(err, RDMAD_E_PROTOCOL,
                         "a message starts with 0x%08" PRIx32 ", this one with 0x%08" PRIx32,
                         RDMAD_WIRE_MAGIC, h->magic);
    rq->type = h->type;
    rq->seq = h->seq;
    return 0;
}

/* Until HELLO was good the client proposes a version with each message, and is answered under that,
 * or under our highest if that is lower (wire.h). */
static int agree_version(struct session *s, uint16_t asked, struct error *err) {
    const struct rdmad_versions ours = rdmad_abi_versions;
    char words[RDMAD_VERSIONS_TEXT];
    if (s->greeted)
        return asked == s->version
                   ? 0
                   : error_set(err, RDMAD_E_VERSION,
                               "a message of version %u came in a session that has agreed on %u",
                               asked, s->version);
    s->version = asked < ours.highest ? asked : ours.highest;
    if (rdmad_versions_have(ours, asked))
        return 0;
    return error_set(err, RDMAD_E_VERSION,
                     "librdmad proposes version %u of the client protocol, this rdmad speaks %s; "
                     "install a newer %s",
                     asked, rdmad_versions_print(ours, words),
                     asked < ours.lowest ? "librdmad, or an older rdmad"
                                         : "rdmad, or an older librdmad");
}

static int check_header(const struct rdmad_msg_header *h, size_t size, struct error *err) {
    if (h->type == 0 || h->type >= RDMAD_MSG_COUNT || !table[h->type].handler)
        return error_set(err, RDMAD_E_TYPE, "message type %u is unknown", h->type);
    if (h->length != size)
        return error_set(err, RDMAD_E_LENGTH,
                         "the message says it has %" PRIu32 " bytes and came with %s%zu", h->length,
                         size > RDMAD_MSG_MAX ? "more than " : "",
                         size > RDMAD_MSG_MAX ? (size_t)RDMAD_MSG_MAX : size);
    size_t want = sizeof(*h) + table[h->type].body_size;
    if (size != want)
        return error_set(err, RDMAD_E_LENGTH,
                         "a message of type %u has %zu bytes, this one has %zu", h->type, want,
                         size);
    if (h->seq == 0)
        return error_set(err, RDMAD_E_PROTOCOL, "seq 0 is for events; number requests from 1");
    if (h->status != 0 || h->reserved != 0)
        return error_set(err, RDMAD_E_RESERVED,
                         "status and reserved of a request must be 0, they are %" PRId32
                         " and %" PRIu32,
                         h->status, h->reserved);
    return 0;
}

static unsigned descriptors_wanted(uint16_t type) {
    return type == RDMAD_MSG_POOL_IMPORT || type == RDMAD_MSG_POOL_RESUME;
}

/* The porter hands on nothing else. */
static int check_import(int fd, struct error *err) {
    if (fd == PORTER_NO_PLACE)
        return error_set(
            err, RDMAD_E_LIMIT,
            "rdmad has no descriptor left for the memfd; try again later, or raise its "
            "limit of open files");
    if (fd < 0)
        return error_set(
            err, RDMAD_E_FDS,
            "the descriptor is not of a memfd: only memfd_create makes memory that can "
            "be imported");
    return 0;
}

static int check_context(const struct session *s, const struct rdmad_msg_header *h, const int *fds,
                         unsigned nfds, struct error *err) {
    unsigned want = descriptors_wanted(h->type);
    if (nfds < want)
        return error_set(err, RDMAD_E_FDS,
                         "a message of type %u comes with %u descriptor, this one came without",
                         h->type, want);
    if (nfds > want && want)
        return error_set(err, RDMAD_E_FDS,
                         "a message of type %u comes with %u descriptor, this one came with more; "
                         "they are closed",
                         h->type, want);
    if (nfds > want)
        return error_set(err, RDMAD_E_FDS,
                         "%s%u descriptors came with a message that takes none; they are closed",
                         nfds > RDMAD_MSG_MAX_FDS ? "more than " : "",
                         nfds > RDMAD_MSG_MAX_FDS ? RDMAD_MSG_MAX_FDS : nfds);
    if (!s->greeted && h->type != RDMAD_MSG_HELLO)
        return error_set(err, RDMAD_E_PROTOCOL, "the first message of a session must be HELLO");
    if (s->greeted && h->type == RDMAD_MSG_HELLO)
        return error_set(err, RDMAD_E_PROTOCOL, "this session has said HELLO before");
    return want ? check_import(fds[0], err) : 0;
}

static void take_message(struct session *s, const void *data, size_t size, int *fds,
                         unsigned nfds) {
    struct request rq = {.session = s};
    struct rdmad_msg_header h;
    struct error err;
    if (s->closing)
        return;
    if (read_header(data, size, &h, &rq, &err) || agree_version(s, h.version, &err) ||
        check_header(&h, size, &err) || check_context(s, &h, fds, nfds, &err)) {
        serve_fail(&rq, &err);
        return;
    }
    /* Bodies have 64-bit fields; the packet's buffer promises no alignment. */
    union {
        uint64_t aligned[RDMAD_MSG_MAX / sizeof(uint64_t)];
        unsigned char bytes[RDMAD_MSG_MAX];
    } body;
    memcpy(body.bytes, (const unsigned char *)data + sizeof(h), size - sizeof(h));
    rq.fd = descriptors_wanted(h.type) ? fds : NULL;
    table[h.type].handler(&rq, body.bytes);
}

/* A descriptor that nobody took is memory of the client's, and may take long to be freed. */
static void close_memory(struct session *s, int *fds, unsigned nfds) {
    for (unsigned i = 0; i < nfds && i < RDMAD_MSG_MAX_FDS; i++) {
        if (fds[i] >= 0 && fcntl(fds[i], F_GET_SEALS) >= 0) {
            session_close_fd(s, fds[i]);
            fds[i] = -1;
        }
    }
}

void serve_message(struct session *s, const void *data, size_t size, int *fds, unsigned nfds) {
    thread_watch_stir(s->state);
    session_hold(s); /* its end may be the answer */
    take_message(s, data, size, fds, nfds);
    close_memory(s, fds, nfds);
    session_release(s);
}
