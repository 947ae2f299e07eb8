/* SPDX-License-Identifier: MIT */
/* librdmad's services, channels, messages and the blocking calls about leases. */
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define A_URI "rdmad://h:1/lease/7?key=00112233445566778899aabbccddeeff"

static rdmad_channel *channel;
static rdmad_service *service;

/* The last request of each type, as the fake daemon saw it. */
static union {
    struct rdmad_channel_connect_req connect;
    struct rdmad_channel_close_req close;
    struct rdmad_channel_accept_req accept;
    struct rdmad_channel_reject_req reject;
    struct rdmad_service_listen_req listen;
    struct rdmad_budget_free_req free;
    struct rdmad_lease_attach_req attach;
} asked[RDMAD_MSG_COUNT];
static unsigned times[RDMAD_MSG_COUNT];
static uint64_t refused_incoming;

static bool note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    size_t size = h->length - sizeof(*h);
    struct rdmad_channel_accept_req accept;

    memcpy(&asked[h->type], body, size < sizeof(*asked) ? size : sizeof(*asked));
    times[h->type]++;
    if (h->type != RDMAD_MSG_CHANNEL_ACCEPT)
        return false;
    memcpy(&accept, body, sizeof(accept));
    if (accept.incoming != refused_incoming)
        return false;
    fake_refuse(f, h, RDMAD_E_HANDLE, "it has given up");
    return true;
}

static void set_up(void) {
    fake.hook = note;
    rig_set_up();
    cr_assert_eq(
        rdmad_connect(s, "rdmad://127.0.0.1:1/service", RDMAD_CHANNEL_DATAGRAM, 250, &channel), 0,
        "%s", rdmad_last_error(s));
}

TestSuite(channel, .init = set_up, .fini = rig_tear_down, .timeout = 20);

/* ---- channels ------------------------------------------------------------------------------- */

Test(channel, connecting_says_what_is_wanted_and_tells_what_came_of_it) {
    const struct rdmad_channel_connect_req *req = &asked[RDMAD_MSG_CHANNEL_CONNECT].connect;
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;

    cr_assert_str_eq(req->uri, "rdmad://127.0.0.1:1/service");
    cr_assert_eq(req->kind, RDMAD_CHANNEL_DATAGRAM);
    cr_assert_eq(req->timeout_ns, 250000000);
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.kind, RDMAD_CHANNEL_RELIABLE);
    cr_assert_eq(info.peer_uid, 1000);
    cr_assert_eq(info.max_message, 1 << 20);
    cr_assert_str_eq(info.peer_node, "there");
    cr_assert_str_eq(info.peer_address, "127.0.0.1:2");
    cr_assert_str_eq(info.fabric, "local");
    cr_assert_eq(info.closed, 0);
}

Test(channel, a_uri_of_ten_thousand_characters_is_refused_here) {
    static char uri[10001];
    rdmad_channel *c;

    memset(uri, 'x', 10000);
    cr_assert_eq(rdmad_connect(s, uri, 0, 0, &c), RDMAD_E_URI);
    cr_assert_null(c);
    cr_assert_not_null(strstr(rdmad_last_error(s), "10000 characters, at most 511"), "%s",
                       rdmad_last_error(s));
}

Test(channel, closing_and_aborting_say_which) {
    const struct rdmad_channel_close_req *req = &asked[RDMAD_MSG_CHANNEL_CLOSE].close;
    rdmad_channel *other;

    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &other), 0);
    cr_assert_eq(rdmad_channel_close(channel), 0);
    cr_assert_eq(req->channel, 41);
    cr_assert_eq(req->abrupt, 0);
    rdmad_channel_abort(other);
    cr_assert_eq(req->channel, 42);
    cr_assert_eq(req->abrupt, 1);
    cr_assert_eq(rdmad_channel_close(NULL), 0);
    rdmad_channel_abort(NULL);
}

static void *take_late(void *closes) {
    usleep(20000);
    *(unsigned *)closes = times[RDMAD_MSG_CHANNEL_CLOSE];
    rig_take();
    return NULL;
}

