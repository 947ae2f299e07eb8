/* SPDX-License-Identifier: MIT */
#include "tests/support/raw_resume.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int raw_offer(int sock, struct rdmad_resume_proof *out, char *text) {
    struct rdmad_resume_offer_req req = {.reserved = 0};
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_RESUME_OFFER, &req, sizeof(req), &reply);
    if (status)
        snprintf(text, RDMAD_TEXT_MAX + 1, "%s", raw_text(&reply));
    else
        memcpy(out, raw_body(&reply), sizeof(*out));
    return status;
}

int raw_prove(int sock, const struct rdmad_resume_proof *proof) {
    struct raw_packet reply;
    return raw_request(sock, RDMAD_MSG_SESSION_RESUME, proof, sizeof(*proof), &reply);
}

int raw_offered(struct tdaemon *d, struct rdmad_resume_proof *proof) {
    char text[RDMAD_TEXT_MAX + 1] = "";
    int sock = raw_session(tdaemon_dir(d));
    int status = raw_offer(sock, proof, text);
    if (status == RDMAD_E_UNSUPPORTED)
        skip("%s", text);
    CHECK(status == 0, "%s", text);
    return sock;
}

void raw_pool_to_keep(int sock, size_t bytes, struct raw_pool *p) {
    char text[RDMAD_TEXT_MAX + 1] = "";
    CHECK(raw_pool_make(sock, bytes, 0, p) == 0, "pool");
    memset(p->base, 7, p->bytes);
    CHECK(fcntl(p->fd, F_ADD_SEALS, F_SEAL_SEAL) == 0, "%s", strerror(errno));
    CHECK(raw_pool_ready(sock, p->handle, text) == 0, "%s", text);
}

int raw_pool_back(int sock, uint64_t number, const struct raw_pool *p, char *text) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_resume_req body;
    } m = {.body = {.pool = number, .bytes = p->bytes}};
    struct raw_packet reply;
    raw_header(&m.header, RDMAD_MSG_POOL_RESUME, sizeof(m.body));
    CHECK(raw_send(sock, &m, sizeof(m), &p->fd, 1) == 0, "cannot send");
    CHECK(raw_recv(sock, &reply, (int)TEST_PATIENCE_MS), "no answer");
    text[0] = '\0';
    if (reply.header.status) {
        snprintf(text, RDMAD_TEXT_MAX + 1, "%s", raw_text(&reply));
        return reply.header.status;
    }
    return raw_pool_ready(sock, number, text);
}

int raw_lease_back(int sock, const struct rdmad_lease_resume_req *req,
                   struct rdmad_lease_grant_rep *out) {
    struct raw_packet reply;
    int status = raw_request(sock, RDMAD_MSG_LEASE_RESUME, req, sizeof(*req), &reply);
    if (!status)
        memcpy(out, raw_body(&reply), sizeof(*out));
    return status;
}
