/* SPDX-License-Identifier: MIT */
/*
 * channel_open.h - what every way to have a channel has in common: channel.c by connect and accept,
 * channel_resume.c from an earlier life of the daemon.
 */
#ifndef RDMAD_SERVE_CHANNEL_OPEN_H
#define RDMAD_SERVE_CHANNEL_OPEN_H

#include "daemon/serve/reply.h"
#include "daemon/state/channel.h"

/* An end; the request is answered when it is open, or is not to be. again: the number that it had;
 * 0: it is new. NULL: the request has been failed. */
struct channel *channel_open_new(const struct request *rq, uint32_t kind, uint64_t again);

/* Of that handle; NULL: the request has been failed. */
struct channel *channel_open_find(const struct request *rq, uint64_t handle);

#endif
