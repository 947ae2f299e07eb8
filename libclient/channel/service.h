/* SPDX-License-Identifier: MIT */
/*
 * service.h - services as objects.
 *
 * A service keeps a record of each connection that waits to be accepted, and of memory that was
 * handed over and not given back. The daemon bounds how many there are, by the backlog and by the
 * budget.
 */
#ifndef RDMAD_LIBCLIENT_SERVICE_H
#define RDMAD_LIBCLIENT_SERVICE_H

#include "libclient/channel/not_resumed.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/memory/lent.h"

/* A connection that waits to be accepted. */
struct rdmad_waiting {
    struct rdmad_service *service;
    struct rdmad_waiting *next;
    struct rdmad_event_source source; /* INCOMING */
    struct rdmad_incoming who;
};

/* Memory that was handed over: told of once, and kept until it is given back, for the next daemon.
 */
struct rdmad_handed_over {
    struct rdmad_service *service;
    struct rdmad_handed_over *next;
    struct rdmad_event_source source; /* HANDED_OVER */
    uint64_t lease;
    uint64_t offset; /* into the pool */
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
    struct rdmad_service_listen_req terms; /* for the next daemon */
    uint32_t resumes;                      /* of the session, when a daemon was asked for it */
    struct rdmad_not_resumed not_resumed;  /* all of it, or its budget */
    bool over;                             /* all: no daemon knows it */
    bool closing;                          /* rdmad_service_close was called */
    unsigned users;                        /* threads that wait for who connects, or accept */
    void *user;
};

/* With the lock; a session has few. */
static inline struct rdmad_service *rdmad_service_find(struct rdmad_session *s, uint64_t number) {
    struct rdmad_service *v = s->services;
    while (v && v->number != number)
        v = v->next;
    return v;
}

/* With the lock: an event of it cannot be kept, which ends the session. */
static inline void rdmad_service_out_of_memory(struct rdmad_session *s) {
    rdmad_control_lose(s, RDMAD_E_NOMEM,
                       "out of memory for an event of a service; the session is closed");
}

/* Has the daemon that takes the session over listen for all services. Connections that waited are
 * gone, and so is what was requested of a budget; of that is in use what was handed over. What that
 * daemon refuses is told by an event. */
void rdmad_services_resume(struct rdmad_session *s);
/* Frees all services; tells nobody. */
void rdmad_services_dispose(struct rdmad_session *s);

/* Which it has at the daemon that the session is at now; the next one gives it another. */
static inline uint64_t rdmad_service_number(struct rdmad_service *service) {
    pthread_mutex_lock(&service->session->lock);
    uint64_t number = service->number;
    pthread_mutex_unlock(&service->session->lock);
    return number;
}

#endif
