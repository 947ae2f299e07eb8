/* SPDX-License-Identifier: MIT */
/*
 * requests_seeds_sessions.c - sessions, and what of them goes on at the next life of the daemon.
 */
#include "tests/fuzz/requests_seed.h"
#include "tests/fuzz/requests_seeds.h"

/* ---- sessions -------------------------------------------------------------------------------- */

void seed_hello(void) {
    begin(REQUESTS_STRANGERS | REQUESTS_GROUP);
    for (unsigned who = 0; who < 4; who++)
        move(MOVE_CONNECT, who);
    ask(2, RDMAD_MSG_POOL_CREATE);
    ask_how(2, RDMAD_MSG_HELLO, PACKET_SHORT);
    ask(2, RDMAD_MSG_HELLO);
    with_text(AT(hello, name), ".a");
    ask(2, RDMAD_MSG_HELLO);
    with_text(AT(hello, name), "a b");
    ask(2, RDMAD_MSG_HELLO);
    with_text(AT(hello, name) + 8, "a");
    ask(2, RDMAD_MSG_HELLO);
    with(AT(hello, reserved), 1);
    ask_how(2, RDMAD_MSG_HELLO, PACKET_OLD);
    with_text(AT(hello, name), "a-b_c.d");
    ask(2, RDMAD_MSG_HELLO);
    ask(3, RDMAD_MSG_HELLO);
    ask_how(3, 200, PACKET_STRANGE);
    ask_how(3, RDMAD_MSG_NAMES_UNWATCH, 1);
    settle();
    ask_how(3, RDMAD_MSG_NAMES_UNWATCH, 2);
    move_with(MOVE_GO, 0);
    move(MOVE_REFUSED, 0);
    move(MOVE_GO, 3);
    byte(1);
    move(MOVE_REFUSED, 3);
    move(MOVE_DRAIN, 0);
    move(MOVE_CONNECT, 0);
}

void seed_rate(void) {
    begin(REQUESTS_RATE | REQUESTS_POLICY);
    for (unsigned i = 0; i < 24; i++)
        ask(i % 2, RDMAD_MSG_LIFELINE);
    move_with(MOVE_GO, 0);
    move(MOVE_CONNECT, 3);
}

/* Each is a call, too. */
void seed_rate_connects(void) {
    begin(REQUESTS_RATE);
    for (unsigned i = 0; i < 24; i++) {
        move_with(MOVE_GO, 0);
        settle();
        move(MOVE_CONNECT, 0);
    }
}

static void resume_lease(unsigned who, unsigned nth, const char *name) {
    ask(who, RDMAD_MSG_LEASE_RESUME);
    with_thing(AT(lease_resume, lease), THING_LEASE, nth);
    with(AT(lease_resume, left_ns), 30000000000u);
    with_thing(AT(lease_resume, key), THING_LEASE_KEY, nth);
    terms(AT(lease_resume, grant), name, RDMAD_RIGHTS_ALL, RDMAD_LEASE_RENEWABLE);
}

static void resume_pool(unsigned who) {
    ask_how(who, RDMAD_MSG_POOL_RESUME, PACKET_KEPT);
    with_thing(AT(pool_resume, pool), THING_POOL, 0);
    with(AT(pool_resume, bytes), 65536);
    settle();
    ask_about(who, RDMAD_MSG_POOL_READY, THING_POOL, 0);
    settle();
}

void seed_resume(void) {
    begin(0);
    offer_resume(0);
    offer_resume(0);
    make_pool(0);
    grant(0, "");
    offer_resume(1);
    attach(1, 0);
    settle();
    delegate(1, 4096);
    ask_about(0, RDMAD_MSG_SESSION_RESUME, THING_PROOF, 0);
    ask_about(2, RDMAD_MSG_SESSION_RESUME, THING_PROOF, 0);
    move(MOVE_LIFE, 0);
    come_back(2, 1);
    come_back(0, 1);
    come_back(1, 0);
    resume_pool(0);
    resume_pool(0);
    resume_lease(0, 1, "");
    resume_lease(0, 0, "");
    resume_lease(1, 0, "");
    ask_about(0, RDMAD_MSG_PART_RESUME, THING_PART, 0);
    with_thing(AT(part_resume, parent), THING_LEASE, 0);
    settle();
    ask(0, RDMAD_MSG_POOL_RESUME); /* no number that a pool can have had */
    with(AT(pool_resume, pool), (UINT64_C(1) << 32) + 100);
    with(AT(pool_resume, bytes), 4096);
    settle();
    ask(1, RDMAD_MSG_ATTACH_RESUME);
    with_thing(AT(attach_resume, handle), THING_HANDLE, 0);
    with_thing(AT(attach_resume, attach.uri), THING_LEASE_URI, 0);
    settle();
    ask(1, RDMAD_MSG_ATTACH_RESUME);
    with_thing(AT(attach_resume, handle), THING_HANDLE, 0);
    with_thing(AT(attach_resume, attach.uri), THING_LEASE_URI, 0);
    ask(1, RDMAD_MSG_ATTACH_RESUME);
    with(AT(attach_resume, handle), 1);
    with_text(AT(attach_resume, attach.uri), FAR_LEASE);
    peer(0, PEER_LOST);
    settle();
}