Test(channel, closing_waits_until_the_daemon_has_what_was_submitted) {
    unsigned closes = 99;
    pthread_t t;

    rig_submit_write(1);
    pthread_create(&t, NULL, take_late, &closes);
    cr_assert_eq(rdmad_channel_close(channel), 0);
    pthread_join(t, NULL);
    cr_assert_eq(closes, 0, "the close overtook a send");
    cr_assert_eq(times[RDMAD_MSG_CHANNEL_CLOSE], 1);
}

static void tell_closed(uint64_t handle, int reason) {
    struct rdmad_ev_channel_closed e = {
        .channel = handle, .reason = reason, .text = "the other end closed it"};

    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &e, sizeof(e));
}

Test(channel, its_end_is_told_once) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    tell_closed(41, RDMAD_E_PEER_LOST);
    tell_closed(41, RDMAD_E_CLOSED);
    tell_closed(999, RDMAD_E_CLOSED);
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.closed, RDMAD_E_PEER_LOST, "only who takes events hears of it");
    cr_assert_eq(rdmad_next_event(s, 1000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_CLOSED);
    cr_assert_eq(e.channel, channel);
    cr_assert_eq(e.reason, RDMAD_E_PEER_LOST);
    cr_assert_str_eq(e.text, "the other end closed it");
    cr_assert_eq(rdmad_next_event(s, 20, &e), RDMAD_E_TIMEOUT);
}

static bool readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

Test(channel, that_is_closed_here_takes_its_news_along) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int fd = rdmad_session_fd(s);

    tell_closed(41, RDMAD_E_CLOSED);
    rdmad_channel_close(channel); /* its reply comes behind the event */
    cr_assert_not(readable(fd), "or an event loop would spin");
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT);
}

Test(channel, of_pauses_that_nobody_took_the_last_is_told) {
    struct rdmad_ev_session_paused ev = {.paused = 1, .text = "uid 0 paused the session"};
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int fd = rdmad_session_fd(s);

    fake_event(&fake, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev));
    cr_assert_eq(rdmad_next_event(s, 2000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_PAUSED);
    cr_assert_str_eq(e.text, "uid 0 paused the session");
    ev.paused = 0;
    fake_event(&fake, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev));
    ev.paused = 1;
    fake_event(&fake, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev));
    ev.paused = 0;
    memset(ev.text, 'x', sizeof(ev.text)); /* and does not end */
    fake_event(&fake, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev));
    tell_closed(41, RDMAD_E_CLOSED);
    rdmad_channel_close(channel); /* its reply comes behind the events */
    cr_assert_eq(rdmad_next_event(s, 0, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_RESUMED);
    cr_assert_eq(strlen(e.text), RDMAD_TEXT_MAX);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT);
    cr_assert_not(readable(fd));
    fake_event(&fake, RDMAD_EV_SESSION_PAUSED, &ev, sizeof(ev)); /* and one stays, to be freed */
}

/* ---- services ------------------------------------------------------------------------------- */

static void listen_here(void) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;

    terms.backlog = 3;
    terms.budget = memory + 8192;
    terms.budget_bytes = 16384;
    terms.max_ttl_ms = 7;
    cr_assert_eq(rdmad_listen(s, "service", &terms, &service), 0, "%s", rdmad_last_error(s));
}

static void somebody_connects(uint64_t incoming) {
    struct rdmad_ev_channel_incoming e = {.service = 51,
                                          .incoming = incoming,
                                          .kind = RDMAD_CHANNEL_UNACKED,
                                          .uid = 42,
                                          .flags = RDMAD_CHANNEL_PEER_PROVEN,
                                          .node = "far",
                                          .address = "1.2.3.4:5"};

    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &e, sizeof(e));
}

Test(channel, listening_names_the_budget_by_pool_and_offset) {
    const struct rdmad_service_listen_req *req = &asked[RDMAD_MSG_SERVICE_LISTEN].listen;

    listen_here();
    cr_assert_str_eq(req->name, "service");
    cr_assert_eq(req->backlog, 3);
    cr_assert_eq(req->budget_pool, 11);
    cr_assert_eq(req->budget_offset, 8192);
    cr_assert_eq(req->budget_length, 16384);
    cr_assert_eq(req->max_ttl_ns, 7000000);
    cr_assert_str_eq(rdmad_service_uri(service), "rdmad://127.0.0.1:1/service");
}

