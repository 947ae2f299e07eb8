/* SPDX-License-Identifier: MIT */
/*
 * peer_samples.h - a good message of each type that daemons say to each other.
 */
#ifndef RDMAD_TESTS_PEER_SAMPLES_H
#define RDMAD_TESTS_PEER_SAMPLES_H

#include "daemon/peer/wire/message.h"
#include <criterion/criterion.h>
#include <string.h>

static const struct rdmad_name_entry peer_sample_entry = {
    .name = "board", .kind = RDMAD_NAME_LEASE, .rights = 3, .length = 4096, .ttl_ns = UINT64_MAX};

/* Those about channels and names. */
static inline void peer_sample_channel(uint16_t type, struct peer_msg *m) {
    switch (type) {
    case PEER_MSG_CHAN_REQ:
        m->chan_req = (struct peer_chan_req){.ref = 1,
                                             .kind = RDMAD_CHANNEL_UNACKED,
                                             .asked = RDMAD_CHANNEL_UNACKED,
                                             .uid = 1000,
                                             .worker = 2,
                                             .port = 7471,
                                             .host = "fe80::1%eth0",
                                             .service = "rpc"};
        memset(m->chan_req.token, 0x3c, sizeof(m->chan_req.token));
        break;
    case PEER_MSG_CHAN_AGAIN:
        m->chan_req = (struct peer_chan_req){
            .ref = 17, .uid = 1000, .worker = 2, .port = 7471, .service = "rpc"};
        memset(m->chan_req.token, 0x5a, sizeof(m->chan_req.token));
        break;
    case PEER_MSG_CHAN_REFUSE:
        m->chan_refuse = (struct peer_chan_refuse){
            .ref = 3, .status = RDMAD_E_UNSUPPORTED, .text = "nobody listens"};
        break;
    case PEER_MSG_CHAN_BIND:
        m->chan_bind = (struct peer_chan_bind){.ref = 4, .number = 5, .uid = 6, .worker = 7};
        memset(m->chan_bind.token, 0xc3, sizeof(m->chan_bind.token));
        break;
    case PEER_MSG_CHAN_OPEN:
        m->chan_open.ref = 8;
        break;
    case PEER_MSG_CHAN_END:
        m->chan_end =
            (struct peer_chan_end){.ref = 9, .mine = 1, .reason = RDMAD_E_CLOSED, .text = "over"};
        break;
    case PEER_MSG_CHAN_ALIVE:
        m->chan_alive = (struct peer_chan_alive){.ref = 18, .answer = 1, .silent_ns = 5000000000};
        break;
    case PEER_MSG_NAMES_REQ:
        m->names_req = (struct peer_names_req){.ref = 10, .prefix = "bo", .after = "board"};
        break;
    case PEER_MSG_NAMES_REP:
        m->names_rep = (struct peer_names_rep){.ref = 11, .entry = peer_sample_entry};
        break;
    case PEER_MSG_WATCH_REQ:
        m->watch_req = (struct peer_watch_req){.ref = 12, .prefix = ""};
        break;
    case PEER_MSG_UNWATCH:
        m->unwatch.ref = 13;
        break;
    case PEER_MSG_USED:
        m->used = (struct peer_used){16, 1, UINT64_MAX, 3};
        break;
    case PEER_MSG_WATCH_MORE:
        m->watch_more = (struct peer_watch_more){.ref = 15, .count = 32};
        break;
    case PEER_MSG_NAME_EV:
        m->name_ev = (struct peer_name_ev){.ref = 14, .gone = 1, .entry = peer_sample_entry};
        break;
    default:
        cr_assert_fail("no sample of type %u", type);
    }
}

/* Those about leases of leases, by request and kept. */
static inline void peer_sample_more(uint16_t type, struct peer_msg *m) {
    switch (type) {
    case PEER_MSG_DELEGATE_REQ:
        m->delegate_req = (struct peer_delegate_req){.ref = 14,
                                                     .owner_ref = 15,
                                                     .offset = 1,
                                                     .length = UINT64_MAX - 1,
                                                     .ttl_ns = 16,
                                                     .rights = RDMAD_RIGHT_READ,
                                                     .max_attaches = 2};
        break;
    case PEER_MSG_DELEGATE_REP:
        m->delegate_rep = (struct peer_delegate_rep){.ref = 17, .lease = 18, .ttl_ns = 19};
        memset(m->delegate_rep.key, 0x77, sizeof(m->delegate_rep.key));
        break;
    case PEER_MSG_REQUEST_REQ:
        m->request_req = (struct peer_request_req){.lessee_ref = 20,
                                                   .bytes = 21,
                                                   .ttl_ns = 22,
                                                   .rights = RDMAD_RIGHTS_ALL,
                                                   .uid = 23,
                                                   .via = 24,
                                                   .service = "memory"};
        break;
    case PEER_MSG_CERTIFICATE:
        m->certificate = (struct peer_certificate){.total = 700,
                                                   .at = PEER_PIECE_BYTES,
                                                   .size = 700 - PEER_PIECE_BYTES,
                                                   .data = {0x30, 7}};
        break;
    case PEER_MSG_KEEP_REQ:
        m->keep_req.owner_ref = 25;
        break;
    case PEER_MSG_KEEP_REP:
        m->keep_rep =
            (struct peer_keep_rep){.lessee_ref = 26, .status = RDMAD_E_PERM, .text = "no"};
        break;
    default:
        peer_sample_channel(type, m);
    }
}

