/* SPDX-License-Identifier: MIT */
/*
 * test_weak_channels.c - channels that were asked for as datagrams or as unacknowledged, on one
 * daemon and between two: what they came to be is told at both ends; what comes is whole and in
 * order; what does not come is counted; nobody waits for it.
 *
 * The model: message n has size_of(n) bytes that follow from n, and n is its immediate. After the
 * sender has closed, what was sent is what was received and what the receiver's daemon counts as
 * lost, to the message.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 32, SLOT_BYTES = 32 << 10, POOL = 4 << 20, BIG = 20000 };

#define OK(call, s) CHECK(!(call), "%s", rdmad_last_error(s))

static struct pair p;
static unsigned asked, got; /* enum rdmad_channel_kind */
static rdmad_channel *here, *there;
static uint64_t most; /* max_message */

static bool may_lose(void) {
    return got != RDMAD_CHANNEL_RELIABLE;
}

static const char *kind_name(unsigned kind) {
    static const char *const names[] = {"reliable", "datagram", "unacked"};
    return names[kind];
}

/* ---- who connects, and who accepts --------------------------------------------------------- */

static void *connect_there(void *unused) {
    (void)unused;
    OK(rdmad_connect(p.a, rdmad_service_uri(p.service), asked, 0, &here), p.a);
    return NULL;
}

static void open_weak(enum pair_route route, unsigned kind) {
    struct rdmad_incoming who = RDMAD_INCOMING_INIT;
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    pthread_t thread;
    pair_open(&p, route, POOL, RDMAD_RIGHTS_ALL);
    asked = kind;
    bool has = route == PAIR_LINK && !strcmp(test_fabric(), "verbs");
    got = has ? asked : RDMAD_CHANNEL_RELIABLE;
    pthread_create(&thread, NULL, connect_there, NULL);
    OK(rdmad_next_incoming(p.service, (int)TEST_PATIENCE_MS, &who), p.b);
    CHECK(who.kind == asked, "who accepts sees that %s was asked for, not %s", kind_name(who.kind),
          kind_name(asked));
    OK(rdmad_accept(p.service, &who, (int)TEST_PATIENCE_MS, &there), p.b);
    pthread_join(thread, NULL);
    rdmad_channel_get_info(here, &info);
    most = info.max_message;
}

static void close_weak(void) {
    rdmad_channel_abort(here);
    rdmad_channel_abort(there);
    here = there = NULL;
    pair_close(&p);
}

/* Its row of what "rdmactl -j channel show" says, the caller's. NULL: it has none (any more). */
static json_t *row_of(struct tdaemon *d, const char *side) {
    char path[512], dir[512], out[16384];
    snprintf(dir, sizeof(dir), "--dir=%s", tdaemon_dir(d));
    const char *argv[] = {
        build_path("rdmactl/rdmactl", path, sizeof(path)), dir, "channel", "show", "-j", NULL};
    CHECK(run_program(argv, out, sizeof(out)) == 0, "rdmactl: %s", out);
    json_t *reply = json_loads(out, 0, NULL), *row, *found = NULL;
    size_t i;
    CHECK(reply, "no JSON: %s", out);
    json_array_foreach(json_object_get(reply, "channels"), i, row) {
        const char *kind = json_string_value(json_object_get(row, "kind_asked"));
        if (!strcmp(json_string_value(json_object_get(row, "side")), side) &&
            strcmp(kind, "reliable") != 0)
            found = json_incref(row);
    }
    json_decref(reply);
    return found;
}

static uint64_t counted(struct tdaemon *d, const char *side, const char *what) {
    json_t *row = row_of(d, side);
    CHECK(row, "no channel was asked for as %s", kind_name(asked));
    json_int_t n = json_integer_value(json_object_get(row, what));
    json_decref(row);
    CHECK(n >= 0, "%s is %lld", what, (long long)n);
    return (uint64_t)n;
}

