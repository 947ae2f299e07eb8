/* SPDX-License-Identifier: MIT */
/*
 * cmd_bench_serve.c - bench serve: leases memory to measure against, answers ping-pongs and takes
 * messages, one client at a time (bench.h and bench_messages.h tell how). A client that vanishes,
 * stops or makes no sense is left and the next one served. Idle, it looks up ten times a second.
 */
#include "rdmactl/bench_messages.h"
#include "rdmactl/bench_stop.h"
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLIENT_PATIENCE_NS (UINT64_C(10) * 1000000000)

struct server {
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
    rdmad_lease *atomics;
    rdmad_service *service;           /* of bench send */
    volatile struct bench_head *head; /* clients write it */
    uint64_t data_bytes, max_message;
    uint64_t served;           /* the nonce answered last */
    const rdmad_lease *client; /* the memory of the one that is served */
    bool client_gone;
    int exit_code; /* ARGS_RUN: go on */
};

/* Looks after everything but the memory: signals and events. True when it is time to end. */
static bool server_ended(struct server *v) {
    struct rdmad_event event = RDMAD_EVENT_INIT;
    if (bench_asked())
        v->exit_code = EXIT_GOOD;
    while (v->exit_code == ARGS_RUN && !rdmad_next_event(v->session, 0, &event)) {
        bool ours = event.lease == v->lease;
        if (event.type == RDMAD_EVENT_LEASE_ENDED && event.lease && event.lease == v->client)
            v->client_gone = true;
        if (event.type == RDMAD_EVENT_SESSION_LOST ||
            (event.type == RDMAD_EVENT_LEASE_ENDED && ours))
            v->exit_code = event.reason == RDMAD_E_LEASE_EXPIRED ? EXIT_GOOD : EXIT_FAILED;
        if (v->exit_code == EXIT_FAILED)
            cli_note("%s", event.text);
    }
    return v->exit_code != ARGS_RUN;
}

struct client {
    struct server *server;
    struct bench_request request;
};

static bool client_over(void *user) {
    const struct client *c = user;
    struct server *v = c->server;
    return v->head->stop == c->request.nonce || server_ended(v) || v->client_gone;
}

/* A copy of the request, if a whole one is there. Clients are not trusted to write sense. */
static bool take_request(struct server *v, struct bench_request *out) {
    uint64_t nonce = __atomic_load_n(&v->head->doorbell, __ATOMIC_ACQUIRE);
    if (!nonce || nonce == v->served)
        return false;
    memcpy(out, (const void *)&v->head->request, sizeof(*out));
    if (out->nonce != nonce)
        return false;
    v->served = nonce;
    out->uri[RDMAD_URI_MAX] = '\0';
    return out->bytes > 0 && out->bytes <= v->max_message && out->poll <= POLL_EVENT;
}

static int answer_all(struct client *c, struct bench_side *side, uint8_t *ready) {
    memcpy(ready, &c->request.nonce, sizeof(c->request.nonce));
    int rc = rdmad_write(side->to, 0, ready, sizeof(c->request.nonce));
    for (uint64_t number = 1; !rc; number++) {
        rc = bench_expect(side, number, CLIENT_PATIENCE_NS);
        /* A fast client never lets us wait, which is when else we look around. */
        if (!rc && number % 4096 == 0 && client_over(c))
            rc = RDMAD_E_CANCELED;
        if (!rc)
            rc = bench_send(side);
    }
    return rc;
}

static void serve_client(struct client *c) {
    struct server *v = c->server;
    struct bench_side side = {.session = v->session,
                              .bytes = c->request.bytes,
                              .poll = (enum bench_poll)c->request.poll,
                              .over = client_over,
                              .user = c};
    uint8_t *data = (uint8_t *)rdmad_pool_base(v->pool) + BENCH_HEAD_BYTES;
    uint8_t *own = data + v->data_bytes;
    side.last = data + side.bytes - 1;
    side.out[0] = own;
    side.out[1] = own + v->max_message;
    data[side.bytes - 1] = 0;
    int rc = rdmad_lease_attach(v->session, c->request.uri, 0, &side.to);
    if (!rc)
        rc = rdmad_ring_create(v->session, 16, &side.ring);
    v->client = side.to;
    v->client_gone = false;
    if (!rc)
        rc = answer_all(c, &side, own);
    if (rc && rc != RDMAD_E_CANCELED && rc != RDMAD_E_LEASE_REVOKED)
        cli_note("a client's ping-pong ended: %s",
                 side.why[0] ? side.why : rdmad_last_error(v->session));
    v->client = NULL;
    rdmad_ring_destroy(side.ring);
    rdmad_lease_free(side.to);
}