static inline struct peer_hello peer_sample_hello(void) {
    struct peer_hello h;
    memset(&h, 0, sizeof(h));
    h.magic = PEER_WIRE_MAGIC;
    memset(h.node_id, 0xab, sizeof(h.node_id));
    h.life.number = 5;
    memset(h.life.node, 0xac, sizeof(h.life.node));
    memset(h.life.key, 0xad, sizeof(h.life.key));
    memset(h.line, 0xae, sizeof(h.line));
    h.serial = 77;
    strcpy(h.node, "node-1");
    strcpy(h.fabrics[0], "verbs");
    strcpy(h.fabrics[1], "tcp");
    strcpy(h.why_no_more, "there are no more");
    h.listen_port = 7471;
    return h;
}

/* A message of that type, with a value in each field, that wire/ accepts. */
static inline struct peer_msg peer_sample(uint16_t type) {
    struct peer_msg m;
    memset(&m, 0, sizeof(m));
    m.type = type;
    switch (type) {
    case PEER_MSG_HELLO:
        m.hello = peer_sample_hello();
        break;
    case PEER_MSG_BYE:
        m.bye.code = RDMAD_E_FABRIC;
        strcpy(m.bye.text, "no fabric in common");
        break;
    case PEER_MSG_PING:
    case PEER_MSG_PONG:
        m.ping.seq = 0x0102030405060708;
        break;
    case PEER_MSG_ATTACH_REQ:
        m.attach_req = (struct peer_attach_req){.lessee_ref = 1, .lease = 7, .uid = 1000, .via = 9};
        memset(m.attach_req.key, 0x5c, sizeof(m.attach_req.key));
        break;
    case PEER_MSG_ATTACH_REP:
        m.attach_rep = (struct peer_attach_rep){.lessee_ref = UINT64_MAX,
                                                .owner_ref = 2,
                                                .rights = RDMAD_RIGHTS_ALL,
                                                .lease = 7,
                                                .length = 1 << 20,
                                                .ttl_ns = 5,
                                                .key = {.size = 64}};
        memset(m.attach_rep.key.bytes, 9, 64);
        break;
    case PEER_MSG_RELEASE:
        m.release = (struct peer_release){.owner_ref = 3, .returned = 1};
        break;
    case PEER_MSG_REVOKED:
        m.revoked = (struct peer_revoked){.lessee_ref = 4, .reason = RDMAD_E_LEASE_REVOKED};
        memset(m.revoked.text, 'x', RDMAD_TEXT_MAX);
        break;
    case PEER_MSG_STOPPED:
        m.stopped.owner_ref = 5;
        break;
    case PEER_MSG_RENEWED:
    case PEER_MSG_TTL_REQ:
    case PEER_MSG_TTL_REP:
        m.ttl = (struct peer_ttl){.ref = 6, .ttl_ns = UINT64_MAX};
        break;
    case PEER_MSG_LINK_REQ:
        m.link_req =
            (struct peer_link_req){.ref = 8, .worker = 3, .hello = {.size = 2, .bytes = {4, 5}}};
        break;
    case PEER_MSG_LINK_REP:
        m.link_rep = (struct peer_link_rep){.ref = 8, .offer = {.size = 3, .bytes = {1, 2, 3}}};
        break;
    case PEER_MSG_KEY_REQ:
        m.key_req = (struct peer_key_req){.owner_ref = 10, .via = UINT64_MAX};
        break;
    case PEER_MSG_KEY_REP:
        m.key_rep = (struct peer_key_rep){.lessee_ref = 11, .via = 2, .key = {.size = 1}};
        break;
    case PEER_MSG_LINK_GONE:
        m.link_gone.via = 12;
        break;
    default:
        peer_sample_more(type, &m);
    }
    return m;
}

#endif
