/* SPDX-License-Identifier: MIT */
/*
 * channel.h - channels as objects, and the session's table of them.
 *
 * As with leases, a channel enters the session's table in the moment its reply arrives, before any
 * later message is looked at, so that its end is never missed. However it ends, the object stays
 * until it is closed here; how its ops end is told by their completions.
 *
 *     new --- reply --> open --- the other end or the daemon ends it --> closed (why)
 *      |                  |                                                |
 *      +-> freed          +------- rdmad_channel_close, _abort ------------+--> gone
 *
 * One that has a key stays open while the session is away, and is handed to the next daemon with
 * that (channel_resume.c). Any other is closed with its daemon, and left.
 */
#ifndef RDMAD_LIBCLIENT_CHANNEL_H
#define RDMAD_LIBCLIENT_CHANNEL_H

#include "libclient/channel/not_resumed.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"

struct rdmad_channel {
    struct rdmad_object object;
    struct rdmad_session *session;
    struct rdmad_channel *next;       /* in its bucket */
    struct rdmad_event_source source; /* CHANNEL_CLOSED */
    uint64_t handle;                  /* what sqes name */
    uint64_t max_message;
    uint32_t kind, peer_uid;
    bool peer_proven;
    int closed; /* 0: open; else why not */
    bool left;  /* closed, and no daemon knows it */

    /* keepalive.c */
    uint64_t keepalive_ns; /* 0: none was asked for */
    bool keepalive_ends, silent;
    uint64_t silent_ns;
    struct rdmad_event_source heard; /* CHANNEL_SILENT, CHANNEL_HEARD */
    struct rdmad_not_resumed unkept; /* it is not asked for at this daemon */

    /* for the next daemon */
    bool resumable; /* there is a key */
    bool accepted;
    uint32_t resumes;        /* of the session, when a daemon last said that it has it */
    uint32_t asked;          /* of the session, when a daemon was last asked for it */
    uint64_t waits_since_ns; /* for its other end, at this daemon; 0: that is there */
    uint64_t waited_ns;      /* at daemons before this, since it was there last */
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
    char uri[RDMAD_URI_MAX + 1]; /* of the service; accepted: its name */

    char closed_text[RDMAD_TEXT_MAX + 1];
    char fabric[16];
    char peer_node[RDMAD_NAME_MAX + 1];
    char peer_address[RDMAD_NAME_MAX + 1];
    void *user;
};

/* With the lock. */
struct rdmad_channel *rdmad_channel_find(struct rdmad_session *s, uint64_t handle);

/* Makes one that is in no table yet, of the service of that URI or, if it is accepted, name. NULL:
 * out of memory, with the error set. */
struct rdmad_channel *rdmad_channel_new(struct rdmad_session *s, const char *uri, bool accepted);
/* Sends the request, whose reply is struct rdmad_channel_rep, and fills in channel from that. On
 * success *out is channel, else channel is freed. */
int rdmad_channel_make(struct rdmad_channel *channel, uint16_t type, const void *request,
                       size_t request_size, rdmad_channel **out);

/* With the lock: the session is about to close on purpose; tells the daemon that its channels do,
 * too. */
void rdmad_channels_post_close(struct rdmad_session *s);

/* With the lock: the daemon that carried them is gone, since then, and those that have no key are
 * closed with it. */
void rdmad_channels_leave(struct rdmad_session *s, uint64_t gone_ns);
/* Hands the others to the daemon that takes the session over. What that does not take is closed. */
void rdmad_channels_resume(struct rdmad_session *s);
/* The session's hooks for rings (session.h). */
bool rdmad_channel_outlives(struct rdmad_session *s, uint64_t number);
int rdmad_channel_left(struct rdmad_session *s, uint64_t number);

/* Frees all of them; tells nobody. */
void rdmad_channels_dispose(struct rdmad_session *s);

/* What an event brings, with the lock. */
void rdmad_channel_on_closed(struct rdmad_session *s, const void *body);
void rdmad_channel_on_silent(struct rdmad_session *s, const void *body);
void rdmad_channel_on_way(struct rdmad_session *s, const void *body);
/* keepalive.c: at the daemon that has taken it over. */
void rdmad_channel_keepalive_again(struct rdmad_session *s, uint64_t handle);

#endif
