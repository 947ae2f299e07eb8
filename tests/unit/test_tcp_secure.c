/* SPDX-License-Identifier: MIT */
/*
 * Encrypted connections: who agrees to them, who cannot be made believe them, what somebody on the
 * way sees and can do, and how long their keys last.
 */
#include "daemon/base/guard.h"
#include "daemon/fabric/tcp/blob.h"
#include "daemon/fabric/tcp/cipher.h"
#include "daemon/fabric/tcp/link.h"
#include "daemon/fabric/tcp/target.h"
#include "tests/unit/tcp_raw.h"
#include "tests/unit/tcp_relay.h"
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIG ((size_t)1 << 20)

static void choose(struct pair *p, enum encrypt_choice owner, enum encrypt_choice lessee) {
    pair_defaults(p, BIG);
    p->owner.settings.encrypt = owner;
    p->lessee.settings.encrypt = lessee;
}

static void engines_up(struct pair *p) {
    cr_assert_eq(guard_install(), 0);
    side_open(&p->owner);
    side_open(&p->lessee);
    p->window = pair_window(p, LESSEE, RDMAD_RIGHTS_ALL, 0, p->bytes, &p->key);
}

/* A hello of the lessee's engine and the owner's answer to it. */
static void ask(struct pair *p, bool secured, struct fabric_blob *offer) {
    struct fabric_blob hello;
    struct error err = {0};
    cr_assert_eq(fabric_tcp.link_new(p->lessee.fabric, NULL, secured, &p->link, &hello, &err), 0);
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, LESSEE, secured, &hello, offer, &err), 0, "%s",
                 err.text);
}

static void follow(struct pair *p, const struct fabric_blob *offer) {
    struct error err = {0};
    cr_assert_eq(fabric_tcp.link_open(p->link, "127.0.0.1", offer, &err), 0, "%s", err.text);
}

static void expect_alive(struct pair *p) {
    struct top op;
    op_prepare(p, &op, RDMAD_OP_READ, 0, 0, 100000);
    cr_assert_eq(op_run(p, &op), RDMAD_OK);
}

static struct secure *secure_of_link(const struct pair *p) {
    return container_of(p->link, struct tcp_link, base)->conn.secure;
}

static struct tcp_conn *target_of_peer(const struct pair *p) {
    struct tcp *t = container_of(p->owner.fabric, struct tcp, base);
    cr_assert(!list_empty(&t->targets));
    return &list_entry(list_first(&t->targets), struct tcp_target, conn.node)->conn;
}

static struct secure *secure_of_target(const struct pair *p) {
    return target_of_peer(p)->secure;
}

/* ---- agreeing ---------------------------------------------------------------------------- */

Test(tcp_secure, one_end_that_wants_encryption_is_enough) {
    for (int owner = ENCRYPT_AUTO; owner <= ENCRYPT_ALWAYS; owner++)
        for (int lessee = ENCRYPT_AUTO; lessee <= ENCRYPT_ALWAYS; lessee++)
            for (int secured = 0; secured < 2; secured++) {
                struct pair p;
                struct fabric_blob offer;
                choose(&p, (enum encrypt_choice)owner, (enum encrypt_choice)lessee);
                engines_up(&p);
                ask(&p, secured, &offer);
                follow(&p, &offer);
                PAIR_UNTIL(&p, p.lessee.up == 1);
                bool wanted = owner == ENCRYPT_ALWAYS || lessee == ENCRYPT_ALWAYS ||
                              (secured && (owner == ENCRYPT_AUTO || lessee == ENCRYPT_AUTO));
                cr_assert_eq(p.link->encryption,
                             wanted ? cipher_library(handshake_suite()) : FABRIC_CLEAR,
                             "owner %d, lessee %d, secured %d", owner, lessee, secured);
                cr_assert_eq(fabric_tcp.encrypted(p.owner.fabric), wanted);
                expect_alive(&p);
                pair_close(&p);
            }
}

Test(tcp_secure, an_offer_in_clear_is_refused_by_who_asked_for_more) {
    struct pair p;
    struct fabric_blob offer;
    struct error err = {0};
    choose(&p, ENCRYPT_OFF, ENCRYPT_ALWAYS);
    engines_up(&p);
    ask(&p, true, &offer);
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, true, &no_hello, &offer, &err), 0);
    cr_assert_eq(fabric_tcp.link_open(p.link, "127.0.0.1", &offer, &err), RDMAD_E_PROTOCOL);
    cr_assert_not_null(strstr(err.text, "in clear"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "tcp.encrypt"), "%s", err.text);
    pair_close(&p);
}

