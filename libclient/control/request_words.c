/* SPDX-License-Identifier: MIT */
/*
 * request_words.c - what a request asks for, in words.
 */
#include "libclient/control/request_words.h"
#include <rdmad/wire.h>
#include <stddef.h>

static const char *const asked_words[RDMAD_MSG_COUNT] = {
    [RDMAD_MSG_HELLO] = "open a session",
    [RDMAD_MSG_RING_CREATE] = "make a ring",
    [RDMAD_MSG_RING_DESTROY] = "end a ring",
    [RDMAD_MSG_POOL_CREATE] = "make a pool",
    [RDMAD_MSG_POOL_DESTROY] = "end a pool",
    [RDMAD_MSG_LEASE_GRANT] = "grant a lease",
    [RDMAD_MSG_LEASE_ATTACH] = "attach to a lease",
    [RDMAD_MSG_LEASE_RENEW] = "renew a lease",
    [RDMAD_MSG_LEASE_RELEASE] = "release a lease",
    [RDMAD_MSG_LEASE_REVOKE] = "revoke a lease",
    [RDMAD_MSG_LEASE_STAT] = "tell of a lease",
    [RDMAD_MSG_POOL_IMPORT] = "import a pool",
    [RDMAD_MSG_SERVICE_LISTEN] = "listen",
    [RDMAD_MSG_SERVICE_CLOSE] = "close a service",
    [RDMAD_MSG_CHANNEL_CONNECT] = "connect a channel",
    [RDMAD_MSG_CHANNEL_ACCEPT] = "accept a channel",
    [RDMAD_MSG_CHANNEL_REJECT] = "reject a channel",
    [RDMAD_MSG_CHANNEL_CLOSE] = "close a channel",
    [RDMAD_MSG_LEASE_DELEGATE] = "hand on a part of a lease",
    [RDMAD_MSG_LEASE_REQUEST] = "request a lease",
    [RDMAD_MSG_LEASE_HAND_OVER] = "hand a lease over",
    [RDMAD_MSG_BUDGET_FREE] = "take memory back into a budget",
    [RDMAD_MSG_NAMES_LIST] = "list names",
    [RDMAD_MSG_NAMES_WATCH] = "watch names",
    [RDMAD_MSG_NAMES_UNWATCH] = "end a watch of names",
    [RDMAD_MSG_LEASE_KEEP] = "keep a lease alive",
    [RDMAD_MSG_CHANNEL_KEEPALIVE] = "watch a channel's other end",
    [RDMAD_MSG_CHANNEL_STAT] = "tell of a channel",
    [RDMAD_MSG_POOL_READY] = "take a pool into use",
    [RDMAD_MSG_RING_READY] = "take a ring into use",
    [RDMAD_MSG_LIFELINE] = "give its lifeline",
    [RDMAD_MSG_RESUME_OFFER] = "offer to resume the session",
    [RDMAD_MSG_SESSION_RESUME] = "resume the session",
    [RDMAD_MSG_POOL_RESUME] = "take a pool back",
    [RDMAD_MSG_LEASE_RESUME] = "take a lease back",
    [RDMAD_MSG_ATTACH_RESUME] = "attach to a lease again",
    [RDMAD_MSG_CHANNEL_PROOF] = "prove a channel",
    [RDMAD_MSG_SERVICE_RESUME] = "listen again",
    [RDMAD_MSG_BUDGET_RESUME] = "take a budget back",
    [RDMAD_MSG_PART_RESUME] = "take back what was made of a lease",
    [RDMAD_MSG_CHANNEL_RESUME] = "take a channel back",
};

const char *rdmad_request_words(uint16_t type) {
    return type < RDMAD_MSG_COUNT && asked_words[type] ? asked_words[type] : "do something";
}
