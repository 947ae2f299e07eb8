/* SPDX-License-Identifier: MIT */
/*
 * The dispatcher: every malformed message gets its own error and reaches no handler, every
 * well-formed one reaches exactly its handler. Handlers and the way back are the test's own.
 */
#include "common/versions.h"
#include "daemon/ipc/porter.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/serve.h"
#include "daemon/state/closing.h"
#include "daemon/state/thread_watch.h"
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the place of those of the build. */
const struct rdmad_versions rdmad_abi_versions = {2, 4};

static struct {
    unsigned replies, handled;
    uint16_t type, handled_type;
    uint32_t seq;
    int status;
    char text[RDMAD_TEXT_MAX + 1];
} seen;

void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why) {
    (void)s;
    seen.replies++;
    seen.type = type;
    seen.seq = seq;
    seen.status = why->code;
    strcpy(seen.text, why->text);
}

bool session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds) {
    (void)s, (void)type, (void)seq, (void)body, (void)size, (void)fds, (void)nfds;
    seen.replies++;
    return true;
}

static unsigned holds, given_back;

static unsigned stirred;

void thread_watch_stir(struct state *st) {
    (void)st;
    stirred++;
}

void session_hold(struct session *s) {
    (void)s;
    holds++;
}

void session_release(struct session *s) {
    (void)s;
    cr_assert_gt(holds, 0);
    holds--;
}

void session_close_fd(struct session *s, int fd) {
    (void)s;
    cr_assert_gt(holds, 0, "the session may be gone");
    close(fd);
    given_back++;
}

#define HANDLER(name)                                        \
    void name(const struct request *rq, const void *body) {  \
        cr_assert_eq((uintptr_t)body % sizeof(uint64_t), 0); \
        seen.handled++;                                      \
        seen.handled_type = rq->type;                        \
        seen.seq = rq->seq;                                  \
    }
HANDLER(serve_hello)
HANDLER(serve_ring_create)
HANDLER(serve_ring_destroy)
HANDLER(serve_pool_create)
HANDLER(serve_pool_destroy)
HANDLER(serve_lease_grant)
HANDLER(serve_lease_attach)
HANDLER(serve_lease_renew)
HANDLER(serve_lease_release)
HANDLER(serve_lease_revoke)
HANDLER(serve_lease_stat)
HANDLER(serve_pool_import)
HANDLER(serve_lease_delegate)
HANDLER(serve_lease_keep)
HANDLER(serve_lease_request)
HANDLER(serve_lease_hand_over)
HANDLER(serve_budget_free)
HANDLER(serve_names_list)
HANDLER(serve_names_watch)
HANDLER(serve_names_unwatch)
HANDLER(serve_service_listen)
HANDLER(serve_service_close)
HANDLER(serve_channel_connect)
HANDLER(serve_channel_accept)
HANDLER(serve_channel_reject)
HANDLER(serve_channel_close)
HANDLER(serve_channel_stat)
HANDLER(serve_channel_keepalive)
HANDLER(serve_pool_ready)
HANDLER(serve_ring_ready)
HANDLER(serve_resume_offer)
HANDLER(serve_session_resume)
HANDLER(serve_pool_resume)
HANDLER(serve_lease_resume)
HANDLER(serve_attach_resume)
HANDLER(serve_channel_proof)
HANDLER(serve_channel_resume)
HANDLER(serve_part_resume)
HANDLER(serve_service_resume)
HANDLER(serve_budget_resume)
HANDLER(serve_lifeline)

