/* SPDX-License-Identifier: MIT */
/*
 * channel.h - services and channels, as objects.
 *
 * A service keeps who waits to be accepted, and what was handed over and not told yet; each of
 * those is a record that the daemon bounds (by the backlog, by the budget).
 */
#ifndef RDMAD_LIBCLIENT_CHANNEL_H
#define RDMAD_LIBCLIENT_CHANNEL_H

#include "libclient/internal.h"

struct rdmad_channel {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_channel *next;       /* in its bucket */
    struct rdmad_event_source source; /* CHANNEL_CLOSED */
    uint64_t handle;                  /* what sqes name */
    uint64_t max_message;
    uint32_t kind, peer_uid;
    int closed; /* 0 or why */
    char closed_text[RDMAD_TEXT_MAX + 1];
    char fabric[16];
    char peer_node[RDMAD_NAME_MAX + 1];
    char peer_address[RDMAD_NAME_MAX + 1];
    void *user;
};

/* Who waits to be accepted. */
struct rdmad_waiting {
    struct rdmad_service *service;
    struct rdmad_waiting *next;
    struct rdmad_event_source source; /* INCOMING */
    struct rdmad_incoming who;
};

/* Memory that was handed over; told of once. */
struct rdmad_handed_over {
    struct rdmad_service *service;
    struct rdmad_handed_over *next;
    struct rdmad_event_source source; /* HANDED_OVER */
    uint64_t lease;
    void *memory;
    size_t length;
    uint32_t uid;
    char node[RDMAD_NAME_MAX + 1];
};

struct rdmad_service {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_service *next;
    uint64_t number;
    struct rdmad_waiting *waiting, **last_waiting;
    struct rdmad_handed_over *handed_over;
    struct rdmad_lent lent; /* the budget */
    char name[RDMAD_NAME_MAX + 1];
    char uri[RDMAD_URI_MAX + 1];
    void *user;
};

/* With the lock. */
struct rdmad_channel *rdmad_channel_find(struct rdmad_session *s, uint64_t handle);

/* Not known to anybody yet; NULL: out of memory, said so. */
struct rdmad_channel *rdmad_channel_new(struct rdmad_session *s);
/* Sends the request whose reply is struct rdmad_channel_rep and makes channel what it says; keeps
 * it in *out or frees it. */
int rdmad_channel_make(struct rdmad_channel *channel, uint16_t type, const void *request,
                       size_t request_size, rdmad_channel **out);

#endif
