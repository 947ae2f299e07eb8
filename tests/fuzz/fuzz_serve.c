/* SPDX-License-Identifier: MIT */
/* Any packet is either answered once or handed to one handler with a whole body. */
#include "daemon/ipc/porter.h"
#include "daemon/serve/handlers.h"
#include "daemon/serve/serve.h"
#include "daemon/state/closing.h"
#include "daemon/state/thread_watch.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The lowest byte of a message's number tells how many descriptors came; the next whether there was
 * a place for them, and whether the session has said hello. */
#define SEQ_AT offsetof(struct rdmad_msg_header, seq)

static unsigned answers;
static volatile unsigned char sink;

void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why) {
    (void)s, (void)type, (void)seq;
    if (!why->code || !*why->text)
        abort();
    answers++;
}

bool session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds) {
    (void)s, (void)type, (void)seq, (void)body, (void)size, (void)fds, (void)nfds;
    answers++;
    return true;
}

void thread_watch_stir(struct state *st) {
    (void)st;
}

void session_hold(struct session *s) {
    (void)s;
}

void session_release(struct session *s) {
    (void)s;
}

void session_close_fd(struct session *s, int fd) {
    (void)s, (void)fd;
    abort(); /* none came */
}

#define HANDLER(name, req)                                  \
    void name(const struct request *rq, const void *body) { \
        struct req copy;                                    \
        (void)rq;                                           \
        memcpy(&copy, body, sizeof(copy));                  \
        sink = ((unsigned char *)&copy)[sizeof(copy) - 1];  \
        answers++;                                          \
    }
HANDLER(serve_hello, rdmad_hello_req)
HANDLER(serve_ring_create, rdmad_ring_create_req)
HANDLER(serve_ring_destroy, rdmad_ring_destroy_req)
HANDLER(serve_pool_create, rdmad_pool_create_req)
HANDLER(serve_pool_destroy, rdmad_pool_destroy_req)
HANDLER(serve_lease_grant, rdmad_lease_grant_req)
HANDLER(serve_lease_attach, rdmad_lease_attach_req)
HANDLER(serve_lease_renew, rdmad_lease_renew_req)
HANDLER(serve_lease_release, rdmad_lease_release_req)
HANDLER(serve_lease_revoke, rdmad_lease_revoke_req)
HANDLER(serve_lease_stat, rdmad_lease_stat_req)
HANDLER(serve_pool_import, rdmad_pool_import_req)
HANDLER(serve_lease_delegate, rdmad_lease_delegate_req)
HANDLER(serve_lease_keep, rdmad_lease_keep_req)
HANDLER(serve_lease_request, rdmad_lease_request_req)
HANDLER(serve_lease_hand_over, rdmad_lease_hand_over_req)
HANDLER(serve_budget_free, rdmad_budget_free_req)
HANDLER(serve_names_list, rdmad_names_list_req)
HANDLER(serve_names_watch, rdmad_names_watch_req)
HANDLER(serve_names_unwatch, rdmad_names_unwatch_req)
HANDLER(serve_service_listen, rdmad_service_listen_req)
HANDLER(serve_service_close, rdmad_service_close_req)
HANDLER(serve_channel_connect, rdmad_channel_connect_req)
HANDLER(serve_channel_accept, rdmad_channel_accept_req)
HANDLER(serve_channel_reject, rdmad_channel_reject_req)
HANDLER(serve_channel_close, rdmad_channel_close_req)
HANDLER(serve_channel_stat, rdmad_channel_stat_req)
HANDLER(serve_channel_keepalive, rdmad_channel_keepalive_req)
HANDLER(serve_pool_ready, rdmad_pool_ready_req)
HANDLER(serve_ring_ready, rdmad_ring_ready_req)
HANDLER(serve_resume_offer, rdmad_resume_offer_req)
HANDLER(serve_session_resume, rdmad_session_resume_req)
HANDLER(serve_pool_resume, rdmad_pool_resume_req)
HANDLER(serve_lease_resume, rdmad_lease_resume_req)
HANDLER(serve_attach_resume, rdmad_attach_resume_req)
HANDLER(serve_channel_proof, rdmad_channel_proof_req)
HANDLER(serve_channel_resume, rdmad_channel_resume_req)
HANDLER(serve_part_resume, rdmad_part_resume_req)
HANDLER(serve_service_resume, rdmad_service_resume_req)
HANDLER(serve_budget_resume, rdmad_budget_resume_req)
HANDLER(serve_lifeline, rdmad_lifeline_req)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct session s = {.version = RDMAD_ABI_OLDEST, /* as the corpus, which is not made anew */
                        .greeted = size > SEQ_AT + 1 && data[SEQ_AT + 1] & 2};
    /* As the porter hands them on: what is no memfd does not come along. */
    int fds[RDMAD_MSG_MAX_FDS] = {-1, -1, -1, -1};
    unsigned nfds = size > SEQ_AT ? data[SEQ_AT] % (RDMAD_MSG_MAX_FDS + 2) : 0;
    if (size == 0 || size > RDMAD_MSG_MAX + 1)
        return -1;
    if (nfds == 1 && size > SEQ_AT + 1 && data[SEQ_AT + 1] & 1)
        fds[0] = PORTER_NO_PLACE;
    answers = 0;
    serve_message(&s, data, size, fds, nfds);
    if (answers != 1)
        abort();
    return 0;
}