static const size_t body_size[RDMAD_MSG_COUNT] = {
    [RDMAD_MSG_HELLO] = sizeof(struct rdmad_hello_req),
    [RDMAD_MSG_RING_CREATE] = sizeof(struct rdmad_ring_create_req),
    [RDMAD_MSG_RING_DESTROY] = sizeof(struct rdmad_ring_destroy_req),
    [RDMAD_MSG_POOL_CREATE] = sizeof(struct rdmad_pool_create_req),
    [RDMAD_MSG_POOL_DESTROY] = sizeof(struct rdmad_pool_destroy_req),
    [RDMAD_MSG_LEASE_GRANT] = sizeof(struct rdmad_lease_grant_req),
    [RDMAD_MSG_LEASE_ATTACH] = sizeof(struct rdmad_lease_attach_req),
    [RDMAD_MSG_LEASE_RENEW] = sizeof(struct rdmad_lease_renew_req),
    [RDMAD_MSG_LEASE_RELEASE] = sizeof(struct rdmad_lease_release_req),
    [RDMAD_MSG_LEASE_REVOKE] = sizeof(struct rdmad_lease_revoke_req),
    [RDMAD_MSG_LEASE_STAT] = sizeof(struct rdmad_lease_stat_req),
    [RDMAD_MSG_POOL_IMPORT] = sizeof(struct rdmad_pool_import_req),
    [RDMAD_MSG_LEASE_DELEGATE] = sizeof(struct rdmad_lease_delegate_req),
    [RDMAD_MSG_LEASE_KEEP] = sizeof(struct rdmad_lease_keep_req),
    [RDMAD_MSG_LEASE_REQUEST] = sizeof(struct rdmad_lease_request_req),
    [RDMAD_MSG_LEASE_HAND_OVER] = sizeof(struct rdmad_lease_hand_over_req),
    [RDMAD_MSG_BUDGET_FREE] = sizeof(struct rdmad_budget_free_req),
    [RDMAD_MSG_NAMES_LIST] = sizeof(struct rdmad_names_list_req),
    [RDMAD_MSG_NAMES_WATCH] = sizeof(struct rdmad_names_watch_req),
    [RDMAD_MSG_NAMES_UNWATCH] = sizeof(struct rdmad_names_unwatch_req),
    [RDMAD_MSG_SERVICE_LISTEN] = sizeof(struct rdmad_service_listen_req),
    [RDMAD_MSG_SERVICE_CLOSE] = sizeof(struct rdmad_service_close_req),
    [RDMAD_MSG_CHANNEL_CONNECT] = sizeof(struct rdmad_channel_connect_req),
    [RDMAD_MSG_CHANNEL_ACCEPT] = sizeof(struct rdmad_channel_accept_req),
    [RDMAD_MSG_CHANNEL_REJECT] = sizeof(struct rdmad_channel_reject_req),
    [RDMAD_MSG_CHANNEL_CLOSE] = sizeof(struct rdmad_channel_close_req),
    [RDMAD_MSG_POOL_READY] = sizeof(struct rdmad_pool_ready_req),
    [RDMAD_MSG_RING_READY] = sizeof(struct rdmad_ring_ready_req),
    [RDMAD_MSG_LIFELINE] = sizeof(struct rdmad_lifeline_req),
    [RDMAD_MSG_RESUME_OFFER] = sizeof(struct rdmad_resume_offer_req),
    [RDMAD_MSG_SESSION_RESUME] = sizeof(struct rdmad_session_resume_req),
    [RDMAD_MSG_POOL_RESUME] = sizeof(struct rdmad_pool_resume_req),
    [RDMAD_MSG_LEASE_RESUME] = sizeof(struct rdmad_lease_resume_req),
    [RDMAD_MSG_ATTACH_RESUME] = sizeof(struct rdmad_attach_resume_req),
    [RDMAD_MSG_CHANNEL_PROOF] = sizeof(struct rdmad_channel_proof_req),
    [RDMAD_MSG_CHANNEL_KEEPALIVE] = sizeof(struct rdmad_channel_keepalive_req),
    [RDMAD_MSG_SERVICE_RESUME] = sizeof(struct rdmad_service_resume_req),
    [RDMAD_MSG_BUDGET_RESUME] = sizeof(struct rdmad_budget_resume_req),
    [RDMAD_MSG_PART_RESUME] = sizeof(struct rdmad_part_resume_req),
    [RDMAD_MSG_CHANNEL_RESUME] = sizeof(struct rdmad_channel_resume_req),
    [RDMAD_MSG_CHANNEL_STAT] = sizeof(struct rdmad_channel_stat_req),
};

/* Whether a message of that type comes with a descriptor. */
static bool takes_memory(unsigned type) {
    return type == RDMAD_MSG_POOL_IMPORT || type == RDMAD_MSG_POOL_RESUME;
}

struct message {
    union {
        struct rdmad_msg_header h;
        unsigned char bytes[RDMAD_MSG_MAX + 1];
    };
    size_t size;
};

static struct message well_formed(uint16_t type) {
    struct message m = {.size = sizeof(m.h) + body_size[type]};
    m.h = (struct rdmad_msg_header){.magic = RDMAD_WIRE_MAGIC,
                                    .version = RDMAD_ABI_VERSION,
                                    .type = type,
                                    .length = (uint32_t)m.size,
                                    .seq = 77};
    return m;
}