Test(tcp_secure, blobs_are_judged_byte_by_byte) {
    struct invitation i = {.port = 7, .number = 9, .encrypt = true}, got;
    struct fabric_blob b, bad;
    bool encrypt;
    memset(i.token, 1, sizeof i.token);
    memset(i.secret, 2, sizeof i.secret);
    offer_put(&b, &i);
    cr_assert(offer_read(&b, &got) && got.encrypt && got.port == 7 && got.number == 9);
    cr_assert_arr_eq(got.secret, i.secret, sizeof i.secret);
    for (unsigned size = 0; size < FABRIC_BLOB_MAX; size++) {
        bad = b;
        bad.size = (uint8_t)size;
        cr_assert_eq(offer_read(&bad, &got), size == b.size, "size %u", size);
    }
    for (unsigned version = 0; version < 256; version++) {
        bad = b;
        bad.bytes[0] = (uint8_t)version;
        cr_assert_eq(offer_read(&bad, &got), version == 3, "version %u", version);
    }
    wish_put(&b, true);
    cr_assert(wish_read(&b, &encrypt) && encrypt);
    cr_assert(wish_read(&no_hello, &encrypt) && !encrypt);
    for (unsigned bit = 0; bit < 16; bit++) {
        bad = b;
        bad.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert(!wish_read(&bad, &encrypt), "bit %u", bit);
    }
}

/* ---- who is there ------------------------------------------------------------------------ */

/* Whether a link comes about when the offer's secret was changed on its way. */
Test(tcp_secure, without_the_key_of_the_offer_there_is_no_connection) {
    struct pair p;
    struct fabric_blob offer;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    engines_up(&p);
    ask(&p, true, &offer);
    offer.bytes[offer.size - 1] ^= 1;
    follow(&p, &offer);
    PAIR_UNTIL(&p, p.lessee.lost == 1);
    cr_assert_eq(p.lessee.why.code, RDMAD_E_UNREACHABLE, "%s", p.lessee.why.text);
    cr_assert_eq(p.lessee.up, 0);
    for (unsigned i = 0; i < 10; i++)
        pair_turn(&p);
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 0);
    pair_close(&p);
}

/* One who dials with the token, and says `bytes` in place of a handshake. */
static void rude_dialler(struct pair *p, const void *bytes, size_t n) {
    struct fabric_blob offer;
    struct error err = {0};
    uint8_t hello[HELLO_BYTES];
    cr_assert_eq(fabric_tcp.offer(p->owner.fabric, LESSEE, true, &no_hello, &offer, &err), 0, "%s",
                 err.text);
    int fd = raw_dial(raw_port(&offer));
    hello_put(hello, raw_token(&offer));
    raw_send(p, fd, hello, sizeof hello);
    raw_send(p, fd, bytes, n);
    shutdown(fd, SHUT_WR);
    cr_assert(raw_closed(p, fd));
    close(fd);
}

Test(tcp_secure, frames_in_clear_and_garbage_are_no_handshake) {
    struct pair p;
    static const uint8_t handshake[] = {0x16, 3, 1, 2};
    static uint8_t garbage[8192];
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    unsigned before = fd_count();
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 0, 8);
    frame_put(garbage, &f);
    memset(garbage + FRAME_BYTES, 0xee, 8);
    rude_dialler(&p, garbage, FRAME_BYTES + 8);
    for (unsigned i = 0; i < 100; i++) {
        random_fill(garbage, sizeof garbage, i);
        if (i % 2) { /* a record of a handshake, at least */
            memcpy(garbage, handshake, sizeof handshake);
            garbage[5] = 1;
        }
        rude_dialler(&p, garbage, 600 + i);
    }
    for (unsigned i = 0; i < BIG; i++)
        cr_assert_eq(p.memory[i], 0);
    for (unsigned i = 0; i < 10; i++)
        pair_turn(&p);
    cr_assert_eq(fd_count(), before);
    cr_assert_eq(fabric_tcp.accepted(p.owner.fabric), 1);
    expect_alive(&p);
    pair_close(&p);
}

