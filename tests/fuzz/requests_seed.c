/* SPDX-License-Identifier: MIT */
/*
 * requests_seed.c - moves, packets, and what most seeds begin with.
 */
#include "tests/fuzz/requests_seed.h"
#include <stdio.h>
#include <string.h>

static struct {
    uint8_t bytes[16384];
    size_t size, runs; /* runs: where the count of the last packet's stands */
} seed;
static unsigned seq;

static void put(const void *bytes, size_t n) {
    memcpy(seed.bytes + seed.size, bytes, n);
    seed.size += n;
}

void byte(unsigned b) {
    seed.bytes[seed.size++] = (uint8_t)b;
}

void begin(unsigned how) {
    memset(&seed, 0, sizeof(seed));
    seq = 0;
    byte(how);
}

void move(unsigned what, unsigned who) {
    byte(what + who * MOVE_WHO);
}

void move_with(unsigned what, unsigned number) {
    byte(what);
    byte(number);
}

/* ---- packets --------------------------------------------------------------------------------- */

void ask_how(unsigned who, unsigned type, unsigned how) {
    move(MOVE_PACKET, who);
    byte(how & PACKET_STRANGE ? type : type - 1);
    byte(++seq % 255 + 1);
    byte(how);
    seed.runs = seed.size;
    byte(0);
}

void ask(unsigned who, unsigned type) {
    ask_how(who, type, 0);
}

static void run(size_t at, const void *bytes, size_t n) {
    seed.bytes[seed.runs]++;
    byte((unsigned)at / 4);
    byte((unsigned)n);
    put(bytes, n);
}

void with(size_t at, uint64_t number) {
    run(at, &number, sizeof(number));
}

void with32(size_t at, uint32_t number) {
    run(at, &number, sizeof(number));
}

void with_text(size_t at, const char *text) {
    run(at, text, strlen(text));
}

void with_thing(size_t at, enum thing kind, unsigned nth) {
    seed.bytes[seed.runs]++;
    byte((unsigned)at / 4);
    byte(RUN_THING + (unsigned)kind);
    byte(nth);
}

/* About the nth from the last of its kind. */
void ask_about(unsigned who, unsigned type, enum thing kind, unsigned nth) {
    ask(who, type);
    with_thing(0, kind, nth);
}

void settle(void) {
    move(MOVE_SETTLE, 0);
}

void prepare(unsigned nth, unsigned how) {
    move_with(MOVE_PREPARE, nth);
    byte(how);
}

void peer(unsigned nth, unsigned how) {
    move_with(MOVE_PEER, nth);
    byte(how);
}

/* ---- what most of them need ------------------------------------------------------------------ */

void offer_resume(unsigned who) {
    ask(who, RDMAD_MSG_RESUME_OFFER);
}

void make_pool(unsigned who) {
    ask(who, RDMAD_MSG_POOL_CREATE);
    with(AT(pool_create, bytes), 65536);
    settle();
    prepare(0, 0);
    ask_about(who, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
}

void terms(size_t at, const char *name, uint32_t rights, uint32_t flags) {
    with_thing(at, THING_POOL, 0);
    with(at + AT(lease_grant, offset), 4096);
    with(at + AT(lease_grant, length), 8192);
    with(at + AT(lease_grant, ttl_ns), 60000000000u);
    with32(at + AT(lease_grant, rights), rights);
    with32(at + AT(lease_grant, flags), flags);
    with_text(at + AT(lease_grant, name), name);
}

void grant(unsigned who, const char *name) {
    ask(who, RDMAD_MSG_LEASE_GRANT);
    terms(0, name, RDMAD_RIGHTS_ALL, RDMAD_LEASE_RENEWABLE);
}

void attach(unsigned who, unsigned nth) {
    ask(who, RDMAD_MSG_LEASE_ATTACH);
    with_thing(AT(lease_attach, uri), THING_LEASE_URI, nth);
}

void attach_text(unsigned who, const char *uri) {
    ask(who, RDMAD_MSG_LEASE_ATTACH);
    with_text(AT(lease_attach, uri), uri);
}

void listen_at(unsigned type, unsigned who, const char *name, uint64_t budget) {
    ask(who, type);
    with_text(AT(service_listen, name), name);
    if (!budget)
        return;
    with_thing(AT(service_listen, budget_pool), THING_POOL, 0);
    with(AT(service_listen, budget_length), budget);
}

void listen_as(unsigned who, const char *name, uint64_t budget) {
    listen_at(RDMAD_MSG_SERVICE_LISTEN, who, name, budget);
}

void request(unsigned who, const char *uri) {
    ask(who, RDMAD_MSG_LEASE_REQUEST);
    with(AT(lease_request, bytes), 4096);
    if (uri)
        with_text(AT(lease_request, uri), uri);
    else
        with_thing(AT(lease_request, uri), THING_SERVICE_URI, 0);
}

void connect_to(unsigned who, const char *uri, uint32_t kind) {
    ask(who, RDMAD_MSG_CHANNEL_CONNECT);
    with32(AT(channel_connect, kind), kind);
    if (uri)
        with_text(AT(channel_connect, uri), uri);
    else
        with_thing(AT(channel_connect, uri), THING_SERVICE_URI, 0);
}

void accept_one(unsigned who) {
    ask_about(who, RDMAD_MSG_CHANNEL_ACCEPT, THING_SERVICE, 0);
    with_thing(AT(channel_accept, incoming), THING_INCOMING, 0);
}

void delegate(unsigned who, uint64_t length) {
    ask_about(who, RDMAD_MSG_LEASE_DELEGATE, THING_HANDLE, 0);
    with(AT(lease_delegate, length), length);
    with(AT(lease_delegate, ttl_ns), 1000000000);
}

/* A program opens the session of a proof again. */
void come_back(unsigned who, unsigned nth) {
    move(MOVE_CONNECT, who);
    ask(who, RDMAD_MSG_HELLO);
    ask_about(who, RDMAD_MSG_SESSION_RESUME, THING_PROOF, nth);
}

int write_seed(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(seed.bytes, 1, seed.size, f) != seed.size || fclose(f)) {
        fprintf(stderr, "%s cannot be written\n", path);
        return 1;
    }
    return 0;
}