Test(channel, terms_that_cannot_be_are_refused_here) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    static char name[10001];

    terms.size = 3;
    cr_assert_eq(rdmad_listen(s, "x", &terms, &service), RDMAD_E_INVAL);
    terms.size = sizeof(terms);
    terms.budget = name;
    terms.budget_bytes = 4096;
    cr_assert_eq(rdmad_listen(s, "x", &terms, &service), RDMAD_E_RANGE);
    terms.budget = NULL;
    cr_assert_eq(rdmad_listen(s, "x", &terms, &service), RDMAD_E_INVAL);
    memset(name, 'x', 10000);
    cr_assert_eq(rdmad_listen(s, name, NULL, &service), RDMAD_E_NAME);
    cr_assert_eq(times[RDMAD_MSG_SERVICE_LISTEN], 0);
}

Test(channel, who_connects_is_told_and_can_be_looked_at_and_accepted) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_channel *c;

    listen_here();
    cr_assert_eq(rdmad_next_incoming(service, 0, &who), RDMAD_E_TIMEOUT);
    somebody_connects(7);
    cr_assert_eq(rdmad_next_event(s, 1000, &e), 0);
    cr_assert_eq(e.type, RDMAD_EVENT_INCOMING);
    cr_assert_eq(e.service, service);
    cr_assert_str_eq(e.text, "uid 42 of node far connects to service service");
    cr_assert_eq(rdmad_next_incoming(service, 1000, &who), 0);
    cr_assert_eq(who.id, 7);
    cr_assert_eq(who.uid, 42);
    cr_assert_eq(who.kind, RDMAD_CHANNEL_UNACKED);
    cr_assert_str_eq(who.node, "far");
    cr_assert_str_eq(who.address, "1.2.3.4:5");
    cr_assert_eq(who.flags, RDMAD_PEER_PROVEN);
    cr_assert_eq(rdmad_accept(service, &who, 0, &c), 0);
    cr_assert_eq(asked[RDMAD_MSG_CHANNEL_ACCEPT].accept.service, 51);
    cr_assert_eq(asked[RDMAD_MSG_CHANNEL_ACCEPT].accept.incoming, 7);
    cr_assert_eq(rdmad_accept(service, &who, 0, &c), RDMAD_E_HANDLE, "once only");
    cr_assert_eq(rdmad_next_incoming(service, 0, &who), RDMAD_E_TIMEOUT);
}

Test(channel, who_is_accepted_unseen_is_no_event_any_more) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_channel *c;

    listen_here();
    somebody_connects(7);
    cr_assert_eq(rdmad_accept(service, NULL, 1000, &c), 0);
    cr_assert_eq(rdmad_next_event(s, 0, &e), RDMAD_E_TIMEOUT);
    cr_assert_eq(rdmad_accept(service, NULL, 5, &c), RDMAD_E_TIMEOUT);
    cr_assert_null(c);
}

Test(channel, accepting_whoever_comes_passes_over_who_has_given_up) {
    rdmad_channel *c;

    listen_here();
    refused_incoming = 7;
    somebody_connects(7);
    somebody_connects(8);
    cr_assert_eq(rdmad_accept(service, NULL, 1000, &c), 0);
    cr_assert_eq(asked[RDMAD_MSG_CHANNEL_ACCEPT].accept.incoming, 8);
    somebody_connects(7);
    cr_assert_eq(rdmad_accept(service, NULL, 5, &c), RDMAD_E_TIMEOUT);
}