static int first_fd = 0; /* as the porter hands it on: of a memfd */

static void say(bool greeted, const struct message *m, unsigned nfds) {
    struct session s = {.greeted = greeted, .version = RDMAD_ABI_VERSION};
    memset(&seen, 0, sizeof(seen));
    int fds[RDMAD_MSG_MAX_FDS] = {first_fd, -1, -1, -1};
    serve_message(&s, m->bytes, m->size, fds, nfds);
}

static void refused(const struct message *m, unsigned nfds, int status, const char *word) {
    say(true, m, nfds);
    cr_assert_eq(seen.handled, 0, "a malformed message was handled");
    cr_assert_eq(seen.replies, 1);
    cr_assert_eq(seen.status, status, "%d: %s", seen.status, seen.text);
    cr_assert_not_null(strstr(seen.text, word), "%s", seen.text);
}

Test(serve, every_well_formed_message_reaches_its_handler) {
    for (uint16_t type = 1; type < (uint16_t)RDMAD_MSG_COUNT; type++) {
        struct message m = well_formed(type);
        say(type != RDMAD_MSG_HELLO, &m, takes_memory(type));
        cr_assert_eq(seen.handled, 1);
        cr_assert_eq(seen.handled_type, type);
        cr_assert_eq(seen.seq, 77);
        cr_assert_eq(seen.replies, 0);
    }
}

/* HELLO of that version; returns of which the answer is. */
static uint16_t greet(uint16_t version, bool good, const char *words) {
    struct session s = {.version = rdmad_abi_versions.lowest};
    struct message m = well_formed(RDMAD_MSG_HELLO);
    m.h.version = version;
    memset(&seen, 0, sizeof(seen));
    serve_message(&s, m.bytes, m.size, NULL, 0);
    cr_expect_eq(seen.handled, good, "version %u: %s", version, seen.text);
    cr_expect_eq(seen.status, good ? 0 : RDMAD_E_VERSION, "version %u: %s", version, seen.text);
    cr_expect(strstr(seen.text, words), "version %u: %s", version, seen.text);
    return s.version;
}

Test(serve, hello_agrees_on_a_version_that_both_speak) {
    for (uint16_t v = 2; v <= 4; v++)
        cr_expect_eq(greet(v, true, ""), v);
}

Test(serve, who_speaks_none_of_ours_hears_of_both) {
    cr_expect_eq(greet(5, false, "proposes version 5"), 4, "which it may speak, too");
    cr_expect_eq(greet(UINT16_MAX, false, "this rdmad speaks versions 2 to 4"), 4);
    cr_expect_eq(greet(1, false, "this rdmad speaks versions 2 to 4; install a newer librdmad"), 1,
                 "the only one that it understands");
}

Test(serve, a_message_of_any_wrong_length_is_refused) {
    for (uint16_t type = 1; type < (uint16_t)RDMAD_MSG_COUNT; type++) {
        size_t right = sizeof(struct rdmad_msg_header) + body_size[type];
        for (size_t size = 1; size <= RDMAD_MSG_MAX + 1; size++) {
            struct message m = well_formed(type);
            m.size = size;
            m.h.length = (uint32_t)size;
            if (size == right)
                continue;
            refused(&m, 0, RDMAD_E_LENGTH, "bytes");
            cr_assert_eq(seen.seq, size < sizeof(m.h) ? 0 : 77);
        }
    }
}

Test(serve, a_length_that_is_not_the_packets_is_refused) {
    struct message m = well_formed(RDMAD_MSG_POOL_CREATE);
    m.h.length++;
    refused(&m, 0, RDMAD_E_LENGTH, "says it has 41 bytes and came with 40");
    cr_assert_eq(seen.type, RDMAD_MSG_POOL_CREATE | RDMAD_MSG_REPLY);
    m.h.length = UINT32_MAX;
    refused(&m, 0, RDMAD_E_LENGTH, "4294967295");
}