/* A part by the lease's own number, in the same life of its session. */
void seed_resume_part(void) {
    begin(0);
    offer_resume(0);
    make_pool(0);
    grant(0, "");
    attach(0, 0);
    settle();
    delegate(0, 4096);
    settle();
    move(MOVE_LIFE, 0);
    come_back(0, 0);
    resume_pool(0);
    resume_lease(0, 1, "");
    ask_about(0, RDMAD_MSG_PART_RESUME, THING_PART, 0);
    with_thing(AT(part_resume, parent), THING_LEASE, 0);
    settle();
    attach(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_PART_RESUME, THING_PART, 0);
}

/* Who can go on with the next daemon is refused nothing because this one stops. */
void seed_stop(void) {
    begin(0);
    offer_resume(0);
    make_pool(0);
    make_pool(1);
    attach_text(0, FAR_LEASE);
    move(MOVE_STOP, 0);
    peer(0, PEER_LOST);
    grant(1, "");
    ask_about(0, RDMAD_MSG_LEASE_GRANT, THING_POOL, 1);
    attach_text(0, FAR_LEASE);
    attach_text(1, FAR_LEASE);
    move(MOVE_CONNECT, 3);
    settle();
    move(MOVE_LIFE, 0);
    come_back(0, 0);
}

static void kept(size_t at, uint32_t count, uint32_t more, uint64_t offset) {
    with32(at, count);
    with32(at + 4, more);
    with(at + 8, offset);
    with(at + 16, 4096);
}

void seed_resume_service(void) {
    begin(0);
    offer_resume(0);
    make_pool(0);
    listen_as(0, "a", 16384);
    move(MOVE_LIFE, 0);
    come_back(0, 0);
    listen_at(RDMAD_MSG_SERVICE_RESUME, 0, "a", 0);
    resume_pool(0);
    ask_about(0, RDMAD_MSG_BUDGET_RESUME, THING_SERVICE, 0);
    listen_at(RDMAD_MSG_SERVICE_RESUME, 0, "b", 16384);
    kept(AT(service_resume, kept), 65, 0, 0);
    listen_at(RDMAD_MSG_SERVICE_RESUME, 0, "b", 16384);
    kept(AT(service_resume, kept), 1, 0, 65536);
    listen_at(RDMAD_MSG_SERVICE_RESUME, 0, "b", 16384);
    kept(AT(service_resume, kept), 1, 1, 4096);
    request(0, NULL);
    ask_about(0, RDMAD_MSG_BUDGET_RESUME, THING_SERVICE, 0);
    kept(AT(budget_resume, kept), 1, 1, 4096);
    ask_about(0, RDMAD_MSG_BUDGET_RESUME, THING_SERVICE, 0);
    kept(AT(budget_resume, kept), 1, 0, 8192);
    request(0, NULL);
    settle();
    ask_about(0, RDMAD_MSG_BUDGET_FREE, THING_SERVICE, 0);
    with(AT(budget_free, offset), 4096);
    ask(0, RDMAD_MSG_BUDGET_RESUME);
    ask_about(0, RDMAD_MSG_SERVICE_CLOSE, THING_SERVICE, 0);
    settle();
    listen_at(RDMAD_MSG_SERVICE_RESUME, 2, "c", 0);
}