Test(channel, who_was_taken_back_is_not_there) {
    struct rdmad_channel_reject_req gone = {.service = 51, .incoming = 8};
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct rdmad_event e = RDMAD_EVENT_INIT;

    listen_here();
    for (uint64_t i = 7; i < 10; i++)
        somebody_connects(i);
    fake_event(&fake, RDMAD_EV_INCOMING_GONE, &gone, sizeof(gone));
    gone.incoming = 9;
    fake_event(&fake, RDMAD_EV_INCOMING_GONE, &gone, sizeof(gone));
    somebody_connects(10); /* the line's end must be right */
    while (rdmad_next_event(s, 50, &e) == 0)
        ;
    cr_assert_eq(rdmad_next_incoming(service, 0, &who), 0);
    cr_assert_eq(who.id, 7);
    cr_assert_eq(rdmad_reject(service, &who, "no"), 0);
    cr_assert_eq(asked[RDMAD_MSG_CHANNEL_REJECT].reject.incoming, 7);
    cr_assert_str_eq(asked[RDMAD_MSG_CHANNEL_REJECT].reject.text, "no");
    cr_assert_eq(rdmad_next_incoming(service, 0, &who), 0);
    cr_assert_eq(who.id, 10);
}

Test(channel, memory_that_is_handed_over_is_told_by_address) {
    struct rdmad_ev_handed_over e = {.service = 51,
                                     .lease = 77,
                                     .pool = 11,
                                     .offset = 12288,
                                     .length = 4096,
                                     .uid = 42,
                                     .node = "far"};
    struct rdmad_event got = RDMAD_EVENT_INIT;

    listen_here();
    fake_event(&fake, RDMAD_EV_HANDED_OVER, &e, sizeof(e));
    cr_assert_eq(rdmad_next_event(s, 1000, &got), 0);
    cr_assert_eq(got.type, RDMAD_EVENT_HANDED_OVER);
    cr_assert_eq(got.service, service);
    cr_assert_eq(got.memory, memory + 12288);
    cr_assert_eq(got.length, 4096);
    cr_assert_eq(got.lease_id, 77);
    cr_assert_eq(rdmad_service_free(service, got.memory), 0);
    cr_assert_eq(asked[RDMAD_MSG_BUDGET_FREE].free.service, 51);
    cr_assert_eq(asked[RDMAD_MSG_BUDGET_FREE].free.offset, 12288);
    cr_assert_eq(rdmad_service_free(service, &got), RDMAD_E_RANGE);
}

Test(channel, memory_outside_its_pool_ends_the_session_not_the_program) {
    struct rdmad_ev_handed_over e = {
        .service = 51, .pool = 11, .offset = UINT64_MAX - 8, .length = 4096};
    struct rdmad_event got = RDMAD_EVENT_INIT;

    listen_here();
    fake_event(&fake, RDMAD_EV_HANDED_OVER, &e, sizeof(e));
    cr_assert_eq(rdmad_next_event(s, 1000, &got), 0);
    cr_assert_eq(got.type, RDMAD_EVENT_SESSION_LOST);
}

Test(channel, a_service_takes_its_line_along) {
    struct rdmad_ev_handed_over e = {.service = 51, .pool = 11, .length = 4096};
    struct rdmad_event got = RDMAD_EVENT_INIT;
    int fd = rdmad_session_fd(s);

    listen_here();
    somebody_connects(7);
    fake_event(&fake, RDMAD_EV_HANDED_OVER, &e, sizeof(e));
    rdmad_service_close(service);
    somebody_connects(8); /* for a service that is not there any more */
    cr_assert_eq(rdmad_next_event(s, 20, &got), RDMAD_E_TIMEOUT);
    cr_assert_not(readable(fd));
    rdmad_service_close(NULL);
}

Test(channel, waiting_for_somebody_ends_with_the_daemon) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    rdmad_channel *c;

    listen_here();
    fake_hang_up(&fake);
    cr_assert_eq(rdmad_next_incoming(service, -1, &who), RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rdmad_accept(service, NULL, -1, &c), RDMAD_E_DAEMON_LOST);
}

/* ---- messages ------------------------------------------------------------------------------- */

static struct rdmad_sqe seen; /* the last of what was played */
static struct rdmad_cqe with; /* what it is answered with */