static void expect_row(struct tdaemon *d, const char *side) {
    json_t *row = row_of(d, side);
    CHECK(row, "no channel is shown as asked for as %s, and %s", kind_name(asked), side);
    const char *is = json_string_value(json_object_get(row, "kind"));
    CHECK(!strcmp(is, kind_name(got)), "it is shown as %s, and is %s", is, kind_name(got));
    is = json_string_value(json_object_get(row, "kind_asked"));
    CHECK(!strcmp(is, kind_name(asked)), "what was asked for is shown as %s", is);
    json_decref(row);
}

static void expect_info(const rdmad_channel *c) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    rdmad_channel_get_info(c, &info);
    CHECK(info.kind == got, "it is %s, not %s", kind_name(info.kind), kind_name(got));
    CHECK(!strcmp(info.fabric, p.da == p.db ? "local" : test_fabric()), "fabric %s", info.fabric);
    if (got == RDMAD_CHANNEL_DATAGRAM)
        CHECK(info.max_message >= 512 && info.max_message < 4096, "at most %lu bytes",
              (unsigned long)info.max_message);
    else
        CHECK(info.max_message >= POOL, "at most %lu bytes", (unsigned long)info.max_message);
}

static void what_was_got_is_told(void) {
    expect_info(here);
    expect_info(there);
    expect_row(p.da, "connected");
    expect_row(p.db, "accepted");
}

/* ---- one message at a time ----------------------------------------------------------------- */

static struct rdmad_sqe *entry(rdmad_ring *r) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(r);
    CHECK(sqe, "the ring is full");
    return sqe;
}

static void post_recv(rdmad_ring *r, void *buf, size_t size, uint64_t user_data) {
    OK(rdmad_prep_recv(r, entry(r), there, buf, size, user_data), p.b);
    CHECK(rdmad_ring_submit(r) == 1, "%s", rdmad_last_error(p.b));
}

static void post_send(rdmad_ring *r, const void *buf, size_t size, uint32_t imm,
                      uint64_t user_data) {
    struct rdmad_sqe *sqe = entry(r);
    OK(rdmad_prep_send(r, sqe, here, buf, size, user_data), p.a);
    rdmad_sqe_set_imm(sqe, imm);
    CHECK(rdmad_ring_submit(r) == 1, "%s", rdmad_last_error(p.a));
}

static struct rdmad_cqe reap(rdmad_ring *r, rdmad_session *s, char *text, size_t size) {
    const struct rdmad_cqe *cqe;
    OK(rdmad_ring_wait(r, 3 * (int)TEST_PATIENCE_MS, &cqe), s);
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_explain(r, cqe, text, size);
    rdmad_ring_seen(r, cqe);
    return copy;
}

/* Whole, with nothing behind it changed. false: lost, which a long one may be on its way. */
static bool exchange(rdmad_ring *near, rdmad_ring *far, size_t size, uint32_t n) {
    char text[400];
    size_t at;
    fill_bytes(p.near, size, n);
    memset(p.far, 0x55, size + 64);
    post_recv(far, p.far, size + 64, n);
    post_send(near, p.near, size, n, 1);
    struct rdmad_cqe cqe = reap(near, p.a, text, sizeof(text));
    CHECK(cqe.status == 0 && cqe.outcome == RDMAD_DONE && cqe.bytes == size, "%s", text);
    const struct rdmad_cqe *came;
    int rc = rdmad_ring_wait(far, may_lose() ? 1000 : (int)TEST_PATIENCE_MS, &came);
    if (rc == RDMAD_E_TIMEOUT && may_lose()) {
        struct rdmad_cqe canceled;
        OK(rdmad_ring_cancel(far, n, &canceled), p.b);
        CHECK(canceled.status == RDMAD_E_CANCELED, "%s", rdmad_errname(canceled.status));
        return false;
    }
    OK(rc, p.b);
    CHECK(came->status == 0 && came->bytes == size, "%zu bytes came as %lu, %s", size,
          (unsigned long)came->bytes, rdmad_errname(came->status));
    CHECK(came->flags & RDMAD_CQE_IMM && came->imm == n, "message %lu is not %u",
          (unsigned long)came->imm, n);
    rdmad_ring_seen(far, came);
    CHECK(bytes_are(p.far, size, n, &at), "byte %zu of %zu differs", at, size);
    for (size_t i = 0; i < 64; i++)
        CHECK(p.far[size + i] == 0x55, "byte %zu behind a message of %zu was written", i, size);
    return true;
}