static bool server_over(void *user) {
    return server_ended(user);
}

static int server_run(struct server *v) {
    struct bench_wait wait = {0};
    bench_wait_start(&wait, POLL_ADAPTIVE);
    for (v->exit_code = ARGS_RUN;;) {
        struct client c = {.server = v};
        struct rdmad_incoming incoming = RDMAD_INCOMING_INIT;
        if (!rdmad_next_incoming(v->service, 0, &incoming)) {
            bench_messages_serve(v->session, v->service, v->max_message, server_over, v);
            bench_wait_start(&wait, POLL_ADAPTIVE);
        }
        if (take_request(v, &c.request)) {
            serve_client(&c);
            bench_wait_start(&wait, POLL_ADAPTIVE);
        }
        if (bench_wait_turn(&wait) && server_ended(v))
            return v->exit_code;
    }
}

static int lease_for_atomics(struct server *v, struct rdmad_lease_terms terms) {
    terms.rights = RDMAD_RIGHTS_DEFAULT | RDMAD_RIGHT_ATOMIC;
    int rc = rdmad_lease_grant(v->session, rdmad_pool_base(v->pool),
                               BENCH_HEAD_BYTES + v->data_bytes, &terms, &v->atomics);
    if (!rc)
        snprintf((char *)(uintptr_t)v->head->atomics, sizeof(v->head->atomics), "%s",
                 rdmad_lease_uri(v->atomics));
    return rc;
}

/* Under a name that the lease's number makes its own. */
static int listen_for_messages(struct server *v) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    char name[RDMAD_NAME_MAX + 1];
    rdmad_lease_get_info(v->lease, &info);
    snprintf(name, sizeof(name), "rdmactl-bench-%llu", (unsigned long long)info.id);
    int rc = rdmad_listen(v->session, name, NULL, &v->service);
    if (!rc)
        snprintf((char *)(uintptr_t)v->head->service, sizeof(v->head->service), "%s",
                 rdmad_service_uri(v->service));
    return rc;
}

static int server_set_up(struct server *v, uint64_t ttl_ms) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.ttl_ms = ttl_ms;
    int code = cli_session_open("rdmactl-bench", -1, &v->session);
    if (code)
        return code;
    /* The head, the data, and two buffers of our own for answers. */
    patience_begin("set up what is measured against", 0);
    int rc = rdmad_pool_create(v->session, BENCH_HEAD_BYTES + v->data_bytes + 2 * v->max_message, 0,
                               &v->pool);
    if (!rc) {
        memset(rdmad_pool_base(v->pool), 0, BENCH_HEAD_BYTES);
        v->head = rdmad_pool_base(v->pool);
        v->head->magic = BENCH_MAGIC;
        v->head->data_bytes = v->data_bytes;
        v->head->max_message = v->max_message;
        rc = rdmad_lease_grant(v->session, rdmad_pool_base(v->pool),
                               BENCH_HEAD_BYTES + v->data_bytes, &terms, &v->lease);
    }
    if (!rc)
        rc = lease_for_atomics(v, terms);
    if (!rc)
        rc = listen_for_messages(v);
    patience_end();
    if (rc)
        return cli_fail_rdmad(v->session, rc);
    if (cli.json)
        return cli_print_json(json_pack("{s:s, s:I}", "uri", rdmad_lease_uri(v->lease), "bytes",
                                        (json_int_t)v->data_bytes));
    printf("%s\n", rdmad_lease_uri(v->lease));
    return fflush(stdout) ? EXIT_FAILED : EXIT_GOOD; /* main says why */
}

int cmd_bench_serve(const struct command *self, int argc, char **argv) {
    struct server v = {.max_message = 4 << 20};
    uint64_t ttl_ms = 600000, span = 0;
    const struct opt opts[] = {
        {"ttl", 't', OPT_TIME, &ttl_ms, 1, UINT64_C(366) * 86400000, "TIME",
         "how long to serve (10m)"},
        {"size", 's', OPT_BYTES, &v.max_message, 1, UINT64_C(1) << 40, "BYTES",
         "the largest message (4M)"},
        {"span", 0, OPT_BYTES, &span, 1, UINT64_C(1) << 40, "BYTES",
         "a data area this large, for clients that walk through it"},
        {0},
    };
    int code = args_parse(self, opts, NULL, argc, argv);
    if (code != ARGS_RUN)
        return code;
    v.max_message = (v.max_message + 63) & ~UINT64_C(63);
    v.data_bytes = span > v.max_message ? span : v.max_message;
    bench_stop_watch(signals_catch(), NULL);
    code = server_set_up(&v, ttl_ms);
    if (!code)
        code = server_run(&v);
    rdmad_close(v.session);
    return code;
}