static bool answer_with(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    struct rdmad_cqe cqe = with;

    seen = *sqe;
    cqe.user_data = sqe->user_data;
    cqe.opcode = sqe->opcode;
    if (sqe->opcode == RDMAD_OP_RECV && cqe.status == 0)
        memcpy(fake.pool[sqe->pool - FAKE_POOL] + sqe->pool_offset, A_URI, cqe.bytes);
    fake_ring_complete(r, &cqe);
    return true;
}

Test(channel, sending_names_the_channel_and_what_goes_with_it) {
    rig_play(answer_with);
    cr_assert_eq(rdmad_send(channel, memory + 64, 100), 0);
    cr_assert_eq(seen.opcode, RDMAD_OP_SEND);
    cr_assert_eq(seen.lease, 41);
    cr_assert_eq(seen.pool_offset, 64);
    cr_assert_eq(seen.length, 100);
    cr_assert_eq(seen.flags, 0);
    cr_assert_eq(seen.timeout_ns, 0);
    cr_assert_eq(rdmad_send_imm(channel, memory, 1, 0xdeadbeef), 0);
    cr_assert_eq(seen.flags, RDMAD_SQE_IMM);
    cr_assert_eq(seen.imm, 0xdeadbeef);
    cr_assert_eq(rdmad_send(channel, &seen, 1), RDMAD_E_RANGE);
}

Test(channel, receiving_tells_length_and_immediate) {
    struct rdmad_message m = RDMAD_MESSAGE_INIT;

    rig_play(answer_with);
    with = (struct rdmad_cqe){.bytes = 12, .flags = RDMAD_CQE_IMM, .imm = 99};
    cr_assert_eq(rdmad_recv(channel, memory, 4096, -1, &m), 0);
    cr_assert_eq(seen.opcode, RDMAD_OP_RECV);
    cr_assert_eq(seen.lease, 41);
    cr_assert_eq(seen.length, 4096);
    cr_assert_eq(seen.timeout_ns, 0, "for ever");
    cr_assert_eq(m.length, 12);
    cr_assert_eq(m.imm, 99);
    cr_assert_eq(m.flags, RDMAD_CQE_IMM);
    cr_assert_eq(rdmad_recv(channel, memory, 4096, -1, NULL), 0);
}

Test(channel, a_receives_timeout_is_its_ops_deadline_and_no_error) {
    rig_play(answer_with);
    with = (struct rdmad_cqe){.status = RDMAD_E_TIMEOUT, .outcome = RDMAD_FAILED_UNTOUCHED};
    cr_assert_eq(rdmad_recv(channel, memory, 64, 30, NULL), RDMAD_E_TIMEOUT);
    cr_assert_eq(seen.timeout_ns, 30000000);
    cr_assert_eq(rdmad_recv(channel, memory, 64, 0, NULL), RDMAD_E_TIMEOUT);
    cr_assert_eq(seen.timeout_ns, 1);
    with = (struct rdmad_cqe){.bytes = 3}; /* it came as the time ran out */
    cr_assert_eq(rdmad_recv(channel, memory, 64, 30, NULL), 0);
}

Test(channel, a_failed_message_is_explained_with_channel_and_node) {
    struct rdmad_message m = RDMAD_MESSAGE_INIT;

    rig_play(answer_with);
    with = (struct rdmad_cqe){.status = RDMAD_E_CLOSED, .outcome = RDMAD_FAILED_UNTOUCHED};
    cr_assert_eq(rdmad_send(channel, memory, 64), RDMAD_E_CLOSED);
    cr_assert_not_null(strstr(rdmad_last_error(s), "send of 64 bytes on channel 41 to node there "
                                                   "failed: the channel is closed; nothing was "
                                                   "changed"),
                       "%s", rdmad_last_error(s));
    with = (struct rdmad_cqe){.status = RDMAD_E_TOO_SMALL, .bytes = 500};
    cr_assert_eq(rdmad_recv(channel, memory, 64, -1, &m), RDMAD_E_TOO_SMALL);
    cr_assert_eq(m.length, 500, "what a large enough receive is, is not told");
    cr_assert_not_null(strstr(rdmad_last_error(s), "receive of 64 bytes on channel 41 from node "
                                                   "there failed: the receive is smaller than its "
                                                   "message of 500 bytes"),
                       "%s", rdmad_last_error(s));
}