static void of_every_size(void) {
    static const size_t sizes[] = {0,    1,    7,    8,    9,    95,    96,
                                   97,   767,  768,  769,  4095, 4096,  4255,
                                   4256, 4257, 8512, 8513, BIG,  65536, 1 << 20};
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    uint32_t n = 0, lost = 0;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes) && sizes[i] <= most; i++)
        while (!exchange(near, far, sizes[i], ++n))
            CHECK(++lost < 20, "messages of %zu bytes do not come", sizes[i]);
    if (got == RDMAD_CHANNEL_DATAGRAM)
        while (!exchange(near, far, most, ++n))
            CHECK(++lost < 20, "messages of %lu bytes do not come", (unsigned long)most);
    CHECK(counted(p.da, "connected", "messages_sent") == n, "sent %u", n);
    CHECK(counted(p.db, "accepted", "messages_received") == n - lost, "received %u", n - lost);
    exchange(near, far, 1, ++n); /* after which the daemon knows what it missed before */
    CHECK(counted(p.db, "accepted", "lost") == lost, "lost %u", lost);
}

/* Both ends tell the same bound, and it is the bound. */
static void what_is_longer_is_refused(void) {
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    char text[400], bound[40];
    if (got != RDMAD_CHANNEL_DATAGRAM)
        return;
    rdmad_channel_get_info(there, &info);
    CHECK(info.max_message == most, "%lu at one end, %lu at the other", (unsigned long)most,
          (unsigned long)info.max_message);
    post_send(near, p.near, most + 1, 1, 1);
    struct rdmad_cqe cqe = reap(near, p.a, text, sizeof(text));
    CHECK(cqe.status == RDMAD_E_RANGE, "one byte more than %lu: %s", (unsigned long)most, text);
    CHECK(cqe.outcome == RDMAD_FAILED_UNTOUCHED, "%s", text);
    snprintf(bound, sizeof(bound), "%lu bytes", (unsigned long)most);
    CHECK(strstr(text, bound), "it does not tell that %s is the most: %s", bound, text);
    CHECK(rdmad_send(here, p.near, most + 1) == RDMAD_E_RANGE, "%s", rdmad_last_error(p.a));
    CHECK(strstr(rdmad_last_error(p.a), bound), "%s", rdmad_last_error(p.a));
    CHECK(exchange(near, far, most, 2), "the channel goes on");
    CHECK(counted(p.db, "accepted", "lost") == 0, "what is refused is not lost");
}

static void expect_closed(int reason) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    do
        OK(rdmad_next_event(p.a, (int)TEST_PATIENCE_MS, &e), p.a);
    while (e.type != RDMAD_EVENT_CHANNEL_CLOSED || e.channel != here);
    CHECK(e.reason == reason && e.text[0], "it ended by %s: %s", rdmad_errname(e.reason), e.text);
}

/* Each answer goes the other way, with what came. */
static void there_and_back(void) {
    enum { ROUNDS = 50 };
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    uint8_t *back = p.near + POOL / 2;
    size_t at, size = got == RDMAD_CHANNEL_DATAGRAM ? most : BIG;
    unsigned came = 0;
    for (uint32_t n = 0; n < ROUNDS; n++) {
        const struct rdmad_cqe *cqe;
        if (!exchange(near, far, size - n, n))
            continue;
        OK(rdmad_prep_recv(near, entry(near), here, back, size, 7), p.a);
        CHECK(rdmad_ring_submit(near) == 1, "%s", rdmad_last_error(p.a));
        OK(rdmad_send_imm(there, p.far, size - n, n), p.b);
        int rc = rdmad_ring_wait(near, may_lose() ? 1000 : (int)TEST_PATIENCE_MS, &cqe);
        if (rc == RDMAD_E_TIMEOUT && may_lose()) {
            OK(rdmad_ring_cancel(near, 7, NULL), p.a);
            continue;
        }
        OK(rc, p.a);
        CHECK(cqe->status == 0 && cqe->imm == n && cqe->bytes == size - n, "answer %u differs", n);
        CHECK(bytes_are(back, size - n, n, &at), "byte %zu of answer %u differs", at, n);
        rdmad_ring_seen(near, cqe);
        came++;
    }
    CHECK(came > ROUNDS / 2, "%u of %u answers came", came, ROUNDS);
    OK(rdmad_channel_close(there), p.b);
    there = NULL;
    expect_closed(RDMAD_E_CLOSED);
}

