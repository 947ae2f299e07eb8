/* SPDX-License-Identifier: MIT */
/*
 * requests_seeds_names.c - names, services, channels.
 */
#include "tests/fuzz/requests_seed.h"
#include "tests/fuzz/requests_seeds.h"

/* ---- names ----------------------------------------------------------------------------------- */

static void list(unsigned who, const char *where, const char *prefix) {
    ask(who, RDMAD_MSG_NAMES_LIST);
    with_text(AT(names_list, where), where);
    with_text(AT(names_list, prefix), prefix);
}

static void watch(unsigned who, const char *where) {
    ask(who, RDMAD_MSG_NAMES_WATCH);
    with_text(AT(names_watch, where), where);
}

void seed_names(void) {
    begin(0);
    listen_as(0, "a.service", 0);
    make_pool(0);
    grant(0, "a.lease");
    watch(1, "");
    list(1, "", "a.");
    list(1, "rdmad:///", "");
    list(2, "rdmad://127.0.0.1:7471/", "b");
    move(MOVE_LAG, 1);
    grant(0, "a.second");
    ask_about(0, RDMAD_MSG_SERVICE_CLOSE, THING_SERVICE, 0);
    move(MOVE_LAG, 1);
    settle();
    ask_about(0, RDMAD_MSG_NAMES_UNWATCH, THING_WATCH, 0);
    ask_about(1, RDMAD_MSG_NAMES_UNWATCH, THING_WATCH, 0);
    ask_about(1, RDMAD_MSG_NAMES_UNWATCH, THING_WATCH, 0);
    for (unsigned i = 0; i < 17; i++)
        watch(1, "");
    move(MOVE_GO, 1);
    byte(0);
}

void seed_names_far(void) {
    begin(0);
    list(0, "rdmad://far:7472/", "");
    peer(0, 0);
    list(0, "rdmad://far:7472/", "");
    peer(0, PEER_LOST);
    watch(0, "rdmad://far:7472/");
    ask(0, RDMAD_MSG_NAMES_UNWATCH);
    with(0, 1);
    peer(0, 0);
    for (unsigned i = 0; i < 70; i++)
        peer(0, PEER_THERE);
    watch(0, "rdmad://far:7472/");
    peer(0, PEER_LOST);
    watch(0, "rdmad://far:7473/");
    watch(0, "rdmad://far:7472/");
    move(MOVE_LAG, 0);
    peer(0, 0);
    peer(0, PEER_LOST | PEER_THERE);
    peer(0, PEER_LOST | PEER_THERE);
    move(MOVE_LAG, 0);
    watch(0, "rdmad://far:7472/");
    list(0, "rdmad://far:7472/", "");
    move_with(MOVE_GO, 0);
}

void seed_names_wrong(void) {
    begin(REQUESTS_POLICY);
    list(0, "far", "");
    list(0, "rdmad://far", "");
    list(0, "rdmad://far:7472/a", "");
    list(0, "rdmad://:/", "");
    list(0, "rdmad://far:0/", "");
    list(0, "rdmad://far:x/", "");
    list(0, "rdmad://near:7472/", "");
    list(2, "rdmad://far:7472/", "");
    list(0, "", "-\x01");
    list(0, "", "a");
    with_text(AT(names_list, prefix) + 8, "a");
    list(0, "", "");
    with_text(AT(names_list, where) + 8, "a");
    list(0, "", "");
    with_text(AT(names_list, after), "\x01");
    watch(0, "far");
}

/* ---- services and channels ------------------------------------------------------------------- */