Test(channel, a_receive_beyond_a_limit_says_whose_it_is) {
    static const char *const key[] = {"", "limits.waits_per_session)", "limits.waits_per_uid)",
                                      "limits.waits)"};
    struct rdmad_message m = RDMAD_MESSAGE_INIT;

    rig_play(answer_with);
    for (unsigned whose = RDMAD_LIMIT_SESSION; whose <= RDMAD_LIMIT_DAEMON; whose++) {
        with = (struct rdmad_cqe){
            .status = RDMAD_E_LIMIT, .outcome = RDMAD_FAILED_UNTOUCHED, .lease_id = whose};
        cr_assert_eq(rdmad_recv(channel, memory, 64, -1, &m), RDMAD_E_LIMIT);
        cr_assert_not_null(strstr(rdmad_last_error(s), key[whose]), "%s", rdmad_last_error(s));
        cr_assert_not_null(strstr(rdmad_last_error(s), "on channel 41 from node there failed"),
                           "%s", rdmad_last_error(s));
    }
    with.lease_id = RDMAD_LIMIT_DAEMON + 1; /* of a later daemon */
    cr_assert_eq(rdmad_recv(channel, memory, 64, -1, &m), RDMAD_E_LIMIT);
}

Test(channel, a_lease_goes_as_a_message_and_is_attached_to) {
    rdmad_lease *got;

    cr_assert_eq(rdmad_send_lease(channel, "name"), RDMAD_E_URI, "what is no URI is sent");
    rig_play(answer_with);
    cr_assert_eq(rdmad_send_lease(channel, A_URI), 0);
    cr_assert_eq(seen.flags, RDMAD_SQE_LEASE);
    cr_assert_eq(seen.length, sizeof(A_URI) - 1);
    with = (struct rdmad_cqe){.bytes = sizeof(A_URI) - 1, .flags = RDMAD_CQE_LEASE};
    cr_assert_eq(rdmad_recv_lease(channel, -1, &got), 0, "%s", rdmad_last_error(s));
    cr_assert_str_eq(asked[RDMAD_MSG_LEASE_ATTACH].attach.uri, A_URI);
    rdmad_lease_free(got);
    with.flags = 0;
    cr_assert_eq(rdmad_recv_lease(channel, -1, &got), RDMAD_E_PROTOCOL);
    cr_assert_null(got);
    with = (struct rdmad_cqe){.status = RDMAD_E_TIMEOUT};
    cr_assert_eq(rdmad_recv_lease(channel, 5, &got), RDMAD_E_TIMEOUT);
    cr_assert_eq(times[RDMAD_MSG_POOL_CREATE], 2, "the library's own pool is made once");
}

/* ---- what may last for ever ----------------------------------------------------------------- */

#define RECEIVERS 70u

static unsigned waiting;
static bool release;

static bool receives_wait(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    static struct {
        struct fake_ring *ring;
        struct rdmad_sqe sqe;
    } held[RECEIVERS];
    unsigned n = __atomic_load_n(&waiting, __ATOMIC_RELAXED);

    if (sqe->opcode == RDMAD_OP_RECV) {
        held[n].ring = r;
        held[n].sqe = *sqe;
        __atomic_store_n(&waiting, n + 1, __ATOMIC_RELEASE);
        return true;
    }
    for (unsigned i = 0; i < n && __atomic_load_n(&release, __ATOMIC_ACQUIRE); i++) {
        struct rdmad_cqe cqe = {.user_data = held[i].sqe.user_data, .opcode = RDMAD_OP_RECV};
        fake_ring_complete(held[i].ring, &cqe);
    }
    return false;
}

static void *receive(void *arg) {
    cr_assert_eq(rdmad_recv(channel, arg, 64, -1, NULL), 0, "%s", rdmad_last_error(s));
    return NULL;
}

