/* SPDX-License-Identifier: MIT */
/*
 * service.c - finding services: a session has few.
 */
#include "libclient/channel/service.h"

struct rdmad_service *rdmad_service_find(struct rdmad_session *s, uint64_t number) {
    struct rdmad_service *v = s->services;

    while (v && v->number != number)
        v = v->next;
    return v;
}

void rdmad_service_out_of_memory(struct rdmad_session *s) {
    rdmad_control_lose(s, RDMAD_E_NOMEM,
                       "out of memory for an event of a service; the session is closed");
}