Test(tcp_secure, a_handshake_that_does_not_end_is_ended) {
    struct pair p;
    struct fabric_blob offer;
    struct error err = {0};
    uint8_t hello[HELLO_BYTES];
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    unsigned before = fd_count();
    cr_assert_eq(fabric_tcp.offer(p.owner.fabric, LESSEE, true, &no_hello, &offer, &err), 0);
    int fd = raw_dial(raw_port(&offer));
    hello_put(hello, raw_token(&offer));
    raw_send(&p, fd, hello, sizeof hello);
    raw_send(&p, fd, "\x16\x03\x01\x02\x00\x01", 6); /* and then nothing */
    for (unsigned i = 0; i < 100; i++)
        pair_turn(&p);
    p.owner.skew_ns += p.owner.settings.connect_timeout_ns;
    cr_assert(raw_closed(&p, fd));
    close(fd);
    for (unsigned i = 0; i < 10; i++)
        pair_turn(&p);
    cr_assert_eq(fd_count(), before);
    pair_close(&p);
}

/* Its place is counted as a connection's, and goes with the peer. */
Test(tcp_secure, who_is_in_a_handshake_has_a_place_and_loses_it_with_its_peer) {
    struct pair p;
    struct fabric_blob offer;
    struct error err = {0};
    uint8_t hello[HELLO_BYTES];
    int fd[3];
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(fabric_tcp.offer(p.owner.fabric, STRANGE, true, &no_hello, &offer, &err), 0);
        fd[i] = raw_dial(raw_port(&offer));
        hello_put(hello, raw_token(&offer));
        raw_send(&p, fd[i], hello, sizeof hello);
    }
    for (unsigned i = 0; i < 200; i++)
        pair_turn(&p);
    unsigned made = 0;
    while (fabric_tcp.offer(p.owner.fabric, STRANGE, true, &no_hello, &offer, &err) == 0)
        made++;
    cr_assert_eq(err.code, RDMAD_E_LIMIT);
    cr_assert_eq(made, 61);
    fabric_tcp.expel(p.owner.fabric, STRANGE);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t byte;
        cr_assert_eq(raw_recv_try(fd[i], &byte, 1), 0, "it is not closed at once");
        close(fd[i]);
    }
    for (made = 0; fabric_tcp.offer(p.owner.fabric, STRANGE, true, &no_hello, &offer, &err) == 0;)
        made++;
    cr_assert_eq(made, 64);
    expect_alive(&p);
    pair_close(&p);
}

/* ---- who listens ------------------------------------------------------------------------- */

/* Writes and reads a pattern of every size through a relay. Returns whether the relay saw it. */
static bool pattern_is_seen(enum encrypt_choice choice) {
    static const uint32_t sizes[] = {64, 2048, 2049, 20000, 256 << 10};
    struct pair p;
    struct relay r;
    struct fabric_blob offer;
    struct top op;
    uint8_t pattern[32];
    choose(&p, choice, choice);
    engines_up(&p);
    ask(&p, true, &offer);
    relay_start(&r, &offer);
    follow(&p, &offer);
    RELAY_UNTIL(&r, &p, p.lessee.up == 1);
    random_fill(pattern, sizeof pattern, 99);
    for (unsigned n = 0; n < sizeof sizes / sizeof *sizes; n++)
        for (int opcode = RDMAD_OP_READ; opcode <= RDMAD_OP_WRITE; opcode++) {
            memset(p.memory, 0, BIG);
            memset(p.local, 0, BIG);
            uint8_t *from = opcode == RDMAD_OP_READ ? p.memory : p.local;
            for (size_t at = 0; at + sizeof pattern <= sizes[n]; at += sizeof pattern)
                memcpy(from + at, pattern, sizeof pattern);
            op_prepare(&p, &op, opcode, 0, 0, sizes[n]);
            op_post(&p, &op);
            RELAY_UNTIL(&r, &p, op.done);
            cr_assert_eq(op.op.status, RDMAD_OK);
            cr_assert_arr_eq(p.memory, p.local, sizes[n]);
        }
    send_prepare(&p, &op, pattern, sizeof pattern, 0, 40000);
    op_post(&p, &op);
    RELAY_UNTIL(&r, &p, op.done);
    bool seen = relay_saw(&r, pattern, 16);
    cr_assert_eq(relay_saw(&r, p.key.bytes + 8, 8), seen, "a window's key");
    relay_stop(&r);
    pair_close(&p);
    return seen;
}