void seed_channel(void) {
    begin(0);
    listen_as(0, "a", 0);
    connect_to(1, NULL, RDMAD_CHANNEL_RELIABLE);
    accept_one(0);
    accept_one(0);
    settle();
    ask_about(1, RDMAD_MSG_CHANNEL_STAT, THING_CHANNEL, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_STAT, THING_CHANNEL, 1);
    ask_about(1, RDMAD_MSG_CHANNEL_PROOF, THING_CHANNEL, 0);
    ask_about(1, RDMAD_MSG_CHANNEL_KEEPALIVE, THING_CHANNEL, 0);
    with(AT(channel_keepalive, silent_ns), 1000000000);
    move_with(MOVE_TIME, 19);
    settle();
    ask_about(1, RDMAD_MSG_CHANNEL_KEEPALIVE, THING_CHANNEL, 0);
    ask_about(1, RDMAD_MSG_CHANNEL_KEEPALIVE, THING_CHANNEL, 0);
    with(AT(channel_keepalive, silent_ns), 1);
    ask_about(1, RDMAD_MSG_CHANNEL_KEEPALIVE, THING_CHANNEL, 0);
    with32(AT(channel_keepalive, ends), 2);
    ask_about(1, RDMAD_MSG_CHANNEL_KEEPALIVE, THING_CHANNEL, 0);
    with32(AT(channel_keepalive, reserved), 2);
    ask_about(1, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    with32(AT(channel_close, abrupt), 2);
    ask_about(1, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    with32(AT(channel_close, reserved), 2);
    ask_about(2, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    ask_about(1, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    settle();
    ask_about(0, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 1);
    with32(AT(channel_close, abrupt), 1);
    settle();
}

void seed_channel_refused(void) {
    begin(0);
    listen_as(0, "a", 0);
    connect_to(1, NULL, RDMAD_CHANNEL_DATAGRAM);
    ask_about(1, RDMAD_MSG_CHANNEL_REJECT, THING_SERVICE, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_REJECT, THING_SERVICE, 0);
    with_thing(AT(channel_reject, incoming), THING_INCOMING, 0);
    with_text(AT(channel_reject, text), "not today");
    ask_about(0, RDMAD_MSG_CHANNEL_REJECT, THING_SERVICE, 0);
    with_thing(AT(channel_reject, incoming), THING_INCOMING, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_REJECT, THING_SERVICE, 0);
    with_text(AT(channel_reject, text), "a");
    with_text(AT(channel_reject, text) + 8, "a");
    connect_to(1, NULL, RDMAD_CHANNEL_UNACKED);
    ask_about(0, RDMAD_MSG_SERVICE_CLOSE, THING_SERVICE, 0);
    ask_about(0, RDMAD_MSG_SERVICE_CLOSE, THING_SERVICE, 0);
    listen_as(0, "a", 0);
    connect_to(1, NULL, RDMAD_CHANNEL_RELIABLE);
    move_with(MOVE_TIME, 24);
    connect_to(1, NULL, RDMAD_CHANNEL_RELIABLE);
    accept_one(0);
    move_with(MOVE_REFUSE, 0);
    settle();
}

/* Of two that connect, one goes and one is gone from. */
void seed_channel_given_up(void) {
    begin(0);
    listen_as(0, "a", 0);
    connect_to(1, NULL, RDMAD_CHANNEL_RELIABLE);
    connect_to(2, NULL, RDMAD_CHANNEL_RELIABLE);
    move(MOVE_GO, 1);
    byte(0);
    accept_one(0);
    move_with(MOVE_GO, 0);
}

void seed_channel_wrong(void) {
    begin(REQUESTS_POLICY);
    connect_to(0, "", 0);
    connect_to(0, "rdmad:///a", 3);
    connect_to(0, "rdmad:///a", 0);
    with32(AT(channel_connect, reserved), 1);
    connect_to(0, "rdmad:///a", 0);
    connect_to(0, "rdmad:///b", 0);
    connect_to(0, "rdmad://near:7472/a", 0);
    connect_to(0, FAR_LEASE, 0);
    connect_to(0, "a", 0);
    with_text(AT(channel_connect, uri) + 8, "a");
    ask(0, RDMAD_MSG_CHANNEL_STAT);
    ask(0, RDMAD_MSG_CHANNEL_CLOSE);
    ask(0, RDMAD_MSG_CHANNEL_ACCEPT);
    ask(0, RDMAD_MSG_CHANNEL_KEEPALIVE);
    ask(0, RDMAD_MSG_CHANNEL_PROOF);
    listen_as(0, "b", 0);
    listen_as(0, "a", 4096);
    listen_as(0, "a", 0);
    with_text(AT(service_listen, name) + 8, "a");
    listen_as(2, "a", 0);
    for (unsigned i = 0; i < 9; i++)
        connect_to(0, "rdmad://far:7472/a", 0);
}

void seed_channel_far(void) {
    begin(0);
    offer_resume(0);
    connect_to(0, "rdmad://far:7472/a", 0);
    peer(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_CHANNEL_PROOF, THING_CHANNEL, 0);
    ask_about(0, RDMAD_MSG_CHANNEL_STAT, THING_CHANNEL, 0);
    peer(0, PEER_LOST | PEER_THERE);
    move_with(MOVE_ANSWER, 0);
    move_with(MOVE_TIME, 19);
    peer(0, PEER_LOST);
    move_with(MOVE_TIME, 20);
    peer(0, 0);
    settle();
    peer(0, PEER_THERE);
    settle();
    ask_about(0, RDMAD_MSG_CHANNEL_CLOSE, THING_CHANNEL, 0);
    connect_to(0, "rdmad://far:7472/a", RDMAD_CHANNEL_DATAGRAM);
    peer(0, PEER_LOST);
    connect_to(0, "rdmad://far:7472/a", RDMAD_CHANNEL_DATAGRAM);
    peer(0, 0);
    settle();
    ask_about(0, RDMAD_MSG_CHANNEL_PROOF, THING_CHANNEL, 0);
    peer(0, PEER_LOST | PEER_THERE);
    settle();
    connect_to(0, "rdmad://far:7472/a", 0);
    move_with(MOVE_GO, 0);
}

/* What is published at one socket is not there at another. */
void seed_lease_of_tenants(void) {
    begin(0);
    make_pool(0);
    grant(0, "a");
    listen_as(0, "b", 0);
    move(MOVE_CONNECT, 3);
    ask(3, RDMAD_MSG_HELLO);
    attach_text(3, "rdmad:///a");
    connect_to(3, "rdmad:///b", 0);
    ask(3, RDMAD_MSG_NAMES_LIST);
    attach_text(1, "rdmad:///a");
    settle();
}