Test(channel, receives_that_last_stand_in_nobodys_way) {
    pthread_t t[RECEIVERS];

    rig_play(receives_wait);
    for (uintptr_t i = 0; i < RECEIVERS; i++)
        pthread_create(&t[i], NULL, receive, memory + i * 64);
    while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) < RECEIVERS)
        usleep(100);
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(rdmad_write(lease, 0, memory + 8192, 64), 0);
    __atomic_store_n(&release, true, __ATOMIC_RELEASE);
    cr_assert_eq(rdmad_write(lease, 0, memory + 8192, 64), 0);
    for (unsigned i = 0; i < RECEIVERS; i++)
        pthread_join(t[i], NULL);
}

static bool hang_up(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    (void)r, (void)sqe;
    fake_hang_up(&fake);
    return true;
}

Test(channel, a_receive_without_end_ends_with_the_daemon) {
    rig_play(hang_up);
    cr_assert_eq(rdmad_recv(channel, memory, 64, -1, NULL), RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rdmad_last_outcome(), RDMAD_FAILED_PARTIAL, "the buffer may have been written");
    cr_assert_eq(rdmad_send(channel, memory, 64), RDMAD_E_DAEMON_LOST);
}

/* ---- leases --------------------------------------------------------------------------------- */

Test(channel, atomics_name_their_operands_and_bring_the_old_value) {
    uint64_t old = 0;

    rig_play(answer_with);
    with = (struct rdmad_cqe){.value = 1234};
    cr_assert_eq(rdmad_cas(lease, 16, 5, 6, &old), 0);
    cr_assert_eq(old, 1234);
    cr_assert_eq(seen.opcode, RDMAD_OP_CAS);
    cr_assert_eq(seen.compare, 5);
    cr_assert_eq(seen.swap, 6);
    cr_assert_eq(seen.length, 8);
    cr_assert_eq(seen.lease, 31);
    cr_assert_eq(seen.lease_offset, 16);
    cr_assert_eq(rdmad_fetch_add(lease, 24, 7, NULL), 0);
    cr_assert_eq(seen.opcode, RDMAD_OP_FADD);
    cr_assert_eq(seen.compare, 0);
    cr_assert_eq(seen.swap, 7);
    with = (struct rdmad_cqe){.status = RDMAD_E_ALIGN, .outcome = RDMAD_FAILED_UNTOUCHED};
    cr_assert_eq(rdmad_fetch_add(lease, 3, 7, &old), RDMAD_E_ALIGN);
    cr_assert_not_null(strstr(rdmad_last_error(s), "fetch-and-add on lease 7 failed: atomics need"),
                       "%s", rdmad_last_error(s));
}

Test(channel, notifications_go_to_the_owner_and_only_the_owner_takes_them) {
    rdmad_lease *granted;
    uint32_t imm = 0;
    uint64_t bytes = 0;

    rig_play(answer_with);
    cr_assert_eq(rdmad_write_notify(lease, 8, memory, 64, 77), 0);
    cr_assert_eq(seen.opcode, RDMAD_OP_NOTIFY);
    cr_assert_eq(seen.imm, 77);
    cr_assert_eq(seen.lease_offset, 8);
    cr_assert_eq(rdmad_write_notify(lease, 0, NULL, 0, 78), 0, "of no bytes needs no buffer");
    cr_assert_eq(seen.pool, 0);
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, NULL, &granted), 0);
    with = (struct rdmad_cqe){.bytes = 64, .flags = RDMAD_CQE_IMM, .imm = 77};
    cr_assert_eq(rdmad_wait_notified(granted, -1, &imm, &bytes), 0);
    cr_assert_eq(seen.opcode, RDMAD_OP_NOTIFIED);
    cr_assert_eq(seen.lease, 7, "the owner's number");
    cr_assert_eq(imm, 77);
    cr_assert_eq(bytes, 64);
    cr_assert_eq(rdmad_wait_notified(lease, -1, NULL, NULL), RDMAD_E_INVAL);
    cr_assert_eq(rdmad_cas(granted, 0, 0, 0, NULL), RDMAD_E_INVAL);
}