Test(tcp_secure, who_listens_sees_everything_in_clear_and_nothing_when_encrypted) {
    cr_assert(pattern_is_seen(ENCRYPT_OFF), "the test is blind");
    cr_assert(!pattern_is_seen(ENCRYPT_ALWAYS));
}

/* The offer's secret, and what was said, do not tell what was said: keys are of that handshake. */
Test(tcp_secure, two_connections_have_nothing_in_common) {
    struct pair p;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    struct secure *first = secure_of_link(&p);
    uint8_t secret[RECORD_SECRET_BYTES];
    cr_assert_arr_neq(first->in.secret, first->out.secret, RECORD_SECRET_BYTES);
    memcpy(secret, first->out.secret, sizeof secret);
    cr_assert_arr_eq(secure_of_target(&p)->in.secret, secret, sizeof secret);
    fabric_tcp.link_close(p.link);
    p.link = pair_dial(&p, LESSEE);
    cr_assert_arr_neq(secure_of_link(&p)->out.secret, secret, sizeof secret);
    pair_close(&p);
}

/* ---- who meddles ------------------------------------------------------------------------- */

enum { FLIP, DROP, REPEAT, TRUNCATE, WAYS_TO_MEDDLE };

/* From its arg on; what is done is in the upper half. */
static size_t meddle(struct relay *r, int way, uint8_t *bytes, size_t n) {
    size_t at = (size_t)(uint32_t)r->arg, from = r->size[RELAY_TO_TARGET];
    if (way != RELAY_TO_TARGET || at < from || at >= from + n)
        return n;
    at -= from;
    switch (r->arg >> 32) {
    case FLIP:
        bytes[at] ^= 1;
        return n;
    case DROP:
        memmove(bytes + at, bytes + at + 1, n - at - 1);
        return n - 1;
    case REPEAT:
        memmove(bytes + at + 1, bytes + at, n - at);
        return n + 1;
    default:
        r->cut = true;
        return at;
    }
}

/* A large write of which a byte is touched on its way, as many into the stream as said. */
static void meddled_write(uint64_t how, uint32_t at) {
    struct pair p;
    struct relay r;
    struct fabric_blob offer;
    struct top op;
    enum { LENGTH = 200000, RECORD = 16 << 10 };
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    engines_up(&p);
    ask(&p, true, &offer);
    relay_start(&r, &offer);
    follow(&p, &offer);
    RELAY_UNTIL(&r, &p, p.lessee.up == 1);
    r.arg = how << 32 | (uint32_t)(r.size[RELAY_TO_TARGET] + at);
    r.meddle = meddle;
    memset(p.local, 0xab, LENGTH);
    op_prepare(&p, &op, RDMAD_OP_WRITE, 0, 0, LENGTH);
    op_post(&p, &op);
    RELAY_UNTIL(&r, &p, op.done);
    cr_assert_eq(op.op.status, RDMAD_E_PEER_LOST);
    cr_assert(op.op.outcome == RDMAD_UNKNOWN || op.op.outcome == RDMAD_FAILED_PARTIAL);
    cr_assert_eq(p.lessee.lost, 1);
    RELAY_UNTIL(&r, &p, fabric_tcp.accepted(p.owner.fabric) == 0);
    /* What is there is whole records before the one that was touched, and right. */
    size_t placed = 0;
    while (placed < LENGTH && p.memory[placed] == 0xab)
        placed++;
    for (size_t i = placed; i < BIG; i++)
        cr_assert_eq(p.memory[i], 0, "how %lu, at %u: byte %zu", (unsigned long)how, at, i);
    cr_assert_leq(placed, at, "how %lu: a record was placed that was touched", (unsigned long)how);
    cr_assert((placed + FRAME_BYTES) % RECORD == 0 || placed == 0, "%zu", placed);
    relay_stop(&r);
    pair_close(&p);
}

Test(tcp_secure, a_record_that_was_touched_is_not_placed_and_ends_the_connection) {
    for (uint64_t how = FLIP; how < WAYS_TO_MEDDLE; how++)
        for (uint32_t at = 0; at < 190000; at += at < 6 ? 1 : 15000)
            meddled_write(how, at);
}