Test(serve, each_wrong_header_field_has_an_error_of_its_own) {
    const struct message good = well_formed(RDMAD_MSG_POOL_CREATE);
    struct message m = good;
    m.h.magic ^= 1;
    refused(&m, 0, RDMAD_E_PROTOCOL, "starts with");
    cr_assert_eq(seen.seq, 0, "without our magic the seq means nothing");
    m = good;
    m.h.version = RDMAD_ABI_VERSION + 1;
    refused(&m, 0, RDMAD_E_VERSION, "of version 4 came in a session that has agreed on 3");
    m = good;
    m.h.type = 0;
    refused(&m, 0, RDMAD_E_TYPE, "type 0");
    m.h.type = RDMAD_MSG_COUNT;
    refused(&m, 0, RDMAD_E_TYPE, "unknown");
    m.h.type = RDMAD_MSG_POOL_CREATE | RDMAD_MSG_REPLY;
    refused(&m, 0, RDMAD_E_TYPE, "unknown");
    m.h.type = UINT16_MAX;
    refused(&m, 0, RDMAD_E_TYPE, "unknown");
    m = good;
    m.h.seq = 0;
    refused(&m, 0, RDMAD_E_PROTOCOL, "seq 0");
    m = good;
    m.h.status = -1;
    refused(&m, 0, RDMAD_E_RESERVED, "-1");
    m = good;
    m.h.reserved = 5;
    refused(&m, 0, RDMAD_E_RESERVED, "5");
}

Test(serve, descriptors_are_refused) {
    const struct message m = well_formed(RDMAD_MSG_POOL_CREATE);
    refused(&m, 1, RDMAD_E_FDS, "1 descriptors");
    refused(&m, RDMAD_MSG_MAX_FDS + 1, RDMAD_E_FDS, "more than 4");
}

Test(serve, an_import_comes_with_one_descriptor) {
    const struct message m = well_formed(RDMAD_MSG_POOL_IMPORT);
    refused(&m, 0, RDMAD_E_FDS, "without");
    refused(&m, 2, RDMAD_E_FDS, "more");
}

Test(serve, an_import_comes_with_a_memfd_or_is_refused) {
    struct message m = well_formed(RDMAD_MSG_POOL_IMPORT);
    first_fd = -1;
    refused(&m, 1, RDMAD_E_FDS, "not of a memfd");
    first_fd = PORTER_NO_PLACE;
    refused(&m, 1, RDMAD_E_LIMIT, "no descriptor left");
}

Test(serve, hello_comes_first_and_once) {
    const struct message hello = well_formed(RDMAD_MSG_HELLO);
    refused(&hello, 0, RDMAD_E_PROTOCOL, "HELLO before");
    for (uint16_t type = RDMAD_MSG_HELLO + 1; type < (uint16_t)RDMAD_MSG_COUNT; type++) {
        struct message m = well_formed(type);
        say(false, &m, takes_memory(type));
        cr_assert_eq(seen.handled, 0);
        cr_assert_eq(seen.status, RDMAD_E_PROTOCOL);
    }
}

Test(serve, a_closing_session_is_deaf) {
    struct session s = {.greeted = true, .closing = true};
    struct message m = well_formed(RDMAD_MSG_POOL_CREATE);
    memset(&seen, 0, sizeof(seen));
    serve_message(&s, m.bytes, m.size, NULL, 0);
    cr_assert_eq(seen.handled + seen.replies, 0);
}

Test(serve, a_text_ends_in_its_field_and_is_zero_filled) {
    char field[8] = "abc";
    cr_assert(serve_text_ok(field, sizeof(field)));
    field[5] = 'x';
    cr_assert_not(serve_text_ok(field, sizeof(field)));
    memset(field, 'x', sizeof(field));
    cr_assert_not(serve_text_ok(field, sizeof(field)));
    memset(field, 0, sizeof(field));
    cr_assert(serve_text_ok(field, sizeof(field)));
}

Test(serve, memory_that_nobody_took_is_its_sessions_to_close) {
    struct session s = {.greeted = true};
    struct message m = well_formed(RDMAD_MSG_POOL_CREATE);
    int fds[RDMAD_MSG_MAX_FDS] = {memfd_create("test", MFD_CLOEXEC), -1, -1, -1};
    serve_message(&s, m.bytes, m.size, fds, 1);
    cr_expect_eq(given_back, 1, "it is closed on the thread that everybody waits for");
    cr_expect_eq(fds[0], -1);
    cr_expect_eq(holds, 0);
    cr_expect_gt(stirred, 0, "a request has the daemon look at its workers");
}
