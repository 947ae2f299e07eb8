/* SPDX-License-Identifier: MIT */
/*
 * user.c - the program's own pointer at an object. Events read it when they are taken, under the
 * session's lock, so what was set before is what they bring.
 */
#include "libclient/channel/channel.h"
#include "libclient/channel/service.h"
#include "libclient/lease/lease.h"

static void user_set(struct rdmad_session *s, void **field, void *user) {
    pthread_mutex_lock(&s->lock);
    *field = user;
    pthread_mutex_unlock(&s->lock);
}

static void *user_get(struct rdmad_session *s, void *const *field) {
    pthread_mutex_lock(&s->lock);
    void *user = *field;
    pthread_mutex_unlock(&s->lock);
    return user;
}

void rdmad_lease_set_user(rdmad_lease *lease, void *user) {
    RDMAD_LIVE(lease, LEASE);
    user_set(lease->session, &lease->user, user);
}

void *rdmad_lease_get_user(const rdmad_lease *lease) {
    RDMAD_LIVE(lease, LEASE);
    return user_get(lease->session, &lease->user);
}

void rdmad_service_set_user(rdmad_service *service, void *user) {
    RDMAD_LIVE(service, SERVICE);
    user_set(service->session, &service->user, user);
}

void *rdmad_service_get_user(const rdmad_service *service) {
    RDMAD_LIVE(service, SERVICE);
    return user_get(service->session, &service->user);
}

void rdmad_channel_set_user(rdmad_channel *channel, void *user) {
    RDMAD_LIVE(channel, CHANNEL);
    user_set(channel->session, &channel->user, user);
}

void *rdmad_channel_get_user(const rdmad_channel *channel) {
    RDMAD_LIVE(channel, CHANNEL);
    return user_get(channel->session, &channel->user);
}