/* Records of a raw peer, sealed as they should be, with what no engine says. */
static void say_record(struct pair *p, int fd, enum record_type type, const void *content,
                       uint32_t n) {
    static uint8_t bytes[RECORD_MAX];
    memcpy(bytes + RECORD_HEADER, content, n);
    uint32_t size = record_seal(&raw_secure(fd)->out, type, bytes, n);
    cr_assert(size > 0);
    uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
    for (uint32_t sent = 0; sent < size; pair_turn(p)) {
        ssize_t got = send(fd, bytes + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += got > 0 ? (uint32_t)got : 0;
        cr_assert(clock_now_ns() < until);
    }
}

Test(tcp_secure, records_that_no_engine_sends_end_that_connection_only) {
    static const uint8_t update[] = {24, 0, 0, 1, 0}, request[] = {24, 0, 0, 1, 1},
                         finished[36] = {20, 0, 0, 32}, alert[] = {1, 0};
    const struct {
        enum record_type type;
        const void *content;
        uint32_t n;
    } bad[] = {
        {RECORD_HANDSHAKE, update, sizeof update}, /* so soon */
        {RECORD_HANDSHAKE, request, sizeof request},
        {RECORD_HANDSHAKE, finished, sizeof finished},
        {RECORD_ALERT, alert, sizeof alert},
        {RECORD_DATA, "", 0},
        {(enum record_type)99, "x", 1},
    };
    struct pair p;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = raw_dial_as(&p, LESSEE);
        say_record(&p, fd, bad[i].type, bad[i].content, bad[i].n);
        cr_assert(raw_closed(&p, fd), "record %u", i);
        close(fd);
    }
    int fd = raw_dial_as(&p, LESSEE);
    cr_assert_eq(send(fd, "\x17\x03\x03\xff\xff", 5, MSG_NOSIGNAL), 5);
    cr_assert(raw_closed(&p, fd), "a record that is too long");
    close(fd);
    fd = raw_dial_as(&p, LESSEE);
    cr_assert_eq(send(fd, "\x17\x03\x03\x00\x10", 5, MSG_NOSIGNAL), 5);
    cr_assert(raw_closed(&p, fd), "one that is too short");
    close(fd);
    expect_alive(&p);
    pair_close(&p);
}

/* A frame may be cut into records anywhere, into single bytes, too. */
Test(tcp_secure, records_may_be_of_any_size) {
    struct pair p;
    uint8_t bytes[FRAME_BYTES + 3000];
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    int fd = raw_dial_as(&p, LESSEE);
    struct frame f = raw_request(&p.key, FRAME_WRITE, 0, 5, 3000);
    frame_put(bytes, &f);
    random_fill(bytes + FRAME_BYTES, 3000, 3);
    for (unsigned i = 0; i < sizeof bytes; i++)
        say_record(&p, fd, RECORD_DATA, bytes + i, 1);
    cr_assert_eq(raw_answer(&p, fd).type, FRAME_ACK);
    cr_assert_arr_eq(p.memory + 5, bytes + FRAME_BYTES, 3000);
    close(fd);
    pair_close(&p);
}

/* Single bytes cost a poll more than they are: what one poll opens is bounded. */
Test(tcp_secure, small_records_count_more_than_their_bytes) {
    enum { RECORDS = 20000, SIZE = RECORD_HEADER + 2 + RECORD_TAG };
    static uint8_t bytes[RECORDS * SIZE];
    struct pair p;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    fabric_tcp.link_close(p.link);
    p.link = NULL;
    PAIR_UNTIL(&p, fabric_tcp.accepted(p.owner.fabric) == 0);
    int fd = raw_dial_as(&p, LESSEE);
    int room = sizeof bytes;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    for (unsigned i = 0; i < RECORDS; i++) {
        uint8_t *at = bytes + (size_t)i * SIZE, content[SIZE + 1];
        struct frame f = {.type = FRAME_VOID, .length = 0, .op = i / FRAME_BYTES};
        uint8_t frame[FRAME_BYTES];
        frame_put(frame, &f);
        content[RECORD_HEADER] = frame[i % FRAME_BYTES];
        cr_assert_eq(record_seal(&raw_secure(fd)->out, RECORD_DATA, content, 1), SIZE);
        memcpy(at, content, SIZE);
    }
    ssize_t sent = send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    cr_assert_gt(sent, 6000 * SIZE, "the socket has no room for the test");
    const struct secure *s = secure_of_target(&p);
    uint64_t before = s->in.number;
    fabric_tcp.poll(p.owner.fabric);
    cr_assert_leq(s->in.number - before, TCP_SHARE_BUDGET / SECURE_RECORD_COST + 1);
    cr_assert_gt(s->in.number, before + 100, "the test is too small");
    cr_assert_geq(target_of_peer(&p)->share->in, (s->in.number - before) * SECURE_RECORD_COST);
    close(fd);
    pair_close(&p);
}