static void without_a_receive(void) {
    enum { COUNT = 10 };
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    char text[400];
    for (unsigned i = 0; i < COUNT; i++)
        post_send(near, p.near, 16, i, i);
    for (unsigned i = 0; may_lose() && i < COUNT; i++)
        CHECK(reap(near, p.a, text, sizeof(text)).status == 0, "nobody waits for it: %s", text);
    for (uint64_t began = now_ms(); may_lose() && counted(p.db, "accepted", "lost") < COUNT;)
        CHECK(now_ms() - began < TEST_PATIENCE_MS, "nothing is lost");
    if (!may_lose())
        for (unsigned i = 0; i < COUNT; i++)
            post_recv(far, p.far + 64 * i, 64, i);
    for (unsigned i = 0; !may_lose() && i < 2 * COUNT; i++) {
        bool at_a = i >= COUNT;
        int status = reap(at_a ? near : far, at_a ? p.a : p.b, text, sizeof(text)).status;
        CHECK(status == 0, "%s", text);
    }
    CHECK(exchange(near, far, 100, COUNT), "the channel goes on");
    uint64_t lost = counted(p.db, "accepted", "lost");
    CHECK(lost == (may_lose() ? COUNT : 0), "%lu are lost", (unsigned long)lost);
    CHECK(counted(p.da, "connected", "messages_sent") == COUNT + 1, "what was sent");
    CHECK(counted(p.db, "accepted", "messages_received") == COUNT + 1 - lost, "what came");
}

