/* SPDX-License-Identifier: MIT */
/*
 * test_async_rdma.c - what async-rdma's own test programs and examples do, one by one, with us:
 * write, read, send, send with immediate data, write with immediate data, compare-and-swap, memory
 * asked for at the other side, memory of ours handed over, memory of theirs handed on, and
 * everything that may time out. Each in less than forty lines of user code; what they share is
 * opening two clients and connecting them (support/pair.c).
 *
 * Their names for it: request_remote_mr, send_local_mr, send_remote_mr, receive_local_mr,
 * receive_remote_mr, write_with_imm, receive_write_imm, atomic_cas, ..._with_timeout.
 */
#include "tests/support/pair.h"

#include <pthread.h>
#include <string.h>

enum { BYTES = 1 << 20 };

#define OK(session, call) CHECK(!(call), #call ": %s", rdmad_last_error(session))

/* ---- one-sided ----------------------------------------------------------------------------- */

static void write_(struct pair *p) {
    memcpy(p->near, "written", 8);
    OK(p->a, rdmad_write(p->lease, 100, p->near, 8));
    CHECK(strcmp((char *)p->far + 100, "written") == 0, "the owner sees %s", (char *)p->far + 100);
}

static void read_(struct pair *p) {
    memcpy(p->far + 200, "theirs", 7);
    OK(p->a, rdmad_read(p->lease, 200, p->near, 7));
    CHECK(strcmp((char *)p->near, "theirs") == 0, "read %s", (char *)p->near);
}

static void write_with_imm(struct pair *p) {
    uint32_t imm = 0;
    memcpy(p->near, "look", 5);
    OK(p->a, rdmad_write_notify(p->lease, 300, p->near, 5, 42));
    OK(p->b, rdmad_wait_notified(p->own, (int)TEST_PATIENCE_MS, &imm, NULL));
    CHECK(imm == 42 && strcmp((char *)p->far + 300, "look") == 0, "imm %u", imm);
}

static void cas(struct pair *p) {
    uint64_t *cell = (uint64_t *)(void *)(p->far + 400), old = 0;
    *cell = 7;
    OK(p->a, rdmad_cas(p->lease, 400, 7, 9, &old));
    CHECK(old == 7 && *cell == 9, "it was %llu and is %llu", (unsigned long long)old,
          (unsigned long long)*cell);
    OK(p->a, rdmad_cas(p->lease, 400, 7, 11, &old));
    CHECK(old == 9 && *cell == 9, "unequal, and yet it became %llu", (unsigned long long)*cell);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void *echo(void *arg) {
    struct pair *p = arg;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    OK(p->b, rdmad_recv(p->cb, p->far, 4096, (int)TEST_PATIENCE_MS, &m));
    if (m.flags & RDMAD_CQE_IMM)
        OK(p->b, rdmad_send_imm(p->cb, p->far, m.length, m.imm + 1));
    else
        OK(p->b, rdmad_send(p->cb, p->far, m.length));
    return NULL;
}

static void send_(struct pair *p) {
    pthread_t other;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    pthread_create(&other, NULL, echo, p);
    memcpy(p->near, "hello", 6);
    OK(p->a, rdmad_send(p->ca, p->near, 6));
    OK(p->a, rdmad_recv(p->ca, p->near + 4096, 4096, (int)TEST_PATIENCE_MS, &m));
    CHECK(m.length == 6 && strcmp((char *)p->near + 4096, "hello") == 0 && !m.flags, "echo");
    pthread_join(other, NULL);
}

static void send_with_imm(struct pair *p) {
    pthread_t other;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    pthread_create(&other, NULL, echo, p);
    OK(p->a, rdmad_send_imm(p->ca, p->near, 0, 77)); /* no bytes but the immediate ones */
    OK(p->a, rdmad_recv(p->ca, p->near, 0, (int)TEST_PATIENCE_MS, &m));
    CHECK(m.length == 0 && (m.flags & RDMAD_CQE_IMM) && m.imm == 78, "imm %u", m.imm);
    pthread_join(other, NULL);
}

/* ---- leases on the way --------------------------------------------------------------------- */

/* Theirs: memory is allocated at the other side at our request, filled, and handed over. */
static void request_remote(struct pair *p) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    struct rdmad_event event = RDMAD_EVENT_INIT;
    rdmad_service *store;
    rdmad_lease *theirs;
    terms.budget = p->far + BYTES / 2;
    terms.budget_bytes = BYTES / 2;
    OK(p->b, rdmad_listen(p->b, "store", &terms, &store));
    OK(p->a, rdmad_lease_request(p->a, rdmad_service_uri(store), 8192, NULL, 0, &theirs));
    fill_bytes(p->near, 8192, 1);
    OK(p->a, rdmad_write(theirs, 0, p->near, 8192));
    OK(p->a, rdmad_lease_hand_over(theirs));
    do
        OK(p->b, rdmad_next_event(p->b, (int)TEST_PATIENCE_MS, &event));
    while (event.type != RDMAD_EVENT_HANDED_OVER);
    size_t at;
    CHECK(event.service == store && event.length == 8192, "%zu bytes", event.length);
    CHECK(bytes_are(event.memory, 8192, 1, &at), "byte %zu differs", at);
    OK(p->b, rdmad_service_free(store, event.memory));
    rdmad_service_close(store);
}