/* ---- a long life ------------------------------------------------------------------------- */

static void short_life(struct secure *s, uint64_t life) {
    s->key_life = life;
}

static void renew_keys_every(uint64_t life) {
    struct pair p;
    struct top op;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    short_life(secure_of_link(&p), life);
    short_life(secure_of_target(&p), life);
    uint8_t out[RECORD_SECRET_BYTES], in[RECORD_SECRET_BYTES];
    memcpy(out, secure_of_link(&p)->out.secret, sizeof out);
    memcpy(in, secure_of_link(&p)->in.secret, sizeof in);
    for (unsigned i = 0; i < 200; i++) {
        uint32_t length = 1 + i * 1000;
        random_fill(p.local, length, i);
        op_prepare(&p, &op, RDMAD_OP_WRITE, 0, i, length);
        cr_assert_eq(op_run(&p, &op), RDMAD_OK);
        cr_assert_arr_eq(p.memory + i, p.local, length);
        memset(p.local, 0, length);
        random_fill(p.memory + i, length, i + 1000);
        op_prepare(&p, &op, RDMAD_OP_READ, 0, i, length);
        cr_assert_eq(op_run(&p, &op), RDMAD_OK);
        cr_assert_arr_eq(p.memory + i, p.local, length);
    }
    cr_assert_arr_neq(secure_of_link(&p)->out.secret, out, sizeof out);
    cr_assert_arr_neq(secure_of_link(&p)->in.secret, in, sizeof in);
    pair_close(&p);
}

Test(tcp_secure, keys_are_renewed_both_ways_and_nothing_is_lost) {
    renew_keys_every(5);
}

/* As many changes of keys as records: how many there may be ends a send, and not their bytes. */
Test(tcp_secure, keys_that_are_good_for_one_record_lose_nothing) {
    renew_keys_every(1);
}

/* It may sleep only when the socket, not a buffer of ours, has the next record. */
/* The first frames may have: they are in a buffer, of which epoll knows nothing. */
Test(tcp_secure, what_came_with_a_handshake_is_not_slept_over) {
    struct pair p;
    struct fabric_blob offer;
    uint64_t wake_ns;
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    engines_up(&p);
    ask(&p, true, &offer);
    follow(&p, &offer);
    PAIR_UNTIL(&p, fabric_tcp.accepted(p.owner.fabric) == 1);
    cr_assert_not(fabric_tcp.arm(p.owner.fabric, &wake_ns), "it has not looked yet");
    fabric_tcp.poll(p.owner.fabric);
    cr_assert(fabric_tcp.arm(p.owner.fabric, &wake_ns));
    pair_close(&p);
}

Test(tcp_secure, nothing_that_has_come_is_slept_over) {
    struct pair p;
    enum { OPS = 64 };
    static struct top ops[OPS];
    choose(&p, ENCRYPT_ALWAYS, ENCRYPT_ALWAYS);
    pair_start(&p);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < OPS; i++) {
            op_prepare(&p, &ops[i], i % 2 ? RDMAD_OP_READ : RDMAD_OP_WRITE, i * 4096, i * 4096,
                       i % 3 ? 4096 : 64);
            op_post(&p, &ops[i]);
        }
        /* Each side is polled only when it says that it needs it. */
        uint64_t until = clock_now_ns() + 10 * NSEC_PER_SEC;
        for (bool done = false; !done;) {
            struct side *sides[] = {&p.lessee, &p.owner};
            for (unsigned i = 0; i < 2; i++) {
                uint64_t wake_ns;
                struct fabric *f = sides[i]->fabric;
                struct pollfd fd = {.fd = fabric_tcp.wait_fd(f), .events = POLLIN};
                if (!fabric_tcp.arm(f, &wake_ns) || poll(&fd, 1, 1) > 0)
                    fabric_tcp.poll(f);
            }
            done = true;
            for (unsigned i = 0; i < OPS; i++)
                done = done && ops[i].done;
            cr_assert(clock_now_ns() < until, "round %u: somebody sleeps", round);
        }
    }
    pair_close(&p);
}
