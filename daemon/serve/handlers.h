/* SPDX-License-Identifier: MIT */
/*
 * handlers.h - the handlers of requests, each in the file of its noun.
 *
 * serve.c calls a handler with a body of exactly the right size, of a message that is right in
 * everything that all messages have in common. It replies once, now or later, with serve_reply or
 * serve_fail.
 */
#ifndef RDMAD_SERVE_HANDLERS_H
#define RDMAD_SERVE_HANDLERS_H

#include "daemon/serve/reply.h"

typedef void serve_handler(const struct request *rq, const void *body);

serve_handler serve_hello;                                 /* hello.c */
serve_handler serve_ring_create, serve_ring_destroy;       /* ring.c */
serve_handler serve_pool_create, serve_pool_destroy;       /* pool.c */
serve_handler serve_lease_grant, serve_lease_renew;        /* lease.c */
serve_handler serve_lease_revoke, serve_lease_stat;        /* lease.c */
serve_handler serve_lease_attach, serve_lease_release;     /* attach.c */
serve_handler serve_pool_import, serve_pool_ready;         /* pool.c */
serve_handler serve_lifeline;                              /* hello.c */
serve_handler serve_resume_offer, serve_session_resume;    /* resume.c */
serve_handler serve_attach_resume, serve_part_resume;      /* resume.c */
serve_handler serve_pool_resume;                           /* pool.c */
serve_handler serve_lease_resume;                          /* lease.c */
serve_handler serve_ring_ready;                            /* ring.c */
serve_handler serve_lease_delegate, serve_lease_keep;      /* lend.c */
serve_handler serve_lease_request, serve_lease_hand_over;  /* request.c */
serve_handler serve_budget_free;                           /* request.c */
serve_handler serve_names_list, serve_names_watch;         /* names.c */
serve_handler serve_names_unwatch;                         /* names.c */
serve_handler serve_service_listen, serve_service_close;   /* service.c */
serve_handler serve_service_resume, serve_budget_resume;   /* service.c */
serve_handler serve_channel_connect, serve_channel_accept; /* channel.c */
serve_handler serve_channel_reject, serve_channel_close;   /* channel.c */
serve_handler serve_channel_keepalive;                     /* channel.c */
serve_handler serve_channel_stat;                          /* channel.c */
serve_handler serve_channel_proof, serve_channel_resume;   /* channel_resume.c */

/* The client reads again: its watches go on. */
void serve_names_go_on(struct session *s);

/* The session's own service of that number. NULL: there is none, and the request has been failed.
 */
struct service;
struct service *serve_own_service(const struct request *rq, uint64_t number);

#endif