static void resume_channel(unsigned who, unsigned nth, uint32_t accepted, const char *uri) {
    ask(who, RDMAD_MSG_CHANNEL_RESUME);
    with_thing(AT(channel_resume, channel), THING_CHANNEL, nth);
    with_thing(AT(channel_resume, key), THING_CHANNEL_KEY, 0);
    with32(AT(channel_resume, accepted), accepted);
    with32(AT(channel_resume, peer_uid), 1000);
    with_text(AT(channel_resume, peer_node), "rig");
    with_text(AT(channel_resume, uri), uri);
}

void seed_resume_channel(void) {
    begin(0);
    offer_resume(0);
    offer_resume(1);
    listen_as(0, "a", 0);
    connect_to(1, NULL, RDMAD_CHANNEL_RELIABLE);
    accept_one(0);
    settle();
    ask_about(1, RDMAD_MSG_CHANNEL_PROOF, THING_CHANNEL, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_PROOF, THING_CHANNEL, 0);
    move(MOVE_LIFE, 0);
    come_back(0, 1);
    come_back(1, 0);
    resume_channel(1, 0, 0, "rdmad:///a");
    resume_channel(1, 0, 0, "rdmad:///a");
    resume_channel(0, 1, 1, "a");
    settle();
    move_with(MOVE_TIME, 20);
    settle();
    ask_about(1, RDMAD_MSG_CHANNEL_STAT, THING_CHANNEL, 0);
    ask_about(1, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    settle();
}

void seed_resume_channel_far(void) {
    begin(0);
    offer_resume(0);
    move(MOVE_LIFE, 0);
    come_back(0, 0);
    resume_channel(0, 0, 0, "rdmad://far:7472/a");
    ask(0, RDMAD_MSG_CHANNEL_RESUME);
    with(AT(channel_resume, channel), 1);
    with_text(AT(channel_resume, uri), "rdmad://far:7472/a");
    settle();
    move_with(MOVE_TIME, 20);
    peer(0, PEER_LOST);
    move_with(MOVE_TIME, 21);
    peer(0, 0);
    settle();
    resume_channel(0, 0, 2, "a");
    resume_channel(0, 0, 1, "not a name");
    resume_channel(0, 0, 0, "what");
    resume_channel(0, 0, 0, FAR_LEASE);
    resume_channel(0, 0, 0, "rdmad:///a");
    with_text(AT(channel_resume, uri) + 16, "a");
    ask_about(0, RDMAD_MSG_CHANNEL_STAT, THING_CHANNEL, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
}

void seed_resume_wrong(void) {
    begin(REQUESTS_NO_RETURN);
    ask(0, RDMAD_MSG_RESUME_OFFER);
    with(AT(resume_offer, reserved), 1);
    ask(0, RDMAD_MSG_SESSION_RESUME);
    ask(0, RDMAD_MSG_POOL_RESUME);
    settle();
    ask(0, RDMAD_MSG_LEASE_RESUME);
    ask(0, RDMAD_MSG_ATTACH_RESUME);
    ask(0, RDMAD_MSG_CHANNEL_RESUME);
    ask(0, RDMAD_MSG_SERVICE_RESUME);
    ask(0, RDMAD_MSG_PART_RESUME);
    make_pool(1);
    grant(1, "");
    resume_lease(1, 0, "");
    offer_resume(0);
    make_pool(0);
    grant(0, "");
    ask_about(0, RDMAD_MSG_LEASE_REVOKE, THING_LEASE, 0);
    settle();
    resume_lease(0, 0, "");
    move(MOVE_LIFE, 0);
    come_back(0, 0);
    ask(0, RDMAD_MSG_POOL_RESUME);
    settle();
    ask(0, RDMAD_MSG_LEASE_RESUME);
    ask(0, RDMAD_MSG_ATTACH_RESUME);
    ask(0, RDMAD_MSG_CHANNEL_RESUME);
    ask(0, RDMAD_MSG_SERVICE_RESUME);
    ask(0, RDMAD_MSG_PART_RESUME);
    resume_channel(0, 0, 1, "a");
    ask(0, RDMAD_MSG_CHANNEL_RESUME);
    with(AT(channel_resume, channel), 1);
    with_text(AT(channel_resume, uri), "rdmad://far:7472/a");
    ask_how(0, RDMAD_MSG_POOL_RESUME, 0);
    with(AT(pool_resume, pool), 1);
    with(AT(pool_resume, bytes), 4096);
    settle();
}