static void too_small(void) {
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    size_t size = got == RDMAD_CHANNEL_DATAGRAM ? most : BIG;
    char text[400];
    post_recv(far, p.far, size - 1, 1);
    post_send(near, p.near, size, 1, 1);
    struct rdmad_cqe cqe = reap(far, p.b, text, sizeof(text));
    CHECK(cqe.status == RDMAD_E_TOO_SMALL && cqe.bytes == size, "%s", text);
    cqe = reap(near, p.a, text, sizeof(text));
    CHECK(cqe.status == (may_lose() ? 0 : RDMAD_E_TOO_SMALL), "%s", text);
    CHECK(exchange(near, far, 100, 2), "the channel goes on");
    CHECK(counted(p.db, "accepted", "lost") == 0, "its receiver was told");
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Any size up to the longest of its kind; of those without one, mostly small. */
static size_t size_of(uint32_t n) {
    uint64_t x = n * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t longest = got == RDMAD_CHANNEL_DATAGRAM ? most : x >> 61 ? 3000 : BIG;
    return (x >> 20) % (longest + 1);
}

enum how { STEADY = 0, STALLING = 1, CANCELING = 2, REORDERED = 4 };

struct stream {
    uint32_t count, sent; /* to send; reaped and done */
    unsigned how;         /* enum how */
    bool closes;          /* with sends under way */
    uint32_t received;
    uint32_t next; /* no earlier one comes any more */
    uint8_t *seen; /* a byte for each message */
    unsigned posted;
    int end; /* with which the receives that were left ended */
};

static void send_number(rdmad_ring *r, uint32_t n, uint64_t slot) {
    uint8_t *at = p.near + slot * SLOT_BYTES;
    fill_bytes(at, size_of(n), n);
    post_send(r, at, size_of(n), n, slot);
}

static void *sending(void *arg) {
    struct stream *m = arg;
    rdmad_ring *r = client_ring(p.a, SLOTS);
    char text[400];
    uint32_t given = 0;
    while (m->sent < m->count) {
        for (; given < m->count && given < SLOTS && given == m->sent + given; given++)
            send_number(r, given, given);
        if (m->closes && m->sent == m->count / 2)
            break;
        struct rdmad_cqe cqe = reap(r, p.a, text, sizeof(text));
        CHECK(cqe.status == 0 && cqe.outcome == RDMAD_DONE, "%s", text);
        m->sent++;
        if (given < m->count)
            send_number(r, given++, cqe.user_data);
    }
    if (!m->closes)
        CHECK(counted(p.da, "connected", "messages_sent") == m->sent, "%u were sent", m->sent);
    OK(rdmad_channel_close(here), p.a);
    here = NULL;
    for (; m->sent < given; m->sent++) {
        struct rdmad_cqe cqe = reap(r, p.a, text, sizeof(text));
        CHECK(cqe.status == 0, "what was submitted before the close: %s", text);
    }
    rdmad_ring_destroy(r);
    return NULL;
}

static void take(struct stream *m, const struct rdmad_cqe *cqe) {
    const uint8_t *at = p.far + cqe->user_data * SLOT_BYTES;
    uint32_t n = (uint32_t)cqe->imm;
    size_t wrong;
    CHECK(n < m->count && cqe->flags & RDMAD_CQE_IMM, "there is no message %u", n);
    CHECK(!m->seen[n], "message %u comes twice", n);
    CHECK(n >= m->next || m->how & REORDERED, "message %u comes after %u", n, m->next - 1);
    CHECK(cqe->bytes == size_of(n), "message %u comes as %lu bytes, not %zu", n,
          (unsigned long)cqe->bytes, size_of(n));
    CHECK(bytes_are(at, size_of(n), n, &wrong), "byte %zu of message %u differs", wrong, n);
    m->seen[n] = 1;
    m->next = n + 1;
    m->received++;
}

/* Until the channel ends; then what was sent is what came and what is counted as lost. */
static void receiving(struct stream *m) {
    rdmad_ring *r = client_ring(p.b, 2 * SLOTS);
    char text[400];
    for (; m->posted < SLOTS; m->posted++)
        post_recv(r, p.far + (size_t)m->posted * SLOT_BYTES, SLOT_BYTES, m->posted);
    for (uint32_t turn = 1; m->posted; turn++) {
        struct rdmad_cqe cqe = reap(r, p.b, text, sizeof(text));
        if (cqe.opcode == RDMAD_OP_CANCEL)
            continue;
        m->posted--;
        if (cqe.status == RDMAD_OK)
            take(m, &cqe);
        else if (cqe.status != RDMAD_E_CANCELED || !(m->how & CANCELING) || m->end)
            m->end = cqe.status;
        if (m->end)
            continue;
        if (m->how & STALLING && turn % 97 == 0)
            sleep_ms(3);
        post_recv(r, p.far + cqe.user_data * SLOT_BYTES, SLOT_BYTES, cqe.user_data);
        m->posted++;
        if (m->how & CANCELING && turn % 5 == 0) {
            OK(rdmad_prep_cancel(r, entry(r), test_random() % SLOTS, SLOTS), p.b);
            CHECK(rdmad_ring_submit(r) == 1, "%s", rdmad_last_error(p.b));
        }
    }
    rdmad_ring_destroy(r);
}

static struct stream stream(uint32_t count, unsigned how, bool closes) {
    struct stream m = {.count = count, .how = how, .closes = closes};
    pthread_t thread;
    m.seen = calloc(count, 1);
    pthread_create(&thread, NULL, sending, &m);
    receiving(&m);
    pthread_join(thread, NULL);
    free(m.seen);
    CHECK(m.end == RDMAD_E_CLOSED, "the receives that were left end with %s", rdmad_errname(m.end));
    struct rdmad_channel_audit audit = RDMAD_CHANNEL_AUDIT_INIT;
    OK(rdmad_channel_get_audit(there, &audit), p.b);
    uint64_t lost = counted(p.db, "accepted", "lost");
    CHECK(audit.messages_received == m.received && audit.lost == lost,
          "%lu came and %lu were lost, says the library", (unsigned long)audit.messages_received,
          (unsigned long)audit.lost);
    CHECK(m.sent == m.received + lost, "%u were sent, %u came, %lu are counted as lost", m.sent,
          m.received, (unsigned long)lost);
    CHECK(lost == 0 || may_lose(), "%lu lost on what is reliable", (unsigned long)lost);
    CHECK(m.received > 0, "nothing came");
    fprintf(stderr, "%s: %u of %u came\n", kind_name(got), m.received, m.sent);
    return m;
}

static void all_that_was_sent_comes_or_is_counted(void) {
    stream(test_count(20000), STALLING, false);
}

static void receives_that_are_canceled(void) {
    stream(test_count(20000), CANCELING, false);
}

static void a_close_while_it_sends(void) {
    CHECK(stream(500, STEADY, true).sent < 500, "nothing was under way");
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* Sends go on until they are told, in time, that nobody is there any more, and why. */
static void send_until_it_ends(int reason) {
    rdmad_ring *r = client_ring(p.a, 16);
    uint64_t began = now_ms();
    char text[400];
    int status = 0;
    while (!status) {
        for (unsigned i = 0; i < 8; i++)
            post_send(r, p.near, 500, i, i);
        for (unsigned i = 0; i < 8; i++) {
            struct rdmad_cqe cqe = reap(r, p.a, text, sizeof(text));
            status = cqe.status ? cqe.status : status;
        }
        CHECK(now_ms() - began < 3 * TEST_PATIENCE_MS, "sends go on for ever");
    }
    CHECK(status == reason, "sends end with %s", rdmad_errname(status));
    expect_closed(reason);
    CHECK(rdmad_send(here, p.near, 1) < 0, "send on a channel that ended");
}

static void the_receiver_closes(void) {
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    CHECK(exchange(near, far, 100, 1), "it is lost");
    OK(rdmad_channel_close(there), p.b);
    there = NULL;
    send_until_it_ends(RDMAD_E_CLOSED);
}

static void the_receiver_is_killed(void) {
    if (p.da == p.db)
        return;
    tdaemon_kill(p.db);
    send_until_it_ends(RDMAD_E_PEER_LOST);
    tdaemon_restart(p.db);
}

/* ---- a network that loses, doubles and delays ---------------------------------------------- */

static void cable_mended(void) {
    (void)!system("tc qdisc del dev va root 2>/dev/null; tc qdisc del dev vb root 2>/dev/null");
}

static void spoil_cable(const char *how) {
    char command[200];
    snprintf(command, sizeof(command),
             "tc qdisc replace dev va root %s && tc qdisc replace dev vb root %s", how, how);
    CHECK(system(command) == 0, "%s", command);
}

static void bad_cable(const char *how_bad, unsigned how) {
    spoil_cable(how_bad);
    stream(test_count(9000), how, false);
    cable_mended();
}

static void a_network_that_loses(void) {
    bad_cable("netem loss 3%", STEADY);
}

static void a_network_that_doubles(void) {
    bad_cable("netem duplicate 20%", STEADY);
}

static void a_network_that_delays_some(void) {
    bad_cable("netem delay 1ms reorder 50%", got == RDMAD_CHANNEL_DATAGRAM ? REORDERED : STEADY);
}

static bool link_broke(void) {
    json_t *reply = tdaemon_call(p.da, "link.show", NULL), *row;
    bool broke = false;
    size_t i;
    json_array_foreach(json_object_get(reply, "links"), i, row) {
        broke |= !strcmp(json_string_value(json_object_get(row, "state")), "rebuilding") ||
                 json_integer_value(json_object_get(row, "rebuilds")) > 0;
    }
    json_decref(reply);
    return broke;
}

/* Reliable messages share the link: they notice that it is gone, and come by the next. */
static void a_link_that_is_made_anew(void) {
    enum { COUNT = 8 };
    rdmad_ring *near = client_ring(p.a, 16), *far = client_ring(p.b, 16);
    char text[400];
    OK(rdmad_prep_recv(far, entry(far), p.cb, p.far + BIG, 64, 1), p.b);
    CHECK(rdmad_ring_submit(far) == 1, "%s", rdmad_last_error(p.b));
    CHECK(exchange(near, far, 100, 1), "it is lost"); /* and so a's daemon knows of that receive */
    spoil_cable("netem loss 100%");
    for (unsigned i = 0; i < COUNT; i++)
        post_send(near, p.near, 100, i, i);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(reap(near, p.a, text, sizeof(text)).status == 0, "nobody waits for it: %s", text);
    struct rdmad_sqe *sqe = entry(near);
    OK(rdmad_prep_send(near, sqe, p.ca, p.near, 64, 1), p.a);
    rdmad_sqe_set_deadline(sqe, 60000);
    CHECK(rdmad_ring_submit(near) == 1, "%s", rdmad_last_error(p.a));
    for (uint64_t began = now_ms(); !link_broke(); sleep_ms(100))
        CHECK(now_ms() - began < 3 * TEST_PATIENCE_MS, "the link never breaks");
    cable_mended();
    CHECK(reap(near, p.a, text, sizeof(text)).status == 0, "the reliable one: %s", text);
    reap(far, p.b, text, sizeof(text));
    unsigned lost = COUNT;
    for (uint32_t n = 2; !exchange(near, far, most < BIG ? most : BIG, n); n++)
        CHECK(++lost < 2 * COUNT, "nothing comes by the new link");
    uint64_t is = counted(p.db, "accepted", "lost");
    CHECK(is == lost, "%lu are counted as lost, not %u", (unsigned long)is, lost);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void by_each(void (*test)(void), bool bad_network) {
    static const enum pair_route routes[] = {PAIR_LOCAL, PAIR_LINK};
    if (bad_network && strcmp(test_fabric(), "verbs") != 0)
        skip("only the guest of tests/vm has a cable to spoil");
    if (bad_network)
        cable_mended(); /* of a case before that failed */
    for (unsigned i = bad_network ? PAIR_LINK : pair_first_route(); i < 2; i++) {
        for (unsigned k = RDMAD_CHANNEL_DATAGRAM; k <= RDMAD_CHANNEL_UNACKED; k++) {
            open_weak(routes[i], k);
            test();
            close_weak();
        }
    }
}

#define BY_EACH(test, bad_network)  \
    static void each_##test(void) { \
        by_each(test, bad_network); \
    }
BY_EACH(what_was_got_is_told, false)
BY_EACH(of_every_size, false)
BY_EACH(what_is_longer_is_refused, false)
BY_EACH(there_and_back, false)
BY_EACH(without_a_receive, false)
BY_EACH(too_small, false)
BY_EACH(all_that_was_sent_comes_or_is_counted, false)
BY_EACH(receives_that_are_canceled, false)
BY_EACH(a_close_while_it_sends, false)
BY_EACH(the_receiver_closes, false)
BY_EACH(the_receiver_is_killed, false)
BY_EACH(a_network_that_loses, true)
BY_EACH(a_network_that_doubles, true)
BY_EACH(a_network_that_delays_some, true)
BY_EACH(a_link_that_is_made_anew, true)

TEST_MAIN(CASE(each_what_was_got_is_told), CASE(each_of_every_size),
          CASE(each_what_is_longer_is_refused), CASE(each_there_and_back),
          CASE(each_without_a_receive), CASE(each_too_small),
          CASE(each_all_that_was_sent_comes_or_is_counted), CASE(each_receives_that_are_canceled),
          CASE(each_a_close_while_it_sends), CASE(each_the_receiver_closes),
          CASE(each_the_receiver_is_killed), CASE(each_a_network_that_loses),
          CASE(each_a_network_that_doubles), CASE(each_a_network_that_delays_some),
          CASE(each_a_link_that_is_made_anew))