/* Ours: the other side gets the right to memory of ours inside a message. */
static void *give(void *arg) {
    struct pair *p = arg;
    rdmad_lease *mine;
    memcpy(p->near + 8192, "mine", 5);
    OK(p->a, rdmad_lease_grant(p->a, p->near + 8192, 4096, NULL, &mine));
    OK(p->a, rdmad_send_lease(p->ca, rdmad_lease_uri(mine))); /* returns when it was received */
    return mine;
}

static void send_local(struct pair *p) {
    pthread_t other;
    rdmad_lease *got;
    void *mine;
    pthread_create(&other, NULL, give, p);
    OK(p->b, rdmad_recv_lease(p->cb, (int)TEST_PATIENCE_MS, &got));
    OK(p->b, rdmad_read(got, 0, p->far, 5));
    CHECK(strcmp((char *)p->far, "mine") == 0, "read %s", (char *)p->far);
    pthread_join(other, &mine);
    rdmad_lease_free(got);
    rdmad_lease_free(mine);
}

/* Theirs, handed on: a part of it, for somebody else, who may only read it. */
static void send_remote(struct pair *p) {
    struct rdmad_lease_terms narrow = RDMAD_LEASE_TERMS_INIT;
    char uri[RDMAD_URI_MAX + 1];
    rdmad_lease *part;
    narrow.rights = RDMAD_RIGHT_READ;
    memcpy(p->far + 4096, "handed on", 10);
    OK(p->a, rdmad_lease_delegate(p->lease, 4096, 64, &narrow, 0, uri));
    OK(p->a, rdmad_lease_attach(p->a, uri, 0, &part));
    OK(p->a, rdmad_read(part, 0, p->near, 10));
    CHECK(strcmp((char *)p->near, "handed on") == 0, "read %s", (char *)p->near);
    CHECK(rdmad_write(part, 0, p->near, 1) == RDMAD_E_RIGHTS, "it may be written");
    CHECK(rdmad_read(part, 60, p->near, 8) == RDMAD_E_RANGE, "it is larger than handed on");
    rdmad_lease_free(part);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void timeouts(struct pair *p) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *brief, *got;
    uint32_t imm;
    for (terms.ttl_ms = 300;; terms.ttl_ms *= 2) { /* or as much more as it takes to attach */
        OK(p->b, rdmad_lease_grant(p->b, p->far, 4096, &terms, &brief));
        int rc = rdmad_lease_attach(p->a, rdmad_lease_uri(brief), 0, &got);
        if (!rc)
            break;
        CHECK(rc == RDMAD_E_LEASE_EXPIRED && terms.ttl_ms < TEST_PATIENCE_MS, "attach: %s",
              rdmad_last_error(p->a));
        rdmad_lease_free(brief);
    }
    CHECK(rdmad_recv(p->ca, p->near, 64, 50, NULL) == RDMAD_E_TIMEOUT, "nobody sent anything");
    CHECK(rdmad_wait_notified(p->own, 50, &imm, NULL) == RDMAD_E_TIMEOUT, "nobody notified");
    sleep_ms((unsigned)terms.ttl_ms + 100);
    CHECK(rdmad_write(got, 0, p->near, 8) == RDMAD_E_LEASE_EXPIRED, "it outlives its time");
    rdmad_lease_free(got);
    rdmad_lease_free(brief);
    rdmad_service *quiet;
    rdmad_channel *none;
    OK(p->b, rdmad_listen(p->b, "quiet", NULL, &quiet));
    CHECK(rdmad_connect(p->a, rdmad_service_uri(quiet), 0, 100, &none) == RDMAD_E_TIMEOUT,
          "nobody accepts, and yet: %s", rdmad_last_error(p->a));
    rdmad_service_close(quiet);
}

static void everything(enum pair_route route) {
    struct pair p;
    pair_open(&p, route, BYTES, RDMAD_RIGHTS_ALL);
    write_(&p);
    read_(&p);
    write_with_imm(&p);
    cas(&p);
    send_(&p);
    send_with_imm(&p);
    request_remote(&p);
    send_local(&p);
    send_remote(&p);
    timeouts(&p);
    pair_close(&p);
}

static void on_one_daemon(void) {
    everything(PAIR_LOCAL);
}

static void between_two_daemons(void) {
    everything(PAIR_LINK);
}

TEST_MAIN(CASE(on_one_daemon), CASE(between_two_daemons))
